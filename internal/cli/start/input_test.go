package start

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/clitest"
	"github.com/drover-run/drover/job"
)

func TestInputsAreNamed(t *testing.T) {
	for _, row := range []struct {
		there, typed []string
		want         []job.Input
	}{
		{nil, nil, nil},
		{nil, []string{"./data"}, []job.Input{{Name: "data", Path: "./data"}}},
		{nil, []string{"train=./a", "test=./b"}, []job.Input{{Name: "train", Path: "./a"}, {Name: "test", Path: "./b"}}},
		{nil, []string{"a", "Some Labels.csv"}, []job.Input{{Name: "data", Path: "a"}, {Name: "some-labels", Path: "Some Labels.csv"}}},
		{nil, []string{"a=x", "b"}, []job.Input{{Name: "a", Path: "x"}, {Name: "data", Path: "b"}}},
		{[]string{"data"}, []string{"b/c.tar.gz"}, []job.Input{{Name: "data"}, {Name: "c-tar", Path: "b/c.tar.gz"}}},
		{nil, []string{"./a=b"}, []job.Input{{Name: "data", Path: "./a=b"}}}, // a path, not a name
		{nil, []string{"x.y=b"}, []job.Input{{Name: "data", Path: "x.y=b"}}},
		{nil, []string{"a=b=c"}, []job.Input{{Name: "a", Path: "b=c"}}},
	} {
		var spec job.Spec
		for _, name := range row.there {
			spec.Inputs = append(spec.Inputs, job.Input{Name: name})
		}
		if err := addInputs(&spec, row.typed); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(row.want, spec.Inputs); diff != "" {
			t.Errorf("-i %q (-want +got):\n%s", row.typed, diff)
		}
	}
}

func TestVariablesComeFromFilesAndFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HERE", "mine")
	t.Setenv("EMPTY", "")
	clitest.Write(t, "a.env", "# a comment\n\nA=1\n  export B = 2 \nC=x # not a comment\nHERE\nexporter=3\nQ=\"q\"\n")
	clitest.Write(t, "b.env", "A=file b\r\n")
	clitest.Write(t, "long.env", "A="+strings.Repeat("x", 100<<10))
	for _, row := range []struct {
		files, typed []string
		want         map[string]string
	}{
		{nil, nil, nil},
		{nil, []string{"A=1", "B=", "C=x=y", "A=2", "HERE", "EMPTY"}, map[string]string{"A": "2", "B": "", "C": "x=y", "HERE": "mine", "EMPTY": ""}},
		{[]string{"a.env"}, nil, map[string]string{"A": "1", "B ": " 2", "C": "x # not a comment", "HERE": "mine", "exporter": "3", "Q": `"q"`}},
		{[]string{"a.env", "b.env"}, []string{"exporter=flag"}, map[string]string{"A": "file b", "B ": " 2", "C": "x # not a comment", "HERE": "mine", "exporter": "flag", "Q": `"q"`}},
	} {
		var spec job.Spec
		if err := addEnv(&spec, row.files, row.typed); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(row.want, spec.Env); diff != "" {
			t.Errorf("%q %q (-want +got):\n%s", row.files, row.typed, diff)
		}
	}
	for _, row := range []struct{ files, typed []string }{{nil, []string{"NOT_SET_HERE"}}, {[]string{"gone.env"}, nil}, {[]string{"."}, nil}, {[]string{"long.env"}, nil}} {
		if err := addEnv(&job.Spec{}, row.files, row.typed); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q %q: %v", row.files, row.typed, err)
		}
	}
}
