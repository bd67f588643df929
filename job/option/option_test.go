package option_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/option"
)

// A field of Spec that no class was given is compared with nothing: a command that sets
// it would run, or attach, with another value than was typed.
func TestEveryFieldOfASpecHasAClass(t *testing.T) {
	names := map[string]bool{}
	for _, f := range option.Fields() {
		if f.Class == 0 {
			t.Errorf("field %s of job.Spec is not in the table of options: say there what another value of it means to a second command", f.Name)
		}
		if names[f.Name] {
			t.Errorf("two fields are named %s", f.Name)
		}
		names[f.Name] = true
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[job.Spec]()) {
		if !f.Anonymous && !names[f.Name] {
			t.Errorf("field %s of job.Spec is not among its Fields", f.Name)
		}
	}
	for _, o := range option.All() {
		if !names[o.Field] {
			t.Errorf("options names %s, which job.Spec has not", o.Field)
		}
	}
}

// another is a value that differs from v.
func another(t *testing.T, v reflect.Value) reflect.Value {
	t.Helper()
	n := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.String:
		n.SetString(v.String() + "x")
	case reflect.Int, reflect.Int64:
		n.SetInt(v.Int() + 1)
	case reflect.Float64:
		n.SetFloat(v.Float() + 1)
	case reflect.Bool:
		n.SetBool(!v.Bool())
	case reflect.Slice:
		n.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Map:
		n.Set(reflect.MakeMap(v.Type()))
		n.SetMapIndex(reflect.ValueOf("NEW"), reflect.Zero(v.Type().Elem()))
	case reflect.Struct:
		n.Set(v)
		n.Field(0).Set(another(t, n.Field(0)))
	default:
		t.Fatalf("no other value of a %s", v.Type())
	}
	return n
}

// fieldOf is a field of a spec by its name; embedded structs' fields are promoted.
func fieldOf(s *job.Spec, name string) reflect.Value {
	return reflect.ValueOf(s).Elem().FieldByName(name)
}

// full is a command with most of its fields set.
func full() job.Spec {
	return job.Spec{
		Project: "demo", Task: "digits", Named: true, Verb: job.Run, Program: "train.py",
		Args: []string{"--lr", "0.1", ""}, Source: "src", Deps: []string{"lib"},
		Inputs: []job.Input{{Name: "data", Path: "d"}, {Name: "more", Path: "d"}},
		Env:    map[string]string{"A_1": "x=y", "_": ""}, Python: "python3.12",
		Nodes: 1000, Retries: 1000, Timeout: job.Duration(time.Hour), Grace: job.Duration(time.Second),
		Procs: 2, Launcher: job.Torch, GPUs: 2, Machine: "ml.p3.2xlarge", NoMounts: true,
		Queue: "night", Priority: 5, Limits: job.Limits{CPUs: 0.5, Memory: 1 << 30},
		On: "batch/gpu", Output: "out",
	}
}

func TestEachFieldThatDiffersIsFoundByItsClass(t *testing.T) {
	for _, f := range option.Fields() {
		s := full()
		v := fieldOf(&s, f.Name)
		v.Set(another(t, v))
		var got []string
		for _, d := range option.Differences(s, full()) {
			got = append(got, d.Name)
			if d.String() == "" || d.Class != f.Class {
				t.Errorf("%s: %q of class %d", f.Name, d, d.Class)
			}
		}
		want := []string{f.Name}
		if f.Name == "Project" || f.Name == "Task" || f.Class == option.ClassOnce && f.Name != "CleanState" || f.Name == "CleanState" && full().CleanState {
			want = nil
		}
		if !slices.Equal(got, want) {
			t.Errorf("with another %s there differ %v", f.Name, got)
		}
		if same := option.SameCommand(s, full()); same != (f.Class != option.ClassCommand || want == nil) {
			t.Errorf("with another %s it is the same command: %v", f.Name, same)
		}
		// WithSettings takes what is no part of the command, and nothing else.
		with := option.WithSettings(full(), s)
		taken := reflect.DeepEqual(fieldOf(&with, f.Name).Interface(), v.Interface())
		if taken != (f.Class == option.ClassSetting || f.Class == option.ClassBound || f.Class == option.ClassLabel) {
			t.Errorf("WithSettings took %s: %v", f.Name, taken)
		}
		if rest := option.WithSettings(with, full()); !reflect.DeepEqual(rest, full()) {
			t.Errorf("WithSettings changed more than %s", f.Name)
		}
	}
}

func TestDifferencesInWords(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*job.Spec)
		want   string
	}{
		"a size":            {func(s *job.Spec) { s.Memory = 1 << 30 }, "--memory (200M, now 1G)"},
		"one there was not": {func(s *job.Spec) { s.Timeout = job.Duration(2 * 3600e9) }, "--timeout (none, now 2h0m0s)"},
		"one there is not":  {func(s *job.Spec) { s.Memory = 0 }, "--memory (200M, now none)"},
		"a switch":          {func(s *job.Spec) { s.NoEnv = true }, "--no-env (off, now on)"},
		"a variable":        {func(s *job.Spec) { s.Env = map[string]string{"A": "2", "B": "x"} }, "variable A"},
		"variables":         {func(s *job.Spec) { s.Env = map[string]string{"C": "", "D": ""} }, "variables A, B, C and 1 more"},
		"a secret":          {func(s *job.Spec) { s.Secrets = map[string]string{"K": "env:K"} }, "variable K"},
		"arguments":         {func(s *job.Spec) { s.Args = []string{"x"} }, "arguments"},
		"rules of retry":    {func(s *job.Spec) { s.RetryOn = job.RetryOn{"75", "OOM"} }, "--retry-on (none, now 75,OOM)"},
		"options of sbatch": {func(s *job.Spec) { s.TargetArgs = map[string][]string{"slurm": {"--qos=x"}} }, "--target-arg (none, now --qos=x)"},
		"labels":            {func(s *job.Spec) { s.Tags = map[string]string{"a": "b"} }, "--tag (none, now a=b)"},
		"a Dockerfile":      {func(s *job.Spec) { s.Dockerfile = "FROM a\n" + strings.Repeat("RUN true\n", 10) }, "--dockerfile"},
		"nothing": {func(s *job.Spec) {
			s.Env = map[string]string{"A": "1", "B": "x"}
			s.Args, s.Tags = []string{}, map[string]string{}
		}, ""},
		"clean state": {func(s *job.Spec) { s.CleanState = true }, "--clean-state"},
	} {
		was := job.Spec{Program: "a", Env: map[string]string{"A": "1", "B": "x"}}
		was.Memory = 200 << 20
		is := was
		row.change(&is)
		var got []string
		for _, d := range option.Differences(is, was) {
			got = append(got, d.String())
		}
		if strings.Join(got, "; ") != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
	// A state that is to be empty once is not asked for by a command that does not say so.
	if d := option.Differences(job.Spec{}, job.Spec{CleanState: true}); len(d) > 0 {
		t.Errorf("%v", d)
	}
}

func TestSameComparesTheCommandAlone(t *testing.T) {
	for name, change := range map[string]func(*job.Spec){
		"verb":    func(s *job.Spec) { s.Verb = job.Shell },
		"program": func(s *job.Spec) { s.Program = "eval.py" },
		"args":    func(s *job.Spec) { s.Args = []string{"--lr", "0.2", ""} },
		"source":  func(s *job.Spec) { s.Source = "other" },
		"deps":    func(s *job.Spec) { s.Deps = nil },
		"inputs":  func(s *job.Spec) { s.Inputs = []job.Input{{Name: "data", Path: "e"}, {Name: "more", Path: "d"}} },
		"nodes":   func(s *job.Spec) { s.Nodes = 2 },
		"procs":   func(s *job.Spec) { s.Procs = 4 },
	} {
		s := full()
		change(&s)
		if option.SameCommand(s, full()) || option.SameCommand(full(), s) {
			t.Errorf("specs with different %s are called the same", name)
		}
	}
	s := full()
	s.Output, s.On, s.Env, s.Timeout, s.Retries, s.GPUs, s.Image = "elsewhere", "local", nil, 0, 0, 4, "a:1"
	if !option.SameCommand(s, full()) || !option.SameCommand(full(), s) {
		t.Error("specs that differ in settings and output alone are called different commands")
	}
}
