package job_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/job"
)

// A field of Spec that no class was given is compared with nothing: a command that sets
// it would run, or attach, with another value than was typed.
func TestEveryFieldOfASpecHasAClass(t *testing.T) {
	names := map[string]bool{}
	for _, f := range job.Fields() {
		if f.Class == 0 {
			t.Errorf("field %s of job.Spec is not in options of option.go: say there what another value of it means to a second command", f.Name)
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
	for _, o := range job.Options() {
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

func TestEachFieldThatDiffersIsFoundByItsClass(t *testing.T) {
	for _, f := range job.Fields() {
		s := full()
		v := fieldOf(&s, f.Name)
		v.Set(another(t, v))
		var got []string
		for _, d := range s.Differences(full()) {
			got = append(got, d.Name)
			if d.String() == "" || d.Class != f.Class {
				t.Errorf("%s: %q of class %d", f.Name, d, d.Class)
			}
		}
		want := []string{f.Name}
		if f.Name == "Project" || f.Name == "Task" || f.Class == job.ClassOnce && f.Name != "CleanState" || f.Name == "CleanState" && full().CleanState {
			want = nil
		}
		if !slices.Equal(got, want) {
			t.Errorf("with another %s there differ %v", f.Name, got)
		}
		if same := s.Same(full()); same != (f.Class != job.ClassCommand || want == nil) {
			t.Errorf("with another %s it is the same command: %v", f.Name, same)
		}
		// With takes what is no part of the command, and nothing else.
		with := full().With(s)
		taken := reflect.DeepEqual(fieldOf(&with, f.Name).Interface(), v.Interface())
		if taken != (f.Class == job.ClassSetting || f.Class == job.ClassBound || f.Class == job.ClassLabel) {
			t.Errorf("With took %s: %v", f.Name, taken)
		}
		if rest := with.With(full()); !reflect.DeepEqual(rest, full()) {
			t.Errorf("With changed more than %s", f.Name)
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
		for _, d := range is.Differences(was) {
			got = append(got, d.String())
		}
		if strings.Join(got, "; ") != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
	// A state that is to be empty once is not asked for by a command that does not say so.
	if d := (job.Spec{}).Differences(job.Spec{CleanState: true}); len(d) > 0 {
		t.Errorf("%v", d)
	}
}
