package gc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// history is one: commands on two tasks for an hour or so, gcs in between, and at
// the end a look at everything that was promised.
func (r *room) history() {
	r.enter("cli", func(a *actor, w protocol.World) { r.old(a, w) })
	r.play(time.Minute)
	r.now += r.said.minAge + 2*time.Hour // what is there now is old
	for i := range 4 + r.rng.IntN(3) {
		at := r.now + r.upTo(10*time.Minute)
		r.later("cli", at, func(a *actor, w protocol.World) { r.command(a, w, fmt.Sprintf("t%d", i%2)) })
	}
	for range 2 + r.rng.IntN(2) {
		at := r.now + r.upTo(12*time.Minute)
		r.later("gc", at, r.gc)
		if r.chance(30) {
			r.later("gc", at+r.upTo(5*time.Second), r.gc)
		}
	}
	r.later("reader", r.now+r.upTo(15*time.Minute), r.reader)
	r.play(r.now + 40*time.Minute)
	r.calm = true
	if f, ok := r.way.(interface{ Flush(context.Context) }); ok {
		f.Flush(context.Background())
	}
	r.play(r.now + 3*time.Hour)
	if len(r.broken) > 0 {
		return
	}
	r.check("at rest")
	// The last gc has all to itself: what it leaves is named.
	r.now += r.said.minAge + 25*time.Hour
	r.enter("gc", func(a *actor, w protocol.World) {
		r.collect(a, w, Options{MinAge: r.said.minAge, Self: a.host(), Lag: r.lag})
	})
	r.lag = 0
	r.play(r.now + 3*time.Hour)
	r.check("after the last gc")
	r.swept()
}

// later starts a process at a time.
func (r *room) later(name string, at time.Duration, body func(*actor, protocol.World)) {
	r.enter(name, body).until = at
}

// pool is a content that many have: what one writes may be there already.
func (r *room) pool() []byte { return fmt.Appendf(nil, "content %d", r.rng.IntN(5)) }

// folder is a list of files as a saver has them: by their contents.
type folder [][]byte

// put stores a folder as tree.Save does: what is there is not sent again.
func (f folder) put(ctx context.Context, s *store.Store) (list store.Digest, need []store.Digest, err error) {
	var t tree.Tree
	for i, text := range f {
		d, n, err := s.PutBlob(ctx, bytes.NewReader(text))
		if err != nil {
			return "", nil, err
		}
		t.Files = append(t.Files, tree.File{Path: fmt.Sprint(i), Size: n, Mode: 0o644, SHA256: d})
		need = append(need, d)
	}
	list, err = tree.PutTree(ctx, s, t)
	return list, append(need, list), err
}

// read is all of a folder, as get and Restore read it.
func read(ctx context.Context, s *store.Store, list store.Digest) error {
	t, err := tree.LoadTree(ctx, s, list)
	if err != nil {
		return err
	}
	for _, f := range t.Files {
		if err := readBlob(ctx, s, f.SHA256); err != nil {
			return err
		}
	}
	return nil
}

func readBlob(ctx context.Context, s *store.Store, d store.Digest) error {
	rd, err := s.OpenBlob(ctx, d)
	if err != nil {
		return err
	}
	defer rd.Close()
	_, err = io.Copy(io.Discard, rd)
	return err
}

// assure is a saver's second half.
func (r *room) assure(ctx context.Context, a *actor, s *removal.Sweeps, need []store.Digest, again func() error) error {
	began := r.now
	err := s.Assure(ctx, func() ([]store.Digest, error) { return need, nil }, func(context.Context, []store.Digest) error {
		r.seen["stored again"]++
		if !r.calm && r.chance(30) {
			r.logf("%s dies before it has stored again", a.name)
			r.rest = r.now + r.said.minAge + r.upTo(8*time.Minute) // another gc comes before the next agent
			r.later("gc", r.now+r.said.minAge, r.gc)
			panic(errKilled)
		}
		return again()
	})
	a.doze(5)
	if r.now-began > 10*time.Second {
		r.seen["waited for a sweep"]++
	}
	return err
}

// old leaves contents that nothing names: what a later saver finds there.
func (r *room) old(_ *actor, w protocol.World) {
	for i := range 5 {
		_, _, _ = w.Store.PutBlob(context.Background(), strings.NewReader(fmt.Sprintf("content %d", i)))
	}
}

// command is engine.Submit, and what it starts.
func (r *room) command(a *actor, w protocol.World, task string) {
	ctx := context.Background()
	sweeps, err := removal.ReadSweeps(ctx, w)
	if err != nil {
		r.violate("%s: %v", a.name, err)
		return
	}
	spec, _ := job.Spec{Project: "p", Task: task, Program: "train.py", Retries: 3}.Normal()
	j := job.Job{V: job.Format, Spec: spec, At: w.Store.Clock().Now(), Inputs: map[string]string{}, Lineage: map[string]job.Origin{}}
	code, data := r.pool(), folder{r.pool(), r.pool()}
	var need []store.Digest
	ship := func() error {
		d, _, err := w.Store.PutBlob(ctx, bytes.NewReader(code))
		if err != nil {
			return err
		}
		list, all, err := data.put(ctx, w.Store)
		j.Code.Blob, j.Inputs["data"] = string(d), string(list)
		need = append(all, d)
		return err
	}
	if err := ship(); err != nil {
		r.violate("%s: %v", a.name, err)
		return
	}
	chain := r.chain(ctx, w, &j, task)
	named := r.now // gc counts from the name on, and after it a command may sleep
	if err := tasks.NameJob(ctx, w, &j); err != nil {
		r.violate("%s: %v", a.name, err)
		return
	}
	r.said.proposed[j.ID] = named
	if err := tasks.ProposeJob(ctx, w, j); err != nil {
		r.violate("%s: %v", a.name, err)
		return
	}
	again := ship
	if len(chain) > 0 {
		again = func() error { // what another job left cannot be stored again when that is gone
			return errors.Join(ship(), readAll(ctx, w.Store, chain))
		}
	}
	if err := r.assure(ctx, a, sweeps, append(need, chain...), again); err != nil {
		if !errors.Is(err, store.ErrNotExist) {
			r.violate("%s: %v", a.name, err)
		}
		return
	}
	_, mine, err := tasks.SubmitJob(ctx, w, j, a.name)
	if err != nil && !strings.Contains(err.Error(), "gc has removed it") {
		r.violate("%s submits: %v", a.name, err)
	}
	if err != nil || !mine {
		return
	}
	if len(chain) > 0 {
		r.seen["chained"]++
	}
}

func readAll(ctx context.Context, s *store.Store, all []store.Digest) error {
	for _, d := range all {
		if err := readBlob(ctx, s, d); err != nil {
			return err
		}
	}
	return nil
}

// chain gives a job what the newest job of the other task left.
func (r *room) chain(ctx context.Context, w protocol.World, j *job.Job, task string) []store.Digest {
	if !r.chance(40) {
		return nil
	}
	p := job.Path{Project: "p", Task: map[string]string{"t0": "t1", "t1": "t0"}[task]}
	t, err := tasks.ReadTask(ctx, w, p)
	if p.Job = t.Newest(); err != nil || p.Job == "" {
		return nil
	}
	rep, err := views.ReadReport(ctx, w, p)
	if err != nil || rep.State != job.Succeeded {
		return nil
	}
	list := rep.Run.Exits[0].Outputs["model"]
	tree, err := tree.LoadTree(ctx, w.Store, list)
	if err != nil {
		return nil // removed since
	}
	j.Inputs["m"], j.Lineage["m"] = string(list), job.Origin{Job: p.String(), What: "model", Attempt: rep.Run.Attempt()}
	need := []store.Digest{list}
	for _, f := range tree.Files {
		need = append(need, f.SHA256)
	}
	if readAll(ctx, w.Store, need) != nil {
		delete(j.Inputs, "m")
		delete(j.Lineage, "m")
		return nil
	}
	return need
}

// watch sees each create as it reaches the store.
func (r *room) watch(a *actor, key string, text []byte) {
	if !strings.Contains(key, "/log/") {
		return
	}
	var e struct { // of any log
		Submitted *protocol.Submitted
		Removed   *protocol.Removed
		Sweep     *protocol.Sweep
	}
	if json.Unmarshal(text, &e) != nil {
		return
	}
	switch {
	case e.Submitted != nil || e.Removed != nil:
		r.look = r.now + time.Second
	case e.Sweep != nil && !r.calm:
		r.sweeper = a
		r.snare(a)
	}
	if e.Removed != nil {
		parts := strings.Split(key, "/")
		p := job.Path{Project: parts[0], Task: parts[1], Job: e.Removed.Job}
		r.rival(a, p)
		if !r.held(key) {
			r.removed(a, p)
		}
	}
}

// rival has another gc take the newest job of a task, by name, while one is about to
// remove a job of it: perhaps because of that newest one.
func (r *room) rival(gc *actor, p job.Path) {
	if r.calm || !r.chance(50) {
		return
	}
	t, err := tasks.ReadTask(context.Background(), r.calmly(), p)
	if err != nil || t.Newest() == "" {
		return
	}
	p.Job = t.Newest()
	r.later("gc", r.now, func(a *actor, w protocol.World) {
		r.said.asked[p] = true
		r.collect(a, w, Options{MinAge: r.said.minAge, Lag: r.lag, Jobs: []job.Path{p}})
	})
	gc.until = r.now + r.upTo(3*time.Minute)
	r.logf("%s dozes until %s", gc.name, gc.until)
	gc.turn()
}

// snare makes a sweep meet what it must bear: savers, another gc, sleep.
func (r *room) snare(gc *actor) {
	if r.chance(60) {
		r.later("cli", r.now+r.upTo(time.Minute), func(a *actor, w protocol.World) { r.command(a, w, fmt.Sprintf("t%d", r.rng.IntN(2))) })
	}
	if r.chance(15) {
		r.later("gc", r.now+r.upTo(time.Minute), r.gc)
	}
	if r.chance(30) {
		gc.nap = 1 + r.rng.IntN(20)
	}
}

// between two deletes of a gc much may happen.
func (r *room) between(gc *actor) {
	if r.calm || !r.chance(12) {
		return
	}
	r.later("cli", r.now+r.upTo(10*time.Second), func(a *actor, w protocol.World) { r.command(a, w, fmt.Sprintf("t%d", r.rng.IntN(2))) })
	if r.chance(40) {
		r.later("gc", r.now+r.upTo(10*time.Second), r.gc)
	}
	gc.until = r.now + r.upTo([]time.Duration{20 * time.Second, 40 * time.Second, 5 * time.Minute}[r.rng.IntN(3)])
	r.logf("%s dozes until %s", gc.name, gc.until)
	gc.turn()
}

func (r *room) upTo(d time.Duration) time.Duration { return time.Duration(r.rng.Int64N(int64(d))) }

// doze is a pause in just this moment.
func (a *actor) doze(percent int) {
	if r := a.r; !r.calm && r.chance(percent) {
		a.until = r.now + r.upTo(10*time.Minute)
		r.logf("%s dozes until %s", a.name, a.until)
		a.turn()
	}
}

// supervise notes the jobs that were accepted, and sees that live ones have an agent.
func (r *room) supervise() {
	r.look = r.now + time.Minute
	for _, task := range []string{"t0", "t1"} {
		p := job.Path{Project: "p", Task: task}
		t, err := tasks.ReadTask(context.Background(), r.calmly(), p)
		if err != nil {
			r.violate("task %s: %v", task, err)
		}
		for _, j := range t.Jobs {
			p.Job = j.Job
			if r.said.accepted[p] == 0 {
				r.said.accepted[p] = r.now
			}
		}
		if p.Job = t.Live; p.Job != "" && r.agents[p] == 0 {
			r.agents[p]++
			at := max(r.now, r.rest)
			if r.chance(20) {
				at += r.upTo(10 * time.Minute) // there was no user to start one
			}
			r.later("agent", at, func(a *actor, w protocol.World) { r.agent(a, w, p) })
		}
	}
}

// agent is package agent's part, without processes.
func (r *room) agent(a *actor, w protocol.World, p job.Path) {
	defer func() { r.agents[p]-- }()
	ctx := context.Background()
	j, err := tasks.LoadJob(ctx, w, p)
	if errors.Is(err, store.ErrNotExist) {
		return
	}
	sweeps, err2 := removal.ReadSweeps(ctx, w)
	if err = errors.Join(err, err2); err != nil {
		r.violate("%s: %v", a.name, err)
		return
	}
	if err := readBlob(ctx, w.Store, store.Digest(j.Code.Blob)); err != nil && !r.excused(p, err) {
		r.violate("%s: code: %v", a.name, err)
	}
	for name, list := range j.Inputs {
		if err := read(ctx, w.Store, store.Digest(list)); err != nil && !r.excused(p, err) {
			r.violate("%s: input %s: %v", a.name, name, err)
		}
	}
	m := runagent.NewMember(w, j, a.name, protocol.Join{Host: a.host()})
	m.Ready()
	for {
		o, err := m.Poll(ctx)
		if err != nil {
			r.violate("%s: %v", a.name, err)
			return
		}
		switch o.Do {
		case runagent.Launch:
			m.Started()
			err = r.work(ctx, a, w, sweeps, m, p, o)
		case runagent.Halt:
			err = m.Ended(ctx, protocol.Exit{Verdict: protocol.Halted})
		case runagent.Finish, runagent.Leave:
			if o.Settled != nil {
				r.seen[strings.ToLower(string(o.Settled.State))]++
			}
			err = m.Leave(ctx)
			if err == nil {
				return
			}
		default:
			err = w.Store.Clock().Sleep(ctx, protocol.Poll)
		}
		if err != nil {
			r.violate("%s: %v", a.name, err)
			return
		}
	}
}

// excused says whether what a job names may be absent: the job was removed while the
// reader slept. An agent that misses its inputs then has nothing to launch: it waits, and
// is told to leave (E6).
func (r *room) excused(p job.Path, err error) bool {
	if !errors.Is(err, store.ErrNotExist) {
		return false
	}
	t, terr := tasks.ReadTask(context.Background(), r.calmly(), p)
	return terr == nil && t.Gone[p.Job].Job != ""
}

// work is the program: it goes on from its state, saves some, and leaves a model.
func (r *room) work(ctx context.Context, a *actor, w protocol.World, sweeps *removal.Sweeps, m *runagent.Member, p job.Path, o runagent.Order) error {
	task, err := tasks.ReadTask(ctx, w, p)
	if err != nil {
		return err
	}
	place, _ := task.PlaceOf(p.Job)
	me := protocol.Restored{Job: p.Job, Submission: place, Attempt: o.Attempt, Agent: m.ID}
	gens, saved, err := states.RestoreState(ctx, w, p, o.Rank, me, 0, r.lasting(ctx, a, w))
	if errors.Is(err, states.ErrFenced) {
		return nil
	}
	if err != nil {
		return err
	}
	promised := r.said.states[p.Task]
	switch {
	case saved == nil && promised > 0:
		r.violate("%s begins without state, and %d was promised", a.name, promised)
	case saved != nil:
		r.seen["state restored"]++
		if n := r.said.serial[saved.State]; n < promised {
			r.violate("%s begins with state %d, and %d was promised", a.name, n, promised)
		}
		if err := read(ctx, w.Store, saved.State); err != nil {
			r.violate("%s restores: %v", a.name, err)
		}
	}
	for range r.rng.IntN(4) {
		if err := r.save(ctx, a, w, sweeps, gens, p); errors.Is(err, states.ErrFenced) {
			break
		} else if err != nil {
			return err
		}
	}
	model := folder{r.pool(), r.pool()}
	exit := protocol.Exit{Verdict: protocol.Done, Outputs: map[string]store.Digest{}}
	if r.chance(25) {
		exit.Verdict, exit.Code = protocol.Broke, 1
	}
	list, need, err := model.put(ctx, w.Store)
	if err != nil {
		return err
	}
	exit.Outputs["model"] = list
	if err := removal.NameOutputs(ctx, w, p, o.Attempt, o.Rank, m.ID, exit.Outputs); err != nil {
		return err
	}
	if err := r.assure(ctx, a, sweeps, need, func() error { _, _, err := model.put(ctx, w.Store); return err }); err != nil {
		return err
	}
	return m.Ended(ctx, exit)
}

// save adds a generation: mostly what there was before, and something new.
func (r *room) save(ctx context.Context, a *actor, w protocol.World, sweeps *removal.Sweeps, gens *states.Generations, p job.Path) error {
	n := len(r.said.serial) + 1
	state := folder{r.pool(), r.pool(), fmt.Appendf(nil, "state %d", n)}
	list, need, err := state.put(ctx, w.Store)
	if err != nil {
		return err
	}
	saved := protocol.Saved{State: list}
	again := func() error { _, _, err := state.put(ctx, w.Store); return err }
	if n%2 == 0 { // and checkpoints, which nothing else names
		points := folder{fmt.Appendf(nil, "checkpoint %d", n)}
		more, needs, err := points.put(ctx, w.Store)
		if err != nil {
			return err
		}
		saved.Checkpoints, need = more, append(need, needs...)
		store := again
		again = func() error { _, _, err := points.put(ctx, w.Store); return errors.Join(err, store()) }
	}
	r.said.serial[list] = n
	if err := gens.Save(ctx, saved); err != nil {
		return err
	}
	if gc := r.sweeper; gc != nil && !gc.dead && !r.calm && r.chance(60) {
		r.logf("%s dies before it has looked for gc, and %s sleeps", a.name, gc.name)
		r.seen["saved and died while a gc swept"]++
		gc.until = r.now + r.upTo(5*time.Minute)
		panic(errKilled)
	}
	if err := r.assure(ctx, a, sweeps, need, again); err != nil {
		return err
	}
	if t, err := tasks.ReadTask(ctx, r.calmly(), p); err == nil && t.Live == p.Job && r.fresh(p, list) {
		r.said.states[p.Task] = n
	}
	return nil
}

// fresh says whether a generation is the newest one: a paused writer promises nothing.
func (r *room) fresh(p job.Path, list store.Digest) bool {
	s, err := states.ReadState(context.Background(), r.calmly(), p, 0, func(protocol.Saved) (bool, error) { return true, nil })
	return err == nil && s != nil && s.State == list
}

// whole says whether all of a generation is there.
func (r *room) whole(ctx context.Context, w protocol.World) func(protocol.Saved) (bool, error) {
	return func(s protocol.Saved) (bool, error) {
		err := read(ctx, w.Store, s.State)
		if err == nil && s.Checkpoints != "" {
			err = read(ctx, w.Store, s.Checkpoints)
		}
		if errors.Is(err, store.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
}

// lasting says whether all of a generation is there, and stays, as package agent does.
func (r *room) lasting(ctx context.Context, a *actor, w protocol.World) func(protocol.Saved) (bool, error) {
	whole := r.whole(ctx, w)
	return removal.Lasting(ctx, w, func(s protocol.Saved) (need []store.Digest, ok bool, err error) {
		ok, err = whole(s)
		for _, list := range s.Lists() {
			if !ok || err != nil {
				return nil, false, err
			}
			t, err := tree.LoadTree(ctx, w.Store, list)
			if err != nil {
				return nil, false, ignoreAbsence(err)
			}
			need = append(append(need, list), t.Blobs()...)
		}
		if gc := r.sweeper; gc != nil && !gc.dead {
			a.doze(40)
		}
		return need, ok, err
	})
}

func ignoreAbsence(err error) error {
	if errors.Is(err, store.ErrNotExist) {
		return nil
	}
	return err
}

// reader gets what jobs have left, again and again.
func (r *room) reader(a *actor, w protocol.World) {
	ctx := context.Background()
	all, err := views.ListJobs(ctx, w, "")
	if err != nil || len(all) == 0 {
		return
	}
	for range 6 {
		p := all[r.rng.IntN(len(all))]
		rep, err := views.ReadReport(ctx, w, p)
		if err != nil || rep.Run.Settled == nil {
			continue
		}
		err = nil
		for _, e := range rep.Run.Exits {
			err = errors.Join(err, read(ctx, w.Store, e.Outputs["model"]))
		}
		if err == nil {
			r.seen["outputs read"]++
		} else if !r.excused(p, err) {
			r.violate("%s reads job %s: %v", a.name, p.Job, err)
		}
	}
}

// gc is one, as a user may type it.
func (r *room) gc(a *actor, w protocol.World) {
	o := Options{MinAge: r.said.minAge, Keep: r.rng.IntN(3), Lag: r.lag}
	if r.chance(50) {
		o.Self = a.host()
	}
	if r.chance(30) {
		o.Older = time.Minute
	}
	if all, err := views.ListJobs(context.Background(), w, ""); err == nil && len(all) > 0 && r.chance(40) {
		o.Jobs = []job.Path{all[r.rng.IntN(len(all))]}
		r.said.asked[o.Jobs[0]] = true
	}
	r.collect(a, w, o)
}

func (r *room) collect(a *actor, w protocol.World, o Options) {
	ctx := context.Background()
	e := &Remover{World: w, By: a.name}
	g, err := e.Leftovers(ctx, o)
	if err != nil {
		r.violate("%s: %v", a.name, err)
		return
	}
	for _, k := range g.Kept {
		if strings.HasSuffix(k.Why, "was made from it") {
			r.seen["kept for another"]++
		}
	}
	a.doze(20) // a user reads it, and types y
	r.said.collected[a.name] = r.now
	if _, err := e.Collect(ctx, g, nil); err != nil && fault.KindOf(err) != fault.Lost { // it slept through its sweeps
		r.violate("%s: %v", a.name, err)
	}
}
