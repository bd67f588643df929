package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	storemem "github.com/drover-run/drover/store/mem"
)

// desk is an engine with a folder to type commands in, a store in memory, and a target
// with functions of the test as its agents.
type desk struct {
	*Engine
	t    *testing.T
	dir  string
	mem  *mem.Driver
	work atomic.Pointer[program]
}

// program is what an agent's program does: it begins, and gives its exit. It
// returns early when the agent is told to stop, or to halt.
type program func(ctx context.Context, attempt, rank int) protocol.Exit

// ghost is a process on this machine that has ended.
var ghost = protocol.Host{Boot: "here", PID: 1}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir()}
	d.mem = mem.New(d.agent)
	t.Cleanup(d.mem.Close)
	d.does(func(context.Context, int, int) protocol.Exit { return protocol.Exit{Verdict: protocol.Done} })
	w := protocol.World{Store: store.New(storemem.New(), store.Options{}), Rand: rand.Reader,
		Gone: func(h protocol.Host) (bool, bool) { return true, h == ghost }}
	d.Engine = New(session.Session{World: w, Near: true, Drivers: map[string]driver.Opened{mem.Name: mem.Open(d.mem)}, Boot: driver.Boot{Binary: "drover", Store: "mem:"},
		Caller: session.Caller{User: "ann", Host: "desk", Folder: d.dir, Environ: os.Environ(), Cache: t.TempDir(), Version: "test", By: "cli-1"}}, Passes{})
	d.write(map[string]string{"train.sh": "#!/bin/sh\necho hello\n"})
	return d
}

// other is a second command line on the same store and place.
func (d *desk) other(by string) *Engine {
	c := *d.Session
	c.Caller.By = by
	return New(c, d.Passes)
}

func (d *desk) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) write(files map[string]string) {
	d.t.Helper()
	for name, text := range files {
		full := filepath.Join(d.dir, name)
		d.check(os.MkdirAll(filepath.Dir(full), 0o755))
		d.check(os.WriteFile(full, []byte(text), 0o755))
	}
}

func (d *desk) does(p program) { d.work.Store(&p) }

// agent is package agent's part, without processes: it obeys its member.
func (d *desk) agent(ctx context.Context, r driver.Request, index int) error {
	p := split(r.Run.Job)
	j, err := tasks.LoadJob(ctx, d.World, p)
	if err != nil {
		return err
	}
	m := runagent.NewMember(d.World, j, liveness.NewAgentID(d.World, r.Placement, index), protocol.Join{})
	m.Ready()
	beat := func(phase string) {
		_ = liveness.WriteHeartbeat(context.WithoutCancel(ctx), d.World, p, protocol.Heartbeat{Agent: m.ID, Phase: phase, Counter: time.Now().UnixNano()})
	}
	defer beat(protocol.Left)
	var halt context.CancelFunc
	ended := make(chan protocol.Exit, 1)
	for {
		o, err := m.Poll(ctx)
		switch {
		case ctx.Err() != nil:
			return d.leave(ctx, m, halt, ended)
		case err != nil:
			return err
		}
		switch o.Do {
		case runagent.Launch:
			run, stop := context.WithCancel(ctx)
			defer stop()
			halt = stop
			m.Started()
			beat("running")
			work := *d.work.Load()
			go func() { ended <- work(run, o.Attempt, o.Rank) }() // has room; leave and Halt wait for it
			continue
		case runagent.Halt:
			halt()
			<-ended
			halt = nil
			if err := m.Ended(ctx, protocol.Exit{Verdict: protocol.Halted, Reason: o.Why}); err != nil {
				return err
			}
			continue
		case runagent.Finish, runagent.Leave:
			return m.Leave(ctx)
		}
		select {
		case e := <-ended:
			halt = nil
			if ctx.Err() != nil { // it ended because we are to go
				return d.leave(ctx, m, nil, ended)
			}
			if err := m.Ended(ctx, e); err != nil {
				return err
			}
		case <-time.After(5 * time.Millisecond): // nothing of interest happens: look again
		case <-ctx.Done():
			return d.leave(ctx, m, halt, ended)
		}
	}
}

// leave is how an agent goes that was asked to, or is dead.
func (d *desk) leave(ctx context.Context, m *runagent.Member, halt context.CancelFunc, ended <-chan protocol.Exit) error {
	if halt != nil {
		halt()
		<-ended
	}
	if errors.Is(context.Cause(ctx), mem.ErrAsked) {
		return m.Ended(context.WithoutCancel(ctx), protocol.Exit{Verdict: protocol.AskedToStop, Reason: "asked to stop"})
	}
	return context.Cause(ctx)
}

// split undoes job.Path.String.
func split(text string) job.Path {
	parts := strings.SplitN(text, "/", 3)
	return job.Path{Project: parts[0], Task: parts[1], Job: parts[2]}
}

// spec is the command that is typed.
func spec(change ...func(*job.Spec)) job.Spec {
	s := job.Spec{Project: "demo", Program: "train.sh", On: mem.Name}
	for _, c := range change {
		c(&s)
	}
	return s
}

func named(s *job.Spec) { s.Task, s.Named = "digits", true }

// submit plans and submits a command.
func (d *desk) submit(s job.Spec) job.Path {
	d.t.Helper()
	p, err := d.Plan(d.t.Context(), s, false)
	d.check(err)
	path, err := d.Submit(d.t.Context(), &p)
	d.check(err)
	d.check(p.Close())
	return path
}

// load reads a job as its agents do.
func (d *desk) load(p job.Path) job.Job {
	d.t.Helper()
	j, err := tasks.LoadJob(d.t.Context(), d.World, p)
	d.check(err)
	return j
}

func (d *desk) look(p job.Path) views.Report {
	d.t.Helper()
	rep, err := views.ReadReport(d.t.Context(), d.World, p)
	d.check(err)
	return rep
}

// attend attends a job in the background.
func (d *desk) attend(ctx context.Context, e *Engine, p job.Path) (wait func() (*protocol.Settled, error)) {
	var s *protocol.Settled
	var err error
	var done sync.WaitGroup
	done.Go(func() { s, err = e.Attend(ctx, p) })
	d.t.Cleanup(done.Wait)
	return func() (*protocol.Settled, error) { done.Wait(); return s, err }
}
