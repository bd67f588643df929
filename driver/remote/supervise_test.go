package remote

import (
	"errors"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
)

// acting is an agent that ends as it is told.
type acting struct {
	exit    chan Exit
	notices chan driver.Notice
	onKill  *Exit
}

func newActing() *acting {
	return &acting{exit: make(chan Exit, 1), notices: make(chan driver.Notice, 8)}
}

func (a *acting) Ask(n driver.Notice) { a.notices <- n }
func (a *acting) Kill() {
	if a.onKill != nil {
		a.exit <- *a.onKill
	}
}
func (a *acting) Exit() <-chan Exit { return a.exit }

func supervisor(p *Placement, a *acting, id string) Supervisor {
	return Supervisor{Placement: p, Claimant: Claimant{ID: id, Attempt: 1}, Look: time.Millisecond, Start: func(int) (Agent, error) { return a, nil }}
}

func recorded(t *testing.T, p *Placement) End {
	t.Helper()
	s, err := p.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e, ok := s.ends[0]
	if !ok {
		t.Fatal("no end is recorded")
	}
	return e
}

func TestHowAnAgentEndedIsRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		exit Exit
		want End
	}{
		"with a word":     {Exit{Code: 2, Reason: "no such file", Tail: "x"}, End{V: 1, Code: 2, Reason: "no such file", Tail: "x"}},
		"well":            {Exit{Reason: "done", Tail: "x"}, End{V: 1, Reason: "done"}},
		"without a word":  {Exit{Code: 4}, End{V: 1, Code: 4, Reason: "exit status 4"}},
		"killed from out": {Exit{Code: 137}, End{V: 1, Code: -1, Lost: true, Reason: "it was killed by signal 9"}},
	} {
		p, a := created(t, newRecords(), 1), newActing()
		a.exit <- c.exit
		if _, err := supervisor(p, a, "a").Run(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := recorded(t, p); got != c.want {
			t.Errorf("%s: %+v is recorded, want %+v", name, got, c.want)
		}
	}
}

func TestASupervisorKeepsTheTimeOfAStop(t *testing.T) {
	p, a := created(t, newRecords(), 1), newActing()
	a.onKill = &Exit{Code: 137}
	done := make(chan error, 1)
	s, begun := supervisor(p, a, "a"), make(chan bool)
	s.Start = func(int) (Agent, error) {
		close(begun)
		return a, nil
	}
	go func() {
		_, err := s.Run(t.Context())
		done <- err
	}()
	<-begun
	for _, grace := range []time.Duration{time.Hour, 20 * time.Millisecond} {
		if err := p.order(t.Context(), grace); err != nil {
			t.Fatal(err)
		}
		if n := <-a.notices; !n.Asked || n.Left != grace {
			t.Fatalf("the agent is told %+v, want that a person asked and %s are left", n, grace)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got, want := recorded(t, p), (End{V: 1, Code: -1, Reason: "stopped: killed after its grace"}); got != want {
		t.Errorf("%+v is recorded, want %+v", got, want)
	}
}

func TestASecondSupervisorLeaves(t *testing.T) {
	p, a := created(t, newRecords(), 1), newActing()
	a.exit <- Exit{}
	if _, err := supervisor(p, a, "a").Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	code, err := supervisor(p, newActing(), "b").Run(t.Context())
	if code != 0 || !errors.Is(err, ErrLeave) || err.Error() != "another process is this agent already" {
		t.Errorf("the second ends with %d, %v", code, err)
	}
}

func TestAnAgentThatCannotStartSaysWhy(t *testing.T) {
	p := created(t, newRecords(), 1)
	s := supervisor(p, nil, "a")
	s.Start = func(int) (Agent, error) { return nil, errors.New("exec format error") }
	if code, err := s.Run(t.Context()); code == 0 || err == nil {
		t.Errorf("it ends with %d, %v", code, err)
	}
	if got := recorded(t, p); got.Reason != "its agent never started: exec format error" || got.Code != -1 {
		t.Errorf("%+v is recorded", got)
	}
}

// An engine that is told to end a process may send it the signal of a machine that goes: the order is
// looked for first, and an agent that is to be killed at once is asked nothing.
func TestASignalOfAStopIsNoNotice(t *testing.T) {
	p, a := created(t, newRecords(), 1), newActing()
	a.onKill = &Exit{Code: 137}
	s, begun, notices := supervisor(p, a, "a"), make(chan bool), make(chan driver.Notice)
	s.Look, s.Notices = time.Hour, notices
	s.Start = func(int) (Agent, error) {
		close(begun)
		return a, nil
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.Run(t.Context())
		done <- err
	}()
	<-begun
	notices <- driver.Notice{Why: "the machine goes"} // without an order it is passed on
	if n := <-a.notices; n.Asked || n.Why != "the machine goes" {
		t.Errorf("the agent is told %+v", n)
	}
	if err := p.order(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	notices <- driver.Notice{Why: "SIGTERM"}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(a.notices) > 0 {
		t.Errorf("the agent is told %+v", <-a.notices)
	}
	if got, want := recorded(t, p), (End{V: 1, Code: -1, Reason: "stopped: killed after its grace"}); got != want {
		t.Errorf("%+v is recorded, want %+v", got, want)
	}
}
