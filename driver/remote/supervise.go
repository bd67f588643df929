package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/driver"
)

// Agent is the agent below a supervisor.
type Agent interface {
	// Ask asks the agent to stop, as SIGTERM does, and says why. It may be called again, with
	// less time left.
	Ask(driver.Notice)
	// Kill ends the agent and everything below it at once.
	Kill()
	// Exit gives one value once the agent has ended.
	Exit() <-chan Exit
}

// Exit is how an agent's process has ended.
type Exit struct {
	Code   int    // its exit status; 128 and more for a signal; -1: not known
	Reason string // what the agent gave Allocation.End; "": it ended without calling it
	Tail   string // the end of its log, up to 4 KiB
}

// ErrLeave says that another process is the agent: the caller must exit, with status 0.
var ErrLeave = errors.New("another process is this agent already")

// Supervisor is process 1 of an agent's machine. It makes the process an agent of the
// placement, starts the agent below it, passes orders and notices on, kills the agent when
// the grace of a Stop is over, also when the caller of Stop has exited, and records how the
// agent ended.
//
// It makes three requests of the store in all, and two a minute to read orders.
type Supervisor struct {
	Placement *Placement
	Claimant  Claimant
	// Start starts the agent with its number.
	Start func(n int) (Agent, error)
	// Look is how often orders are read; 0: 30 s.
	Look time.Duration
	// Notices come from the engine: the machine is about to go. Orders are read at once after
	// each. Nil: the engine gives none.
	Notices <-chan driver.Notice
}

// Run supervises the agent until it has ended, and gives its exit status. When ctx is done it
// kills the agent and returns, without a record of the end.
func (s Supervisor) Run(ctx context.Context) (code int, err error) {
	n, ok, err := s.Placement.Claim(ctx, s.Claimant)
	if err != nil {
		return -1, err
	}
	if !ok {
		return 0, ErrLeave
	}
	if _, k, err := s.Placement.newestOrder(ctx); err == nil && k > 0 {
		return 0, s.Placement.Ended(ctx, n, End{Code: -1, Reason: "stopped before it began"})
	}
	agent, err := s.Start(n)
	if err != nil {
		reason := fmt.Sprintf("its agent never started: %v", err)
		return 1, errors.Join(err, s.Placement.Ended(ctx, n, End{Code: -1, Reason: reason}))
	}
	exit, killed, err := s.watch(ctx, agent)
	if err != nil {
		return -1, err
	}
	end := End{Code: exit.Code, Reason: exit.Reason}
	switch {
	case killed:
		end.Code, end.Reason = -1, "stopped: killed after its grace"
	case end.Reason == "" && (exit.Code < 0 || exit.Code >= 128):
		end.Code, end.Lost, end.Reason = -1, true, fmt.Sprintf("it was killed by signal %d", exit.Code-128)
	case end.Reason == "":
		end.Reason = fmt.Sprintf("exit status %d", exit.Code)
	}
	if end.Code != 0 {
		end.Tail = exit.Tail
	}
	return exit.Code, s.Placement.Ended(ctx, n, end)
}

// noticeWait is how long a notice waits for a look at the orders: an engine that is told to end a
// process may send it the same signal as for a machine that goes.
const noticeWait = 2 * time.Second

// watch passes orders and notices on until the agent has ended. A notice that comes with an order is
// that order's.
func (s Supervisor) watch(ctx context.Context, agent Agent) (exit Exit, killed bool, err error) {
	reads, stop := context.WithCancel(ctx)
	defer stop()
	wake := make(chan struct{}, 1)
	orders, looked := s.readOrders(reads, wake)
	var until time.Time
	var over, late <-chan time.Time
	var notice *driver.Notice
	pass := func() {
		if notice != nil {
			agent.Ask(*notice)
		}
		notice, late = nil, nil
	}
	for {
		select {
		case exit = <-agent.Exit():
			return exit, killed, nil
		case <-ctx.Done():
			agent.Kill()
			<-agent.Exit()
			return Exit{}, false, context.Cause(ctx)
		case n := <-s.Notices:
			notice, late = &n, time.After(noticeWait)
			select {
			case wake <- struct{}{}:
			default:
			}
		case <-looked:
			pass()
		case <-late:
			pass()
		case grace := <-orders:
			notice, late = nil, nil
			at := time.Now().Add(grace)
			if killed || over != nil && !at.Before(until) {
				continue
			}
			until, over = at, time.After(grace)
			if grace > 0 {
				agent.Ask(driver.Notice{Asked: true, Why: driver.AskedToStop, Left: grace})
			}
		case <-over:
			killed, over = true, nil
			agent.Kill()
		}
	}
}

// readOrders reads each order to stop once. It runs beside watch, as a store that does not
// answer must not delay the times that watch keeps. It reads at every Look and at each wake,
// until ctx is done; looked tells of each look at a wake that has found no order.
func (s Supervisor) readOrders(ctx context.Context, wake <-chan struct{}) (_ <-chan time.Duration, looked <-chan struct{}) {
	orders, looks := make(chan time.Duration), make(chan struct{})
	look := s.Look
	if look == 0 {
		look = 30 * time.Second
	}
	go func() { // ends with ctx
		tick := time.NewTicker(look)
		defer tick.Stop()
		woken := false
		for read := 0; ctx.Err() == nil; {
			o, k, err := s.Placement.newestOrder(ctx)
			switch {
			case err == nil && k > read:
				read = k
				select {
				case orders <- o.Grace:
				case <-ctx.Done():
				}
			case woken:
				select {
				case looks <- struct{}{}:
				case <-ctx.Done():
				}
			}
			woken = false
			select {
			case <-ctx.Done():
			case <-tick.C:
			case <-wake:
				woken = true
			}
		}
	}()
	return orders, looks
}
