package pod

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// look is how often process 1 reads the order of a Stop.
const look = time.Second

// supervise is process 1 of the agent's container. Its exit status is what Kubernetes goes by:
// after a Stop it is 0, so that nothing is started in the agent's place; else it is the agent's.
func supervise(p paths, grace time.Duration) int {
	var o Order
	if err := folder.ReadJSON(p.order(), &o); err != nil {
		return p.leave(Message{Code: -1, Reason: "its agent never started: " + err.Error()}, fault.ExitDrover)
	}
	number, err := ownNumber(o.Agents)
	if err != nil {
		return p.leave(Message{Code: -1, Reason: "its agent never started: " + err.Error()}, fault.ExitDrover)
	}
	log := &tailLog{out: os.Stdout}
	status, begun, err := folder.Supervisor{
		Begin: func() (int, error) { return p.begin(o, number, log) },
		Order: func() (time.Duration, bool) { return folder.ReadWord(p.stop()) },
		Look:  look,
		Warned: func() {
			_ = folder.WriteJSON(p.warning(), time.Now().Add(grace)) // without it the agent is told no time
		},
		Up:   func() bool { return p.readNotes().Up },
		Kill: killBelow,
	}.Attend()
	_, stopped := folder.ReadWord(p.stop())
	switch {
	case err != nil:
		return p.leave(Message{Code: -1, Reason: "its agent never started: " + err.Error(), Stopped: stopped}, fault.ExitDrover)
	case !begun:
		return p.leave(Message{Code: -1, Reason: "stopped before it began", Stopped: true, Unbegun: true}, 0)
	}
	m := Message{Code: folder.ShellStatus(status), Reason: folder.Outcome(status), Stopped: stopped, Warned: folder.Exists(p.warning())}
	if n := p.readNotes(); n.End != nil {
		m.Code = n.End.Code
		if n.End.Reason != "" {
			m.Reason = n.End.Reason
		}
	} else if status.Signaled() {
		m.Lost = !stopped
	}
	if m.Code != 0 || m.Lost {
		m.Tail = log.tail()
	}
	if stopped {
		return p.leave(m, 0)
	}
	return p.leave(m, folder.ShellStatus(status))
}

// leave writes the message and gives back the status.
func (p paths) leave(m Message, status int) int {
	text, err := json.Marshal(m)
	if err == nil {
		err = os.WriteFile(p.message, text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "drover: leave how the agent ended:", err)
	}
	return status
}

// killBelow ends all processes of the container but process 1.
func killBelow(agent int) {
	if os.Getpid() == 1 {
		unix.Kill(-1, unix.SIGKILL)
		return
	}
	unix.Kill(-agent, unix.SIGKILL) // not in a container of its own: the agent's session
}

// ownNumber is the number of this pod's agent.
func ownNumber(agents int) (int, error) {
	index, err := strconv.Atoi(os.Getenv(Index))
	if err != nil || agents < 1 {
		return 0, fmt.Errorf("the pod has no index among %d", agents)
	}
	attempt := 0
	for _, name := range []string{Failed, Ignored} {
		n, _ := strconv.Atoi(os.Getenv(name)) // empty: none
		attempt += n
	}
	return Number(index, agents, attempt), nil
}

// begin starts the agent. Its output goes to the container's, and the end of it is kept.
func (p paths) begin(o Order, number int, log *tailLog) (pid int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return name == Role || slices.ContainsFunc(o.Env, func(own string) bool { return strings.HasPrefix(own, name+"=") })
	})
	env = append(append(env, o.Env...), Role+"="+Agent)
	argv := driver.AgentArgs{Store: o.Store, Job: o.Job, Placement: o.Placement, Index: number}.Argv(self)
	out, in, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	go log.copy(out)
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	return folder.Fork(self, argv, env, null, in)
}

// tailLog passes output on and keeps its end.
type tailLog struct {
	out io.Writer

	mu  sync.Mutex
	end []byte
}

// copy reads until the last process with the other end has closed it.
func (l *tailLog) copy(r *os.File) {
	defer r.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		_, _ = l.out.Write(buf[:n]) // the container's output may be lost; the agent goes on
		l.mu.Lock()
		l.end = append(l.end, buf[:n]...)
		l.end = l.end[max(0, len(l.end)-mostTail):]
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// tail is the end of what was read, in whole lines. What the agent wrote last may still be in the
// pipe, which is read for a moment longer.
func (l *tailLog) tail() string {
	time.Sleep(50 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.end
	if len(text) == mostTail {
		if i := strings.IndexByte(string(text), '\n'); i >= 0 {
			text = text[i+1:]
		}
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}
