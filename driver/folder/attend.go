package folder

import (
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// Supervisor is process 1 of a container, with one agent below it: it keeps the time of a Stop,
// passes SIGTERM on, reaps orphaned processes, and ends with the agent.
type Supervisor struct {
	// Begin starts the agent, in a session of its own.
	Begin func() (pid int, err error)
	// Order reads the order of a Stop: the grace it has. asked is false without one.
	Order func() (grace time.Duration, asked bool)
	// Look is how often Order is read; 0: only when SIGTERM comes.
	Look time.Duration
	// Warned is called when SIGTERM comes without an order. Nil: nothing is to be done.
	Warned func()
	// Up says whether the agent listens for SIGTERM. An agent that is just coming up reads the
	// order itself, once it listens.
	Up func() bool
	// Kill ends all processes but this one.
	Kill func(agent int)
}

// KilledStatus is the exit status of a container that its supervisor has ended.
const KilledStatus = 128 + int(unix.SIGKILL)

// Attend supervises until the agent has ended. A signal without a handler does not reach a
// process 1, so it listens before it reads the order: an order that was written before is read,
// and one that is written later comes with a signal or is read at the next look. begun is false
// when an order without grace was there before the agent.
func (s Supervisor) Attend() (status unix.WaitStatus, begun bool, err error) {
	terms, deaths := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(terms, unix.SIGTERM, unix.SIGINT)
	signal.Notify(deaths, unix.SIGCHLD)
	grace, asked := s.Order()
	if asked && grace == 0 {
		return status, false, nil
	}
	agent, err := s.Begin()
	if err != nil {
		return status, false, err
	}
	t := timekeeper{}
	if asked {
		t.shorten(grace)
	}
	var looks <-chan time.Time
	if s.Look > 0 {
		tick := time.NewTicker(s.Look)
		defer tick.Stop()
		looks = tick.C
	}
	for {
		select {
		case <-terms:
			grace, asked := s.Order()
			switch {
			case asked:
				t.shorten(grace)
			case s.Warned != nil:
				s.Warned()
			}
			if !asked || grace > 0 {
				s.tell(agent)
			}
		case <-looks:
			if grace, asked := s.Order(); asked && t.shorten(grace) && grace > 0 {
				s.tell(agent)
			}
		case <-t.over:
			s.Kill(agent)
			t.over = nil
		case <-deaths:
			if status, gone := Reap(agent); gone {
				return status, true, nil
			}
		}
	}
}

// tell sends SIGTERM to an agent that listens for it.
func (s Supervisor) tell(agent int) {
	if s.Up() {
		unix.Kill(agent, unix.SIGTERM)
	}
}

// timekeeper keeps the time of Stops, of which the one that ends soonest stands.
type timekeeper struct {
	until time.Time
	over  <-chan time.Time // nil: no Stop, or it is over
	least time.Duration    // the shortest grace so far
	asked bool
}

// shorten reports whether grace ends sooner than what stood before. An order that is read again
// does not begin anew.
func (t *timekeeper) shorten(grace time.Duration) bool {
	if t.asked && grace >= t.least {
		return false
	}
	t.asked, t.least = true, grace
	if at := time.Now().Add(grace); t.until.IsZero() || at.Before(t.until) {
		t.until, t.over = at, time.After(grace)
	}
	return true
}
