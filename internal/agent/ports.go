package agent

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// The port of an attempt is kept from others by a bound socket until the program
// starts. The program binds it later, when it has imported what it needs, and the
// kernel has no way to hand a port over to a program that knows nothing of it: until
// then any user of the machine may take it, and would be sent what the nodes tell each
// other. So the agent looks which process listens there until a process of its own user does. If
// it is another user's, the agent kills its program at once and the attempt ends as
// interrupted, which counts against no program; the next attempt has another port.

// How often the agent looks. At first often: another user that wants the port takes it as
// soon as it is free, and nodes may connect some tenths of a second later.
const (
	portLookFirst = 20 * time.Millisecond // for the first portFirst
	portFirst     = 30 * time.Second      // most programs listen by then
	portLookLater = time.Second
)

// portWatch looks which process listens on ports that the program was told of. A nil one looks at
// nothing.
type portWatch struct {
	taken chan struct{} // closed when another user listens on one; read why then

	listeners func(port int) ([]node.Listener, error)
	holds     func(socket uint64) bool // the program's tree has that socket
	quit      context.CancelFunc
	gone      chan struct{}

	mu    sync.Mutex
	ports []int // where no listener of this user was seen yet
	why   string
}

// watchPorts begins to look, until finish is called; nil where there is nothing to see.
func (a *agent) watchPorts(o runagent.Order, p *program) *portWatch {
	ports := a.meeting.meetingPorts(o)
	if len(ports) == 0 || a.Machine.Listeners == nil {
		return nil
	}
	ctx, quit := context.WithCancel(context.Background())
	w := &portWatch{taken: make(chan struct{}), listeners: a.Machine.Listeners, holds: p.proc.HoldsSocket, quit: quit, gone: make(chan struct{}), ports: ports}
	go func() { // ends with finish, which waits
		defer close(w.gone)
		for began, pause := time.Now(), portLookFirst; ; {
			if why := w.checkPorts(); why != "" {
				close(w.taken)
				return
			}
			if w.programListens() || store.System.Sleep(ctx, pause) != nil {
				return
			}
			if time.Since(began) > portFirst {
				pause = portLookLater
			}
		}
	}()
	return w
}

// meetingPorts lists the ports of this machine that programs of the attempt may meet at: that
// of node 0, where all are told to meet, if this node shares its network; and its own,
// where a launcher, or a program that makes its own way, is told each node's.
func (r *rendezvous) meetingPorts(o runagent.Order) (ports []int) {
	spec := r.Job.Spec
	if len(o.Joins) == 1 && spec.Launcher == job.Alone {
		return nil // such a program is told of none
	}
	first, own := o.Joins[0], o.Joins[o.Rank]
	if o.Rank == 0 || own.Stack != "" && own.Stack == first.Stack {
		ports = append(ports, first.Port)
	}
	if o.Rank > 0 && (spec.Launcher == job.Alone || spec.Launcher == job.TF) {
		ports = append(ports, own.Port)
	}
	return slices.DeleteFunc(ports, func(port int) bool { return port == 0 })
}

// checkPorts looks once. It returns why the attempt cannot go on, now or from an earlier look;
// "": it can.
func (w *portWatch) checkPorts() (why string) {
	if w == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why != "" {
		return w.why
	}
	w.ports = slices.DeleteFunc(w.ports, func(port int) bool {
		all, err := w.listeners(port)
		if err != nil {
			return true // it cannot be seen here
		}
		for _, l := range all {
			if l.UID != os.Geteuid() && !w.holds(l.Socket) { // a program of root's may have become another user
				w.why = fmt.Sprintf("user %d of this machine listens on port %d, where the nodes were to meet", l.UID, port)
				return false
			}
		}
		return len(all) > 0
	})
	return w.why
}

// programListens says that there is nothing more to see: the program itself listens.
func (w *portWatch) programListens() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ports) == 0
}

// stopWatching ends the watch. It may be called twice.
func (w *portWatch) stopWatching() {
	if w != nil {
		w.quit()
		<-w.gone
	}
}

// portIsTaken is closed when another user has taken a port that the program was told of.
// A nil program's is never closed.
func (p *program) portIsTaken() <-chan struct{} {
	if p == nil || p.ports == nil {
		return nil
	}
	return p.ports.taken
}

// leavePort ends the program, without grace: what it saves it could have been told by
// another user. The agent stays, for the next attempt.
func (a *agent) leavePort(ctx context.Context) error {
	p := a.program
	p.proc.Kill()
	<-p.ended
	return a.recordExit(ctx, a.exits.programExit(p))
}

// notBlamed is the exit of a program that failed, or was ended, while another user had
// its port: no fault of its own.
func (p *program) notBlamed(e protocol.Exit) protocol.Exit {
	if e.Verdict != protocol.Broke && e.Verdict != protocol.Halted {
		return e
	}
	if why := p.ports.checkPorts(); why != "" {
		e.Verdict, e.Reason, e.Hint, e.Trace = protocol.Interrupted, why, "", ""
	}
	return e
}
