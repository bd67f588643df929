package drover_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/job"
)

// The lines of the package's own comment.
func Example_first() {
	bucket, place, folder, done := world(map[string]string{"train.py": "print('trained')\n"})
	defer done()
	drivers := map[string]driver.Opened{"local": mem.Open(place)}
	before, err := os.Getwd()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.Chdir(before)
	defer os.Setenv("XDG_CACHE_HOME", os.Getenv("XDG_CACHE_HOME"))
	if err := errors.Join(os.Chdir(folder), os.Setenv("XDG_CACHE_HOME", filepath.Join(folder, "..", "cache"))); err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()

	c, err := drover.Open(ctx, drover.Options{Bucket: bucket, Drivers: drivers})
	if err != nil {
		fmt.Println(err)
		return
	}
	j, err := c.Run(ctx, job.Spec{Project: "demo", Program: "train.py"})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := j.Wait(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	got, err := j.Get(ctx, "out", drover.GetOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := os.ReadFile(filepath.Join("out", "logs", "logs0"))
	fmt.Println(s.State, len(got.Parts) > 0, string(text), err)
	// Output:
	// SUCCEEDED true trained
	//  <nil>
}

func TestThePackagesCommentIsAnExampleThatRuns(t *testing.T) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "drover.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := os.ReadFile("example_first_test.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.SplitSeq(f.Doc.Text(), "\n") {
		if code, ok := strings.CutPrefix(line, "\t"); ok {
			if lines++; !strings.Contains(string(runs), "\n\t"+code+"\n") {
				t.Errorf("Example_first has no line %q", code)
			}
		}
	}
	if lines == 0 {
		t.Error("the package's comment has no example")
	}
}

// An example without an Output comment is compiled and never run.
func TestEveryExampleIsRun(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Example") {
				continue
			}
			examples++
			expects := false
			for _, c := range f.Comments {
				if fn.Body.Pos() < c.Pos() && c.End() < fn.Body.End() {
					text := strings.ToLower(strings.TrimSpace(c.Text()))
					expects = expects || strings.HasPrefix(text, "output:") || strings.HasPrefix(text, "unordered output:")
				}
			}
			if !expects {
				t.Errorf("%s: %s has no Output comment, so go test does not run it", name, fn.Name.Name)
			}
		}
	}
	if examples == 0 {
		t.Error("no example was found")
	}
}
