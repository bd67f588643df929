package proc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/wire"
)

// A Spawner runs very many small commands, commands, at a few dozen microseconds
// each where Start costs milliseconds: one supervisor for all of them.
//
//	agent ==socket== spawner -- command -- whatever it forks
//	                        \-- command ...
//
// On Linux that is this same binary, run again, one thread around one epoll. Each
// command is a session and a process group of its own and carries, after the
// spawner's token, a mark of its own in DROVER_TREE. When its program has ended,
// the spawner looks whether it has children that it did not start; orphans become
// its own, since it is process 1 of a PID namespace or the subreaper of its tree, as
// a supervisor is. Those of the command, by session or by mark, are killed before its
// end is reported. What has both left its session and cleared its environment
// belongs to no command: it is killed when the spawner has nothing to run, or closes.
// A command that forges a neighbour's mark can live as long as that neighbour.
//
// Elsewhere a Spawner has the same methods and promises over Start.
type Spawner struct {
	executor executor
	post     *post
}

// SpawnerConfig is what the commands of a spawner have in common.
type SpawnerConfig struct {
	Slots int      // commands at once
	Dir   string   // the working folder of all; "": the caller's
	Env   []string // what the environment of each begins with; nil: the caller's

	// Token marks the spawner's whole tree, for Sweep; see Command.Token.
	Token string

	// Grace is the time from SIGTERM to SIGKILL for a command that is over its
	// time or is killed.
	Grace time.Duration

	// MaxOutput is how many bytes of each stream of each command are forwarded; 0:
	// DefaultMaxOutput. The rest is read and counted, so that no command blocks.
	MaxOutput int64

	View *mount.View // nil: the machine as it is. Dir, Path and PATH are as the commands see them

	subreaper bool // tests: use the subreaper where a namespace could be had
	old       bool // tests: as on a kernel without clone3, pidfds and lists of children
	plain     bool // tests: use what other systems use
}

// DefaultMaxOutput is MaxOutput where none is given.
const DefaultMaxOutput = 64 << 20

// MaxStdin is the most that a command can be given to read.
const MaxStdin = 16 << 20

// Command is one command. It gets default signals, no controlling terminal and no
// open files beyond 0, 1 and 2.
type SpawnCommand struct {
	ID      uint64        // the caller's, unique within the spawner
	Path    string        // absolute, or with a slash and relative to Dir; it is not looked up
	Args    []string      // Args[0] is the program's own name; empty: Path alone
	Env     []string      // added to the spawner's, the last of a key wins
	Stdin   []byte        // nil: /dev/null. It comes as a file in memory, so it never blocks
	Timeout time.Duration // 0: none. It counts from when the program began
	// Memory is for a spawner that gives each command a tree of its own, the limit of this one; 0:
	// as all have. A spawner knows none.
	Memory int64
}

// SpawnedKind is what happened to a command.
type SpawnedKind uint8

// The kinds. Of each command that was sent there is one Ended or one Unstarted, the
// last; before Ended one Began, unless Err is set, and any number of Output.
const (
	SpawnedBegan     SpawnedKind = iota + 1 // its program was started
	SpawnedOutput                           // it wrote something
	SpawnedEnded                            // it ended, and its whole tree is gone
	SpawnedUnstarted                        // it was given back; it never ran and will not
)

// Spawned is one event.
type Spawned struct {
	ID     uint64
	Kind   SpawnedKind
	Stream int    // of Output: 1 or 2
	Data   []byte // of Output: at most 64 KiB. It shares memory with other events: copy what is kept for long

	// Of Ended. What limits would bring is not set.
	Exit Exit
	// Err says why the program could not be run, as Start does; then Exit is of no
	// use. Kind Full: there was no room, and the command can be sent again.
	Err          error
	Began, Ended time.Time // by the wall clock. Began is also set in SpawnedBegan
	Stopped      bool      // Kill reached it before it had ended: how it did says nothing of it
	Output       [2]int64  // bytes written to each stream in all, forwarded or not
}

// ErrSpawnerLost: the spawner was killed, or killed itself. All its trees are
// gone; of the commands without a reported end it is not known what they did.
var ErrSpawnerLost = errors.New("run commands: their spawner is gone")

// executor is what runs the commands. No method waits for a command.
type executor interface {
	send([]SpawnCommand) error
	until(boot time.Duration) // a reading of bootTime
	drop()
	kill(sig syscall.Signal, ids []uint64)
	close() // returns when all is gone
}

// OpenSpawner starts a spawner. ctx bounds the opening alone. Nothing begins
// before the first Until. The caller reads Events until it is closed.
func OpenSpawner(ctx context.Context, c SpawnerConfig) (*Spawner, error) {
	if !mainCalled.Load() {
		return nil, fault.New(fault.Bug, "Call proc.Main first in main, or in TestMain.", "start a spawner: proc.Main was not called")
	}
	if c.Slots < 1 {
		return nil, fault.New(fault.Invalid, "", "start a spawner: %d slots: want 1 or more", c.Slots)
	}
	if c.MaxOutput == 0 {
		c.MaxOutput = DefaultMaxOutput
	}
	p := newPost()
	open := openExecutor
	if c.plain {
		open = openPlain
	}
	x, err := open(ctx, c, p)
	if err != nil {
		return nil, err
	}
	return &Spawner{executor: x, post: p}, nil
}

// spawnerName stands for the program in errors.
const spawnerName = "a spawner"

// buildOrder checks a configuration and says it in the supervisor's terms.
func (c SpawnerConfig) buildOrder() (o wire.Order, err error) {
	o.Path = []byte(spawnerName)
	o.Spawner = &wire.SpawnerOrder{Slots: c.Slots, Grace: c.Grace, MaxOutput: c.MaxOutput, Old: c.old}
	if o.Token = c.Token; o.Token == "" {
		o.Token = rand.Text()
	} else if !process.IsToken(o.Token) {
		return o, fault.New(fault.Invalid, "", "start a spawner: token %q: want 1 to 64 of A-Z a-z 0-9 _ -", c.Token)
	}
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	o.Mark = o.Token
	if outer := os.Getenv(process.Mark); outer != "" {
		o.Mark = outer + ":" + o.Token
	}
	o.Env = environ(env, o.Mark)
	if o.Layout, err = c.View.Resolve(spawnerName); err != nil {
		return o, err
	}
	dir := c.Dir
	if !filepath.IsAbs(dir) { // below another root no process is in the caller's folder
		here, err := os.Getwd()
		if err != nil {
			return o, fmt.Errorf("start a spawner: find the working folder: %w", err)
		}
		dir = filepath.Join(here, dir)
	}
	o.Dir = []byte(dir)
	return o, nil
}

// Send queues commands; they begin in this order. It does not wait for one to end
// or to begin: the caller bounds how many are on their way. A command that cannot
// be meant is a fault of kind Invalid, and then none of them is queued. When the
// spawner is gone it is ErrSpawnerLost.
func (s *Spawner) Send(commands ...SpawnCommand) error {
	for i := range commands {
		if err := commands[i].checkCommand(); err != nil {
			return err
		}
	}
	return s.executor.send(commands)
}

// Until lets commands begin for d from this call, and no longer, however long the
// caller is stopped or the machine asleep; it also wakes a spawner that one of its
// commands has stopped. A later call counts alone: it may shorten.
func (s *Spawner) Until(d time.Duration) { s.executor.until(bootTime() + d) }

// Drop gives back, as Unstarted, the commands that have not begun.
func (s *Spawner) Drop() { s.executor.drop() }

// Kill ends commands. With SIGTERM their groups get that, and after the grace their trees
// SIGKILL. Another signal is sent to the groups, as a terminal does, and nothing follows.
// A command that has not begun is given back. Others and unknown ids are no matter.
func (s *Spawner) Kill(sig syscall.Signal, ids ...uint64) { s.executor.kill(sig, ids) }

// Events gives what happened, in the order in which it happened to each command.
// It is closed when the spawner is gone and all was read. Not reading slows the
// commands down and no call: their programs block as on any full pipe, and no more
// of them begin.
func (s *Spawner) Events() <-chan []Spawned { return s.post.events }

// Err is valid after Events was closed: nil after Close, or ErrSpawnerLost.
func (s *Spawner) Err() error {
	s.post.mu.Lock()
	defer s.post.mu.Unlock()
	return s.post.err
}

// Close gives back what has not begun, kills the rest at once, and returns when
// the whole tree is gone. Their last events can still be read. It may be called
// twice, and by the reader of Events.
func (s *Spawner) Close() { s.executor.close() }

func (e *SpawnCommand) checkCommand() error {
	refuse := func(why string) error {
		return fault.New(fault.Invalid, "", "start %s: %s", e.Path, why)
	}
	if !strings.Contains(e.Path, "/") {
		return fault.New(fault.Invalid, "", "start %q: want a path with a slash", e.Path)
	}
	if len(e.Stdin) > MaxStdin {
		return refuse("its standard input is over 16 MiB")
	}
	if strings.IndexByte(e.Path, 0) >= 0 {
		return refuse("its path holds a zero byte")
	}
	for _, list := range [][]string{e.Args, e.Env} {
		for _, text := range list {
			if strings.IndexByte(text, 0) >= 0 {
				return refuse("an argument or variable holds a zero byte")
			}
		}
	}
	return nil
}

// piece is how much output is read at once: as much as a pipe holds, and an event.
const piece = 64 << 10

// post brings events to their reader. While the spawner lives a slow reader slows
// it; once it is closing nothing waits for the reader, so that Close cannot.
type post struct {
	events  chan []Spawned
	closing chan struct{}
	once    sync.Once

	order sync.Mutex // held while delivering
	late  [][]Spawned

	mu  sync.Mutex
	err error
}

func newPost() *post {
	return &post{events: make(chan []Spawned, 4), closing: make(chan struct{})}
}

// stopWaiting is said by close: from now on keep what is not read at once.
func (p *post) stopWaiting() { p.once.Do(func() { close(p.closing) }) }

func (p *post) deliverBatch(batch []Spawned) {
	if len(batch) == 0 {
		return
	}
	p.order.Lock()
	defer p.order.Unlock()
	if len(p.late) == 0 {
		select {
		case p.events <- batch:
			return
		case <-p.closing:
		}
	}
	p.late = append(p.late, batch)
}

// deliverLast brings what is late, and closes. It waits for the reader.
func (p *post) deliverLast(err error) {
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	for _, batch := range p.late {
		p.events <- batch
	}
	close(p.events)
}

// ended makes an Exit of a wait status.
func ended(ws syscall.WaitStatus) (e Exit) {
	e.setWaitStatus(ws)
	return e
}
