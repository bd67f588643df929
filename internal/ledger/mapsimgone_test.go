package ledger

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/store"
)

// gc removes a job that has settled while agents of it still sleep: they wake up and
// find nothing, write nothing, and go (E6).

// setRemovals draws whether this world's jobs are removed. It has randomness of its own:
// worlds without stay what they were.
func (s *yard) setRemovals() {
	rng := rand.New(rand.NewPCG(s.seed, 41))
	if s.removals = rng.IntN(4) == 0; !s.removals {
		return
	}
	s.at(time.Duration(rng.Int64N(int64(s.troubledFor()))), func() { s.start("gc-old", func(p *process) { s.remove(p, false) }) })
}

// removeAll removes what is left once the world has come to rest, and has everything wake
// that still sleeps.
func (s *yard) removeAll() {
	s.removals = false
	s.start("gc", func(p *process) { s.remove(p, true) })
	s.run(s.now + 2*time.Minute)
}

// remove is gc: every job that has settled, or of these all but the newest.
func (s *yard) remove(p *process, newest bool) {
	w := s.ledgerOf(p)
	for _, id := range slices.Sorted(maps.Keys(s.places)) {
		places := s.places[id]
		if t := s.tales[id]; t.settled != nil && t.removed == 0 && id != s.live && (newest || id != s.newest()) {
			err := removal.RemoveJob(ctx, w, pathOf(id), places[len(places)-1], tasks.Place{}, p.name)
			if fault.KindOf(err) == fault.Invalid && len(s.places[id]) > len(places) {
				s.seen["not removed: another submission came first"]++
				continue
			}
			must(err)
		}
	}
	p.end()
}

// onRemoved takes in the entry that removes a job.
func (s *yard) onRemoved(e protocol.TaskEntry) {
	t := s.tales[e.Removed.Job]
	switch {
	case t == nil || t.settled == nil || s.live == t.id:
		s.violate("E6: %s removed %s, which is live or has not settled", e.By, e.Removed.Job)
	case t.removed == 0:
		t.removed, t.hidden = s.now, s.hiddenLists()
		s.seen["removed"]++
	}
}

// onDeleted is the order of E6: the task's log says it first, then goes job.json, and the
// job's own log last.
func (s *yard) onDeleted(key string) {
	part := strings.Split(key, "/")
	if len(part) < 4 || s.tales[part[2]] == nil {
		return
	}
	t := s.tales[part[2]]
	switch _, described := s.made[protocol.JobKey(pathOf(t.id))]; {
	case t.removed == 0 && len(s.places[t.id]) > 0:
		s.violate("E6: %s was deleted, and no entry says that %s is removed", key, t.id)
	case part[3] != "job.json" && described:
		s.violate("E6: %s was deleted before job.json", key)
	case part[3] == "log" && t.hidden == s.hiddenLists(): // what a list hid is left for a later gc
		for left := range s.made {
			if rest, below := strings.CutPrefix(left, protocol.JobDir(pathOf(t.id))+"/"); below && !strings.HasPrefix(rest, "log/") && s.made[left] < t.removed {
				s.violate("E6: %s was deleted before %s", key, left)
				return
			}
		}
	}
}

// hiddenLists counts the lists so far that hid objects.
func (s *yard) hiddenLists() int {
	counts := s.bucket.Counts()
	return counts["ShortList"] + counts["StaleList"]
}

// checkStray is E6: an agent that was awake for long enough to miss job.json writes
// nothing, begins nothing, and is gone.
func (s *yard) checkStray(t *mapTale, agent, does string) {
	a := s.agentNamed(agent)
	if t.removed == 0 || a == nil || a.p.dead {
		return
	}
	s.seen["outlived its job"]++
	if since := s.now - s.prompt(); t.removed < since && a.awake(since, s.now) {
		s.violate("E6: %s %s %s after %s was removed", agent, does, s.now-t.removed, t.id)
	}
}

// onStray looks at what lands below a job that was removed: what was under way may.
func (s *yard) onStray(t *mapTale, key, kind string) {
	switch kind {
	case "agents":
		var b protocol.Heartbeat
		s.peek(key, &b)
		s.checkStray(t, b.Agent, "writes a heartbeat")
	case "log", "chunks":
		var e protocol.Header
		s.peek(key, &e)
		s.checkStray(t, e.By, "writes "+key)
	}
}

// hushed is the map runner's way out when the job was removed: nothing is written.
func (a *mapAgent) hushed() bool {
	if a.s.tales[a.job].removed == 0 {
		return false
	}
	if _, err := tasks.LoadJob(ctx, a.w, pathOf(a.job)); !errors.Is(err, store.ErrNotExist) {
		return false
	}
	a.left = true
	a.killAll(nil)
	a.s.seen["left as its job was removed"]++
	return true
}

// excusedOf says whether a process that is no agent ended because its job was removed
// before its eyes, and was told so.
func (s *yard) excusedOf(p *process, why any) bool {
	err, ok := why.(error)
	if !ok || s.seen["removed"] == 0 || s.agentOf(p) != nil && s.agentOf(p).member != nil {
		return false
	}
	kind := fault.KindOf(err)
	return kind == fault.Missing || kind == fault.Invalid || errors.Is(err, liveness.ErrRemoved) || errors.Is(err, store.ErrNotExist)
}
