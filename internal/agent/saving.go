package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
)

// What a program leaves is stored within bounds: it is no larger than --disk, or
// than the file system it lies on, and when the job is stopped it has only so much
// more time as its program would have had.

// errGivenUp is why storing ended before it was done: the job was stopped, and the
// time that is left then was over.
var errGivenUp = errors.New("the job was stopped while it was being stored")

// minStoreTime is how long storing may take after a program that has used all of
// its grace. It must be shorter than the ledger's stopGrace, after which others
// settle the job without this rank's exit.
const minStoreTime = 20 * time.Second

// untilStopped runs do, which stores what a program has left, and goes on reading
// the job's log beside it. Once the job is stopped, by a cancel or because it
// has settled without this rank, do has the program's grace, counted from when
// the agent knows of it, and at least minStoreTime, or the grace where that is less,
// from its own beginning; then ctx ends, and the error is errGivenUp. When the job
// was removed ctx ends at once, and the error is errRemoved.
// Another end of this attempt does not end do: the state it saves is what the next
// attempt begins with.
func (a *agent) untilStopped(ctx context.Context, do func(ctx context.Context) error) error {
	began := time.Now()
	work, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	done := make(chan error, 1)
	go func() { done <- do(work) }() // waited for in each case
	tick := time.NewTicker(a.Poll)
	defer tick.Stop()
	for {
		if !a.stopped.IsZero() && !time.Now().Before(a.storeUntil(began)) {
			giveUp(errGivenUp)
		}
		select {
		case err := <-done:
			if cause := context.Cause(work); err != nil && (errors.Is(cause, errGivenUp) || errors.Is(cause, node.ErrRemoved)) {
				return cause
			}
			return err
		case <-a.storeTimer(began):
			continue
		case <-tick.C:
		}
		o, err := a.member.Poll(ctx)
		if err != nil {
			continue // do meets the same store, and its error is the one to tell
		}
		if o.Do == runagent.Leave {
			giveUp(node.ErrRemoved)
		}
		a.noteStopTime(o)
	}
}

// noteStopTime remembers when the agent first knew that the job was stopped.
func (a *agent) noteStopTime(o runagent.Order) {
	if o.Do == runagent.Halt && o.Over && a.stopped.IsZero() {
		a.stopped = time.Now()
	}
}

// storeUntil is when storing that began then is given up. The job was stopped.
func (a *agent) storeUntil(began time.Time) time.Time {
	grace := time.Duration(a.Job.Spec.Grace)
	until, least := a.stopped.Add(grace), began.Add(min(grace, minStoreTime))
	if least.After(until) {
		return least
	}
	return until
}

// storeTimer fires then; nil, never, while the job is not stopped or storing was
// given up already.
func (a *agent) storeTimer(began time.Time) <-chan time.Time {
	if a.stopped.IsZero() {
		return nil
	}
	if left := time.Until(a.storeUntil(began)); left > 0 {
		return time.After(left)
	}
	return nil
}

// storeLeft stores the state and the outputs of a program that has ended. What is
// beyond a limit is tree.ErrLimit, once all else is stored.
func (a *agent) storeLeft(ctx context.Context, p *program, exit *protocol.Exit) error {
	over := exit.Verdict == protocol.Done && a.Job.Spec.Nodes == 1 // nodes of several may have to run once more
	refused := a.patiently(ctx, func() error { return p.saver.saveFinally(ctx, over) })
	if refused != nil && !errors.Is(refused, tree.ErrLimit) {
		return refused
	}
	err := a.patiently(ctx, func() error { return a.outs.promiseOutputs(ctx, p.attempt, p.rank, exit) })
	if err == nil || errors.Is(err, tree.ErrLimit) {
		err = cmp.Or(refused, err)
	}
	return err
}

// exitWithoutResults is the exit of a program with results that were not stored, as the job was
// stopped meanwhile. What was stored of it last stands.
func (a *agent) exitWithoutResults(e protocol.Exit, err error) protocol.Exit {
	e.Notes = append(e.Notes, "what it made last is not stored: "+err.Error())
	if e.Verdict == protocol.Done { // nothing names what it made
		e.Verdict, e.Reason = protocol.Halted, err.Error()
	}
	return e
}

// exitOfRefusedResults is the exit of a program that has left what no command could bring home,
// or more than it may: a run with results that cannot be had has not succeeded. What
// could be stored is.
func (a *agent) exitOfRefusedResults(e protocol.Exit, err error) protocol.Exit {
	if e.Verdict != protocol.Done {
		e.Notes = append(e.Notes, err.Error())
		return e
	}
	hint := cmp.Or(fault.Hint(err), fmt.Sprintf("If that is what it should hold: --disk %s.", wholeMegabytes(2*min(a.MaxStoredBytes(), 1<<60))))
	e.Verdict, e.Code, e.Reason, e.Hint, e.Trace = protocol.Broke, 1, err.Error(), hint, ""
	e.Notes = append(e.Notes, "it ended with 0, and what was not stored is kept in "+a.Root)
	a.keep = true // it may be days of work
	return e
}

// measureLeft looks at --disk once more when the program has ended: one of less
// than lookEvery was never looked at while it ran.
func (r *exits) measureLeft(p *program) {
	limit := int64(r.Job.Spec.Disk)
	if limit == 0 || p.full.Load() > 0 {
		return
	}
	if used := r.UsedDisk(context.Background()); used > limit {
		p.full.Store(used)
	}
}

// exitOfUnstoredResults is the exit of a program with results for which there was no room. The job
// has failed, by no fault of the program; but when we must go, it is to run again.
func (a *agent) exitOfUnstoredResults(e protocol.Exit, err error) protocol.Exit {
	select {
	case n := <-a.notice:
		a.notice <- n // the loop leaves by it
		return protocol.Exit{Verdict: n.VerdictOnProgram(), Reason: err.Error()}
	default:
	}
	switch e.Verdict {
	case protocol.Interrupted, protocol.AskedToStop, protocol.Halted: // no failure: it goes on from the generation before
		e.Notes = append(e.Notes, "its last outputs were not stored: "+err.Error())
		return e
	}
	e.Verdict, e.Code = protocol.Setup, fault.ExitDrover
	e.Reason, e.Hint = err.Error(), fault.Hint(err)
	e.Notes = append(e.Notes, "its outputs were not stored and are kept in "+a.Root)
	a.keep = true // it may be days of work
	return e
}

// patiently does what needs room in the store, and waits while there is none:
// hours of training are worth some minutes until a person has made room. It
// gives up after Machine.Patience, or when the machine must go.
func (a *agent) patiently(ctx context.Context, do func() error) error {
	clock := a.World.Store.Clock()
	begin := clock.Boot()
	for pause := time.Second; ; pause = min(2*pause, 10*time.Second) {
		err := do()
		if err == nil || fault.KindOf(err) != fault.Full || len(a.notice) > 0 || clock.Boot()-begin+pause > a.Machine.Patience {
			return err
		}
		if pause == time.Second {
			a.LogNote("waiting for room: %v", err)
			a.Heartbeats.ChangeNow(func(b *protocol.Heartbeat) { b.Note = "waiting for room: " + err.Error() })
		}
		select {
		case n := <-a.Machine.Notice:
			a.notice <- n // for the loop, which ends us before it asks for orders
			return err
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
