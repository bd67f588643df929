package maprunner

import (
	"fmt"
	"strconv"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
)

// tryResult says how a try ended. Of a success with declared outputs the uploaders have
// the last word.
func (a *attempts) tryResult(t *try, e *proc.Spawned, said *recorder.Excerpt) protocol.Result {
	r := protocol.Result{Item: t.Item, Ended: e.Ended.UnixMicro(), Wall: e.Ended.Sub(e.Began).Microseconds(),
		CPU: (e.Exit.User + e.Exit.System).Microseconds(), MaxRSS: e.Exit.MaxRSS,
		Head: said.Head, Tail: said.Tail, Size: e.Output[0]}
	if e.Err != nil {
		r.Failed, r.Code, r.Why = true, fault.Exit(e.Err), a.Redact.String(recorder.OneLine(e.Err.Error()))
		r.Ended, r.Wall = a.clock.Now().UnixMicro(), 0
		return r
	}
	x := e.Exit
	r.Code = x.Status()
	if r.Failed = r.Code != 0 || x.TimedOut; !r.Failed {
		return r
	}
	if x.Signal != 0 {
		r.Signal = signalName(x.Signal)
	}
	switch {
	case x.TimedOut:
		r.Code, r.Kind, r.Why = fault.ExitTimeLimit, job.FailTime, "timed out after "+job.Duration(t.timeout).String()
	case x.OOM:
		r.Signal, r.Kind, r.Why = "", job.FailMemory, fmt.Sprintf("out of memory: %s limit", a.memoryOfTry(t).Words())
		if most := job.Bytes(a.prepared.Memory); a.order.Step > 1 && most > 0 && a.memoryOfTry(t) >= most {
			r.Why += ", which is all that is reserved here"
		}
	case x.Crowd:
		r.Signal, r.Why = "", fmt.Sprintf("too many processes: limit of %d", a.openedFor.limits.Processes)
	case x.Lost:
		r.Code, r.Why = killed, "killed from outside, or out of memory"
	default:
		r.Why, r.Final = said.Last, said.Final
	}
	return r
}

var signalNames = map[syscall.Signal]string{syscall.SIGKILL: "SIGKILL", syscall.SIGTERM: "SIGTERM", syscall.SIGSEGV: "SIGSEGV",
	syscall.SIGINT: "SIGINT", syscall.SIGABRT: "SIGABRT", syscall.SIGHUP: "SIGHUP", syscall.SIGBUS: "SIGBUS",
	syscall.SIGFPE: "SIGFPE", syscall.SIGILL: "SIGILL", syscall.SIGPIPE: "SIGPIPE", syscall.SIGQUIT: "SIGQUIT"}

func signalName(s syscall.Signal) string {
	if n, ok := signalNames[s]; ok {
		return n
	}
	return "signal " + strconv.Itoa(int(s))
}

// pace says how many tries a group is sent at once: of short ones so many that it
// never waits for the loop, of others as many as it has slots, for what waits in a
// runner cannot be handed to another agent.
type pace struct {
	wall time.Duration // of a try, lately; 0: none has ended
}

const (
	shortTry   = 50 * time.Millisecond
	fastWindow = 128 // at 8,000 tries a second it lasts longer than a sync of the disk
)

func (p *pace) noteWallTime(wall time.Duration) {
	wall = max(wall, time.Microsecond)
	if p.wall == 0 {
		p.wall = wall
		return
	}
	p.wall += (wall - p.wall) / 16
}

// noteSlowTries is said when tries turned out not to be short.
func (p *pace) noteSlowTries() { p.wall = max(p.wall, shortTry) }

// streamWindow is window for programs that stay: what waits for them is given to them many
// at a time.
func (p *pace) streamWindow(slots int) int {
	if p.wall > 0 && p.wall < shortTry {
		return max(aheadLeast, min(aheadMost, int(time.Duration(slots)*aheadTime/p.wall)))
	}
	return 2 * slots
}

// aheadTime is several times the longest batch that a program is given (stream's
// patientTime), so that no slot waits while others are asked for.
const (
	aheadTime  = 250 * time.Millisecond
	aheadLeast = 128
	aheadMost  = 8192
)

// risk is how many tries of programs that stay may be unrecorded: as many as end
// while the store is written to.
func risk(s job.Spec) int {
	if s.Stream {
		return 2 * aheadMost
	}
	return 0
}

func (p *pace) processWindow(slots int) int {
	if p.wall > 0 && p.wall < shortTry {
		return max(fastWindow, 4*slots)
	}
	return slots
}
