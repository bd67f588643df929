package build

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image"
)

// settings are the instructions that only change what a container starts with.
var settings = map[string]func(*stage, image.Instruction) error{
	"ENV": (*stage).setEnv, "LABEL": (*stage).setLabel, "WORKDIR": (*stage).setWorkdir, "USER": (*stage).setUser, "CMD": (*stage).setCmd,
	"ENTRYPOINT": (*stage).setEntrypoint, "EXPOSE": (*stage).setExpose, "STOPSIGNAL": (*stage).setStopSignal,
}

// Appendable says why a plan's Dockerfile needs Docker's builder, or nil. The
// base may still turn out to need it, or a word that only the builder knows:
// Append says so then.
func Appendable(p *image.Plan) error {
	if err := platformKnown(p.Platform); err != nil {
		return err
	}
	froms := 0
	for _, in := range p.Recipe.Lines {
		why := ""
		_, setting := settings[in.Word]
		switch {
		case in.Word == "FROM":
			words := strings.Fields(in.Rest)
			if froms++; froms > 1 {
				why = "a second stage"
			} else if len(in.Flags) > 0 || strings.Contains(in.Rest, "$") || len(words) != 1 && (len(words) != 3 || !strings.EqualFold(words[1], "as")) {
				why = "FROM with a platform or a variable"
			}
		case froms == 0:
			why = in.Word + " before FROM"
		case in.Word == "COPY" || in.Word == "ADD":
			why = copyNeeds(p, in)
		case !setting:
			why = in.Word
		case len(in.Flags) > 0:
			why = in.Word + " " + in.Flags[0]
		}
		if why != "" {
			return needsDocker(p, in, why)
		}
	}
	return nil
}

func platformKnown(words string) error {
	var any []any
	return setPlatform(&any, words)
}

func needsDocker(p *image.Plan, in image.Instruction, why string) error {
	return fault.New(fault.Invalid, "Leave out `--append`, and have Docker build it.", "build image: %s: line %d has %s", p.Recipe.From, in.Line, why)
}

// copyNeeds says what in a COPY or ADD only the builder does.
func copyNeeds(p *image.Plan, in image.Instruction) string {
	for _, f := range in.Flags {
		if owner, ok := strings.CutPrefix(f, "--chown="); !ok || !isOwner(owner) {
			return in.Word + " " + f
		}
	}
	words := in.Words()
	if len(words) < 2 {
		return in.Word + " without a destination"
	}
	for _, w := range words[:len(words)-1] {
		if in.Word == "COPY" {
			continue
		}
		if strings.Contains(w, "://") || strings.HasPrefix(w, "git@") || strings.Contains(w, "$") {
			return "ADD of an address"
		}
		if paths, err := p.Folder.Match(w); err == nil && slices.ContainsFunc(paths, func(at string) bool { return isArchive(p.Folder, at) }) {
			return "ADD of an archive"
		}
	}
	return ""
}

// isOwner says whether words are numbers: names stand in the image's own files.
func isOwner(words string) bool {
	user, group, two := strings.Cut(words, ":")
	number := func(s string) bool { return s != "" && len(s) < 10 && strings.Trim(s, "0123456789") == "" }
	return number(user) && (!two || number(group))
}

// isArchive says whether ADD would unpack a file.
func isArchive(f *image.Folder, at string) bool {
	file, err := follow1(f, at)
	if err != nil || !file.Mode.IsRegular() {
		return false
	}
	r, err := f.Open(file)
	if err != nil {
		return false
	}
	defer r.Close()
	head := make([]byte, 512)
	n, _ := io.ReadFull(r, head)
	head = head[:n]
	for _, magic := range []string{"\x1f\x8b\x08", "BZh", "\xfd7zXZ\x00", "\x28\xb5\x2f\xfd"} {
		if strings.HasPrefix(string(head), magic) {
			return true
		}
	}
	return looksLikeTar(head)
}

// stage is one build in progress.
type stage struct {
	ctx     context.Context
	plan    *image.Plan
	temp    string
	to      io.Writer
	base    v1.Image
	cfg     *v1.ConfigFile
	tree    tree // nil until something depends on it
	newest  time.Time
	cmdSet  bool // CMD stood in this Dockerfile: ENTRYPOINT leaves it
	add     []mutate.Addendum
	layerOf types.MediaType
}

// Append makes the image that Docker would, from the base and what the
// Dockerfile copies. Layers lie in temp: keep it until the image is pushed or
// written. The same plan and base give the same image, byte by byte: times are
// those of files, none is the clock's.
func Append(ctx context.Context, p *image.Plan, base v1.Image, temp string, to io.Writer) (v1.Image, error) {
	if err := Appendable(p); err != nil {
		return nil, err
	}
	s := &stage{ctx: ctx, plan: p, temp: temp, to: to, base: base, layerOf: types.DockerLayer}
	cfg, err := base.ConfigFile()
	if err != nil {
		return nil, registryFault(ctx, err, "read image", strings.Join(p.Bases(), ""))
	}
	s.cfg = cfg.DeepCopy()
	if len(s.cfg.Config.OnBuild) > 0 {
		return nil, fault.New(fault.Invalid, "Leave out `--append`, and have Docker build it.", "build image: the base has ONBUILD instructions")
	}
	if media, err := base.MediaType(); err == nil && media == types.OCIManifestSchema1 {
		s.layerOf = types.OCILayer
	}
	s.newest = s.cfg.Created.Time
	s.defaultPath()
	for _, in := range p.Recipe.Lines {
		if ctx.Err() != nil {
			return nil, fault.Wrap(context.Cause(ctx), fault.Interrupted, "", "build image")
		}
		fmt.Fprintf(to, "%s %s\n", in.Word, in.Rest)
		if err := s.runInstruction(in); err != nil {
			if errors.Is(err, errBuilder) {
				return nil, needsDocker(p, in, "words that only Docker's builder understands")
			}
			return nil, fmt.Errorf("build image: %s: line %d: %w", p.Recipe.From, in.Line, err)
		}
	}
	return s.finishImage()
}

func (s *stage) runInstruction(in image.Instruction) error {
	switch in.Word {
	case "FROM":
		return nil
	case "COPY", "ADD":
		return s.copyFiles(in)
	}
	before := len(s.add)
	if err := settings[in.Word](s, in); err != nil {
		return err
	}
	if len(s.add) == before { // no layer, and a line in the history as docker's
		s.add = append(s.add, mutate.Addendum{History: history(in, true)})
	}
	return nil
}

func history(in image.Instruction, empty bool) v1.History {
	return v1.History{CreatedBy: in.Word + " " + in.Rest + " # drover", EmptyLayer: empty}
}

// currentTree is the image as it is by now.
func (s *stage) currentTree() (tree, error) {
	if s.tree == nil {
		t, err := readTree(s.ctx, s.base, s.to)
		if err != nil {
			return nil, err
		}
		s.tree = t
	}
	return s.tree, nil
}

// addLayer adds what one instruction changed.
func (s *stage) addLayer(in image.Instruction, c changes) error {
	if len(c) == 0 {
		return nil
	}
	f, err := os.CreateTemp(s.temp, "layer-*.tar.gz")
	if err != nil {
		return fault.Wrap(err, fault.Full, "Set TMPDIR to a folder with room.", "write layer")
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err == nil {
		err = c.writeArchive(s.tree, z)
	}
	if err == nil {
		err = z.Close()
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	l, err := tarball.LayerFromFile(f.Name(), tarball.WithMediaType(s.layerOf))
	if err != nil {
		return fault.Wrap(err, fault.Bug, "", "write layer")
	}
	s.add = append(s.add, mutate.Addendum{Layer: l, History: history(in, false), MediaType: s.layerOf})
	return nil
}

// finishImage puts layers and configuration on the base.
func (s *stage) finishImage() (v1.Image, error) {
	if s.cfg.Config.Labels == nil {
		s.cfg.Config.Labels = map[string]string{}
	}
	maps.Copy(s.cfg.Config.Labels, s.plan.Labels())
	for i := range s.add {
		s.add[i].History.Created = v1.Time{Time: s.newest}
	}
	img, err := mutate.Append(s.base, s.add...)
	if err != nil {
		return nil, fault.Wrap(err, fault.Bug, "", "build image")
	}
	now, err := img.ConfigFile()
	if err != nil {
		return nil, fault.Wrap(err, fault.Bug, "", "build image")
	}
	cfg := now.DeepCopy()
	cfg.Config, cfg.Created = s.cfg.Config, v1.Time{Time: s.newest}
	cfg.Container = "" // of the base's own build
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		return nil, fault.Wrap(err, fault.Bug, "", "build image")
	}
	return img, nil
}

// defaultPath: Docker's builder gives an image without a PATH the usual one.
func (s *stage) defaultPath() {
	if _, ok := s.newExpander().variableValue("PATH"); !ok {
		s.cfg.Config.Env = append(s.cfg.Config.Env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
}

func (s *stage) newExpander() expander {
	return expander{escape: s.plan.Recipe.Escape, env: s.cfg.Config.Env}
}
