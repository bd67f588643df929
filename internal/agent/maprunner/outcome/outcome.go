// Package outcome says in an item's result how one try of it ended. It refuses to know what
// follows from that. Proved by the tests of package maprunner.
package outcome

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

// Killed is what a shell says of a program that SIGKILL ended.
const Killed = 137

// Try is what is known of a try beside how its process ended. The functions are called where they
// are needed alone.
type Try struct {
	Item      int
	Timeout   time.Duration
	Memory    func() (limit job.Bytes, most bool) // most: it is all that is reserved here
	Processes func() int                          // the most that it may have
	Redact    func(string) string
	Now       func() time.Time
}

// ResultOf says how a try ended. Of a success with declared outputs the uploaders have the last
// word.
func ResultOf(t Try, e *proc.Spawned, said *recorder.Excerpt) protocol.Result {
	r := protocol.Result{Item: t.Item, Ended: e.Ended.UnixMicro(), Wall: e.Ended.Sub(e.Began).Microseconds(),
		CPU: (e.Exit.User + e.Exit.System).Microseconds(), MaxRSS: e.Exit.MaxRSS,
		Head: said.Head, Tail: said.Tail, Size: e.Output[0]}
	if e.Err != nil {
		r.Failed, r.Code, r.Why = true, fault.Exit(e.Err), t.Redact(recorder.OneLine(e.Err.Error()))
		r.Ended, r.Wall = t.Now().UnixMicro(), 0
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
		r.Code, r.Kind, r.Why = fault.ExitTimeLimit, job.FailTime, "timed out after "+job.Duration(t.Timeout).String()
	case x.OOM:
		limit, most := t.Memory()
		r.Signal, r.Kind, r.Why = "", job.FailMemory, fmt.Sprintf("out of memory: %s limit", limit.Words())
		if most {
			r.Why += ", which is all that is reserved here"
		}
	case x.Crowd:
		r.Signal, r.Why = "", fmt.Sprintf("too many processes: limit of %d", t.Processes())
	case x.Lost:
		r.Code, r.Why = Killed, "killed from outside, or out of memory"
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
