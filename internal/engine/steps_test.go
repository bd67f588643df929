package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/job"
)

// A plan that any of its steps refuses leaves nothing of a map's items in the temporary folder,
// and one that is accepted leaves nothing once it is closed.
func TestNoReturnOfAPlanLeavesItemsBehind(t *testing.T) {
	refusal := errors.New("refused")
	refuse := func(planner, context.Context, *Plan) error { return refusal }
	for at := range len(planSteps) + 1 {
		t.Run(fmt.Sprintf("after %d steps", at), func(t *testing.T) {
			temp := t.TempDir()
			d := newDesk(t)
			t.Setenv("TMPDIR", temp)
			held := 0 // files of items that lay there when the refusal came
			steps := append(slices.Clone(planSteps[:at]), func(planner, context.Context, *Plan) error {
				held = len(leftIn(t, temp))
				return nil
			}, refuse)
			d.Caller.Stdin = strings.NewReader("a\nb\n")
			s := spec(func(s *job.Spec) { s.Verb, s.From, s.Args, s.Task = job.Map, "-", []string{"{}"}, "t" })
			_, err := d.newPlanner().runPlanSteps(t.Context(), Plan{Spec: s, Contents: map[string]string{}}, steps)
			if !errors.Is(err, refusal) {
				t.Fatalf("%v; want the refusal", err)
			}
			if at >= 2 && held == 0 {
				t.Error("there were no items to leave behind: the test shows nothing")
			}
			if left := leftIn(t, temp); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// Refusals of the steps themselves, early and late.
func TestNoRefusalOfAMapLeavesItemsBehind(t *testing.T) {
	for name, change := range map[string]func(*job.Spec){
		"a program that is not there":   func(s *job.Spec) { s.Program = "./train.py" },
		"an input that is not there":    func(s *job.Spec) { s.Inputs = []job.Input{{Name: "data", Path: "nowhere"}} },
		"a secret that is not there":    func(s *job.Spec) { s.Secrets = map[string]string{"KEY": "env:DROVER_TEST_NO_SUCH"} },
		"an image where there are none": func(s *job.Spec) { s.Container.Image = "python:3.12" },
		"one output for all items":      func(s *job.Spec) { s.Out = []string{"out.txt"} },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			d.Caller.Stdin = strings.NewReader("a\nb\n")
			_, err := d.Plan(t.Context(), spec(func(s *job.Spec) { s.Verb, s.From, s.Args = job.Map, "-", []string{"{}"} }, change), false)
			if err == nil {
				t.Fatal("the plan was accepted")
			}
			if left := leftIn(t, temp); len(left) > 0 {
				t.Errorf("left behind after %q: %v", err, left)
			}
		})
	}
}

func leftIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		names = append(names, d.Name())
	}
	return names
}
