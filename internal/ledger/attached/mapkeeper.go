package attached

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
)

// MapKeeper is an attached engine's part in a map: it sees that enough agents are
// there while there is work for them, passes the engine's word on, and does what
// any process may do when no agent is left to. It may die at any moment and another may run
// beside it. Not for concurrent use.
type MapKeeper struct {
	placements
	w         protocol.World
	p         job.Path
	target    string
	by        string
	Inventory *chunks.Inventory
	// Inherited is as a Keeper's.
	Inherited *job.Inherited

	beats map[string]protocol.Heartbeat // last ones of agents on machines that are gone
	began bool
	old   map[string]bool // agents that were gone when we began
	gone  [][2]int        // machines that were seen to be gone
	// past is how many agents were drained before, for a keeper that found no agent at
	// work: a command that resumes a job asks for all its workers again.
	past int
}

// NewMapKeeper makes an engine's part in map j. by names the engine's process.
func NewMapKeeper(w protocol.World, j job.Job, by string) *MapKeeper {
	return &MapKeeper{placements: newPlacements(w, j.Path()), w: w, p: j.Path(), target: j.Target(), by: by,
		Inventory: chunks.NewInventory(w, j, by), beats: map[string]protocol.Heartbeat{}, old: map[string]bool{}}
}

// Placed lists what was asked for so far. Call Poll first.
func (k *MapKeeper) Placed() []protocol.Placed { return k.Inventory.Map.Placed }

// keeperProbes is how many untouched chunks are looked at in one poll: agents
// find them by themselves.
const keeperProbes = 16

// Poll reads what is new and decides. machines is the driver's answer for every
// placement it knows; one that is missing was never started.
func (k *MapKeeper) Poll(ctx context.Context, machines []Machine) (Watch, error) {
	for {
		if err := k.readAll(ctx, machines); err != nil {
			return Watch{}, err
		}
		if s := k.Inventory.Map.Settled; s != nil {
			return Watch{Settled: s}, tasks.CloseJob(ctx, k.w, k.p, k.by)
		}
		if k.wasInterrupted(machines) {
			return Watch{Interrupted: true}, nil
		}
		e, err := k.nextEntry(ctx, machines)
		if err != nil {
			return Watch{}, err
		}
		if e == nil && k.allHaveLeft(machines) {
			return Watch{Interrupted: true}, nil
		}
		if e == nil {
			return k.startRequest(machines), nil
		}
		if err := checkMayFollow(ctx, k.w, k.p, *e); err != nil {
			return Watch{}, err
		}
		if _, err := k.Inventory.AppendToJob(ctx, *e); err != nil {
			return Watch{}, err
		}
	}
}

func (k *MapKeeper) startRequest(machines []Machine) Watch {
	n := len(k.Inventory.Map.Placed)
	if k.Inventory.Map.Stop != nil || !pending(n, machines) {
		return Watch{}
	}
	return Watch{Start: true, Placed: k.Inventory.Map.Placed[n-1]}
}

func (k *MapKeeper) readAll(ctx context.Context, machines []Machine) error {
	if err := notRemoved(liveness.CheckSeenRecently(ctx, k.w, k.p), k.p); err != nil {
		return err
	}
	k.observer.MarkDead()
	if err := k.Inventory.ReadJobLog(ctx); err != nil {
		return err
	}
	return k.readGone(ctx, machines)
}

// readGone reads the last heartbeats of agents on machines that are gone: whether they
// took part, and whether a person stopped them.
func (k *MapKeeper) readGone(ctx context.Context, machines []Machine) error {
	fresh := slices.ContainsFunc(machines, func(m Machine) bool { return !m.Alive && k.heartbeatOf(m) == nil && !k.seenGone(m) })
	if fresh {
		for o, err := range k.w.Store.List(ctx, protocol.JobDir(k.p)+"/agents/") {
			if err != nil {
				return err
			}
			id := path.Base(o.Key)
			if _, read := k.beats[id]; read || !goneFrom(id, machines) {
				continue
			}
			b, ok, err := liveness.ReadHeartbeat(ctx, k.w, k.p, id)
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
		if placement, _, ok := liveness.PlacementAndIndex(id); ok && (b.Phase == protocol.Left || b.Recorded > 0 || len(b.Chunks) > 0) {
			k.joined[placement] = true
		}
		if !k.began {
			k.old[id] = true
		}
	}
	// The first call does not know yet what to ask the driver about.
	if began := k.began || len(machines) > 0 || len(k.Inventory.Map.Placed) == 0; began && !k.began {
		k.began = true
		if !slices.ContainsFunc(machines, func(m Machine) bool { return m.Alive }) {
			k.past = len(k.Inventory.Map.Drained)
		}
	}
	return nil
}

func goneFrom(agent string, machines []Machine) bool {
	placement, index, ok := liveness.PlacementAndIndex(agent)
	return ok && slices.ContainsFunc(machines, func(m Machine) bool {
		return !m.Alive && m.Placement == placement && m.Index == index
	})
}

// seenGone says that a machine was seen to be gone, and its agent's beat looked for.
func (k *MapKeeper) seenGone(m Machine) bool {
	return slices.Contains(k.gone, [2]int{m.Placement, m.Index})
}

func (k *MapKeeper) heartbeatOf(m Machine) *protocol.Heartbeat {
	for id, b := range k.beats {
		if placement, index, ok := liveness.PlacementAndIndex(id); ok && placement == m.Placement && index == m.Index {
			return &b
		}
	}
	return nil
}

// wasInterrupted says whether a person has stopped the agents since we began: another
// keeper must not undo that.
func (k *MapKeeper) wasInterrupted(machines []Machine) bool {
	if k.Inventory.Map.Stop != nil || slices.ContainsFunc(machines, func(m Machine) bool { return m.Alive }) {
		return false
	}
	for id, b := range k.beats {
		if b.Asked && !k.old[id] {
			return true
		}
	}
	return false
}

// allHaveLeft says that a person has drained all agents, one by one, and work is left.
func (k *MapKeeper) allHaveLeft(machines []Machine) bool {
	return k.began && k.Inventory.Map.Stop == nil && k.wantedAgents() == 0 && !slices.ContainsFunc(machines, func(m Machine) bool { return m.Alive })
}

// wantedAgents is how many agents the job is to have: a drained one leaves its place empty.
func (k *MapKeeper) wantedAgents() int {
	return max(0, max(1, k.Inventory.Map.Spec.Workers)-(len(k.Inventory.Map.Drained)-k.past))
}

// stayingAgents counts the machines with agents that work and were not drained.
func (k *MapKeeper) stayingAgents(machines []Machine) int {
	leaving := func(m Machine) bool {
		for agent := range k.Inventory.Map.Drained {
			if placement, index, ok := liveness.PlacementAndIndex(agent); ok && placement == m.Placement && index == m.Index {
				return true
			}
		}
		return false
	}
	return k.workingMachines(slices.DeleteFunc(slices.Clone(machines), leaving))
}

// nextEntry is the entry of the job's log to append now, nil for none.
func (k *MapKeeper) nextEntry(ctx context.Context, machines []Machine) (*protocol.JobEntry, error) {
	v, err := k.scanChunks(ctx, machines)
	switch {
	case err != nil:
		return nil, err
	case len(v.told) > 0:
		return &protocol.JobEntry{Gone: v.told}, nil
	}
	step := k.Inventory.Map.Next(chunks.Evidence{Done: v.whole, Tally: v.tally, Failed: k.Inventory.CountFailed()})
	switch {
	case step.Settle != nil:
		return &protocol.JobEntry{Settled: step.Settle}, nil
	case step.Fail != nil:
		return &protocol.JobEntry{Failing: step.Fail}, nil
	case k.Inventory.Map.Stop != nil || k.Inventory.Map.Paused || pending(len(k.Inventory.Map.Placed), machines):
		return nil, nil
	}
	working := k.workingMachines(machines)
	if stop := k.crashLoop(len(k.Inventory.Map.Placed), machines); stop != nil {
		if working > 0 { // the others' work goes on: no more are asked for
			return nil, nil
		}
		return &protocol.JobEntry{Failing: stop}, nil
	}
	missing := min(k.wantedAgents(), v.left) - k.stayingAgents(machines)
	if missing <= 0 || working > 0 && !v.free {
		return nil, nil
	}
	n := len(k.Inventory.Map.Placed) + 1
	k.counted[n] = false
	return &protocol.JobEntry{Placed: &protocol.Placed{Placement: n, Agents: missing, Target: k.target, Inherited: k.Inherited}}, nil
}

// surveyed is what a keeper found.
type surveyed struct {
	tally job.Tally
	whole bool
	left  int             // chunks that are not done
	free  bool            // one of them could be claimed
	told  map[string]bool // agents that the engine says are gone
}

func (k *MapKeeper) scanChunks(ctx context.Context, machines []Machine) (v surveyed, err error) {
	probes := keeperProbes
	alive := slices.ContainsFunc(machines, func(m Machine) bool { return m.Alive })
	if !alive {
		probes = k.Inventory.Map.Chunks()
	}
	v.tally, v.whole, err = k.Inventory.ScanChunks(ctx, chunks.Share{}, probes, func(c *chunks.Chunk) error {
		if k.Inventory.Map.Done(c) {
			return nil
		}
		if err := k.checkOwner(ctx, c, machines, &v); err != nil {
			return err
		}
		if k.Inventory.Map.Stop == nil { // agents do the rest, and without them it would be of no use
			return nil
		}
		for {
			e, ok := k.Inventory.Map.NextOf(c, chunks.ChunkEvidence{Death: k.deathOf, StopAge: k.Inventory.SinceStop()})
			if !ok {
				return nil
			}
			if _, _, err := k.Inventory.AppendToChunk(ctx, c, k.by, e); err != nil {
				return err
			}
			if c.Owner != "" { // another wrote first: the owner lives
				k.observer.NoteEntry(c.Sign())
			}
		}
	})
	if err != nil {
		return v, fmt.Errorf("read job: %w", err)
	}
	for id := range k.Inventory.ChunksOf(chunks.Share{}) {
		if _, done := k.Inventory.ChunkIsDone(id); !done {
			v.left++
			c := k.Inventory.ChunksRead[id]
			_, free := (&chunks.Chunk{}).Free(nil)
			if c != nil {
				_, free = c.Free(k.deathOf)
			}
			v.free = v.free || free
		}
	}
	return v, nil
}

// checkOwner looks after the owner of a chunk.
func (k *MapKeeper) checkOwner(ctx context.Context, c *chunks.Chunk, machines []Machine, v *surveyed) error {
	if c.Owner == "" {
		return nil
	}
	if err := k.observer.CheckOwner(ctx, c.Sign()); err != nil {
		return err
	}
	placement, index, ok := liveness.PlacementAndIndex(c.Owner)
	if !ok {
		return nil
	}
	k.joined[placement] = true
	i := slices.IndexFunc(machines, func(m Machine) bool { return m.Placement == placement && m.Index == index })
	if i < 0 || machines[i].Alive || k.Inventory.Map.Gone[c.Owner] != liveness.Alive {
		return nil
	}
	// What each process on this machine sees needs no entry.
	if machines[i].Taken || k.observer.DeathOf(c.Owner) == liveness.Alive {
		if v.told == nil {
			v.told = map[string]bool{}
		}
		v.told[c.Owner] = machines[i].Taken
	}
	return nil
}

func (k *MapKeeper) deathOf(agent string) liveness.Death {
	if d := k.Inventory.Map.Gone[agent]; d != liveness.Alive {
		return d
	}
	return k.observer.DeathOf(agent)
}
