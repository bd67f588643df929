package host

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
)

// The model is what a person expects of a line, written down a second time and
// in another way. Claims come, try, go and die in random order, each step on the
// real files; after each grant the model says whether it was fair, and whenever
// no claim can go on, whether those that wait really have to.

// player is a claim of the model.
type player struct {
	*slot
	granted bool
	held    Held
	why     string // what it was told last
}

func (p *player) String() string {
	return fmt.Sprintf("%s (number %d, %s, queue %s, priority %d, now %v)", p.Label, p.number, p.Wish.wishInWords(), p.Queue, p.Priority, p.Now)
}

type model struct {
	*testing.T
	room   Room
	gpus   []GPU
	random *rand.Rand
	all    []*player
	paused map[string]bool
	groups int
	step   int
}

const (
	modelCores  = 4
	modelMemory = 8
	modelGPUs   = 3
)

var modelTotal = [3]float64{modelCores, modelMemory, modelGPUs}

func wants(w Wish) [3]float64 {
	return [3]float64{w.Each.CPUs, float64(w.Each.Memory), float64(w.Each.GPUs)}
}

func TestNobodyIsOvertakenOrForgotten(t *testing.T) {
	const steps, seeds = 250, 3 // 100 seeds were tried; these catch the mistakes that were planted
	for seed := range uint64(seeds) {
		m := &model{T: t, room: Room{Folder: filepath.Join(t.TempDir(), "room"), Cores: firstCores(modelCores), Memory: modelMemory},
			gpus: gpus(modelGPUs), random: rand.New(rand.NewPCG(seed, 5)), paused: map[string]bool{}}
		for m.step = range steps {
			m.one()
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, m.step)
			}
		}
		m.drain()
		if t.Failed() {
			t.Fatalf("seed %d, at the end", seed)
		}
	}
}

// one is one random step.
func (m *model) one() {
	switch n := m.random.IntN(20); {
	case n < 6 && len(m.all) < 12:
		m.come()
	case n < 14 && len(m.all) > 0:
		m.try(m.all[m.random.IntN(len(m.all))])
	case n < 16 && len(m.all) > 0:
		m.end(m.random.IntN(len(m.all)), func(s *slot) { s.releaseSlot() })
	case n < 17 && len(m.all) > 0:
		m.end(m.random.IntN(len(m.all)), func(s *slot) { unlock(s.fd) }) // as the kernel does after a kill -9
	case n < 18:
		m.pause([]string{"a", "b"}[m.random.IntN(2)], m.random.IntN(3) == 0)
	default:
		m.settle()
	}
}

// come adds a claim: a new job's, or another node of a job that is there.
func (m *model) come() {
	var w Wish
	if i := m.random.IntN(len(m.all) + 3); i < len(m.all) && m.all[i].Members > 1 {
		w = m.all[i].Wish
	} else {
		cores := []float64{0, 0.5, 1, 1, 2, 3, 4}[m.random.IntN(7)]
		w = Wish{Each: Amount{CPUs: cores, Memory: int64(m.random.IntN(5)), GPUs: m.random.IntN(3)},
			Queue: []string{"a", "b", DefaultQueue}[m.random.IntN(3)], Priority: m.random.IntN(3), Now: m.random.IntN(12) == 0}
		if w.Queue == "a" {
			w.Share = Amount{CPUs: 2, GPUs: 1}
		}
		m.groups++
		w.Label = fmt.Sprint("job ", m.groups)
		if m.random.IntN(3) == 0 {
			w.Group, w.Members = fmt.Sprint("group ", m.groups), 2
		}
	}
	w = w.withDefaults()
	view := m.room.viewWith(m.gpus)
	if view.totalAmount().Fits(w) != nil {
		return
	}
	s, err := m.room.joinQueue(m.Context(), record{Wish: w, View: view, Part: noPart})
	if err != nil {
		m.Fatal(err)
	}
	if n := len(m.all); n > 0 && s.number <= m.all[n-1].number {
		m.Errorf("number %d after %d", s.number, m.all[n-1].number)
	}
	m.all = append(m.all, &player{slot: s})
}

func (m *model) end(i int, how func(*slot)) {
	how(m.all[i].slot)
	m.all = slices.Delete(m.all, i, i+1)
}

func (m *model) pause(queue string, paused bool) {
	do := m.room.Resume
	if paused {
		do = m.room.Pause
	}
	if err := do(queue); err != nil {
		m.Fatal(err)
	}
	m.paused[queue] = paused
}

// try lets a claim look, and says whether it was granted now.
func (m *model) try(p *player) bool {
	if p.granted {
		return false
	}
	had := m.parties(true)[m.key(p)] != nil
	before := m.parties(false)
	v, err := p.slot.tryToClaim(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	if p.why = v.why; !v.isGranted() {
		if v.why == "" {
			m.Errorf("%v waits for nothing", p)
		}
		return false
	}
	p.granted, p.held = true, p.slot.heldParts(m.gpus)
	if len(p.held.GPUs) != p.Each.GPUs || !p.Now && p.Each.CPUs >= 1 && len(p.held.Cores) != int(p.Each.CPUs) {
		m.Errorf("%v got cores %v and GPUs %v", p, p.held.Cores, p.held.GPUs)
	}
	m.apart(p)
	if !had && !p.Now {
		m.fair(before, p)
	}
	return true
}

func (m *model) key(p *player) string {
	if p.Group != "" {
		return p.Group
	}
	return p.Label
}

// parties are the claims of each job, of those that have been granted, or of the others.
func (m *model) parties(granted bool) map[string][]*player {
	all, some := map[string][]*player{}, map[string]bool{}
	for _, p := range m.all {
		all[m.key(p)] = append(all[m.key(p)], p)
		some[m.key(p)] = some[m.key(p)] || p.granted
	}
	for key := range all {
		if some[key] != granted {
			delete(all, key)
		}
	}
	return all
}

// used is what all jobs hold that have been granted, or those of one queue.
func (m *model) used(queue string) (sum [3]float64) {
	for _, party := range m.parties(true) {
		for k, n := range wants(party[0].Wish) {
			if queue == "" || party[0].Queue == queue {
				sum[k] += n * float64(party[0].Members)
			}
		}
	}
	if queue == "" { // a claim that does not wait shares GPUs, which counts them once
		devices := map[device]bool{}
		for _, p := range m.all {
			for _, one := range p.Parts {
				mark(devices, one.GPUs, one.GPUs)
			}
		}
		sum[2] = float64(len(devices))
	}
	return sum
}

// crowded says that a job has more agents than it said: some were taken for dead.
func (m *model) crowded(p *player) bool {
	n := 0
	for _, o := range m.all {
		if m.key(o) == m.key(p) && o.granted {
			n++
		}
	}
	return n > p.Members
}

// apart says that two share a core or a GPU and must not.
func (m *model) apart(p *player) {
	for _, o := range m.all {
		if o == p || !o.granted || m.key(o) == m.key(p) && m.crowded(p) {
			continue
		}
		for _, c := range p.held.Cores {
			if slices.Contains(o.held.Cores, c) {
				m.Errorf("%v and %v share core %d", p, o, c)
			}
		}
		for _, g := range p.held.GPUs {
			if !p.Now && !o.Now && slices.Contains(o.held.GPUs, g) {
				m.Errorf("%v and %v share GPU %d", p, o, g.Index)
			}
		}
	}
}

// fair says what is wrong with a grant. before are the parties that waited.
func (m *model) fair(before map[string][]*player, p *player) {
	used, share := m.used(""), wants(Wish{Each: p.Share})
	mine, inQueue := wants(p.Wish), m.used(p.Queue)
	for k := range modelTotal {
		if mine[k] > 0 && used[k] > modelTotal[k] {
			m.Errorf("%v is granted, and %v of %v are held", p, used, modelTotal)
		}
		if mine[k] > 0 && share[k] > 0 && inQueue[k] > share[k] {
			m.Errorf("%v is granted, and its queue holds %v of %v", p, inQueue, share)
		}
	}
	if m.paused[p.Queue] {
		m.Errorf("%v is granted in a paused queue", p)
	}
	first := before[m.key(p)][0]
	for key, other := range before {
		o := other[0]
		if key == m.key(p) || o.Priority < first.Priority || o.Priority == first.Priority && o.number > first.number {
			continue
		}
		heldUp := m.paused[o.Queue] || o.Share != Amount{} // maybe: its queue may be what it waits for
		for k, n := range wants(o.Wish) {
			need := n * float64(o.Members)
			passed := !heldUp && used[k]+need > modelTotal[k] || o.Queue == p.Queue && share[k] > 0 && inQueue[k]+need > share[k]
			if n > 0 && mine[k] > 0 && passed {
				m.Errorf("%v is granted, and so %v waits longer", p, o)
			}
		}
	}
}

// settle lets all try until no claim is granted anything, and then says which waits without need.
func (m *model) settle() {
	for more := true; more; {
		more = false
		for _, p := range m.all {
			more = m.try(p) || more
		}
	}
	var line []*player
	for _, party := range m.parties(false) {
		line = append(line, party[0])
	}
	slices.SortFunc(line, func(a, b *player) int { return cmp.Or(b.Priority-a.Priority, cmp.Compare(a.number, b.number)) })
	var first *player // of those that wait and are not held up by their queue
	promised := map[string][3]float64{}
	for _, p := range line {
		if p.Now {
			m.Errorf("%v waits", p)
		}
		heldUp := m.paused[p.Queue]
		share, used, wanted := wants(Wish{Each: p.Share}), m.used(p.Queue), promised[p.Queue]
		for k, n := range wants(p.Wish) {
			wanted[k] += n * float64(p.Members)
			heldUp = heldUp || n > 0 && share[k] > 0 && used[k]+wanted[k] > share[k]
		}
		promised[p.Queue] = wanted
		if !heldUp && first == nil {
			first = p
		}
	}
	if first == nil {
		return
	}
	used, lacks := m.used(""), false
	for k, n := range wants(first.Wish) {
		lacks = lacks || n > 0 && used[k]+n*float64(first.Members) > modelTotal[k]
	}
	if !lacks {
		m.Errorf("%v waits, nobody is ahead of it, and %v of %v are held: it %s", first, used, modelTotal, first.why)
	}
}

// drain lets all claims end: all must have been granted, and nothing is left.
func (m *model) drain() {
	m.pause("a", false)
	m.pause("b", false)
	for len(m.all) > 0 && !m.Failed() {
		m.settle()
		i := slices.IndexFunc(m.all, func(p *player) bool { return p.granted })
		if i < 0 {
			m.Fatalf("nobody holds anything, and %v waits", m.all[0])
		}
		m.end(i, func(s *slot) { s.releaseSlot() })
	}
	if left, err := filepath.Glob(filepath.Join(m.room.Folder, claimPrefix+"*")); err != nil || len(left) > 0 {
		m.Errorf("at the end there are %v, %v", left, err)
	}
}
