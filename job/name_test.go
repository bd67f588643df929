package job_test

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// label is RFC 1123's DNS label, which Kubernetes, SageMaker and Batch all take.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func TestValidNameIsADNSLabel(t *testing.T) {
	for _, name := range []string{"a", "0", "a-b", "a--b", "my-task-2", strings.Repeat("x", job.MaxName), "last"} {
		for _, what := range []string{"project", "task", "result", "queue"} {
			if err := job.ValidName(what, name); err != nil || !label.MatchString(name) {
				t.Errorf("%s %q is refused: %v", what, name, err)
			}
		}
	}
	for _, name := range []string{
		"", "-", "-a", "a-", "a/b", "..", ".", "_", "a..b", ".a", "a.", "_a", "a_", "a b", "ä", "a\n", "a\x00", "a#1", strings.Repeat("x", job.MaxName+1),
	} {
		for _, what := range []string{"project", "task"} {
			if err := job.ValidName(what, name); err == nil || fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
				t.Errorf("%s %q is accepted, or refused without a hint: %v", what, name, err)
			}
		}
	}
}

// A task's name may be what people call experiments; it is a folder and a key, and
// never a label of DNS.
func TestATasksNameMayHaveCapitalsDotsAndUnderscores(t *testing.T) {
	for _, name := range []string{"A", "resnet50_lr0.1", "ResNet-50", "v1.2.3", "a__b"} {
		if err := job.ValidName("task", name); err != nil {
			t.Errorf("%q is refused: %v", name, err)
		}
		if err := job.ValidName("project", name); err == nil {
			t.Errorf("project %q is accepted", name)
		}
		if r, err := job.ParseRef("demo/" + name + "#3"); err != nil || r.Task != name || r.Nth != 3 {
			t.Errorf("%q in a reference: %+v, %v", name, r, err)
		}
	}
}

func FuzzAValidNameIsOneFolder(f *testing.F) {
	f.Add("resnet50_lr0.1")
	f.Add("../x")
	f.Fuzz(func(t *testing.T, name string) {
		if job.ValidName("task", name) != nil {
			return
		}
		if path.Base(name) != name || path.Clean(name) != name || !filepath.IsLocal(name) || strings.ContainsAny(name, "/\\#: \x00") || name[0] == '.' || len(name) > job.MaxName {
			t.Fatalf("%q is accepted", name)
		}
	})
}

func TestValidNameNamesOneThatWorks(t *testing.T) {
	for _, row := range []struct{ what, name, text, hint string }{
		{"task", "My Data_2", `check job: "My Data_2" is not a valid name for a task`,
			"Try my-data-2: use up to 40 of letters a to z, digits, -, _ and ., and a letter or a digit first and last."},
		{"task", "Ünï", `check job: "Ünï" is not a valid name for a task`,
			"Use up to 40 of letters a to z, digits, -, _ and ., and a letter or a digit first and last."},
		{"project", "My Data", `check job: "My Data" is not a valid name for a project`,
			"Try my-data: use up to 40 of a-z, 0-9 and -, and a letter or a digit first and last."},
		{"project", "blobs", `check job: project "blobs" is a name the store keeps for itself`, "Choose another, such as -p my-blobs."},
		{"project", "IDS", `check job: "IDS" is not a valid name for a project`,
			"Use up to 40 of a-z, 0-9 and -, and a letter or a digit first and last."},
	} {
		err := job.ValidName(row.what, row.name)
		if err == nil || err.Error() != row.text || fault.Hint(err) != row.hint {
			t.Errorf("%s %q: %v, hint %q; want %s, hint %q", row.what, row.name, err, fault.Hint(err), row.text, row.hint)
		}
	}
}

func TestLabelReadsLikeTheText(t *testing.T) {
	for text, want := range map[string]string{
		"My Data_2.py": "my-data-2-py", "  x  ": "x", "--a--b--": "a-b", "Größe": "gr-e", "": "", "🚀": "", "-": "",
		strings.Repeat("ab-", 20): "ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-a", strings.Repeat("x", 39) + " y": strings.Repeat("x", 39),
	} {
		if got := job.Label(text); got != want {
			t.Errorf("label of %q is %q, want %q", text, got, want)
		}
	}
}

func FuzzLabelIsAValidName(f *testing.F) {
	for _, text := range []string{"My Data_2.py", "İK", "\xff-\xfe", strings.Repeat("a-", 40), "9-"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := job.Label(text)
		if got == "" {
			if strings.ContainsAny(text, "abcdefghijklmnopqrstuvwxyz0123456789") {
				t.Fatalf("nothing stays of %q", text)
			}
			return
		}
		if err := job.ValidName("task", got); err != nil || !label.MatchString(got) {
			t.Fatalf("label of %q: %v", text, err)
		}
		if again := job.Label(got); again != got {
			t.Fatalf("label of label %q is %q", got, again)
		}
	})
}

func TestTaskNameTellsTasksApart(t *testing.T) {
	base := job.Spec{Verb: job.Run, Program: "train.py"}
	seen := map[string]string{}
	see := func(what string, s job.Spec, user, host, folder string) {
		name := job.TaskName(s, user, host, folder)
		if err := job.ValidName("task", name); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("%s and %s are both task %s", what, other, name)
		}
		seen[name] = what
	}
	with := func(change func(*job.Spec)) job.Spec { s := base; change(&s); return s }
	see("the program alone", base, "u", "h", "/w")
	see("another user", base, "v", "h", "/w")
	see("another host", base, "u", "i", "/w")
	see("another folder", base, "u", "h", "/x")
	see("the words of user and host moved", base, "uh", "", "/w")
	see("shell", with(func(s *job.Spec) { s.Verb = job.Shell }), "u", "h", "/w")
	see("another program of that name", with(func(s *job.Spec) { s.Program = "a/train.py" }), "u", "h", "/w")
	see("an argument", with(func(s *job.Spec) { s.Args = []string{"a b"} }), "u", "h", "/w")
	see("two arguments", with(func(s *job.Spec) { s.Args = []string{"a", "b"} }), "u", "h", "/w")
	see("an argument like a flag", with(func(s *job.Spec) { s.Args = []string{"-d", "x"} }), "u", "h", "/w")
	see("a source", with(func(s *job.Spec) { s.Source = "src" }), "u", "h", "/w")
	see("a dependency", with(func(s *job.Spec) { s.Deps = []string{"x"} }), "u", "h", "/w")
	see("two dependencies", with(func(s *job.Spec) { s.Deps = []string{"x", "-d"} }), "u", "h", "/w")
	see("dependencies like an input", with(func(s *job.Spec) { s.Deps = []string{"-i", "n", "p"} }), "u", "h", "/w")
	see("dependencies like a count and an input", with(func(s *job.Spec) { s.Deps = []string{"0", "n", "p"} }), "u", "h", "/w")
	see("an argument like that count, and the input", with(func(s *job.Spec) { s.Args, s.Inputs = []string{"3"}, []job.Input{{Name: "n", Path: "p"}} }), "u", "h", "/w")
	see("an input", with(func(s *job.Spec) { s.Inputs = []job.Input{{Name: "n", Path: "p"}} }), "u", "h", "/w")
	see("two nodes", with(func(s *job.Spec) { s.Nodes = 2 }), "u", "h", "/w")
}

func TestTaskNameStaysWhereTheTaskStays(t *testing.T) {
	s := full()
	want := job.TaskName(s, "u", "h", "/w")
	for name, change := range map[string]func(*job.Spec){
		"output":  func(s *job.Spec) { s.Output = "elsewhere" },
		"target":  func(s *job.Spec) { s.On = "slurm" },
		"limits":  func(s *job.Spec) { s.Timeout, s.Retries = 1, 1 },
		"project": func(s *job.Spec) { s.Project = "other" },
	} {
		o := full()
		change(&o)
		if got := job.TaskName(o, "u", "h", "/w"); got != want {
			t.Errorf("another %s makes task %s out of %s", name, got, want)
		}
	}
	// The name is needed before Normal, which wants one.
	bare := job.Spec{Program: "train.py"}
	said := job.Spec{Program: "train.py", Verb: job.Run, Nodes: 1}
	if a, b := job.TaskName(bare, "u", "h", "/w"), job.TaskName(said, "u", "h", "/w"); a != b {
		t.Errorf("defaults left out make %s, said make %s", a, b)
	}
}

func TestTaskNameBeginsWithTheProgram(t *testing.T) {
	for _, row := range []struct {
		verb          job.Verb
		program, want string
	}{
		{job.Run, "train.py", "train-"}, {job.Run, "/opt/x/My Train.py", "my-train-"}, {job.Run, "./a.sh", "a-sh-"},
		{job.Shell, "  nvidia-smi -L", "nvidia-smi-"}, {job.Shell, "🚀", "shell-"}, {"", "🚀", "run-"}, {job.Run, "/", "run-"},
		{job.Run, strings.Repeat("x", 99), strings.Repeat("x", 33) + "-"},
	} {
		got := job.TaskName(job.Spec{Verb: row.verb, Program: row.program}, "", "", "")
		if head := got[:len(got)-6]; head != row.want || strings.Trim(got[len(got)-6:], "0123456789abcdef") != "" {
			t.Errorf("task of %s %q is %q, want %q and six hex digits", row.verb, row.program, got, row.want)
		}
	}
}

func FuzzTaskNameIsAValidName(f *testing.F) {
	f.Add("run", "train.py")
	f.Add("shell", "a\tb | c")
	f.Add("", "\xff")
	f.Fuzz(func(t *testing.T, verb, program string) {
		if verb != string(job.Shell) && verb != "" {
			verb = string(job.Run) // Normal lets no other through
		}
		if err := job.ValidName("task", job.TaskName(job.Spec{Verb: job.Verb(verb), Program: program}, "", "", "")); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzIDIsSixteenPlainLetters(f *testing.F) {
	f.Add([]byte("0123456789"))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var random, other [job.IDBytes]byte
		copy(random[:], b)
		id := job.ID(random)
		if len(id) != 16 || strings.ContainsAny(id, "01lo") || !label.MatchString(id) {
			t.Fatalf("id is %q", id)
		}
		for n := 1; n <= len(id); n++ {
			if !job.ValidID(id[:n]) {
				t.Fatalf("%q could not begin an id", id[:n])
			}
		}
		copy(other[:], random[:])
		other[len(other)-1] ^= 1
		if job.ID(other) == id {
			t.Fatalf("two ids are %q", id)
		}
		if r, err := job.ParseRef(id); err != nil || r.ID != id {
			t.Fatalf("%q refers to %+v (%v)", id, r, err)
		}
	})
}

func TestValidIDRefuses(t *testing.T) {
	for _, text := range []string{"", "a1", "lo", "A", "a-b", "ä", strings.Repeat("a", 17)} {
		if job.ValidID(text) {
			t.Errorf("%q could be an id", text)
		}
	}
}

func TestParseRefReads(t *testing.T) {
	for text, want := range map[string]job.Ref{
		"last":          {Last: true},
		"7f3k":          {Task: "7f3k", ID: "7f3k"},
		"digits":        {Task: "digits", ID: "digits"}, // could be either: the finder looks for both
		"model":         {Task: "model"},                // l and o are no letters of an id
		"digits#3":      {Task: "digits", Nth: 3},
		"train#12":      {Task: "train", Nth: 12},
		"demo/digits":   {Project: "demo", Task: "digits"},
		"demo/train":    {Project: "demo", Task: "train"},
		"demo/digits#1": {Project: "demo", Task: "digits", Nth: 1},
		"demo/last":     {Project: "demo", Task: "last"},
	} {
		got, err := job.ParseRef(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestParseRefRefuses(t *testing.T) {
	for _, text := range []string{
		"", "#1", "a#", "a#0", "a#-1", "a#+1", "a#01", "a#x", "a#1#2", "/", "a/", "/a", "a/b/c", "A/b", "_", "..", "ids/a", "a#99999999999999999999",
	} {
		got, err := job.ParseRef(text)
		if err == nil || fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%q refers to %+v (%v)", text, got, err)
		}
	}
}

// spell writes a reference as a person would.
func spell(r job.Ref) string {
	switch {
	case r.Last:
		return "last"
	case r.Project != "" && r.Nth > 0:
		return fmt.Sprintf("%s/%s#%d", r.Project, r.Task, r.Nth)
	case r.Project != "":
		return r.Project + "/" + r.Task
	case r.Nth > 0:
		return fmt.Sprintf("%s#%d", r.Task, r.Nth)
	}
	return r.Task
}

func FuzzParseRefHasOneSpelling(f *testing.F) {
	for _, text := range []string{"last", "7f3k", "digits#3", "demo/digits#3", "a/b/c", "#"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := job.ParseRef(text)
		if err != nil {
			return
		}
		if again := spell(r); again != text {
			t.Fatalf("%q refers to %+v, spelt %q", text, r, again)
		}
		if r.ID != "" && (r.ID != r.Task || !job.ValidID(r.ID)) {
			t.Fatalf("%q refers to %+v", text, r)
		}
	})
}
