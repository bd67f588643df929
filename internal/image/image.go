// Package image says what container image a job runs in: a reference as it is, a
// prebuilt framework image by SageMaker's rules, or one that is built from a
// Dockerfile. For the last it reads the Dockerfile and its folder, as docker
// does, and names the result by the digest of all that goes into it: what is
// there already under that name needs no building.
//
// It refuses to know how images are built, where they lie, and what runs them:
// package build, in this folder, does the first two. It reads files, and opens
// no connection.
//
// The reader is proved by fuzzing and by docker's own builder as oracle, in
// package build; the frameworks by URIs from SageMaker's documentation.
package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// The labels of an image that drover built.
const (
	LabelDigest  = "drover.digest"  // Plan.Digest
	LabelProject = "drover.project" // Site.Project
)

// BaseWord stands in a Dockerfile for the job's image or framework.
const BaseWord = "__BASE_IMAGE__"

// Site is where and for which user an image is resolved.
type Site struct {
	Project string // the project of the image; part of its name
	Dir     string // where relative paths begin, and what COPY in a typed text copies from
	GPUs    int    // of each node: they choose a framework's processor
	Machine string // "ml.p3.2xlarge": so does its family
	Region  string // of a framework's registry; "": DefaultRegion
	Mirror  string // a registry prefix that stands for a framework's registry; may be ""
	// Spare says that the image or framework is one to fall back on: a Dockerfile that
	// begins from another does not mind it.
	Spare bool
	// Framework is that of a job that names no image; "": its reference is empty.
	Framework string
	Platform  string // "linux/arm64"; "" leaves it to the builder
	Registry  string // the prefix below which a built image is pushed, such as "ghcr.io/me"; "": it stays here
	// PullsFrom says whether an image is pulled from where it lies. Another one is copied below Registry. Nil: any is.
	PullsFrom func(reference string) bool
}

// Plan is the answer: what a job runs in.
type Plan struct {
	Reference string  // the image; of one that is built its name here, or below Registry
	Registry  string  // Site's
	Recipe    *Recipe // how it is built; nil: it is there, or in a registry
	Folder    *Folder // what is copied from; nil without a Recipe
	Project   string
	Platform  string
	// Digest is of everything that goes into what is built: the Dockerfile, the
	// files it copies, the platform and, after Pin, the images it begins from.
	Digest string
	Line   string // one line for the plan that a person reads
	place  string // what the Dockerfile was named as: part of the image's name
	copied bool   // it is another image, as it is
	pins   map[string]string
}

// Order returns Reference and Digest: what package drover shows of a plan.
func (p *Plan) Order() (reference, digest string) { return p.Reference, p.Digest }

// Resolve says what c asks for. An image that is a file here (Local), or one that is to be copied, is one to be
// built, of nothing else. It reads the Dockerfile and every file that it
// copies, and may be called as often as one likes. A Container that asks for
// nothing gives the image of site.Framework, or an empty Reference. Faults are Invalid or
// Missing.
func Resolve(c job.Container, site Site) (*Plan, error) {
	base, from, err := baseOf(c, site)
	if err != nil {
		return nil, err
	}
	p := &Plan{Reference: base, Registry: site.Registry, Project: site.Project, Platform: site.Platform, Line: base}
	if from != "" {
		p.Line = base + " (" + from + ")"
	}
	named := (c.Image != "" || c.Framework != "") && !site.Spare
	file := ""
	_, _, local := Local(base)
	if p.copied = !local && base != "" && site.PullsFrom != nil && !site.PullsFrom(base) && c.Dockerfile == ""; p.copied || local && c.Dockerfile == "" { // its runner needs a name for it
		file, c.Dockerfile, named = base, "FROM "+base, false
	}
	if c.Dockerfile == "" {
		return p, nil
	}
	src, err := findSource(c.Dockerfile, site.Dir)
	if err != nil {
		return nil, err
	}
	if file != "" {
		src.from = file
	}
	if p.Recipe, err = src.readRecipe(base, named); err != nil {
		return nil, err
	}
	if p.Folder, err = src.readFolder(p.Recipe); err != nil {
		return nil, err
	}
	p.place = src.place
	return p, p.computeDigest()
}

// baseOf is the image that c begins with, and the words it was asked for in.
func baseOf(c job.Container, site Site) (base, from string, err error) {
	switch {
	case c.Image != "" && c.Framework != "":
		return "", "", fault.New(fault.Invalid, "Leave one of them out.", "resolve image: both image %q and framework %q", c.Image, c.Framework)
	case c.Image != "":
		return c.Image, "", nil
	case c.Framework != "":
		uri, err := Framework(c.Framework, site)
		return uri, c.Framework, err
	}
	if site.Framework == "" || c.Dockerfile != "" {
		return "", "", nil
	}
	uri, err := Framework(site.Framework, site)
	return uri, "the newest of " + site.Framework + ", as none is named", err
}

// Local says whether a base is a file here: "oci:FOLDER", or "tar:FILE" as
// docker save writes it.
func Local(base string) (kind, path string, ok bool) {
	kind, path, ok = strings.Cut(base, ":")
	here := strings.HasPrefix(path, "/") || strings.HasPrefix(path, "./") || strings.HasPrefix(path, "../") // "tar:5000/x" is in a registry
	return kind, path, ok && (kind == "oci" || kind == "tar") && here
}

// Bases are the images that the build begins from, each once, as the Dockerfile
// names them; those that only a variable names are not among them.
func (p *Plan) Bases() []string {
	if p.Recipe == nil {
		return nil
	}
	return p.Recipe.baseImages()
}

// Pin makes the digests of base images part of what is built: a base that
// changed makes another image. Those that are not known are left out of digests.
func (p *Plan) Pin(digests map[string]string) error {
	p.pins = digests
	return p.computeDigest()
}

// computeDigest computes the digest and what follows from it.
func (p *Plan) computeDigest() error {
	h := sha256.New()
	fmt.Fprintf(h, "drover image 1\n%q %q\n%q\n", p.Platform, p.Recipe.File, p.Recipe.Text)
	for _, base := range slices.Sorted(maps.Keys(p.pins)) {
		if d := p.pins[base]; d != "" {
			fmt.Fprintf(h, "base %q %q\n", base, d)
		}
	}
	if err := p.Folder.hashContents(h); err != nil {
		return err
	}
	p.Digest = hex.EncodeToString(h.Sum(nil))
	p.Reference = p.Name(p.Registry)
	p.Line = fmt.Sprintf("%s, built from %s", p.Reference, p.Recipe.From)
	if p.copied {
		p.Line = fmt.Sprintf("%s, copied from %s", p.Reference, p.Recipe.From)
	}
	if bases := p.Bases(); len(bases) > 0 && bases[0] != p.Recipe.From {
		p.Line += " on " + strings.Join(bases, ", ")
	}
	files := len(p.Folder.Files)
	if _, ok := p.Folder.Find(p.Recipe.File); ok && p.Recipe.File != "" {
		files-- // itself
	}
	if files > 0 {
		p.Line += fmt.Sprintf(", files it may copy: %d", files)
	}
	return nil
}

// Name is what the built image is called below a registry's prefix, such as
// "ghcr.io/me"; "" gives its name here. Two projects, and two Dockerfiles of one
// project, never share a repository; two contents never share a tag.
func (p *Plan) Name(prefix string) string {
	where := sha256.Sum256([]byte(p.place))
	project := p.Project
	if project == "" {
		project = "default"
	}
	name := fmt.Sprintf("drover/%s-%x:%s", project, where[:6], p.Digest[:12])
	if prefix != "" {
		name = strings.TrimSuffix(prefix, "/") + "/" + name
	}
	return name
}

// IsOfThisMachine says whether a reference names an image that lies in no registry: one that
// was built here (Name), or an id.
func IsOfThisMachine(reference string) bool {
	return strings.HasPrefix(reference, "drover/") || strings.HasPrefix(reference, "sha256:")
}

// Labels are what the built image carries.
func (p *Plan) Labels() map[string]string {
	return map[string]string{LabelDigest: p.Digest, LabelProject: p.Project}
}

// source is what --df named.
type source struct {
	text  []byte
	dir   string // the context; "" while none is needed
	file  string // the Dockerfile's path in dir; "" for a typed text
	from  string // for a person: "docker/Dockerfile", "the Dockerfile given"
	place string
}

// findSource reads a folder's Dockerfile, a file, or takes a text as it is.
func findSource(word, dir string) (*source, error) {
	if IsText(word) {
		sum := sha256.Sum256([]byte(word))
		return &source{text: []byte(word), dir: dir, from: "the Dockerfile given", place: "text " + hex.EncodeToString(sum[:])}, nil
	}
	path := word
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	s := &source{dir: path, from: filepath.Clean(word), place: filepath.Clean(word)}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fault.New(fault.Missing, "Name a folder with a Dockerfile, the file, or give its text, such as $'FROM debian\\nRUN true'.", "read Dockerfile: %q is neither a file, a folder nor the text of a Dockerfile", word)
	case info.IsDir():
		if s.file, err = dockerfileIn(path); err != nil {
			return nil, err
		}
		s.from = filepath.Join(s.from, s.file)
	case info.Mode().IsRegular():
		s.dir, s.file = filepath.Split(path)
	default:
		return nil, fault.New(fault.Invalid, "Name a folder or a file.", "read Dockerfile: %q is neither", word)
	}
	s.text, err = readCapped(filepath.Join(s.dir, s.file), maxText)
	return s, err
}

// readFolder reads what the recipe copies. A recipe that copies nothing needs no
// folder: neither is its folder's size a hindrance, nor do changes there count.
func (s *source) readFolder(r *Recipe) (*Folder, error) {
	words, all := r.copySources()
	if len(words) == 0 && !all {
		return &Folder{}, nil
	}
	f, err := Scan(s.dir)
	if err != nil {
		return nil, err
	}
	if !all {
		if r.Own {
			words = append(words, r.File)
		}
		f.keepNamed(words)
	}
	return f, f.checkSize()
}

// IsText says whether a word is a Dockerfile's text, not a path: it has a line
// end, or begins with an instruction.
func IsText(word string) bool {
	if strings.ContainsRune(word, '\n') {
		return true
	}
	first, rest, _ := strings.Cut(strings.TrimSpace(word), " ")
	return rest != "" && slices.Contains(instructions, strings.ToUpper(first))
}

// maxText is of a Dockerfile: package job's limit for a typed one.
const maxText = 1 << 20

// readCapped reads a whole file that has at most limit bytes.
func readCapped(path string, limit int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "", "read Dockerfile")
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "", "read Dockerfile")
	}
	if int64(len(b)) > limit {
		return nil, fault.New(fault.Invalid, "Is it the right file?", "read Dockerfile: %s: more than %d bytes", path, limit)
	}
	return b, nil
}
