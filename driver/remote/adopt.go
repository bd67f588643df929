package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// Machine is what a target knows of the machine on which its engine has started a process.
type Machine struct {
	Claimant Claimant
	// Given is what the agent is given. Adopt fills in its Notice and End.
	Given driver.Allocation
	// Signal says what a SIGTERM of the engine to its process means. Nil: the machine goes.
	Signal func() driver.Notice
	// Notices are what the engine announces by other means, until ctx is done. Nil: nothing.
	Notices func(ctx context.Context) <-chan driver.Notice
	// Look is how often orders to stop are read; 0: 30 s.
	Look time.Duration
	// Command changes how the agent is started, such as into a container of the machine. Nil: not at all.
	Command func(Command) (Command, error)
	// Beside runs beside the agent, from before it begins until ctx is done. Nil: nothing does.
	Beside func(ctx context.Context, p *Placement)
	// Leave is the last that the supervisor does, before it exits with the status: its agent has ended, or has never begun. Nil:
	// nothing is done.
	Leave func(code int)
}

// Command is how an agent is started.
type Command struct {
	Argv []string
	// Env are the variables of the agent beyond those of this process: the job's own, and what tells it of its supervisor.
	Env []string
	// Folder is a folder that the agent and its supervisor share, and must find under the same name.
	Folder string
	// Kill ends what signals to the process that Argv starts do not end. Nil: there is nothing.
	Kill func()
}

// supervised is the variable that tells an agent the folder that it shares with its supervisor.
const supervised = "DROVER_SUPERVISED"

// Supervised says whether this process is an agent below its supervisor, before Adopt has been called.
func Supervised() bool {
	_, below := os.LookupEnv(supervised)
	return below
}

// Adopt is the Adopt of a target with Records as its placements. In a process that the engine has
// started it never returns: the process supervises an agent that it starts below itself, and
// exits as the agent did. In the agent, it gives m.Given.
func Adopt(target string, p driver.AgentProcess, m Machine) (*driver.Allocation, error) {
	dir, below := os.LookupEnv(supervised)
	if !below {
		code := superviseProcess(target, p, m)
		if m.Leave != nil {
			m.Leave(code)
		}
		os.Exit(code)
	}
	os.Unsetenv(supervised) // an agent below this process must not take it for its own
	if isPipe(lifeFD) {     // a container's agent has none: its supervisor ends the container
		unix.CloseOnExec(lifeFD)
		go endWithSupervisor(os.NewFile(lifeFD, supervised)) // for as long as the process lives
	}
	a := m.allocation(dir)
	if folder.Exists(noticeFile(dir)) { // asked before it listened
		unix.Kill(os.Getpid(), unix.SIGTERM)
	}
	return a, nil
}

// allocation is what the agent is given; dir is the folder that it shares with its supervisor.
func (m Machine) allocation(dir string) *driver.Allocation {
	a := m.Given
	a.Notice = func() driver.Notice {
		var n driver.Notice
		if folder.ReadJSON(noticeFile(dir), &n) != nil {
			return driver.Notice{Why: "its engine has sent SIGTERM"}
		}
		return n
	}
	a.End = func(code int, reason string) {
		_ = writeFile(wordFile(dir), word{code, reason}) // without it the exit status counts
	}
	return &a
}

// lifeFD is a pipe in an agent; its supervisor has the other end open for as long as it lives.
const lifeFD = 3

// environ is the agent's environment: a variable of Env counts instead of one of this process.
func (c Command) environ() []string {
	own := map[string]bool{}
	for _, v := range c.Env {
		name, _, _ := strings.Cut(v, "=")
		own[name] = true
	}
	return append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return own[name]
	}), c.Env...)
}

func isPipe(fd int) bool {
	var s unix.Stat_t
	return unix.Fstat(fd, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFIFO
}

// endWithSupervisor ends this process with its supervisor: without one nothing would end it in time.
func endWithSupervisor(life *os.File) {
	_, _ = life.Read(make([]byte, 1)) // nothing is ever written
	unix.Kill(-os.Getpid(), unix.SIGKILL)
	unix.Kill(os.Getpid(), unix.SIGKILL)
}

// word is what the agent gave its allocation's End.
type word struct {
	Code   int    `json:"code"`
	Reason string `json:"reason"`
}

func noticeFile(dir string) string { return filepath.Join(dir, "notice") }
func wordFile(dir string) string   { return filepath.Join(dir, "end") }

// writeFile writes a file that appears whole or not at all.
func writeFile(path string, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	return err
}

// superviseProcess is a process of the engine, and gives its exit status.
func superviseProcess(target string, p driver.AgentProcess, m Machine) int {
	code, err := supervise(context.Background(), target, p, m)
	if err != nil && !errors.Is(err, ErrLeave) {
		fmt.Fprintln(os.Stderr, "drover:", err)
		return cmp.Or(max(code, 0), fault.ExitDrover)
	}
	return code
}

func supervise(ctx context.Context, target string, p driver.AgentProcess, m Machine) (code int, err error) {
	path, ok := job.ParsePath(p.Args.Job)
	if !ok {
		return -1, fault.New(fault.Invalid, "", "supervise agent: %.80q is not the path of a job", p.Args.Job)
	}
	s, err := p.Open(ctx, m.Given.Credential)
	if err != nil {
		return -1, err
	}
	placement, err := NewRecords(s, target).OpenNamed(ctx, path.Job, p.Args.Placement)
	if absent(err) {
		return 0, ErrLeave // the placement was removed meanwhile
	} else if err != nil {
		return -1, err
	}
	dir, err := os.MkdirTemp("", "drover-agent-*")
	if err != nil {
		return -1, fault.Wrap(err, fault.Full, "", "supervise agent: make a folder")
	}
	defer os.RemoveAll(dir)
	if m.Beside != nil {
		beside, end := context.WithCancel(ctx)
		defer end()
		go m.Beside(beside, placement)
	}
	sup := Supervisor{Placement: placement, Claimant: m.Claimant, Look: m.Look, Notices: m.notices(ctx),
		Start: func(n int) (Agent, error) { return m.start(p.Args, placement.Request.Env, n, dir) }}
	return sup.Run(ctx)
}

// notices are the engine's announcements and its SIGTERMs.
func (m Machine) notices(ctx context.Context) <-chan driver.Notice {
	all := make(chan driver.Notice)
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, unix.SIGTERM, unix.SIGINT)
	var announced <-chan driver.Notice // a nil channel never gives anything
	if m.Notices != nil {
		announced = m.Notices(ctx)
	}
	go func() { // for as long as the process lives
		for {
			var n driver.Notice
			select {
			case <-terms:
				n.Why = "its engine has asked it to stop"
				if m.Signal != nil {
					n = m.Signal()
				}
			case n = <-announced:
			}
			all <- n
		}
	}()
	return all
}

// processAgent is an agent that is a process below this one.
type processAgent struct {
	pid  int
	life *os.File // lifeFD's other end
	dir  string
	kill func() // as in Command
	exit chan Exit
	tail tail
}

// start starts this program again as agent number n. Its output is this process's too.
func (m Machine) start(args driver.AgentArgs, env []string, n int, dir string) (Agent, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args.Index = n
	c := Command{Argv: args.Argv(self), Env: []string{supervised + "=" + dir}, Folder: dir}
	if m.Command != nil {
		c.Env = append(c.Env, env...)
		if c, err = m.Command(c); err != nil {
			return nil, err
		}
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	life, lives, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer life.Close()
	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, unix.SIGCHLD)
	a := &processAgent{dir: dir, life: lives, kill: c.Kill, exit: make(chan Exit, 1)}
	a.pid, err = folder.Fork(c.Argv[0], c.Argv, c.environ(), null, write, life)
	if err != nil {
		return nil, err
	}
	copied := make(chan struct{})
	go func() { // until all that the agent has started is gone, or this process ends
		_, _ = io.Copy(io.MultiWriter(os.Stderr, &a.tail), read)
		close(copied)
	}()
	go a.await(deaths, copied)
	return a, nil
}

// drainTime is how long the last output of an agent may take that has ended: processes that it
// has left may hold its pipe open.
const drainTime = time.Second

// await reaps processes until the agent has ended. As process 1 of a container, this process gets
// those that have lost their parents too.
func (a *processAgent) await(deaths <-chan os.Signal, copied <-chan struct{}) {
	for {
		if status, gone := folder.Reap(a.pid); gone {
			select {
			case <-copied:
			case <-time.After(drainTime):
			}
			x := Exit{Code: folder.ShellStatus(status), Tail: a.tail.text()}
			var w word
			if folder.ReadJSON(wordFile(a.dir), &w) == nil {
				x.Reason = cmp.Or(w.Reason, folder.Outcome(status))
			}
			a.exit <- x
			return
		}
		<-deaths
	}
}

// Ask writes the notice first: the agent reads it when it has got the signal.
func (a *processAgent) Ask(n driver.Notice) {
	if writeFile(noticeFile(a.dir), n) == nil {
		unix.Kill(a.pid, unix.SIGTERM)
	}
}

// Kill ends the agent's process group. What its program has started ends with the agent.
func (a *processAgent) Kill() {
	if a.kill != nil {
		a.kill()
	}
	unix.Kill(-a.pid, unix.SIGKILL)
}

func (a *processAgent) Exit() <-chan Exit { return a.exit }

// mostTail is how many bytes of an agent's log its end record holds.
const mostTail = 4 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - mostTail; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
