package ssm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var record = flag.Bool("record", false, "ask the tool for testdata/lines.json and flags.json anew: needs python3, pip and the index")

// answer is what a command line comes to: in the tool, or here.
type answer struct {
	Options         map[string]any    `json:"options,omitempty"`
	Hyperparameters map[string]string `json:"hyperparameters,omitempty"`
	Words           []string          `json:"words,omitempty"`
	Help            bool              `json:"help,omitempty"`
	Refused         string            `json:"refused,omitempty"`
}

// line is one command line with the tool's answer, and ours where it differs.
type line struct {
	Args       []string `json:"args"`
	Tool       answer   `json:"tool"`
	Here       *answer  `json:"here,omitempty"`
	Difference string   `json:"difference,omitempty"`
}

const linesFile, flagsFile = "testdata/lines.json", "testdata/flags.json"

func noEnv(name string) (string, bool) { return "mine", name == "MINE" }

// ask is our own answer, in the tool's words.
func ask(args []string) answer {
	c, err := Read(args, noEnv)
	if err == nil {
		err = c.Check(func(p string) bool { return !strings.Contains(p, "missing") && !strings.HasPrefix(p, "nots3") })
	}
	switch {
	case err != nil:
		return answer{Refused: err.Error()}
	case c.Help:
		return answer{Help: true}
	}
	a := answer{Options: map[string]any{}, Hyperparameters: map[string]string{}, Words: c.Words}
	for _, h := range c.Hyperparameters {
		a.Hyperparameters[h.Name] = h.Value
		if h.Bare {
			a.Hyperparameters[h.Name] = "(bare)"
		}
	}
	for i := range options {
		if o := &options[i]; o.belongsTo(c.Verb) {
			if dest, value := inTool(c, o.typedKey()); dest != "" {
				a.Options[dest] = value
			}
		}
	}
	return a.plain()
}

// inTool is what a flag set, under the tool's name for it.
func inTool(c Command, key string) (string, any) {
	inputs := func(list []Input) any {
		var all [][]string
		for _, in := range list {
			row := []string{in.Name, in.Path, in.Task, in.What}
			row = slices.DeleteFunc(row, func(s string) bool { return s == "" })
			all = append(all, append(row, in.Distribution, in.Subdir))
		}
		return all
	}
	pairs := func(list []Pair) any {
		var all [][]string
		for _, p := range list {
			all = append(all, []string{p.Name, p.Value})
		}
		return all
	}
	var dist any
	_ = json.Unmarshal([]byte(c.Distribution), &dist)
	values := map[string]any{
		"project_name": c.Project, "task_name": c.Task, "prefix": c.Prefix, "bucket_name": c.Bucket, "entry_point": c.Entry, "source_dir": c.Source,
		"cmd_line": c.CommandLine, "dir_files": c.DirFiles, "code": c.Code, "entrypoint": c.Entrypoint, "command": c.Interpreter, "dependencies": c.Dependencies,
		"instance_type": c.Machine, "instance_count": c.Nodes, "volume_size": c.Volume, "use_spot_instances": c.Spot, "max_wait_mins": c.MaxWait, "max_run_mins": c.MaxRun,
		"docker_file_path_or_content": c.Dockerfile, "framework": c.Framework, "framework_version": c.FrameworkVersion, "py_version": c.Py,
		"aws_repo_name": c.AWSRepo, "repo_name": c.Repo, "image_tag": c.ImageTag, "input_path": inputs(c.Inputs), "input_s3": inputs(c.Buckets), "input_task": inputs(c.Tasks),
		"model_uri": c.ModelURI, "clean_state": c.CleanState, "force_running": c.Force, "distribution": dist, "metric_definitions": pairs(c.Metrics), "tag": pairs(c.Tags),
		"env": pairs(c.Env), "arguments": c.Arguments, "output_path": c.Output, "download_state": c.TakeState, "download_model": c.TakeModel, "download_output": c.TakeOutputs,
	}
	switch key {
	case "help", "no_spot", "keep_state":
		return "", nil // they set what another flag sets
	}
	v, ok := values[key]
	if !ok {
		panic("no field is compared for --" + key)
	}
	return key, v
}

// plain brings an answer to the form that JSON gives it, without what is not set:
// the tool tells a text that is not there from an empty one, and nothing comes of it.
func (a answer) plain() answer {
	b, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	var p answer
	if err := json.Unmarshal(b, &p); err != nil {
		panic(err)
	}
	for k, v := range p.Options {
		if v == nil || v == "" || v == false || v == float64(0) {
			delete(p.Options, k)
		}
	}
	return p
}

// agree says whether two answers are the same; how a refusal is worded is ours.
func agree(tool, here answer) bool {
	if tool.Refused != "" || here.Refused != "" {
		return tool.Refused != "" && here.Refused != ""
	}
	return cmp.Equal(tool.plain(), here.plain(), cmp.Transformer("empty", func(m map[string]string) string { return fmt.Sprint(m) }))
}

// departs names the difference that a line shows: the one its words call for.
func departs(args []string) string {
	verb, rest := "", args
	if len(args) > 0 && slices.Contains(Verbs, Verb(args[0])) {
		verb, rest = args[0], args[1:]
	} else {
		return "before-verb"
	}
	if i := slices.Index(rest, "--"); i >= 0 {
		rest = rest[:i]
	}
	known := namesOf(Verb(verb))
	s := scanner{c: &Command{Verb: Verb(verb)}, known: known}
	found := map[string]bool{}
	for i, w := range rest {
		name, _, assigned := strings.Cut(w, "=")
		next := ""
		if i+1 < len(rest) {
			next = rest[i+1]
		}
		exact := known[name] != nil
		long := strings.HasPrefix(w, "--") && !exact
		flag, _, _, _ := s.findFlag(w)

		found["dashes"] = found["dashes"] || long && flag != nil
		if flag == nil && long {
			found["abbreviation"] = found["abbreviation"] || slices.ContainsFunc(longNames(Verb(verb)), func(f string) bool { return strings.HasPrefix(f, name) })
			found["assignment"] = found["assignment"] || assigned
			found["blank-name"] = found["blank-name"] || strings.Contains(w, " ")
			short := len(next) > 2 && next[0] == '-' && next[1] != '-' && known[next[:2]] != nil && next[2] != '='
			found["dash-value"] = found["dash-value"] || short
			found["bare"] = found["bare"] || next == "" && i+1 == len(rest) || strings.HasPrefix(next, "--") || known[next] != nil || len(next) > 2 && next[2] == '=' && known[next[:2]] != nil
		}
		if found["bare"] && strings.Contains(ask(args).Refused, "belongs to no flag") {
			return "torn"
		}
		if flag == nil {
			continue
		}
		switch flag.typedKey() {
		case "input_path", "input_s3", "input_task":
			n := flag.least // the word after what has to be there
			if i+1+n < len(rest) {
				d := rest[i+1+n]
				found["distribution"] = found["distribution"] || s.isWord(d) && d != Replicated && d != Sharded
			}
			if flag.typedKey() == "input_s3" && i+2 < len(rest) {
				found["any-address"] = found["any-address"] || !strings.HasPrefix(rest[i+2], "s3://")
			}
		case "env":
			found["env"] = found["env"] || strings.Contains(next, "=") || i+2 >= len(rest) || !s.isWord(rest[i+2])
		}
	}
	for _, d := range Differences {
		if found[d.Name] {
			return d.Name
		}
	}
	return ""
}

func readLines(t *testing.T) []line {
	t.Helper()
	b, err := os.ReadFile(linesFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []line
	for text := range strings.Lines(string(b)) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// Every line is read as the tool reads it, or as the list of differences says.
func TestTheToolsOwnParserAgrees(t *testing.T) {
	seen, same := map[string]bool{}, 0
	all := readLines(t)
	for _, l := range all {
		here := ask(l.Args)
		if agree(l.Tool, here) {
			same++
			if l.Difference != "" {
				t.Errorf("%q is recorded as a difference (%s) and is none", l.Args, l.Difference)
			}
			continue
		}
		if !slices.ContainsFunc(Differences, func(d Difference) bool { return d.Name == l.Difference }) {
			t.Errorf("%q: difference %q is not listed\n%s", l.Args, l.Difference, cmp.Diff(l.Tool.plain(), here))
			continue
		}
		seen[l.Difference] = true
		if l.Here == nil || !cmp.Equal(l.Here.plain(), here.plain()) {
			t.Errorf("%q is read in another way than was recorded\n%s", l.Args, cmp.Diff(l.Here, &here))
		}
	}
	for _, d := range Differences {
		if !seen[d.Name] {
			t.Errorf("no line shows the difference %q: take it off the list, or add one", d.Name)
		}
	}
	if len(all) < 400 || same < 300 {
		t.Errorf("%d lines, %d of them the same: want 400 and 300", len(all), same)
	}
}

// flagOf is one flag in the tool's words.
type flagOf struct {
	Names    []string `json:"names"`
	Dest     string   `json:"dest"`
	Nargs    any      `json:"nargs"`
	Required bool     `json:"required"`
}

// The table has the flags that the tool's parser has: no more, no less.
func TestTheTableIsTheTools(t *testing.T) {
	b, err := os.ReadFile(flagsFile)
	if err != nil {
		t.Fatal(err)
	}
	var tool map[string][]flagOf
	if err := json.Unmarshal(b, &tool); err != nil {
		t.Fatal(err)
	}
	for _, v := range Verbs {
		var want, got []string
		for _, f := range tool[string(v)] {
			slices.Sort(f.Names)
			want = append(want, fmt.Sprint(f.Names, fits(f.Nargs), f.Required))
		}
		for i := range options {
			if o := &options[i]; o.belongsTo(v) {
				names := slices.Sorted(slices.Values(o.names))
				shape := "one"
				switch {
				case o.most == 0:
					shape = "none"
				case o.greedy:
					shape = "list"
				case o.most == 2:
					shape = "two"
				}
				got = append(got, fmt.Sprint(names, shape, o.need))
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("ssm %s (tool, here):\n%s", v, d)
		}
	}
}

func fits(nargs any) string {
	switch nargs {
	case nil:
		return "one"
	case "+":
		return "list"
	case float64(0):
		return "none"
	case float64(2):
		return "two"
	}
	return fmt.Sprint(nargs)
}

// The recordings are the tool's answers, today, from its own release.
func TestRealSSMParserAgrees(t *testing.T) {
	if os.Getenv("DROVER_TEST_REAL") != "1" && !*record {
		t.Skip("DROVER_TEST_REAL=1 runs it: it installs simple-sagemaker from the index")
	}
	python := install(t)
	flags := tool(t, python, nil, "flags")
	if *record {
		lines := corpus(t)
		answers := answersOf(t, python, lines)
		var b bytes.Buffer
		for i, args := range lines {
			l := line{Args: args, Tool: answers[i].plain()}
			if here := ask(args); !agree(l.Tool, here) {
				l.Here, l.Difference = &here, departs(args)
			}
			text, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(append(text, '\n'))
		}
		for file, text := range map[string][]byte{linesFile: b.Bytes(), flagsFile: flags} {
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	recorded := readLines(t)
	var lines [][]string
	for _, l := range recorded {
		lines = append(lines, l.Args)
	}
	for i, a := range answersOf(t, python, lines) {
		if !reflect.DeepEqual(a.plain(), recorded[i].Tool.plain()) {
			t.Errorf("%q: the recording is not what the tool says\n%s", lines[i], cmp.Diff(recorded[i].Tool.plain(), a.plain()))
		}
	}
	want, err := os.ReadFile(flagsFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, flags) {
		t.Errorf("%s is not what the tool's parser has", flagsFile)
	}
	// Lines that no test has seen before: another seed each day would find more, and
	// could not be repeated, so it is a second fixed one.
	fresh := generate(rand.New(rand.NewPCG(8, 2)), 400)
	for i, a := range answersOf(t, python, fresh) {
		if here := ask(fresh[i]); !agree(a.plain(), here) && departs(fresh[i]) == "" {
			t.Errorf("%q\n%s", fresh[i], cmp.Diff(a.plain(), here))
		}
	}
}

func install(t *testing.T) (python string) {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"python3", "-m", "venv", filepath.Join(dir, "venv")},
		{filepath.Join(dir, "venv/bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "simple-sagemaker==" + Release},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return filepath.Join(dir, "venv/bin/python")
}

func tool(t *testing.T, python string, stdin []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, append([]string{"testdata/oracle.py"}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	var told bytes.Buffer
	cmd.Stderr = &told
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ask the tool: %v\n%s", err, told.String())
	}
	return out
}

func answersOf(t *testing.T, python string, lines [][]string) []answer {
	t.Helper()
	var in bytes.Buffer
	for _, l := range lines {
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(b, '\n'))
	}
	var all []answer
	sc := bufio.NewScanner(bytes.NewReader(tool(t, python, in.Bytes())))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var a answer
		if err := json.Unmarshal(sc.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	if len(all) != len(lines) {
		t.Fatalf("%d answers to %d lines", len(all), len(lines))
	}
	return all
}
