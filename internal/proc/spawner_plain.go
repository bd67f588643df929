package proc

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/internal/proc/wire"
)

// plain runs commands with a supervisor for each, as Start does: a hundred times as
// slow as minded, and for any system.
type plain struct {
	config SpawnerConfig
	order  wire.Order // what all have in common
	post   *post

	mu            sync.Mutex
	queue         []SpawnCommand
	running       map[uint64]*plainItem
	startDeadline time.Duration
	closing       bool
	all           sync.WaitGroup // of what is running
	gone          chan struct{}  // closed once nothing runs after a close
}

var _ executor = (*plain)(nil)

// plainItem is a command that was taken from the queue.
type plainItem struct {
	process  *Process // nil: it is just being started
	ask, end bool     // it is to be stopped, or killed, once it is
	timedOut bool
	stopped  bool // by kill
}

func openPlain(ctx context.Context, c SpawnerConfig, p *post) (executor, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start a spawner: %w", context.Cause(ctx))
	}
	o, err := c.buildOrder()
	if err != nil {
		return nil, err
	}
	if st, err := os.Stat(o.Layout.MachinePath(string(o.Dir))); err != nil || !st.IsDir() {
		errno := syscall.ENOTDIR
		if err != nil {
			errno = syscall.ENOENT
		}
		return nil, explain(o, wire.StepFolder, errno)
	}
	return &plain{config: c, order: o, post: p, running: map[uint64]*plainItem{}, gone: make(chan struct{})}, nil
}

func (p *plain) send(commands []SpawnCommand) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return ErrSpawnerLost
	}
	p.queue = append(p.queue, commands...)
	p.startCommands()
	return nil
}

// startCommands begins what may begin. The caller holds mu.
func (p *plain) startCommands() {
	for len(p.queue) > 0 && !p.closing && len(p.running) < p.config.Slots && bootTime() < p.startDeadline {
		e, it := p.queue[0], &plainItem{}
		p.queue = p.queue[1:]
		p.running[e.ID] = it
		p.all.Go(func() { // ends with the command; close waits for it
			p.runCommand(&e, it)
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.running, e.ID)
			p.startCommands()
		})
	}
}

func (p *plain) runCommand(e *SpawnCommand, it *plainItem) {
	end := Spawned{ID: e.ID, Kind: SpawnedEnded, Began: time.Now()}
	if end.Err = p.runAttempt(e, it, &end); end.Err != nil {
		end.Exit = Exit{Code: -1}
		end.Ended = time.Now()
	}
	p.mu.Lock()
	end.Exit.TimedOut, end.Stopped = it.timedOut, it.stopped && (end.Exit.Stopped || end.Exit.Lost)
	p.mu.Unlock()
	p.post.deliverBatch([]Spawned{end})
}

// runAttempt runs e to its end. An error means that it never ran.
func (p *plain) runAttempt(e *SpawnCommand, it *plainItem, end *Spawned) error {
	var ours, theirs [2]*os.File
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			return noRoom(e.Path, err)
		}
		defer r.Close()
		defer w.Close()
		ours[i], theirs[i] = r, w
	}
	stdin, err := stdinFile(e.Stdin)
	if err != nil {
		return noRoom(e.Path, err)
	}
	if stdin != nil {
		defer stdin.Close()
	}
	process, err := p.startTree(e, stdin, theirs)
	if err != nil {
		return err
	}
	for _, w := range theirs {
		w.Close()
	}
	p.post.deliverBatch([]Spawned{{ID: e.ID, Kind: SpawnedBegan, Began: end.Began}})
	defer p.noteLaunched(e, it, process)()
	var reading sync.WaitGroup
	for i, r := range ours {
		reading.Go(func() { end.Output[i] = p.forwardOutput(e.ID, i+1, r) }) // ends with the pipe; waited for below
	}
	end.Exit = process.Wait()
	end.Ended = time.Now()
	for _, r := range ours {
		_ = r.SetReadDeadline(end.Ended.Add(lastWords)) // a stranger that was handed the pipe does not keep us
	}
	reading.Wait()
	return nil
}

// lastWords is the time to read what the pipes of a tree hold that is gone.
const lastWords = 5 * time.Second

// stdinFile is a file without a name that holds b; nil for none.
func stdinFile(b []byte) (*os.File, error) {
	if b == nil {
		return nil, nil
	}
	f, err := os.CreateTemp("", "drover-stdin-")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	if _, err = f.Write(b); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// startTree starts e's tree, with a token of its own behind those of the spawner.
func (p *plain) startTree(e *SpawnCommand, stdin *os.File, out [2]*os.File) (*Process, error) {
	env := make([]string, 0, len(p.order.Env)+len(e.Env))
	for _, kv := range p.order.Env {
		env = append(env, string(kv))
	}
	c := Command{
		Path: e.Path, Args: e.Args, Dir: string(p.order.Dir), Env: append(env, e.Env...),
		Stdin: stdin, Stdout: out[0], Stderr: out[1], View: p.config.View, subreaper: p.config.subreaper,
	}
	o, err := c.buildOrder()
	if err != nil {
		return nil, err
	}
	o.Mark = p.order.Mark + ":" + p.order.Token + "." + strconv.FormatUint(e.ID, 10) + ":" + o.Token
	o.Env = environ(c.Env, o.Mark)
	return c.startFirstWay(context.Background(), o, nil)
}

// noteLaunched makes it known that a command has begun, and has its time run. The
// result undoes the latter.
func (p *plain) noteLaunched(e *SpawnCommand, it *plainItem, process *Process) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	it.process = process
	switch {
	case it.end:
		process.Kill()
	case it.ask:
		process.Stop(p.config.Grace)
	}
	if e.Timeout <= 0 {
		return func() {}
	}
	over := time.AfterFunc(e.Timeout, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !it.ask {
			it.timedOut, it.ask = true, true
			process.Stop(p.config.Grace)
		}
	})
	return func() { over.Stop() }
}

// forwardOutput brings on what a command writes, up to the limit, and counts it all.
func (p *plain) forwardOutput(id uint64, stream int, r *os.File) (total int64) {
	for {
		b := make([]byte, piece)
		n, err := r.Read(b)
		if pass := min(int64(n), p.config.MaxOutput-total); pass > 0 {
			p.post.deliverBatch([]Spawned{{ID: id, Kind: SpawnedOutput, Stream: stream, Data: b[:pass]}})
		}
		total += int64(n)
		if err != nil {
			return total
		}
	}
}

func (p *plain) until(boot time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.startDeadline = boot
	p.startCommands()
}

func (p *plain) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var back []Spawned
	for i := range p.queue {
		back = append(back, Spawned{ID: p.queue[i].ID, Kind: SpawnedUnstarted})
	}
	p.queue = nil
	p.returnCommands(back)
}

func (p *plain) kill(sig syscall.Signal, ids []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var back []Spawned
	for _, id := range ids {
		if it := p.running[id]; it != nil {
			it.stopped = true
			if sig != syscall.SIGTERM && it.process != nil {
				it.process.Interrupt(sig)
				continue
			}
			if !it.ask && it.process != nil {
				it.process.Stop(p.config.Grace)
			}
			it.ask = true
			continue
		}
		at := slices.IndexFunc(p.queue, func(e SpawnCommand) bool { return e.ID == id })
		if at >= 0 {
			p.queue = slices.Delete(p.queue, at, at+1)
			back = append(back, Spawned{ID: id, Kind: SpawnedUnstarted})
		}
	}
	p.returnCommands(back)
}

// returnCommands does not wait for the reader of the events, which may be its caller. The
// caller holds mu.
func (p *plain) returnCommands(back []Spawned) {
	if len(back) > 0 {
		p.all.Go(func() { p.post.deliverBatch(back) }) // close waits for it
	}
}

func (p *plain) close() {
	p.post.stopWaiting()
	p.mu.Lock()
	again := p.closing
	p.closing = true
	for _, it := range p.running {
		it.ask, it.end = true, true
		if it.process != nil {
			it.process.Kill()
		}
	}
	p.mu.Unlock()
	if again {
		<-p.gone
		return
	}
	p.drop() // of what was sent before; nothing is taken any more
	p.all.Wait()
	close(p.gone)
	go p.post.deliverLast(nil) // ends with the reader of the events, which its caller owes them
}
