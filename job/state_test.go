package job_test

import (
	"testing"

	"github.com/drover-run/drover/job"
)

var states = []job.State{job.Pending, job.Starting, job.Running, job.Succeeded, job.Failed, job.Cancelled, job.Interrupted, job.Paused}

// steps is the page on states as a table, written down a second time: what may
// follow at once.
var steps = map[job.State][]job.State{
	job.Pending:     {job.Starting, job.Cancelled, job.Interrupted, job.Failed, job.Paused},
	job.Starting:    {job.Running, job.Pending, job.Interrupted, job.Failed, job.Cancelled, job.Paused},
	job.Running:     {job.Succeeded, job.Failed, job.Cancelled, job.Interrupted, job.Starting, job.Pending, job.Paused},
	job.Paused:      {job.Pending, job.Starting, job.Running, job.Interrupted, job.Cancelled, job.Failed, job.Succeeded},
	job.Interrupted: {job.Pending, job.Starting, job.Running, job.Cancelled, job.Failed, job.Succeeded},
}

func TestEveryMoveIsAllowed(t *testing.T) {
	for from, next := range steps {
		for _, to := range next {
			if !from.CanBecome(to) {
				t.Errorf("%s cannot become %s", from, to)
			}
		}
	}
}

func TestCanBecomeIsTheClosureOfTheMoves(t *testing.T) {
	reach := map[[2]job.State]bool{}
	for _, s := range states {
		reach[[2]job.State{s, s}] = true
		for _, next := range steps[s] {
			reach[[2]job.State{s, next}] = true
		}
	}
	for _, via := range states {
		for _, from := range states {
			for _, to := range states {
				if reach[[2]job.State{from, via}] && reach[[2]job.State{via, to}] {
					reach[[2]job.State{from, to}] = true
				}
			}
		}
	}
	for _, from := range states {
		for _, to := range states {
			if got, want := from.CanBecome(to), reach[[2]job.State{from, to}]; got != want {
				t.Errorf("%s can become %s: %v, want %v", from, to, got, want)
			}
		}
	}
}

func TestWhatIsSettledStays(t *testing.T) {
	settled := map[job.State]bool{job.Succeeded: true, job.Failed: true, job.Cancelled: true}
	for _, s := range states {
		if s.Settled() != settled[s] {
			t.Errorf("%s is settled: %v", s, s.Settled())
		}
		for _, to := range states {
			if s.Settled() && to != s && s.CanBecome(to) {
				t.Errorf("%s is settled and can become %s", s, to)
			}
			if !s.Settled() && !s.CanBecome(to) {
				t.Errorf("%s is live and can never be %s", s, to)
			}
		}
	}
}

func TestAnUnknownStateLeadsNowhere(t *testing.T) {
	if job.State("LOST").CanBecome(job.Running) || job.Running.CanBecome("LOST") || job.State("LOST").Settled() {
		t.Error("a state that is none has moves")
	}
}

func TestEveryEndHasASignOfItsOwn(t *testing.T) {
	seen := map[string]job.State{job.Pending.Symbol(): job.Pending}
	if job.Starting.Symbol() != job.Pending.Symbol() {
		t.Errorf("%s and %s, both waiting, show as %q and %q", job.Pending, job.Starting, job.Pending.Symbol(), job.Starting.Symbol())
	}
	for _, s := range states {
		if s == job.Pending || s == job.Starting {
			continue
		}
		if other, ok := seen[s.Symbol()]; ok {
			t.Errorf("%s and %s both show as %q", s, other, s.Symbol())
		}
		seen[s.Symbol()] = s
	}
}
