package jobfile_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/jobfile"
	"github.com/drover-run/drover/job"
)

const whole = `# everything a job file may say
project: demo
task: digits
verb: run
program: train.py
args:
  - --epochs
  - 3
  - --lr
  - 0.10
  - --verbose
  - true
  - 'two words'
source: src
deps: [lib, ../shared]
inputs:
  - name: data
    path: ./digits
  - {name: more, path: /data/more}
env:
  MODE: fast
  LEVEL: 007
  EMPTY: ""
python: python3.12
no_env: true
nodes: 2
retries: 1
timeout: 1h30m
grace: 45
on: slurm/gpu
output: results
`

func TestAJobFileSaysEverythingFlagsSay(t *testing.T) {
	got, err := jobfile.Parse("train.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := job.Spec{
		Project: "demo", Task: "digits", Named: true, Verb: job.Run, Program: "train.py",
		Args:   []string{"--epochs", "3", "--lr", "0.10", "--verbose", "true", "two words"},
		Source: "src", Deps: []string{"lib", "../shared"},
		Inputs: []job.Input{{Name: "data", Path: "./digits"}, {Name: "more", Path: "/data/more"}},
		Env:    map[string]string{"MODE": "fast", "LEVEL": "007", "EMPTY": ""}, Python: "python3.12", NoEnv: true,
		Nodes: 2, Retries: 1, Timeout: job.Duration(90 * time.Minute), Grace: job.Duration(45 * time.Second),
		On: "slurm/gpu", Output: "results",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	if _, err := got.Normal(); err != nil {
		t.Errorf("it has no normal form: %v", err)
	}
}

func TestTheLeastJobIsOneLine(t *testing.T) {
	for name, text := range map[string]string{
		"a line":                 "program: train.py",
		"a line with its end":    "program: train.py\n",
		"with a document marker": "---\nprogram: train.py\n...\n",
		"from Windows":           "\ufeffprogram: train.py\r\n# done\r\n",
		"fields left open":       "program: train.py\ntask:\nargs:\ninputs: ~\nenv:\n  # MODE: fast\nnodes: null\ntimeout:\n",
		"as JSON":                `{"program": "train.py"}`,
	} {
		got, err := jobfile.Parse("x.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(job.Spec{Program: "train.py"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTextIsTakenAsItIsTyped(t *testing.T) {
	text := "program: |\n  set -e\n  echo \"a: b\"\nverb: shell\nargs: [yes, No, 0x1F, 1_000, 1e3, .5, .inf, 1.0, 010, -1, 'it''s', \"\\t\", 2024-01-01]\nenv: {NO: no, A: 1.50, B: true}\n"
	got, err := jobfile.Parse("x.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := job.Spec{
		Verb: job.Shell, Program: "set -e\necho \"a: b\"\n",
		Args: []string{"yes", "No", "0x1F", "1_000", "1e3", ".5", ".inf", "1.0", "010", "-1", "it's", "\t", "2024-01-01"},
		Env:  map[string]string{"NO": "no", "A": "1.50", "B": "true"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
}

// A Dockerfile is a path, with spaces or without, or a text, as everywhere; an image
// may be a file.
func TestWhatAnImageIsMadeOfIsRelativeToTheFile(t *testing.T) {
	for said, want := range map[string]job.Container{
		"dockerfile: my docker":          {Dockerfile: "/w/jobs/my docker"},
		"dockerfile: docker":             {Dockerfile: "/w/jobs/docker"},
		"dockerfile: FROM debian":        {Dockerfile: "FROM debian"},
		`dockerfile: "FROM a\nRUN b"`:    {Dockerfile: "FROM a\nRUN b"},
		"image: tar:../base.tar":         {Image: "tar:/w/base.tar"},
		"image: oci:/abs":                {Image: "oci:/abs"},
		"image: python:3.12-slim":        {Image: "python:3.12-slim"},
		"mounts: [data:/data:ro, /a:/b]": {Mounts: []string{"/w/jobs/data:/data:ro", "/a:/b"}},
	} {
		got, err := jobfile.Parse("/w/jobs/train.yaml", []byte("program: train.py\n"+said+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Container); diff != "" {
			t.Errorf("%s (-want +got):\n%s", said, diff)
		}
	}
	got, err := jobfile.Parse("jobs/train.yaml", []byte("program: train.py\nimage: oci:./base\n"))
	if err != nil || got.Image != "oci:./jobs/base" {
		t.Errorf("got %q, %v", got.Image, err)
	}
}

func TestPathsAreRelativeToTheFile(t *testing.T) {
	const text = "program: train.py\nsource: src\ndeps: [../lib, /abs]\ninputs: [{name: a, path: data/a}, {name: b, path: 's3://bucket/b'}]\npython: .venv/bin/python\noutput: out\n"
	for _, row := range []struct {
		name string
		want job.Spec
	}{
		{"train.yaml", job.Spec{
			Program: "train.py", Source: "src", Deps: []string{"../lib", "/abs"}, Python: ".venv/bin/python", Output: "out",
			Inputs: []job.Input{{Name: "a", Path: "data/a"}, {Name: "b", Path: "s3://bucket/b"}},
		}},
		{"jobs/train.yaml", job.Spec{
			Program: "jobs/train.py", Source: "jobs/src", Deps: []string{"./lib", "/abs"}, Python: "jobs/.venv/bin/python", Output: "jobs/out",
			Inputs: []job.Input{{Name: "a", Path: "jobs/data/a"}, {Name: "b", Path: "s3://bucket/b"}},
		}},
		{"/w/jobs/train.yaml", job.Spec{
			Program: "/w/jobs/train.py", Source: "/w/jobs/src", Deps: []string{"/w/lib", "/abs"}, Python: "/w/jobs/.venv/bin/python", Output: "/w/jobs/out",
			Inputs: []job.Input{{Name: "a", Path: "/w/jobs/data/a"}, {Name: "b", Path: "s3://bucket/b"}},
		}},
	} {
		got, err := jobfile.Parse(row.name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

func TestAMapSaysItsItems(t *testing.T) {
	const text = `verb: map
program: ./thumb.sh
args: ["{}", "{out}"]
from: pictures.csv
format: csv
workers: 2
slots: 8
shell: false
stdin: true
out: ["small/{.stem}.png"]
item_timeout: 90s
max_fails: 5%
cpus: 0.5
`
	got, err := jobfile.Parse("jobs/thumbs.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := job.Spec{Verb: job.Map, Program: "jobs/thumb.sh", Args: []string{"{}", "{out}"}, Limits: job.Limits{CPUs: 0.5},
		Items: job.Items{From: "jobs/pictures.csv", Format: "csv", Workers: 2, Slots: 8, Stdin: true, Out: []string{"small/{.stem}.png"},
			ItemTimeout: job.Duration(90 * time.Second), MaxFails: "5%"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	got.Project, got.Task = "demo", "thumbs"
	if _, err := got.Normal(); err != nil {
		t.Errorf("it has no normal form: %v", err)
	}
}

func TestItemsComeFromAFileBesideTheJobFile(t *testing.T) {
	for from, want := range map[string]string{"-": "-", "1-100": "1-100", "0-100:5": "0-100:5", "items.txt": "jobs/items.txt", "pictures/*.jpg": "jobs/pictures/*.jpg",
		"/data/x": "/data/x", "1-2-3": "jobs/1-2-3", "s3://bucket/list": "s3://bucket/list"} {
		got, err := jobfile.Parse("jobs/x.yaml", []byte("verb: map\nshell: true\nprogram: ./a {}\nfrom: "+strconv.Quote(from)+"\n"))
		if err != nil || got.From != want || got.Program != "./a {}" {
			t.Errorf("from %q is %q, want %q; program %q (%v)", from, got.From, want, got.Program, err)
		}
	}
}

func TestAProgramIsAFileOrACommandAsInAShell(t *testing.T) {
	for _, row := range []struct{ verb, program, python, wantProgram, wantPython string }{
		{"run", "train.py", "python3", "jobs/train.py", "python3"},
		{"run", "./prepare", "../venv/bin/python", "jobs/prepare", "venv/bin/python"},
		{"run", "../prepare", "", "./prepare", ""}, // without a slash it would be a command
		{"run", "nvidia-smi", "", "nvidia-smi", ""},
		{"run", "/bin/ls", "/usr/bin/python3", "/bin/ls", "/usr/bin/python3"},
		{"shell", "cat a/b.py", "", "cat a/b.py", ""},
	} {
		b, err := json.Marshal(map[string]string{"verb": row.verb, "program": row.program, "python": row.python})
		if err != nil {
			t.Fatal(err)
		}
		got, err := jobfile.Parse("jobs/x.yaml", b)
		if err != nil {
			t.Fatal(err)
		}
		if got.Program != row.wantProgram || got.Python != row.wantPython {
			t.Errorf("%s %s in jobs/ is %s (%s), want %s (%s)", row.verb, row.program, got.Program, got.Python, row.wantProgram, row.wantPython)
		}
	}
}

// refused gives the text and hint of the one fault there must be.
func refused(t *testing.T, name string, b []byte) (text, hint string) {
	t.Helper()
	s, err := jobfile.Parse(name, b)
	var f *fault.Fault
	if !errors.As(err, &f) {
		t.Fatalf("%s is read as %+v (%v)", clip(string(b)), s, err)
	}
	if f.Kind != fault.Invalid || f.Err != nil || error(f) != err {
		t.Errorf("%s: %#v is not one fault of kind %v", clip(string(b)), err, fault.Invalid)
	}
	return f.Text, f.Hint
}

func clip(text string) string { return text[:min(len(text), 80)] }

func TestARefusalShowsThePlace(t *testing.T) {
	text, hint := refused(t, "jobs/train.yaml", []byte("program: train.py\nargs: [a]\nnodes: 2\n  # a word\ncluster: 1\nenv: {}\n"))
	want := `read job file: jobs/train.yaml:5:1: unknown field "cluster"` + `
     4 |   # a word
>    5 | cluster: 1
         ^`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if want := "Use one of project, task, verb, program, args, source, deps, inputs, results, env, python, no_env, nodes, procs_per_node, launcher, gpus, machine, where, keep_warm, spot, no_mounts, cpus, memory, disk, processes, packages, queue, priority, now, metrics, tags, secrets, plain_env, clean_state, image, dockerfile, framework, shm, mounts, hyperparameters, entrypoint, from, format, workers, slots, shell, stdin, stream, fetch, out, item_timeout, retry_on, memory_step, max_fails, retries, timeout, grace, stop_signal, on, target_args, output."; hint != want {
		t.Errorf("hint is %q, want %q", hint, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, row := range []struct{ name, text, want, hint string }{
		{"nothing", "", "x.yaml: describes no job", "Begin with program: train.py."},
		{"a comment", "# soon\n", "x.yaml: describes no job", "Begin with program: train.py."},
		{"no program", "task: a\n", `x.yaml:1:1: the job has no "program"`, "Add the line program: and what it is."},
		{"an open program", "task: a\nprogram:\n", `x.yaml:1:1: the job has no "program"`, "Add the line program: and what it is."},
		{"no fields", "{}", `x.yaml:1:1: the job has no "program"`, "Add the line program: and what it is."},
		{"a list", "- program: a\n", "x.yaml:1:1: the job wants fields such as project: value, got a list", ""},
		{"a word", "train.py\n", `x.yaml:1:1: the job wants fields such as project: value, got "train.py"`, ""},
		{"two documents", "program: a\n---\nprogram: b\n", "x.yaml:3:8: a second document", "Give each job a file of its own."},

		{"a slip", "program: a\nnode: 2\n", `x.yaml:2:1: unknown field "node"`, "Did you mean nodes?"},
		{"a capital", "Program: a\n", `x.yaml:1:1: unknown field "Program"`, "Did you mean program?"},
		{"a Go name", "program: a\nNamed: true\n", `x.yaml:2:1: unknown field "Named"`, "Use one of"},
		{"something short", "program: a\nid: 2\n", `x.yaml:2:1: unknown field "id"`, "Use one of"},
		{"a field of an input's", "program: a\ninputs:\n- name: a\n  url: b\n", `x.yaml:4:3: unknown field "url"`, "Use one of name, path, sharded, subdir, to."},
		{"a field twice", "program: a\nargs: []\nprogram: b\n", `x.yaml:3:1: "program" stands here again, after line 1`, "Keep one of them."},
		{"an open field twice", "program: a\ntask:\ntask: b\n", `x.yaml:3:1: "task" stands here again, after line 2`, "Keep one of them."},
		{"a variable twice", "program: a\nenv:\n  A: 1\n  'A': 2\n", `x.yaml:4:3: "A" stands here again, after line 3`, "Keep one of them."},

		{"a list for text", "program: [a]\n", `x.yaml:1:10: "program" wants text, got a list`, ""},
		{"a number for text", "program: a\ntask: 7\n", `x.yaml:2:7: "task" wants text, got 7`, `Put quotes around it: task: "7".`},
		{"a boolean for text", "program: a\non: true\n", `x.yaml:2:5: "on" wants text, got true`, `Put quotes around it: on: "true".`},
		{"text for a list", "program: a\nargs: --lr 1\n", `x.yaml:2:7: "args" wants a list, got "--lr 1"`, "Write a list: args: [a, b]."},
		{"fields for a list", "program: a\nargs: {a: b}\n", `"args" wants a list, got fields`, "Write a list: args: [a, b]."},
		{"a list for a word", "program: a\nargs: [[a]]\n", `x.yaml:2:8: "args" wants text, got a list`, ""},
		{"nothing for a word", "program: a\nargs:\n- a\n-\n", `"args" holds nothing here`, `For empty text write "".`},
		{"null for a word", "program: a\nargs: [~]\n", `x.yaml:2:8: "args" holds nothing here`, `For empty text write "".`},
		{"text for a number", "program: a\nnodes: two\n", `x.yaml:2:8: "nodes" wants a whole number, got "two"`, "Write it in digits: nodes: 2."},
		{"digits in quotes", "program: a\nnodes: '2'\n", `x.yaml:2:8: "nodes" wants a whole number, got "2"`, "Write it in digits: nodes: 2."},
		{"half a number", "program: a\nnodes: 2.7\n", `x.yaml:2:8: "nodes" wants a whole number, got 2.7`, "Write it in digits: nodes: 2."},
		{"an octal number", "program: a\nnodes: 010\n", `x.yaml:2:8: "nodes" wants a whole number, got 010`, "Write it in digits: nodes: 2."},
		{"a huge number", "program: a\nnodes: 99999999999999999999\n", `"nodes" wants a whole number, got "99999999999999999999"`, "Write it in digits: nodes: 2."},
		{"yes for true", "program: a\nno_env: yes\n", `x.yaml:2:9: "no_env" wants true or false, got "yes"`, "Write no_env: true."},
		{"no time", "program: a\ntimeout: soon\n", `x.yaml:2:10: "timeout" wants a length of time, got "soon"`, "Write it as 90s, 15m, 2h or 1d."},
		{"time before now", "program: a\ngrace: -5\n", `x.yaml:2:8: "grace" wants a length of time, got -5`, "Write it as 90s, 15m, 2h or 1d."},
		{"a list of times", "program: a\ngrace: [5]\n", `x.yaml:2:8: "grace" wants a length of time, got a list`, "Write it as 90s, 15m, 2h or 1d."},
		{"inputs by name", "program: a\ninputs:\n  data: ./data\n", `"inputs" wants a list, got fields`, "Write a list: inputs: [a, b]."},
		{"an input that is a word", "program: a\ninputs: [data]\n", `x.yaml:2:10: "inputs" wants fields such as name: value, got "data"`, ""},
		{"an input without a path", "program: a\ninputs:\n- name: data\n", `x.yaml:3:3: "inputs" has no "path"`, "Add the line path: and what it is."},
		{"a list for variables", "program: a\nenv: [A=1]\n", `x.yaml:2:6: "env" wants names and values, got a list`, "Write one to a line below env:, such as NAME: value."},
		{"nothing for a variable", "program: a\nenv:\n  A:\n", `"env" holds nothing here`, `For empty text write "".`},
		{"fields for a variable", "program: a\nenv: {A: {b: c}}\n", `"env" wants text, got fields`, ""},

		{"a glob", "program: a\nargs: [*.csv]\n", "x.yaml:2:8: an alias, which job files do not support", `If it is text, put quotes around it: "*.csv".`},
		{"an anchor", "program: &a b\n", "x.yaml:1:10: an anchor, which job files do not support", `If it is text, put quotes around it: "&a".`},
		{"a tag", "program: !!str 3\n", "x.yaml:1:10: a tag, which job files do not support", `If it is text, put quotes around it: "!!str".`},
		{"a merge", "<<: {program: a}\n", "x.yaml:1:1: a merge, which job files do not support", `"<<"`},
		{"a directive", "%YAML 1.2\n---\nprogram: a\n", "x.yaml:1:1: a directive, which job files do not support", ""},
		{"a marked key", "? program\n: a\n", `x.yaml:1:1: a key marked by "?", which job files do not support`, ""},

		{"a tab", "program: a\nargs:\n\t- b\n", "x.yaml:3:1: not YAML: a tab where only blanks may indent", "Indent with blanks."},
		{"a reserved sign", "program: a\nargs: [@x]\n", "x.yaml:2:8: not YAML: '@' is a reserved character", "Put quotes around the text."},
		{"an open quote", "program: \"a\nnodes: 1\n", "x.yaml:1:10: not YAML: ", "Look at quotes, brackets and indentation there"},
		{"a colon in text", "program: a: b\n", "x.yaml:1:10: not YAML: ", `put quotes around text that holds ": "`},
		{"an open bracket", "program: a\nargs: [a, b\n", "not YAML: ", "Look at quotes, brackets and indentation there"},
		{"a home folder", "program: a\ninputs: [{name: a, path: ~/data}]\n", `x.yaml: "inputs" holds "~/data": only a shell knows ~`, "Write the whole path"},
		{"other bytes", "program: \xff\n", "x.yaml: is not text", "Save it as UTF-8."},
		{"a NUL", "program: a\x00\n", "x.yaml: is not text", "Save it as UTF-8."},
	} {
		t.Run(row.name, func(t *testing.T) {
			text, hint := refused(t, "x.yaml", []byte(row.text))
			first, _, _ := strings.Cut(text, "\n")
			if !strings.HasPrefix(first, "read job file: x.yaml:") || !strings.Contains(first, row.want) {
				t.Errorf("text is %q, want it to hold %q", first, row.want)
			}
			if !strings.Contains(hint, row.hint) {
				t.Errorf("hint is %q, want it to hold %q", hint, row.hint)
			}
		})
	}
}

func TestTheCaretStaysBelowItsLetter(t *testing.T) {
	for _, row := range []struct{ name, text, line, before string }{
		{"in a long line", "program: a\nargs: [" + strings.Repeat("x, ", 60) + "~]\n", " " + strings.Repeat("x, ", 16) + "~]", " " + strings.Repeat("x, ", 16)},
		{"at the front of a long line", "program: a\nargs: [~, " + strings.Repeat("x, ", 60) + "]\n", "args: [~, " + strings.Repeat("x, ", 30), "args: ["},
		{"behind letters of two bytes", "program: a\nenv: {Ä: ~}\n", "env: {Ä: ~}", "env: {Ä: "},
		{"behind a tab", "program: a\nnodes:\tx\n", "nodes: x", "nodes: "},
		{"behind what no terminal shows", "program: a\nargs: ['\x1b[2J', ~]\n", "args: ['·[2J', ~]", "args: ['·[2J', "},
		{"in a line from Windows", "program: a\r\nnodes: x\r\n", "nodes: x", "nodes: "},
	} {
		text, _ := refused(t, "x.yaml", []byte(row.text))
		want := "\n>    2 | " + strings.TrimRight(row.line, " ") + "\n         " + strings.Repeat(" ", utf8.RuneCountInString(row.before)) + "^"
		if !strings.HasSuffix(text, want) {
			t.Errorf("%s: text is\n%s\nwant it to end in%s", row.name, text, want)
		}
	}
}

func TestBombsAreRefusedBeforeTheyBurst(t *testing.T) {
	// Each takes the parser many seconds, or gigabytes, when it is let through.
	const size = 1 << 16
	aliases := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for _, c := range "bcdefghi" {
		aliases += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 9) + "]\n"
	}
	for _, row := range []struct{ name, text, want string }{
		{"too much", strings.Repeat(" ", jobfile.MaxSize+1), "1048577 bytes, at most 1048576"},
		{"brackets", strings.Repeat("[", size), "nested more than 16 deep"},
		{"braces", strings.Repeat("{", size), "nested more than 16 deep"},
		{"braces with keys", strings.Repeat("{a: ", size/4), "nested more than 16 deep"},
		{"dashes", strings.Repeat("- ", size/2), "nested more than 16 deep"},
		{"question marks", strings.Repeat("? ", size/2), "which job files do not support"},
		{"fields", strings.Repeat("a: 1\n", size/5), "more than 4096 fields"},
		{"aliases", aliases, "which job files do not support"},
		{"tags", "program: " + strings.Repeat("!a ", size/4), "which job files do not support"},
	} {
		text, _ := refused(t, "x.yaml", []byte(row.text))
		if !strings.Contains(text, row.want) {
			t.Errorf("%s: text is %q, want it to hold %q", row.name, clip(text), row.want)
		}
		if len(text) > 1000 {
			t.Errorf("%s: the refusal has %d bytes", row.name, len(text))
		}
	}
}

func TestALargeJobIsStillAJob(t *testing.T) {
	text := "program: a\nargs:\n" + strings.Repeat("- x\n", 4096) + "env:\n"
	for i := range 512 {
		text += "  V" + strings.Repeat("x", i) + ": 1\n"
	}
	s, err := jobfile.Parse("x.yaml", []byte(text))
	if err != nil || len(s.Args) != 4096 || len(s.Env) != 512 {
		t.Errorf("%d arguments and %d variables are read (%v)", len(s.Args), len(s.Env), err)
	}
}

// FuzzParse: whatever the bytes, a job or one fault of bounded size, and never a
// place outside the file. The bounds of inspect keep it fast, which the fuzzer's
// own clock watches over.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		whole, "program: a\n---\n", "{program: [a, {b: c}]}", "a: &a [*a]", "- - -\n  - ? a", "program: |2\n   a\n", "program: >-\n\n a\n\tb",
		"\"\\x\": '", "inputs: [name: a]", "env: {[a]: b, {c: d}: e}", "a:\r\n\r- b\r", "{a, b: , : c}", "%TAG ! x\n---\n!a b", "program: \"\\ud800\"",
		"|" + strings.Repeat("\x02", 2000), // quoted in full by the library
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4096 {
			return
		}
		s, err := jobfile.Parse("jobs/x.yaml", b)
		if err == nil {
			if s.Program == "" && !strings.Contains(string(b), "program") {
				t.Fatal("a job without a program")
			}
			return
		}
		text, _ := refused(t, "jobs/x.yaml", b)
		if !strings.HasPrefix(text, "read job file: jobs/x.yaml:") || len(text) > 2000 || !utf8.ValidString(text) {
			t.Fatalf("text is %q", text)
		}
	})
}

// FuzzTextArrivesVerbatim: JSON is YAML, so what any program writes as JSON is a
// job file, and every letter of it arrives.
func FuzzTextArrivesVerbatim(f *testing.F) {
	for _, text := range []string{"", " ", "a: b", "*.csv", "\t", "\\", "\"", "'", "\u2028", "🚀", "\r\n", "\x1b", "# x", "~", "007", "\u0085", "{a", "\ufeff", "\x7f"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || len(text) > 4096 {
			return
		}
		b, err := json.Marshal(map[string]any{"program": "a", "args": []string{text}, "env": map[string]string{"A": text}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := jobfile.Parse("x.yaml", b)
		if err != nil {
			t.Fatal(err)
		}
		want := job.Spec{Program: "a", Args: []string{text}, Env: map[string]string{"A": text}}
		if diff := cmp.Diff(want, s); diff != "" {
			t.Fatalf("job (-want +got):\n%s", diff)
		}
	})
}
