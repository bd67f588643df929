package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/internal/image"
	"github.com/drover-run/drover/internal/input"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
	"github.com/drover-run/drover/report"
)

// needs is what each of a job's agents must have: of a map what as many items need
// as were said to run at once, else one.
func needs(s job.Spec) driver.Needs {
	n := driver.Needs{Agents: s.Nodes, CPUs: s.CPUs, Memory: int64(s.Memory), GPUs: s.GPUs}
	target, detail := job.SplitTarget(s.On)
	n.Detail, n.Args = detail, s.ArgsOf(target)
	n.Machine, n.Spot, n.Disk = s.Machines(), s.Spot, int64(s.Disk)
	n.Where, _ = where.Parse(s.Where) // it was checked before the job was made
	n.Labels, n.Console = labels(s), driver.Console{Metrics: s.Metrics, Hyperparameters: contract.Facts{Args: s.Args, Hyperparameters: s.Hyperparameters, SSM: s.Rules == job.SSM}.StoredHyperparameters()}
	n.Time, n.Grace, n.Keep = time.Duration(s.Timeout), time.Duration(s.Grace), time.Duration(s.KeepWarm)
	n.Place = driver.Place{Shm: int64(s.Shm), Nodes: s.Nodes} // its image is found out later
	if s.Verb == job.Map {
		n.Agents, n.Place.Nodes = s.Workers, 1
		n = together(n, s.Slots)
		n.Slots = s.Slots
	}
	for _, text := range s.Mounts {
		if m, err := job.ParseMount(text); err == nil { // it was checked before the job was made
			n.Place.Mounts = append(n.Place.Mounts, m)
		}
	}
	return n
}

// together is what so many items need that each need n.
func together(n driver.Needs, items int) driver.Needs {
	if items > 1 {
		n.CPUs, n.GPUs = n.CPUs*float64(items), n.GPUs*items
		n.Memory = min(n.Memory, math.MaxInt64/int64(items)) * int64(items)
	}
	return n
}

// labels name a job for a target's bills: its tags by their names, and where it lies.
func labels(s job.Spec) map[string]string {
	all := map[string]string{}
	maps.Copy(all, s.Tags)
	all["project"], all["task"] = s.Project, s.Task
	return all
}

// needsOf is the same for a job that is there: its image is made, and known by
// its content.
func needsOf(j job.Job) driver.Needs {
	n := needs(j.Spec)
	n.Detail = cmp.Or(j.Detail, n.Detail)
	n.Place.Image, n.Place.Entrypoint, n.Place.Python, n.Place.Seen = j.Image, j.Entrypoint, j.Python, j.Seen
	n.Labels["job"] = j.ID
	return n
}

// absoluteMounts makes the sources of mounts absolute: a second command from
// another folder means other ones.
func (e planner) absoluteMounts(s *job.Spec) error {
	s.Mounts = slices.Clone(s.Mounts)
	for i, text := range s.Mounts {
		m, err := job.ParseMount(text)
		if err != nil {
			return err
		}
		if !filepath.IsAbs(m.Source) {
			m.Source = filepath.Join(e.Caller.Folder, m.Source)
		}
		m.Source = filepath.Clean(m.Source)
		s.Mounts[i] = m.String()
	}
	return nil
}

// indexes are the variables that say where packages come from. They are handed to
// agents that do not inherit ours as secrets are: an address may hold a password.
var indexes = []string{"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_INSECURE_HOST"}

func hasVariable(environ []string, name string) bool {
	return slices.ContainsFunc(environ, func(kv string) bool { return len(kv) > len(name)+1 && strings.HasPrefix(kv, name+"=") })
}

// makeBoot is what agents of a job begin with.
func (e *Engine) makeBoot(ctx context.Context, d driver.Opened, j job.Job) (b driver.Boot, err error) {
	b = e.Boot
	if b.Store, err = e.storeOf(d.Properties); err != nil {
		return b, err
	}
	if e.Passes.Make != nil && d.Identity == "" {
		b.Pass = func(ctx context.Context) ([]byte, error) {
			p, err := e.pass(ctx, j.Path(), d.Containers)
			return p.File, err
		}
	}
	b.Programs, b.ProgramFile = e.Programs.Stored(e.World.Store), e.Programs.Find
	b.Job, b.Secrets = j.Path().String(), maps.Clone(j.Spec.Secrets)
	for _, name := range indexes {
		if _, ok := b.Secrets[name]; !ok && hasVariable(e.Caller.Environ, name) {
			if b.Secrets == nil {
				b.Secrets = map[string]string{}
			}
			b.Secrets[name] = "env:" + name
		}
	}
	if uv := env.UV(e.Caller.Environ, e.Caller.Cache); uv != "" {
		b.Tools = append(slices.Clone(b.Tools), uv)
	}
	return b, nil
}

// findPythonVersion is the version of Python that a script finds here, so that a target's
// own choice of an image brings the same; "" when there is none, or none is needed.
func (e planner) findPythonVersion(ctx context.Context, p Plan) string {
	r := e.Code.PythonRequest(p.Spec, p.ship)
	r.NoEnv = false
	if v := strings.TrimPrefix(p.Spec.Python, "python"); v != "" && strings.Trim(v, "0123456789.") == "" {
		return v
	}
	found, err := env.Resolve(ctx, r)
	if err != nil {
		return "" // what is wrong here need not be wrong there
	}
	return found.Version
}

// mostSeen is how many folders that items lie in are, each shown to the agents by
// itself. Beyond that what they have in common is shown.
const mostSeen = 32

// imagesOwn are folders without which an image is not what it was: to show ours
// there would have the program run with this machine's programs and libraries.
var imagesOwn = []string{"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr",
	"/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local", "/usr/local/bin", "/usr/local/lib", "/usr/local/sbin", "/usr/sbin", "/var"}

// findItemFolders are the folders of this machine that items lie in, which are names of files:
// a place apart has to show them. A folder that lies in another one is left out.
func (e planner) findItemFolders(ctx context.Context, l *manifest.List) ([]string, error) {
	found := map[string]bool{}
	last := ""
	for it, err := range l.Reader().Range(ctx, 1, l.Count()) {
		if err != nil {
			return nil, err
		}
		for _, name := range itemNames(it) {
			if !filepath.IsAbs(name) {
				name = filepath.Join(e.Caller.Folder, name)
			}
			dir := filepath.Dir(name)
			if dir == last || found[dir] {
				continue
			}
			if _, err := os.Lstat(name); err == nil {
				last, found[dir] = dir, true
			}
		}
	}
	return e.narrowFolders(found)
}

// itemNames are the texts of an item that may be names of files.
func itemNames(it manifest.Item) []string {
	var names []string
	for _, n := range values(it) {
		if n == "" || len(n) > maxPath || strings.ContainsAny(n, "\x00\n") {
			continue
		}
		if n = input.PathOf(n); !strings.Contains(n, "://") {
			names = append(names, n)
		}
	}
	return names
}

// narrowFolders leaves out what lies in another, and goes up where there are too many.
func (e planner) narrowFolders(found map[string]bool) ([]string, error) {
	for {
		var kept []string
		deepest := 0
		for dir := range found {
			inner := false
			for up := filepath.Dir(dir); !inner; up = filepath.Dir(up) {
				inner = found[up] && up != dir
				if up == "/" || up == "." {
					break
				}
			}
			if !inner {
				kept = append(kept, dir)
				deepest = max(deepest, strings.Count(dir, "/"))
			}
		}
		slices.Sort(kept)
		if i := slices.IndexFunc(kept, func(d string) bool { return d == "/" || d == e.Caller.Home }); i >= 0 {
			return nil, fault.New(fault.Invalid, "Put them into a folder of their own, or show it with `--mount`.", "show items to the container: they are in %s itself", kept[i])
		}
		if i := slices.IndexFunc(kept, func(d string) bool { return slices.Contains(imagesOwn, d) }); i >= 0 {
			return nil, fault.New(fault.Invalid, "Show them at another place, and name them there: `--mount "+kept[i]+":/items:ro`.",
				"show items to the container: they are in %s, and the image has its own folder of that name", kept[i])
		}
		if len(kept) <= mostSeen {
			return kept, nil
		}
		clear(found)
		for _, dir := range kept {
			if strings.Count(dir, "/") == deepest {
				dir = filepath.Dir(dir)
			}
			found[dir] = true
		}
	}
}

// checkNewItemsAreSeen refuses new items that lie where a job's agents do not look.
func (e planner) checkNewItemsAreSeen(ctx context.Context, p *Plan) error {
	old := p.before.Job.Seen
	if !p.Properties.Containers || len(p.Properties.Shown) == 0 || p.Items.fresh == nil {
		return nil
	}
	dirs, err := e.findItemFolders(ctx, p.Items.fresh)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if !slices.ContainsFunc(old, func(o string) bool { return d == o || strings.HasPrefix(d, o+"/") }) {
			return fault.New(fault.Invalid, "Run all in a new job: add `--force`.", "add items to job %s: its containers do not see %s", p.before.Job.Short, d)
		}
	}
	return nil
}

// checkOffer finds out in which container, if any, the job would run on its target, and
// asks the target whether the job fits.
func (e planner) checkOffer(ctx context.Context, p *Plan) (err error) {
	n := needs(p.Spec)
	if !p.Properties.Containers {
		if err := e.noContainers(p); err != nil {
			return err
		}
	} else if err := e.container(ctx, p, &n); err != nil {
		return err
	}
	if p.Offer, err = p.driver.Offer(ctx, n); err != nil {
		return err
	}
	if !p.Offer.Fits {
		hint := p.Offer.Hint
		if hint == "" {
			hint = "Ask for less, or choose another target with `--on`."
		}
		if p.Spec.Framework != "" && p.Image.Reference != "" && strings.Contains(p.Offer.Reason, p.Image.Reference) {
			hint = "Log in there, or name a registry of yours that has a copy: `drover config set image_mirror REGISTRY`."
		}
		return fault.New(fault.Full, hint, "place job on %s: %s", p.Spec.On, p.Offer.Reason)
	}
	if system := p.Offer.System; system != "" { // rather now than when agents are to start
		if _, err := e.Programs.Find(system); err != nil {
			return fmt.Errorf("place job on %s: %w", p.Spec.On, err)
		}
	}
	return nil
}

// noContainers refuses an image for a target that runs programs on the machine as it is:
// the user expects the image. Under the seed's rules the image is ignored instead.
func (e planner) noContainers(p *Plan) error {
	if !p.Spec.Container.Set() || p.Spec.Rules == job.SSM {
		return nil
	}
	var able []string
	for name, d := range e.Drivers {
		if d.Containers {
			able = append(able, "--on "+name)
		}
	}
	slices.Sort(able)
	hint := "Leave out the options for an image."
	if len(able) > 0 {
		hint = "Add " + strings.Join(able, " or ") + ", or leave out the options for an image."
	}
	return fault.New(fault.Invalid, hint, "place job on %s: it runs programs on the machine as it is, not in an image", p.Spec.On)
}

// container finds out what the agents run in.
func (e planner) container(ctx context.Context, p *Plan, n *driver.Needs) error {
	if p.Spec.Verb == job.Map && len(p.Properties.Shown) > 0 { // else what items name is stored
		dirs, err := e.findItemFolders(ctx, p.Items.list)
		if err != nil {
			return err
		}
		p.seen = dirs
	}
	registry, err := e.Images.FindRegistry(ctx, p.Spec.Container, p.Properties, p.driver, *n)
	if err != nil {
		return err
	}
	site := image.Site{Project: p.Spec.Project, Dir: e.Caller.Folder, GPUs: p.Spec.GPUs, Machine: p.Spec.Machine, Region: e.Images.Region, Mirror: e.Images.Mirror,
		Spare:    p.Spec.Rules == job.SSM, // its users name a framework with any Dockerfile
		Registry: registry, Framework: p.Properties.Framework, PullsFrom: p.Properties.PullsFrom}
	made, err := image.Resolve(p.Spec.Container, site)
	if err != nil {
		return err
	}
	unknown, err := e.Images.CheckImage(ctx, p.Properties, p.Spec.On, made)
	if err != nil {
		return err
	}
	if unknown != "" {
		made.Line += ", which this machine may not see: " + unknown
	}
	p.Image = Image{PlannedImage: report.PlannedImage{Reference: made.Reference, Why: made.Line}, Built: made.Digest}
	if p.Properties.Entrypoint && made.Recipe == nil && made.Reference != "" {
		p.Image.Entrypoint = e.Images.FindEntrypoint(ctx, made.Reference)
	}
	if made.Recipe != nil {
		if e.Images.Build == nil {
			return fault.New(fault.Invalid, "Build it first with `drover image build`, then name it with `--image`.", "build image: this machine has nothing that can build one")
		}
		if err := e.pinImage(ctx, p, made); err != nil {
			return err
		}
		p.Image.plan, n.Place.Later = made, true
	}
	if p.Image.Reference == "" {
		p.Image.Python = e.findPythonVersion(ctx, *p)
	}
	n.Place.Image, n.Place.Entrypoint, n.Place.Python, n.Place.Seen = p.Image.Reference, p.Image.Entrypoint, p.Image.Python, p.seen
	return nil
}

// pinImage names an image that is to be built as it will be named. That another base came
// in under the same name does not make another job, as with an image that was
// named; another archive does, as with a file that is copied.
func (e planner) pinImage(ctx context.Context, p *Plan, made *image.Plan) error {
	if e.Images.Pin == nil {
		return nil
	}
	if err := e.Images.Pin(ctx, made); err != nil {
		return err
	}
	p.Image.Reference, p.Image.Why = made.Reference, made.Line
	if slices.ContainsFunc(made.Bases(), func(base string) bool { _, _, ok := image.Local(base); return ok }) {
		p.Image.Built = made.Digest
	}
	return nil
}

// Image is what a planned job's agents run in.
type Image struct {
	report.PlannedImage
	Built      string   // digest of the Dockerfile and of what it copies; "": it is not built by drover. Without the bases' own digests
	Entrypoint []string // as in driver.Place

	plan *image.Plan // of one that Submit builds
}

// buildImage makes the image of a job that is about to be submitted.
func (e submitter) buildImage(ctx context.Context, p *Plan) (err error) {
	if p.Image.plan == nil {
		return nil
	}
	if p.Image.Reference, err = e.Images.Build(ctx, p.Image.plan); err == nil && p.Properties.Entrypoint {
		p.Image.Entrypoint = e.Images.FindEntrypoint(ctx, p.Image.Reference)
	}
	return err
}

// setPlace is where a planned job's agents run, and in what.
func (p *Plan) setPlace(j *job.Job) {
	j.Detail = p.Offer.Detail
	j.Image, j.ImageBuilt, j.Entrypoint, j.Python, j.Seen = p.Image.Reference, p.Image.Built, p.Image.Entrypoint, p.Image.Python, p.seen
}
