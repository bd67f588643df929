package contract_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/contract"
)

func TestTheTwoWaysToReadHyperparametersAgree(t *testing.T) {
	f := alone()
	var text map[string]string
	if err := json.Unmarshal(f.Files()["/node/opt/ml/input/config/hyperparameters.json"], &text); err != nil {
		t.Fatal(err)
	}
	want := contract.Hyperparameters(f.Args)
	if len(text) != len(want) {
		t.Fatalf("%d in the file, %d decoded", len(text), len(want))
	}
	for name, value := range text {
		// As the toolkit does: JSON if it is some.
		decoded := contract.Hyperparameters([]string{"--" + name + "=" + value})
		if diff := cmp.Diff(want[name], decoded[name]); diff != "" {
			t.Errorf("%s (-decoded +from the file):\n%s", name, diff)
		}
	}
}

// TestHyperparametersAreTypedAsTheToolkitTypesThem compares with what
// sagemaker-training 5.1.4 made of values of every kind, letter by letter.
func TestHyperparametersAreTypedAsTheToolkitTypesThem(t *testing.T) {
	var toolkit struct{ Hyperparameters, Variables map[string]string }
	decodeFile(t, "toolkit-types.json", &toolkit)
	if len(toolkit.Hyperparameters) < 50 || len(toolkit.Variables) != len(toolkit.Hyperparameters)+1 {
		t.Fatalf("%d values, %d variables", len(toolkit.Hyperparameters), len(toolkit.Variables))
	}
	f := alone()
	f.Args = nil
	for _, name := range slices.Sorted(maps.Keys(toolkit.Hyperparameters)) {
		f.Args = append(f.Args, "--"+name+"="+toolkit.Hyperparameters[name])
	}
	got := variables(t, f)
	for name, want := range toolkit.Variables {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is\n%s\nwant\n%s", name, value, want)
		}
	}
	var file map[string]string
	if err := json.Unmarshal(f.Files()["/node/opt/ml/input/config/hyperparameters.json"], &file); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(toolkit.Hyperparameters, file); diff != "" {
		t.Errorf("the file does not say what was typed (-want +got):\n%s", diff)
	}
}

func TestHyperparametersAreReadFromArguments(t *testing.T) {
	n := func(text string) any { return json.Number(text) }
	for _, row := range []struct {
		args []string
		want map[string]any
	}{
		{nil, map[string]any{}},
		{[]string{"--epochs", "3"}, map[string]any{"epochs": n("3")}},
		{[]string{"--lr=.1"}, map[string]any{"lr": ".1"}},       // no JSON: the toolkit keeps the text too
		{[]string{"--lr=0.10"}, map[string]any{"lr": n("0.1")}}, // as Python writes what it read
		{[]string{"-x", "1"}, map[string]any{"x": n("1")}},
		{[]string{"--flag"}, map[string]any{"flag": true}},
		{[]string{"--flag", "--other", "-v"}, map[string]any{"flag": true, "other": true, "v": true}},
		{[]string{"--lr", "-1e-3", "--shift", "-.5"}, map[string]any{"lr": n("-0.001"), "shift": "-.5"}},
		{[]string{"--a=b=c", "--d="}, map[string]any{"a": "b=c", "d": ""}},
		{[]string{"in.csv", "--k", "5", "out.csv", "-"}, map[string]any{"k": n("5")}},
		{[]string{"--k", "1", "--k", "2"}, map[string]any{"k": n("2")}},
		{[]string{"--k", "--", "--l", "1"}, map[string]any{"k": true}},
		{[]string{"-1", "-.5", "---", "--=x", "--1x", "-é", "- a", "--a b=1"}, map[string]any{}},
		{[]string{"--opt.name", "adam", "--batch-size=64"}, map[string]any{"opt.name": "adam", "batch-size": n("64")}},
		{[]string{"--l", "[1, \"a\"]", "--d", `{"b": null}`}, map[string]any{"l": []any{n("1"), "a"}, "d": map[string]any{"b": nil}}},
		{[]string{"--a", "null", "--b", "true", "--c", "True", "--d", "1 2", "--e", `"q"`, "--f", "007"},
			map[string]any{"a": nil, "b": true, "c": "True", "d": "1 2", "e": "q", "f": "007"}},
		{[]string{"--a", `"\u0000"`}, map[string]any{"a": `"\u0000"`}},
		{[]string{"--a", " 3 "}, map[string]any{"a": n("3")}},
		{[]string{"--x", "1", "-y=2", "-z"}, map[string]any{"x": n("1"), "y": n("2"), "z": true}},
		{[]string{"-lr", "1", "--a_b-c.d2", "e"}, map[string]any{"lr": n("1"), "a_b-c.d2": "e"}},
		{[]string{"--none", "", "--k", "1"}, map[string]any{"none": "", "k": n("1")}}, // the toolkit hands None over as nothing
		{[]string{"--layers", "['a', 2]", "--opt", "k=v,k2=v2"}, map[string]any{"layers": "['a', 2]", "opt": "k=v,k2=v2"}},
		{[]string{"--yes", "True", "--no", "False"}, map[string]any{"yes": "True", "no": "False"}},
		{[]string{"--a", "NaN", "--b", "Infinity", "--c=-Infinity"}, map[string]any{"a": "NaN", "b": "Infinity", "c": "-Infinity"}}, // no JSON
		{[]string{"--a", "1e400", "--b", "-1E400"}, map[string]any{"a": n("1e400"), "b": n("-1E400")}},
		{[]string{"--sagemaker_program", "x.py"}, map[string]any{"sagemaker_program": "x.py"}},
	} {
		if diff := cmp.Diff(row.want, contract.Hyperparameters(row.args)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", row.args, diff)
		}
	}
}

// FuzzEnviron: whatever a script is given, it can be started and reads JSON.
func FuzzEnviron(f *testing.F) {
	for _, args := range []string{"--epochs\n3", "--a=\"\\u0000\"", "-\xff\n--\xff=\xfe", "--a\n[[1e999, \"🚀\u2028\"]]", "--a-b=1\n--a_b=2", "--A\n1\n--a\n2"} {
		f.Add(args)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		if strings.ContainsRune(lines, 0) || len(lines) > 4096 {
			return // Normal refuses a NUL
		}
		facts := alone()
		facts.Args = strings.Split(lines, "\n")
		got := variables(t, facts)
		for name, value := range got {
			whole := name == "SM_HPS" || name == "SM_USER_ARGS" || name == "SM_TRAINING_ENV"
			if whole && (!json.Valid([]byte(value)) || strings.ContainsFunc(value, func(r rune) bool { return r >= 0x80 })) {
				t.Fatalf("%s is %q", name, value)
			}
		}
		for path, b := range facts.Files() {
			if !json.Valid(b) {
				t.Fatalf("%s is %q", path, b)
			}
		}
		var text map[string]string
		if err := json.Unmarshal(facts.Files()["/node/opt/ml/input/config/hyperparameters.json"], &text); err != nil {
			t.Fatal(err)
		}
		if len(text) != len(contract.Hyperparameters(facts.Args)) {
			t.Fatalf("%d in the file, %d decoded", len(text), len(contract.Hyperparameters(facts.Args)))
		}
	})
}
