package ledger

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
)

// What the worlds of runs and of maps have in common, beside the world itself: how many
// are played, and how things go wrong in them.

// playWorlds plays so many worlds after the first ones, some at once, until one breaks
// a promise, and adds up what happened in them.
func playWorlds(t *testing.T, from, worlds uint64, play func(seed uint64) coverage) coverage {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // worlds are small and short
	var next atomic.Uint64
	var mu sync.Mutex
	seen := coverage{}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				n := next.Add(1)
				if n > worlds || t.Failed() {
					return
				}
				had := play(from + n)
				mu.Lock()
				seen.add(had)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d worlds\n%s", worlds, seen)
	return seen
}

// trouble is something that happens to one process of a world; it says whether it could.
type trouble[S any] struct {
	name   string
	weight int
	to     func(s S, p *process) bool
}

// drawTrouble draws one by weight.
func drawTrouble[S any](w *world, all []trouble[S]) trouble[S] {
	sum := 0
	for _, t := range all {
		sum += t.weight
	}
	n := w.rng.IntN(sum)
	for _, t := range all {
		if n -= t.weight; n < 0 {
			return t
		}
	}
	panic("unreachable")
}

// strike lets something happen to a process; what cannot happen to that one gives way
// to something else. done is false when four could not.
func strike[S any](s S, w *world, seen coverage, t trouble[S], p *process, all []trouble[S]) (done bool) {
	for range 4 {
		w.logf("trouble: %s for %s", t.name, p.name)
		seen["fault "+t.name]++ // before: a process that strikes itself down does not come back
		if t.to(s, p) {
			return true
		}
		seen["fault "+t.name]--
		t = drawTrouble(w, all)
	}
	return false
}

// drawVictim draws a living process: those in dear more often than others.
func (w *world) drawVictim(dear []*process) *process {
	var who []*process
	for _, p := range w.procs {
		if !p.dead {
			who = append(who, p)
		}
	}
	for _, p := range dear {
		if !p.dead {
			who = append(who, p, p, p)
		}
	}
	if len(who) == 0 {
		return nil
	}
	return who[w.rng.IntN(len(who))]
}

// snare is a trouble that waits for a moment: the nth time that something is
// written, just before, at, or just after it.
type snare[S any] struct {
	kind, stage string
	nth         int
	other       bool // it happens to another process
	trouble     trouble[S]
}

// springs says whether r is that moment.
func (n *snare[S]) springs(r request) bool {
	if n.kind != r.kind || n.stage != r.stage || n.nth == 0 {
		return false
	}
	n.nth--
	return n.nth == 0
}
