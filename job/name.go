package job

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drover-run/drover/fault"
)

// MaxName is the longest name of a project, task or input. With a job's id and
// a placement behind it a name still fits a DNS label (63).
const MaxName = 40

// nameLetters and taskLetters are what names of each kind are made of. A task's goes
// into folders, object keys and variables; the others go into DNS labels as well.
const (
	nameLetters = "abcdefghijklmnopqrstuvwxyz0123456789"
	taskLetters = nameLetters + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// ValidName refuses a name that could not be a folder and an object key everywhere: up
// to MaxName letters, digits and "-", beginning and ending with a letter or digit. A
// task's may have capitals, "_" and "." too; the others are DNS labels. what says
// which name it is.
func ValidName(what, name string) error {
	if reserved(what, name) {
		return fault.New(fault.Invalid, "Choose another, such as `-p my-"+name+"`.", "check job: project %q is a name the store keeps for itself", name)
	}
	letters, inside, rule := nameLetters, "-", "a-z, 0-9 and -"
	if what == "task" {
		letters, inside, rule = taskLetters, "-_.", "letters a to z, digits, -, _ and ."
	}
	ok := name != "" && len(name) <= MaxName && strings.Trim(name, letters+inside) == "" &&
		strings.Contains(letters, name[:1]) && strings.Contains(letters, name[len(name)-1:]) &&
		!strings.Contains(name, "..")
	if ok {
		return nil
	}
	rule = "up to 40 of " + rule + ", and a letter or a digit first and last."
	hint := "Use " + rule
	// Of a name in other letters too little would stay to be recognized.
	if s := Label(name); !reserved(what, s) && len(strings.ReplaceAll(s, "-", "")) > utf8.RuneCountInString(name)/2 {
		hint = "Try " + s + ": use " + rule
	}
	return fault.New(fault.Invalid, hint, "check job: %q is not a valid name for %s", name, article(what))
}

// validChannel refuses an input's name that SageMaker would not take for a
// channel's: up to 64 of letters, digits, "-", "_" and ".". One that begins with
// a dot, or is a path, could not be a folder everywhere.
func validChannel(name string) error {
	ok := name != "" && len(name) <= 64 && name[0] != '.' && name[0] != '-' &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
	if ok {
		return nil
	}
	hint := "Use up to 64 of letters, digits, -, _ and ."
	if s := Label(name); s != "" {
		hint = "Try " + s + "."
	}
	return fault.New(fault.Invalid, hint, "check job: %q is not a valid name for an input", name)
}

// reserved names are folders of the store beside the projects (docs/protocol.md, The object layout).
func reserved(what, name string) bool {
	return what == "project" && (name == "ids" || name == "blobs")
}

func article(noun string) string {
	if noun != "" && strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// Label makes a valid name out of any text: "My Data_2.py" becomes
// "my-data-2-py". Empty when nothing of the text can stay.
func Label(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	s := b.String()
	if len(s) > MaxName {
		s = s[:MaxName]
	}
	return strings.Trim(s, "-")
}

// TaskName is the name of a task that the user did not name: the program's own name and six
// hex digits over all that makes it this task and no other (DESIGN section 7).
// user, host and folder are those of the submitter.
func TaskName(s Spec, user, host, folder string) string {
	verb := s.Verb
	if verb == "" {
		verb = Run // as Normal will say, which needs the name first
	}
	parts := []string{user, host, folder, string(verb), s.Program, s.Source, strconv.Itoa(max(s.Nodes, 1))}
	// Each list says how long it is, or ["-d"], [] and [], ["-d"] would be one task.
	parts = append(parts, strconv.Itoa(len(s.Args)))
	parts = append(parts, s.Args...)
	parts = append(parts, strconv.Itoa(len(s.Deps)))
	parts = append(parts, s.Deps...)
	for _, in := range s.Inputs {
		parts = append(parts, in.Name, in.Path)
	}
	// What is seldom said comes last, and not at all when it is not: a task keeps
	// its name from one drover to the next.
	if s.Launcher != Alone || s.Procs > 1 {
		parts = append(parts, "launcher", string(s.Launcher), strconv.Itoa(s.Procs))
	}
	for _, in := range s.Inputs {
		if in.Sharded || in.Subdir != "" {
			parts = append(parts, "input", in.Name, strconv.FormatBool(in.Sharded), in.Subdir)
		}
	}
	for _, one := range []struct {
		what  string
		words []string
	}{{"hyperparameters", pairs(s.Hyperparameters)}, {"entrypoint", s.Entrypoint}, {"results", resultWords(s.Results)}} {
		if len(one.words) > 0 {
			parts = append(append(parts, one.what, strconv.Itoa(len(one.words))), one.words...)
		}
	}
	if verb == Map {
		parts = append(parts, "items", s.From, s.Format, strconv.FormatBool(s.ByShell), strconv.FormatBool(s.Stdin), strings.Join(s.Out, "\x00"))
		if s.Stream {
			parts = append(parts, "stream")
		}
		if s.Fetch {
			parts = append(parts, "fetch")
		}
	}
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p))
	}
	digest := hex.EncodeToString(h.Sum(nil))[:6]
	base := s.Program
	if verb == Shell {
		base, _, _ = strings.Cut(strings.TrimSpace(base), " ")
	}
	name := Label(strings.TrimSuffix(path.Base(base), ".py"))
	if name == "" {
		name = string(verb)
	}
	if len(name) > MaxName-7 {
		name = strings.Trim(name[:MaxName-7], "-")
	}
	return name + "-" + digest
}

// pairs are the keys of a map in order, each with its value.
func pairs(m map[string]string) (words []string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		words = append(words, k, m[k])
	}
	return words
}

func resultWords(all []Result) (words []string) {
	for _, r := range all {
		words = append(words, r.Name, r.From)
	}
	return words
}

// TaskBeside is the name of an unnamed task that has another one's command and other
// settings, with digest key: the task's own name with six other digits.
func TaskBeside(task, key string) string {
	sum := sha256.Sum256([]byte(task + "\x00" + key))
	base := task
	if i := strings.LastIndexByte(task, '-'); i > 0 {
		base = task[:i]
	}
	return base + "-" + hex.EncodeToString(sum[:])[:6]
}

// idEncoding is base32 without what is easily misread: 0 and o, 1 and l.
var idEncoding = base32.NewEncoding(idLetters).WithPadding(base32.NoPadding)

const idLetters = "abcdefghijkmnpqrstuvwxyz23456789"

// IDBytes is how many random bytes make an id: 10 bytes are 16 letters, enough
// that two stores on one machine never meet.
const IDBytes = 10

// ID makes an id from IDBytes random bytes.
func ID(random [IDBytes]byte) string { return idEncoding.EncodeToString(random[:]) }

// MinShort is the shortest short id; it grows by one while another job has it.
const MinShort = 4

// ValidID says whether text could be an id or the beginning of one.
func ValidID(text string) bool {
	return text != "" && len(text) <= 16 && strings.Trim(text, idLetters) == ""
}

// Ref is a parsed reference to a job as a person types it.
type Ref struct {
	Last    bool   // "last": the newest job
	Project string // "" means the current one
	Task    string // a task's name: its newest job
	Nth     int    // with Task: its Nth job, from 1; 0 means the newest
	ID      string // an id or the beginning of one; may be a task's name as well
}

// ParseRef reads "last", "7f3k", "digits", "digits#3" or "demo/digits#3".
func ParseRef(text string) (Ref, error) {
	bad := fault.New(fault.Invalid, "Name a job by its id, its task, task#3, project/task or last: `drover status` lists them.",
		"find job: %q is not the name of a job", text)
	if text == "last" {
		return Ref{Last: true}, nil
	}
	rest := text
	var r Ref
	if p, t, ok := strings.Cut(rest, "/"); ok {
		r.Project, rest = p, t
		if ValidName("project", p) != nil {
			return Ref{}, bad
		}
	}
	if t, n, ok := strings.Cut(rest, "#"); ok {
		nth, err := strconv.Atoi(n)
		if err != nil || nth < 1 || strconv.Itoa(nth) != n { // no "+3", no "03": one job, one spelling
			return Ref{}, bad
		}
		r.Nth, rest = nth, t
	}
	if ValidName("task", rest) != nil {
		return Ref{}, bad
	}
	r.Task = rest
	if r.Project == "" && r.Nth == 0 && ValidID(rest) {
		r.ID = rest
	}
	return r, nil
}
