package input

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/glob"
	"github.com/drover-run/drover/job"
)

// Parse reads what stands after -i or --input: PATH, NAME=PATH or
// NAME=URI[:sharded][:subfolder], and of a processing job the folder it is to be
// found in behind one more colon. Name stays empty where none was typed; Add
// gives one. exists says whether there is something at a path on this machine,
// relative ones as the person sees them. A refusal is fault.Invalid.
//
// What exists as it was typed is that, whatever is in its name; else the longest
// part before a colon that exists is the path; else suffixes are read from the
// right. A name before "=" holds no ".", "/" or ":", so "./a=b" is a path.
func Parse(text string, exists func(path string) bool) (job.Input, error) {
	name, rest, named := strings.Cut(text, "=")
	switch {
	case named && name == "":
		return job.Input{}, refuse(text, "Write it as NAME=PATH, or ./=... for a file of that name.", "it has no name before =")
	case !named || strings.ContainsAny(name, "/.:"):
		name, rest = "", text
	}
	p := parser{Input: job.Input{Name: name}, text: rest, exists: exists}
	if err := p.readSource(); err != nil {
		return job.Input{}, err
	}
	_, err := KindOf(p.Path)
	return p.Input, err
}

// Add reads one more -i as Parse does, and names it when the person did not: the
// first one "data", as SageMaker's examples call it, others after their path.
func Add(list []job.Input, text string, exists func(path string) bool) ([]job.Input, error) {
	in, err := Parse(text, exists)
	if err != nil {
		return list, err
	}
	if in.Name == "" {
		in.Name = "data"
		if slices.ContainsFunc(list, func(in job.Input) bool { return in.Name == "data" }) {
			in.Name = nameOf(in.Path)
		}
	}
	if in.Name == "" {
		return list, refuse(text, "Name it: -i NAME=PATH.", "its path gives no name")
	}
	return append(list, in), nil
}

// nameOf makes a name of the last part of a path that has letters or digits
// before its extension.
func nameOf(text string) string {
	switch schemeOf(text) {
	case "https", "http":
		if u, err := address(text); err == nil {
			text = u.Hostname() + "/" + u.Path
		}
	case "file":
		if name, err := fromFileURI(text); err == nil {
			text = name
		}
	case "s3", "gs":
		text, _, _ = strings.Cut(text, "?")
		text = text[len("s3://"):]
	case "task":
		text = text[len("task:"):]
	}
	names := strings.Split(text, "/")
	slices.Reverse(names)
	for _, name := range names {
		if label := job.Label(strings.TrimSuffix(name, path.Ext(name))); label != "" {
			return label
		}
	}
	return job.Label(names[0]) // .hidden is all extension
}

type parser struct {
	job.Input
	text   string // without the name
	exists func(string) bool
}

func (p *parser) readSource() error {
	scheme := schemeOf(p.text)
	there := p.exists
	switch scheme {
	case "https", "http", "task", "s3", "gs":
		there = func(string) bool { return false } // no path of this machine
	case "file":
		there = func(text string) bool {
			name, err := fromFileURI(text)
			return err == nil && p.exists(name)
		}
	}
	if p.text != "" && there(p.text) {
		p.Path = p.text
		return nil
	}
	if i := strings.LastIndex(p.text, ":"+job.Processing); i > 0 {
		p.text, p.To = p.text[:i], p.text[i+1:]
	}
	switch scheme {
	case "https", "http", "s3", "gs":
		return p.readWebAddress()
	case "task":
		ref, suffix, more := strings.Cut(p.text[len("task:"):], ":")
		p.Path = p.text[:len("task:")] + ref
		if more {
			return p.readSuffix(suffix)
		}
		return nil
	}
	for i := len(p.text); i > 0; i = strings.LastIndexByte(p.text[:i], ':') {
		if !there(p.text[:i]) {
			continue
		}
		p.Path = p.text[:i]
		if i == len(p.text) {
			return nil
		}
		return p.readSuffix(p.text[i+1:])
	}
	return p.fromTheRight(len(scheme) + 1)
}

// fromTheRight reads the suffixes of what does not exist, or is a glob. Before
// from there is no suffix. A glob says itself which folders count, and its own
// brackets may hold colons, so only its distribution is looked for.
func (p *parser) fromTheRight(from int) error {
	p.Path = p.text
	i := strings.LastIndexByte(p.text, ':')
	if i < max(from, 1) {
		return nil
	}
	if _, is := distribution(p.text[i+1:]); is {
		p.Path = p.text[:i]
		return p.readSuffix(p.text[i+1:])
	}
	if glob.IsPattern(p.text) {
		return nil
	}
	if j := strings.LastIndexByte(p.text[:i], ':'); j >= max(from, 1) {
		if _, is := distribution(p.text[j+1 : i]); is || j+1 == i {
			i = j
		}
	}
	p.Path = p.text[:i]
	return p.readSuffix(p.text[i+1:])
}

// readWebAddress takes the distribution off an address. Anything else behind a colon is the
// address's own: a port, or a part of its path.
func (p *parser) readWebAddress() error {
	p.Path = p.text
	from := strings.Index(p.text, "://") + len("://")
	if !isBucket(schemeOf(p.text)) { // which has no port
		from += len(before(p.text[from:], "/?#"))
	}
	i := strings.LastIndexByte(p.text, ':')
	if i < from {
		return nil
	}
	if sharded, is := distribution(p.text[i+1:]); is {
		p.Path, p.Sharded = p.text[:i], sharded
		return nil
	}
	if j := strings.LastIndexByte(p.text[:i], ':'); j >= from {
		if _, is := distribution(p.text[j+1 : i]); is {
			if isBucket(schemeOf(p.text)) {
				return refuse(p.text, "Write the folder before it: s3://bucket/folder:sharded.", "in a bucket a folder is a part of the name")
			}
			return refuse(p.text, "Leave out what follows the last colon.", "an address is one file, and has no folders")
		}
	}
	return nil
}

// readSuffix reads sharded, sharded:subfolder, subfolder or :subfolder.
func (p *parser) readSuffix(text string) error {
	word, sub, more := strings.Cut(text, ":")
	sharded, is := distribution(word)
	switch {
	case is && !more:
		p.Sharded = sharded
		return nil
	case is:
		p.Sharded = sharded
	case !more || word != "":
		sub = text
		if i := strings.LastIndexByte(text, ':'); i > 0 {
			if _, is := distribution(text[i+1:]); is {
				return refuse(p.text, "Write it as "+p.Path+":"+text[i+1:]+":"+text[:i]+".", "the distribution comes before the folder")
			}
		}
	}
	p.Subdir = path.Clean(sub)
	if p.Subdir == "." || !filepath.IsLocal(p.Subdir) || strings.ContainsRune(sub, 0) {
		return refuse(p.text, "Name a folder inside it, such as "+p.Path+":train, or end it before the colon.", "%q is not a folder inside it", sub)
	}
	return nil
}

// distribution reads how files are spread over nodes, by our word or SageMaker's.
func distribution(word string) (sharded, is bool) {
	switch strings.ToLower(word) {
	case "sharded", "shardedbys3key":
		return true, true
	case "fullyreplicated":
		return false, true
	}
	return false, false
}

// notThere refuses a local input that does not exist.
func notThere(in job.Input) error {
	hint := "Check the path."
	if strings.HasPrefix(in.Path, "~") {
		hint = "The shell leaves ~ alone behind =: write \"$HOME\" in its place."
	}
	return fault.New(fault.Invalid, hint, "read input %s: %q is not there", in.Name, in.Path)
}

// before is what stands in text before the first of chars, or all of it.
func before(text, chars string) string {
	if i := strings.IndexAny(text, chars); i >= 0 {
		return text[:i]
	}
	return text
}
