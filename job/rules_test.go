package job

import (
	"strings"
	"testing"
)

func TestAProcessingJobOfTheSeedFindsItsInputsWhereItWasPromised(t *testing.T) {
	s, err := Spec{Project: "p", Task: "t", Verb: Process, Program: "x.py", Rules: SSM, Entrypoint: []string{"python3"},
		Inputs: []Input{{Name: "data", Path: "d"}, {Name: "ex3_1.state", Path: "task:ex3-1/state"}, {Name: "own", Path: "o", To: "/opt/ml/processing/own"}}}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"/opt/ml/processing/data", "/opt/ml/processing/input/data/ex3_1.state", "/opt/ml/processing/own"} {
		if got := s.Inputs[i].To; got != want {
			t.Errorf("%s is at %s, want %s", s.Inputs[i].Name, got, want)
		}
	}
	s.Inputs[2].To = "/opt/ml/processing/state/x"
	if _, err := s.Normal(); err == nil || !strings.Contains(err.Error(), "is where the state is") {
		t.Errorf("an input in the state: %v", err)
	}
	s.Rules = Drover
	if _, err := s.Normal(); err != nil {
		t.Errorf("there is no state by drover's own rules: %v", err)
	}
}

func TestRulesThatAreNoneAreRefused(t *testing.T) {
	for _, s := range []Spec{{Verb: Run, Rules: "other"}, {Verb: Run, Entrypoint: []string{"sh"}}} {
		s.Project, s.Task, s.Program = "p", "t", "x.py"
		if _, err := s.Normal(); err == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}

func TestATaskCompletesByJobsOfItsOwnType(t *testing.T) {
	training, process := Spec{Verb: Run, Rules: SSM}, Spec{Verb: Process, Rules: SSM}
	for _, row := range []struct {
		job, task Spec
		want      bool
	}{
		{training, training, true}, {process, process, true}, {training, process, false}, {process, training, false},
		{Spec{Verb: Shell, Rules: SSM}, training, true}, {Spec{Verb: Run}, training, true}, {process, Spec{Verb: Run}, true},
	} {
		if got := row.job.Completes(row.task); got != row.want {
			t.Errorf("a job of %s completes a task of %s %s: %v", row.job.Verb, row.task.Rules, row.task.Verb, got)
		}
	}
}
