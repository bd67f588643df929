package ledger

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/store"
)

// own notes a chunk that we handed over: nobody else may know of it yet.
func (m *MapMember) own(c Child) {
	m.t.chunk(c.ID, c.Seed)
	m.mine = append(m.mine, c)
	if c.To != "" {
		m.tell = append(m.tell, c)
	}
}

// ownChildren takes back what nobody has claimed, when our own is done.
func (m *MapMember) ownChildren(ctx context.Context) (*Hold, error) {
	for i := 0; i < len(m.mine); i++ {
		c := m.t.chunk(m.mine[i].ID, m.mine[i].Seed)
		if _, err := m.t.read(ctx, c, nil); err != nil {
			return nil, err
		}
		if c.N > 0 {
			m.mine = slices.Delete(m.mine, i, i+1)
			i--
			continue
		}
		if h, err := m.claim(ctx, c); h != nil || err != nil {
			return h, err
		}
	}
	return nil, nil
}

// finder goes through the manifest's chunks for one that nobody has touched (M11).
type finder struct {
	chunks   int          // that there were
	own, end int          // what is left of the part that is ours to try first
	free     []int        // chunks that a listing has not shown, in the order in which to try them
	known    map[int]bool // touched, by a listing
	pages    map[int]bool // of chunks' folders, listed
	empty    int          // of these in a row, without one that is free
}

// What a search costs at most. Where thousands look for the last chunks, each has to
// give up soon: who stays finds what is left.
const (
	missesBefore = 2 // tries to claim that fail before a listing is asked
	emptyPages   = 3 // far away: listings without a free chunk before it gives up
)

func (m *MapMember) searched() bool { return m.cursor.out() && !m.listable() }

// listable says whether a listing may still show what is free.
func (m *MapMember) listable() bool {
	f := &m.cursor
	return len(f.pages) < min(256, f.chunks) && (m.o.Near || f.empty < emptyPages)
}

// spread gives us the part of n chunks that is ours to try first: by our seat, so that
// thousands who come at once do not all want what others have. Of chunks that were
// added later it is a part of these.
func (f *finder) spread(n, workers int, id string) {
	if f.chunks == n {
		return
	}
	_, seat, ok := Seat(id)
	if !ok {
		seat = int(hash(id) >> 1)
	}
	seat %= workers
	from, more := f.chunks, max(0, n-f.chunks)
	*f = finder{chunks: n, own: from + seat*more/workers, end: from + (seat+1)*more/workers, known: map[int]bool{}, pages: map[int]bool{}}
}

// out says that it knows of no chunk to try.
func (f *finder) out() bool { return f.own >= f.end && len(f.free) == 0 }

// next is the chunk to try now, if it is not out.
func (f *finder) next() (at int) {
	if len(f.free) > 0 {
		at, f.free = f.free[0], f.free[1:]
		return at
	}
	f.own++
	return f.own - 1
}

// untouched claims a chunk that nobody has touched: first of its own part, and beyond
// that, or after two misses, one that a page of a listing does not show; far away, one
// page at a time.
func (m *MapMember) untouched(ctx context.Context) (*Hold, error) {
	f, n := &m.cursor, m.t.m.Chunks()
	f.spread(n, max(1, m.t.m.Spec.Workers), m.ID)
	if m.greedy() {
		return nil, nil
	}
	for misses, listed := 0, false; !m.searched(); {
		if m.listable() && (misses >= missesBefore || f.out()) {
			if listed && !m.o.Near {
				break
			}
			misses, listed = 0, true
			if err := m.page(ctx, n); err != nil {
				return nil, err
			}
			continue
		}
		at := f.next()
		id, seed := m.t.m.Seed(at)
		if _, closed := m.t.brief[id]; closed || f.known[at] {
			continue
		}
		c := m.t.chunk(id, seed)
		if c.N > 0 {
			continue
		}
		if h, err := m.claim(ctx, c); h != nil || err != nil {
			return h, err
		}
		misses++
	}
	return nil, nil
}

// page lists one of the folders that chunks are spread over: those of its chunks that
// are not there are to be tried next, by each agent in another order.
func (m *MapMember) page(ctx context.Context, n int) error {
	f := &m.cursor
	dice := int(hash(fmt.Sprintf("%s %d", m.ID, len(f.pages))) >> 1)
	hh := dice % min(256, n)
	for f.pages[hh] {
		hh = (hh + 1) % min(256, n)
	}
	f.pages[hh] = true
	there := map[string]bool{}
	prefix := fmt.Sprintf("%s/chunks/%02x/", jobDir(m.t.p), hh)
	for o, err := range m.t.w.Store.List(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("find work: %w", err)
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(o.Key, prefix), "/")
		there[id] = true
	}
	if !m.o.Near {
		f.free = nil // others have been at these since
	}
	var free []int
	for i := hh; i < n; i += 256 {
		if id, _ := m.t.m.Seed(i); there[id] {
			f.known[i] = true
		} else {
			free = append(free, i)
		}
	}
	if f.empty++; len(free) > 0 {
		at := dice % len(free)
		f.free, f.empty = slices.Concat(free[at:], free[:at], f.free), 0
	}
	return nil
}

func hash(text string) uint32 {
	h := uint32(2166136261) // FNV-1a, without what hash/fnv allocates: a roll has thousands
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return h
}

// Idle agents put their name below idle/; an owner who has items to give writes the
// chunk's id there that he has handed over for them. All of it are hints. An agent
// that has found work overwrites its name, as it has no right to delete.
func (m *MapMember) idleKey(agent string) string { return jobDir(m.t.p) + "/idle/" + agent }

// bellKey is an object that the first idle agent of a job makes. Until then each owner
// asks for it, in vain, instead of a listing of idle/: far away that costs a tenth, and
// for most of a job nobody is idle.
func (m *MapMember) bellKey() string { return jobDir(m.t.p) + "/bell" }

func (m *MapMember) raiseHand(ctx context.Context) error {
	if m.marked {
		return nil
	}
	m.marked = true
	if err := m.t.w.Store.Put(ctx, m.idleKey(m.ID), []byte{}); err != nil || m.o.Near {
		return err
	}
	rung, err := m.rung(ctx)
	if err != nil || rung {
		return err
	}
	m.bell = true
	return m.t.w.Store.Put(ctx, m.bellKey(), []byte{})
}

// rung says whether anybody has been idle in this job.
func (m *MapMember) rung(ctx context.Context) (bool, error) {
	if m.bell || m.o.Near {
		return true, nil
	}
	_, err := m.t.w.get(ctx, m.bellKey(), maxRecord)
	m.bell = err == nil
	return m.bell, ignoreAbsent(err)
}

func (m *MapMember) lowerHand(ctx context.Context) error {
	if !m.marked {
		return nil
	}
	m.marked = false
	return m.t.w.Store.Put(ctx, m.idleKey(m.ID), []byte(busy))
}

// busy is what stands below an agent's name that wants no work. No chunk is called so.
const busy = "-"

// idle lists agents that wait for work: some of a page of them, each owner others. Of
// thousands of agents it asks for those that come after a seat by chance, and for two
// pages at most: all of them would be ten, and the first thousand are not all.
func (m *MapMember) idle(ctx context.Context) (agents []string, err error) {
	const enough = 16
	placed := 0
	for _, p := range m.t.m.Placed {
		placed += p.Agents
	}
	if placed == 1 {
		return nil, nil // there is nobody else
	}
	if rung, err := m.rung(ctx); err != nil || !rung {
		return nil, err
	}
	m.asked++
	dice := hash(fmt.Sprintf("%s %d", m.ID, m.asked))
	folder, from := jobDir(m.t.p)+"/idle/", ""
	if placed > onePage {
		from = folder + m.seated(int(dice>>1)%placed)
	}
	listed := 0
	look := func(after, to string) error {
		for o, err := range m.t.w.Store.ListAfter(ctx, folder, after, onePage) {
			if err != nil {
				return fmt.Errorf("find idle agents: %w", err)
			}
			if to != "" && o.Key > to {
				break
			}
			if agent := path.Base(o.Key); o.Size == 0 && agent != m.ID {
				agents = append(agents, agent)
			}
			if listed++; listed == onePage {
				break
			}
		}
		return nil
	}
	err = look(from, "")
	if err == nil && from != "" && listed < onePage && len(agents) < enough {
		err = look("", from) // after the last seat come the first
	}
	if n := len(agents); n > 1 && from == "" {
		at := int(dice % uint32(n))
		agents = append(agents[at:], agents[:at]...)
	}
	return agents[:min(enough, len(agents))], err
}

// seated is how the id of the agent begins that was placed as the nth, from 0.
func (m *MapMember) seated(n int) string {
	for _, p := range m.t.m.Placed {
		if n < p.Agents {
			return fmt.Sprintf("%d-%d", p.Placement, n)
		}
		n -= p.Agents
	}
	return ""
}

// mail claims what somebody handed over for us.
func (m *MapMember) mail(ctx context.Context) (*Hold, error) {
	if !m.marked {
		return nil, nil
	}
	b, err := m.t.w.get(ctx, m.idleKey(m.ID), maxRecord)
	if err != nil || len(b) == 0 {
		return nil, ignoreAbsent(err)
	}
	m.marked = false // our hand was taken down: raise it again when this comes to nothing
	c, err := m.childOf(ctx, string(b))
	if c == nil || err != nil {
		return nil, err
	}
	if _, err := m.t.read(ctx, c, nil); err != nil {
		return nil, err
	}
	return m.claim(ctx, c)
}

// childOf finds a chunk that was handed over, by its id, in its parent's log; nil
// when there is none (the entry did not count).
func (m *MapMember) childOf(ctx context.Context, id string) (*Chunk, error) {
	dot := strings.LastIndexByte(id, '.')
	if dot < 0 {
		return m.t.manifestChunk(id), nil
	}
	parent, err := m.childOf(ctx, id[:dot])
	if parent == nil || err != nil {
		return nil, err
	}
	if n, err := strconv.Atoi(id[dot+1:]); err != nil || parent.N <= n {
		if _, err := m.t.read(ctx, parent, nil); err != nil {
			return nil, err
		}
	}
	for _, c := range parent.Children {
		if c.ID == id {
			return m.t.chunk(id, c.Seed), nil
		}
	}
	return nil, nil
}

// telling writes to idle agents what was handed over for them.
func (m *MapMember) telling(ctx context.Context) error {
	for len(m.tell) > 0 {
		c := m.tell[0]
		m.tell = m.tell[1:]
		if err := m.t.w.Store.Put(ctx, m.idleKey(c.To), []byte(c.ID)); err != nil {
			return err
		}
	}
	return nil
}

func ignoreAbsent(err error) error {
	if errors.Is(err, store.ErrNotExist) {
		return nil
	}
	return err
}
