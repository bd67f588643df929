package ledger

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/drover-run/drover/job"
)

// MapKeeper is an attached engine's part in a map: it sees that enough agents are
// there while there is work for them, passes the engine's word on, and does what
// anyone may when no agent is left to. It may die at any moment and another may run
// beside it. Not for concurrent use.
type MapKeeper struct {
	crew
	w      World
	p      job.Path
	target string
	by     string
	t      *chart
	// Inherited is as a Keeper's.
	Inherited *job.Inherited

	beats map[string]Beat // last ones of agents whose machines are gone
	began bool
	old   map[string]bool // agents that were gone when we began
	gone  [][2]int        // machines that were seen to be gone
	// past is how many agents were drained before, for a keeper that found nobody at
	// work: who resumes a job asks for all its workers again.
	past int
}

// NewMapKeeper makes an engine's part in map j. by names the engine's process.
func (w World) NewMapKeeper(j job.Job, by string) *MapKeeper {
	return &MapKeeper{crew: newCrew(w, j.Path()), w: w, p: j.Path(), target: j.Spec.On, by: by,
		t: w.newChart(j, by), beats: map[string]Beat{}, old: map[string]bool{}}
}

// Placed lists what was asked for so far. Call Poll first.
func (k *MapKeeper) Placed() []Placed { return k.t.m.Placed }

// keeperProbes is how many untouched chunks are looked at in one poll: agents
// find them by themselves.
const keeperProbes = 16

// Poll reads what is new and decides. machines is the driver's answer for every
// placement it knows; one that is missing was never started.
func (k *MapKeeper) Poll(ctx context.Context, machines []Machine) (Watch, error) {
	for {
		if err := k.read(ctx, machines); err != nil {
			return Watch{}, err
		}
		if s := k.t.m.Settled; s != nil {
			return Watch{Settled: s}, k.w.Close(ctx, k.p, k.by)
		}
		if k.interrupted(machines) {
			return Watch{Interrupted: true}, nil
		}
		e, err := k.next(ctx, machines)
		if err != nil {
			return Watch{}, err
		}
		if e == nil && k.emptied(machines) {
			return Watch{Interrupted: true}, nil
		}
		if e == nil {
			return k.start(machines), nil
		}
		if err := k.w.mayFollow(ctx, k.p, *e); err != nil {
			return Watch{}, err
		}
		if _, err := k.t.append(ctx, *e); err != nil {
			return Watch{}, err
		}
	}
}

func (k *MapKeeper) start(machines []Machine) Watch {
	n := len(k.t.m.Placed)
	if k.t.m.Stop != nil || !pending(n, machines) {
		return Watch{}
	}
	return Watch{Start: true, Placed: k.t.m.Placed[n-1]}
}

func (k *MapKeeper) read(ctx context.Context, machines []Machine) error {
	if err := notRemoved(k.w.exists(ctx, k.p), k.p); err != nil {
		return err
	}
	k.watch.bury()
	if err := k.t.readLog(ctx); err != nil {
		return err
	}
	return k.readGone(ctx, machines)
}

// readGone reads the last heartbeats of agents whose machines are gone: whether they
// took part, and whether a person stopped them.
func (k *MapKeeper) readGone(ctx context.Context, machines []Machine) error {
	fresh := slices.ContainsFunc(machines, func(m Machine) bool { return !m.Alive && k.beatOf(m) == nil && !k.known(m) })
	if fresh {
		for o, err := range k.w.Store.List(ctx, jobDir(k.p)+"/agents/") {
			if err != nil {
				return err
			}
			id := path.Base(o.Key)
			if _, read := k.beats[id]; read || !goneFrom(id, machines) {
				continue
			}
			b, ok, err := k.w.readBeat(ctx, k.p, id)
			if err != nil {
				return err
			}
			if ok {
				k.beats[id] = b
			}
		}
		for _, m := range machines {
			if !m.Alive {
				k.gone = append(k.gone, [2]int{m.Placement, m.Index})
			}
		}
	}
	for id, b := range k.beats {
		if placement, _, ok := Seat(id); ok && (b.Phase == Left || b.Recorded > 0 || len(b.Chunks) > 0) {
			k.joined[placement] = true
		}
		if !k.began {
			k.old[id] = true
		}
	}
	// Who asks first does not know yet what to ask the driver about.
	if began := k.began || len(machines) > 0 || len(k.t.m.Placed) == 0; began && !k.began {
		k.began = true
		if !slices.ContainsFunc(machines, func(m Machine) bool { return m.Alive }) {
			k.past = len(k.t.m.Drained)
		}
	}
	return nil
}

func goneFrom(agent string, machines []Machine) bool {
	placement, index, ok := Seat(agent)
	return ok && slices.ContainsFunc(machines, func(m Machine) bool {
		return !m.Alive && m.Placement == placement && m.Index == index
	})
}

// known says that a machine was seen to be gone, and its agent's beat looked for.
func (k *MapKeeper) known(m Machine) bool {
	return slices.Contains(k.gone, [2]int{m.Placement, m.Index})
}

func (k *MapKeeper) beatOf(m Machine) *Beat {
	for id, b := range k.beats {
		if placement, index, ok := Seat(id); ok && placement == m.Placement && index == m.Index {
			return &b
		}
	}
	return nil
}

// interrupted says whether a person has stopped the agents since we began: another
// keeper must not undo that.
func (k *MapKeeper) interrupted(machines []Machine) bool {
	if k.t.m.Stop != nil || slices.ContainsFunc(machines, func(m Machine) bool { return m.Alive }) {
		return false
	}
	for id, b := range k.beats {
		if b.Asked && !k.old[id] {
			return true
		}
	}
	return false
}

// emptied says that a person has drained all agents, one by one, and work is left.
func (k *MapKeeper) emptied(machines []Machine) bool {
	return k.began && k.t.m.Stop == nil && k.wanted() == 0 && !slices.ContainsFunc(machines, func(m Machine) bool { return m.Alive })
}

// wanted is how many agents the job is to have: a drained one leaves its place empty.
func (k *MapKeeper) wanted() int {
	return max(0, max(1, k.t.m.Spec.Workers)-(len(k.t.m.Drained)-k.past))
}

// staying counts the machines whose agents work and were not drained.
func (k *MapKeeper) staying(machines []Machine) int {
	leaving := func(m Machine) bool {
		for agent := range k.t.m.Drained {
			if placement, index, ok := Seat(agent); ok && placement == m.Placement && index == m.Index {
				return true
			}
		}
		return false
	}
	return k.working(slices.DeleteFunc(slices.Clone(machines), leaving))
}

// next is the entry of the job's log to append now, nil for none.
func (k *MapKeeper) next(ctx context.Context, machines []Machine) (*Entry, error) {
	v, err := k.survey(ctx, machines)
	switch {
	case err != nil:
		return nil, err
	case len(v.told) > 0:
		return &Entry{Told: v.told}, nil
	}
	step := k.t.m.Next(v.tally, v.whole, k.t.bad())
	switch {
	case step.Settle != nil:
		return &Entry{Settled: step.Settle}, nil
	case step.Fail != nil:
		return &Entry{Failing: step.Fail}, nil
	case k.t.m.Stop != nil || k.t.m.Paused || pending(len(k.t.m.Placed), machines):
		return nil, nil
	}
	working := k.working(machines)
	if stop := k.hopeless(len(k.t.m.Placed), machines); stop != nil {
		if working > 0 { // the others' work goes on: no more are asked for
			return nil, nil
		}
		return &Entry{Failing: stop}, nil
	}
	missing := min(k.wanted(), v.left) - k.staying(machines)
	if missing <= 0 || working > 0 && !v.free {
		return nil, nil
	}
	n := len(k.t.m.Placed) + 1
	k.counted[n] = false
	return &Entry{Placed: &Placed{Placement: n, Agents: missing, Target: k.target, Inherited: k.Inherited}}, nil
}

// surveyed is what a keeper found.
type surveyed struct {
	tally job.Tally
	whole bool
	left  int             // chunks that are not done
	free  bool            // one of them could be claimed
	told  map[string]bool // agents that the engine says are gone
}

func (k *MapKeeper) survey(ctx context.Context, machines []Machine) (v surveyed, err error) {
	probes := keeperProbes
	alive := slices.ContainsFunc(machines, func(m Machine) bool { return m.Alive })
	if !alive {
		probes = k.t.m.Chunks()
	}
	v.tally, v.whole, err = k.t.survey(ctx, share{}, probes, func(c *Chunk) error {
		if k.t.m.Done(c) {
			return nil
		}
		if err := k.mind(ctx, c, machines, &v); err != nil {
			return err
		}
		if k.t.m.Stop == nil { // agents do the rest, and without them it would be of no use
			return nil
		}
		for {
			e, ok := k.t.m.Owes(c, k.death, k.t.stopAge())
			if !ok {
				return nil
			}
			if _, _, err := k.t.write(ctx, c, k.by, e); err != nil {
				return err
			}
			if c.Owner != "" { // somebody wrote first: he lives
				k.watch.wrote(c)
			}
		}
	})
	if err != nil {
		return v, fmt.Errorf("read job: %w", err)
	}
	for id := range k.t.all(share{}) {
		if _, done := k.t.done(id); !done {
			v.left++
			c := k.t.chunks[id]
			_, free := (&Chunk{}).Free(nil)
			if c != nil {
				_, free = c.Free(k.death)
			}
			v.free = v.free || free
		}
	}
	return v, nil
}

// mind looks after the owner of a chunk.
func (k *MapKeeper) mind(ctx context.Context, c *Chunk, machines []Machine, v *surveyed) error {
	if c.Owner == "" {
		return nil
	}
	if err := k.watch.owner(ctx, c); err != nil {
		return err
	}
	placement, index, ok := Seat(c.Owner)
	if !ok {
		return nil
	}
	k.joined[placement] = true
	i := slices.IndexFunc(machines, func(m Machine) bool { return m.Placement == placement && m.Index == index })
	if i < 0 || machines[i].Alive || k.t.m.Told[c.Owner] != Alive {
		return nil
	}
	// What anyone on this machine sees by himself needs no word.
	if machines[i].Taken || k.watch.death(c.Owner) == Alive {
		if v.told == nil {
			v.told = map[string]bool{}
		}
		v.told[c.Owner] = machines[i].Taken
	}
	return nil
}

func (k *MapKeeper) death(agent string) Death {
	if d := k.t.m.Told[agent]; d != Alive {
		return d
	}
	return k.watch.death(agent)
}
