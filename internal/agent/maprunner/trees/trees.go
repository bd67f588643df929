// Package trees runs commands as a proc.Spawner does, but each in a process tree of its
// own, with limits and GPUs: some milliseconds of work for each.
//
// It refuses to know items and what commands are for. Proved by its test, and by those of
// package maprunner: items with limits run here.
package trees

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/resource"
	"github.com/drover-run/drover/store"
)

// Config is what the commands of an Executor have in common.
type Config struct {
	Slots  int
	Dir    string
	Env    []string
	Token  string // and "-" and the slot's number, of each command's tree
	Grace  time.Duration
	Limits resource.Limits // of each command's tree
	Memory int64           // memory that their limits may come to together; 0: not known
	// Environ is what a command is told of its slot.
	Environ   func(slot int) []string
	MaxOutput int64 // bytes of each stream that are passed on
}

// Executor runs commands. Its methods keep what those of proc.Spawner promise.
type Executor struct {
	Config
	ctx    context.Context
	events chan []proc.Spawned
	runs   sync.WaitGroup

	mu      sync.Mutex
	queue   []proc.SpawnCommand
	free    []int // slots
	until   time.Duration
	used    int64                    // of room
	running map[uint64]*proc.Process // nil while it starts
	doomed  map[uint64]bool          // of these, that are ended, as soon as they have begun
	closed  bool
}

// New makes an Executor; Close ends it.
func New(ctx context.Context, c Config) *Executor {
	m := &Executor{Config: c, ctx: ctx, events: make(chan []proc.Spawned, 4), running: map[uint64]*proc.Process{}, doomed: map[uint64]bool{}}
	for slot := c.Slots - 1; slot >= 0; slot-- {
		m.free = append(m.free, slot)
	}
	return m
}

// Send queues commands.
func (m *Executor) Send(commands ...proc.SpawnCommand) error {
	m.mu.Lock()
	m.queue = append(m.queue, commands...)
	m.mu.Unlock()
	m.startQueued()
	return nil
}

// Until lets them begin for d.
func (m *Executor) Until(d time.Duration) {
	m.mu.Lock()
	m.until = store.System.Boot() + d
	m.mu.Unlock()
	m.startQueued()
}

// startQueued begins commands in free slots. The goroutine of each ends with its tree.
func (m *Executor) startQueued() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.queue) > 0 && len(m.free) > 0 && !m.closed && store.System.Boot() < m.until && m.memorySuffices(m.queue[0]) {
		e, slot := m.queue[0], m.free[len(m.free)-1]
		m.used += m.commandMemory(e)
		m.queue, m.free = m.queue[1:], m.free[:len(m.free)-1]
		m.running[e.ID] = nil
		m.runs.Go(func() { m.runCommand(e, slot) })
	}
}

// commandMemory is the limit of a command.
func (m *Executor) commandMemory(e proc.SpawnCommand) int64 {
	if e.Memory > 0 {
		return e.Memory
	}
	return m.Limits.Memory
}

// memorySuffices says whether there is memory for a command beside those that run. One that
// needs more than there is for all of them runs alone.
func (m *Executor) memorySuffices(e proc.SpawnCommand) bool {
	return m.used == 0 || m.Memory == 0 || m.used+m.commandMemory(e) <= m.Memory
}

// Drop gives back what has not begun.
func (m *Executor) Drop() {
	m.mu.Lock()
	queue := m.queue
	m.queue = nil
	m.mu.Unlock()
	var batch []proc.Spawned
	for _, e := range queue {
		batch = append(batch, proc.Spawned{ID: e.ID, Kind: proc.SpawnedUnstarted})
	}
	m.postReports(batch)
}

// postReports is not waited for by the loop, which takes the reports in the end.
func (m *Executor) postReports(batch []proc.Spawned) {
	if len(batch) > 0 {
		m.runs.Go(func() { m.events <- batch })
	}
}

// Kill ends commands.
func (m *Executor) Kill(sig syscall.Signal, ids ...uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var batch []proc.Spawned
	for _, id := range ids {
		p, begun := m.running[id]
		if begun {
			m.doomed[id] = true
		}
		if p != nil && sig == syscall.SIGTERM {
			p.Stop(m.Grace)
		} else if p != nil {
			p.Interrupt(sig)
		}
		for i, e := range m.queue {
			if e.ID == id {
				m.queue = append(m.queue[:i:i], m.queue[i+1:]...)
				batch = append(batch, proc.Spawned{ID: id, Kind: proc.SpawnedUnstarted})
				break
			}
		}
	}
	m.postReports(batch)
}

// Events gives what happened; Close closes it.
func (m *Executor) Events() <-chan []proc.Spawned { return m.events }

// Close ends all that runs, waits until it is gone, and closes Events, which has to
// be read meanwhile.
func (m *Executor) Close() {
	m.Drop()
	m.mu.Lock()
	again := m.closed
	m.closed = true
	for id, p := range m.running {
		if m.doomed[id] = true; p != nil {
			p.Kill()
		}
	}
	m.mu.Unlock()
	m.runs.Wait()
	if !again {
		close(m.events)
	}
}

// runCommand runs one command in a slot, from its start to its end.
func (m *Executor) runCommand(e proc.SpawnCommand, slot int) {
	end := proc.Spawned{ID: e.ID, Kind: proc.SpawnedEnded, Began: time.Now()}
	err := m.startProgram(&e, slot, &end)
	if err != nil {
		end.Err = err
	}
	end.Ended = time.Now()
	m.mu.Lock()
	end.Stopped = m.doomed[e.ID] && (end.Exit.Stopped || end.Exit.Lost)
	delete(m.running, e.ID)
	delete(m.doomed, e.ID)
	m.free = append(m.free, slot)
	m.used -= m.commandMemory(e)
	m.mu.Unlock()
	m.events <- []proc.Spawned{end}
	m.startQueued()
}

// startProgram runs the program, and waits for its tree and all that it says.
func (m *Executor) startProgram(e *proc.SpawnCommand, slot int, end *proc.Spawned) error {
	env := append(append([]string{}, m.Env...), e.Env...)
	env = append(env, m.Environ(slot)...)
	c := proc.Command{Path: e.Path, Args: e.Args, Dir: m.Dir, Env: env, Token: fmt.Sprintf("%s-%d", m.Token, slot), Limits: m.Limits}
	c.Limits.Memory = m.commandMemory(*e)
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	var out [2]*os.File
	for i, w := range []**os.File{&c.Stdout, &c.Stderr} {
		r, theirs, err := os.Pipe()
		if err != nil {
			return fault.Wrap(err, fault.Full, "Close some programs, or raise `ulimit -n`.", "start program")
		}
		out[i], *w = r, theirs
		files = append(files, r, theirs)
	}
	if e.Stdin != nil {
		f, err := spooled(e.Stdin)
		if err != nil {
			return err
		}
		c.Stdin = f
		files = append(files, f)
	}
	p, err := proc.Start(m.ctx, c)
	if err != nil {
		return err
	}
	c.Stdout.Close()
	c.Stderr.Close()
	m.reportBegan(e.ID, p)
	m.events <- []proc.Spawned{{ID: e.ID, Kind: proc.SpawnedBegan, Began: end.Began}}
	m.readUntilGone(e, p, out, end)
	return nil
}

func (m *Executor) reportBegan(id uint64, p *proc.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running[id] = p
	switch {
	case m.closed:
		p.Kill()
	case m.doomed[id]:
		p.Stop(m.Grace)
	}
}

// readUntilGone reads what a tree says until it is gone.
func (m *Executor) readUntilGone(e *proc.SpawnCommand, p *proc.Process, out [2]*os.File, end *proc.Spawned) {
	var late *time.Timer
	fired := make(chan struct{})
	if e.Timeout > 0 {
		late = time.AfterFunc(e.Timeout, func() {
			close(fired)
			p.Stop(m.Grace)
		})
	}
	var pumps sync.WaitGroup
	for i, r := range out {
		pumps.Go(func() { end.Output[i] = m.forwardStream(e.ID, i+1, r, p.Done()) })
	}
	x := p.Wait()
	if late != nil && !late.Stop() {
		<-fired
		x.TimedOut = true
	}
	for _, r := range out {
		_ = r.SetReadDeadline(time.Now()) // wakes a pump, which reads on
	}
	pumps.Wait()
	end.Exit = x
}

// A pipe holds no more than that, and what is in it is read at once.
const (
	pipeRest = 1 << 20
	pipeWait = 100 * time.Millisecond
)

// forwardStream forwards a stream until it ends, or its tree is gone and what it left is
// read: a process outside the tree may hold the other end.
func (m *Executor) forwardStream(id uint64, stream int, r *os.File, gone <-chan struct{}) (total int64) {
	for rest := int64(pipeRest); rest > 0; {
		b := make([]byte, 64<<10)
		over := false
		select {
		case <-gone:
			over = true
			_ = r.SetReadDeadline(time.Now().Add(pipeWait))
		default:
		}
		n, err := r.Read(b)
		if total += int64(n); over {
			rest -= int64(n)
		}
		if keep := min(int64(n), max(0, m.MaxOutput-(total-int64(n)))); keep > 0 {
			m.events <- []proc.Spawned{{ID: id, Kind: proc.SpawnedOutput, Stream: stream, Data: b[:keep]}}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !over {
			continue // woken: what is left is read
		}
		if err != nil {
			return total
		}
	}
	return total
}

// spooled is a file with what a command is to read; no other process finds it.
func spooled(b []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "drover-stdin-*")
	if err != nil {
		return nil, fault.Wrap(err, fault.Full, "Free some space in TMPDIR.", "start program")
	}
	_ = os.Remove(f.Name())
	if _, err = f.Write(b); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fault.Wrap(err, fault.Full, "Free some space in TMPDIR.", "start program")
	}
	return f, nil
}
