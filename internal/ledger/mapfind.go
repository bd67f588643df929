package ledger

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

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
	at, tried int
	known     map[int]bool // touched, by a listing
	pages     map[int]bool // of chunks' folders, listed
}

func (f *finder) done(chunks int) bool { return f.tried >= chunks || len(f.pages) >= min(256, chunks) }

// missesBefore is how many tries to claim may fail before a listing is asked.
const missesBefore = 2

// untouched claims a chunk that nobody has touched: it begins at a hash of our id,
// and after two misses a page of a listing says where to look on.
func (m *MapMember) untouched(ctx context.Context) (*Hold, error) {
	f, n := &m.cursor, m.t.m.Chunks()
	if f.known == nil {
		f.known, f.pages, f.at = map[int]bool{}, map[int]bool{}, int(hash(m.ID)%uint32(max(1, n)))
	}
	if m.greedy() {
		return nil, nil
	}
	for misses := 0; !f.done(n); f.at, f.tried = (f.at+1)%n, f.tried+1 {
		id, seed := m.t.m.Seed(f.at)
		if _, closed := m.t.brief[id]; closed || f.known[f.at] {
			continue
		}
		c := m.t.chunk(id, seed)
		if c.N > 0 {
			continue
		}
		h, err := m.claim(ctx, c)
		if h != nil || err != nil {
			return h, err
		}
		if misses++; misses < missesBefore {
			continue
		}
		misses = 0
		if err := m.page(ctx, n); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// page lists one of the folders that chunks are spread over, and moves to the
// first of its chunks that is not there.
func (m *MapMember) page(ctx context.Context, n int) error {
	f := &m.cursor
	hh := f.at & 0xff
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
	moved := false
	for i := hh; i < n; i += 256 {
		id, _ := m.t.m.Seed(i)
		if there[id] {
			f.known[i] = true
		} else if !moved {
			f.at, moved = i, true
		}
	}
	if moved {
		f.at = (f.at + n - 1) % n // the loop goes one on
	}
	return nil
}

func hash(text string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32()
}

// Idle agents put their name below idle/; an owner who has items to give writes the
// chunk's id there that he has handed over for them. All of it are hints.
func (m *MapMember) idleKey(agent string) string { return jobDir(m.t.p) + "/idle/" + agent }

func (m *MapMember) raiseHand(ctx context.Context) error {
	if m.marked {
		return nil
	}
	m.marked = true
	return m.t.w.Store.Put(ctx, m.idleKey(m.ID), []byte{})
}

func (m *MapMember) lowerHand(ctx context.Context) error {
	if !m.marked {
		return nil
	}
	m.marked = false
	return m.t.w.Store.Delete(ctx, m.idleKey(m.ID))
}

// idle lists agents that wait for work; a page is enough.
func (m *MapMember) idle(ctx context.Context) (agents []string, err error) {
	const enough = 16
	for o, err := range m.t.w.Store.List(ctx, jobDir(m.t.p)+"/idle/") {
		if err != nil {
			return nil, fmt.Errorf("find idle agents: %w", err)
		}
		if agent := path.Base(o.Key); o.Size == 0 && agent != m.ID {
			agents = append(agents, agent)
		}
		if len(agents) == enough {
			break
		}
	}
	if n := len(agents); n > 1 { // not all owners to the same one
		at := int(hash(m.ID)) % n
		agents = append(agents[at:], agents[:at]...)
	}
	return agents, nil
}

// mail claims what somebody handed over for us.
func (m *MapMember) mail(ctx context.Context) (*Hold, error) {
	if !m.marked {
		return nil, nil
	}
	b, err := m.t.w.Store.Get(ctx, m.idleKey(m.ID))
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

// roll is what is known of the other agents of the job, for M12.
type roll struct {
	at    time.Duration        // of the last listing
	seen  map[string]time.Time // heartbeats' times by the store's clock
	known bool                 // two listings were compared
	spare int                  // our place among the spares, from 0; -1: none of them
}

// The spares of M12: who stays although nothing is to be claimed.
const (
	rollEvery   = 30 * time.Second
	sparesLeast = 2
	sparesEach  = 50 // one for so many agents: 2 %
)

// callRoll finds out whether we are a spare: one of the first, by a hash of their
// ids, among the agents whose heartbeats moved since the last roll.
func (m *MapMember) callRoll(ctx context.Context) error {
	now := m.t.now()
	if m.roll.seen != nil && now-m.roll.at < rollEvery {
		return nil
	}
	seen, moved := map[string]time.Time{}, []string{m.ID}
	for o, err := range m.t.w.Store.List(ctx, jobDir(m.t.p)+"/agents/") {
		if err != nil {
			return fmt.Errorf("call the roll: %w", err)
		}
		id := path.Base(o.Key)
		seen[id] = o.Time
		// One that was not in the last listing may only have been left out of it (L6).
		if before, ok := m.roll.seen[id]; id != m.ID && ok && !before.Equal(o.Time) {
			moved = append(moved, id)
		}
	}
	known := m.roll.seen != nil && now-m.roll.at <= rollEvery+readGap
	m.roll = roll{at: now, seen: seen, known: known}
	if !known { // or so long ago that who moved since may be gone (D2)
		return nil
	}
	slices.SortFunc(moved, func(a, b string) int {
		if d := int64(hash(a)) - int64(hash(b)); d != 0 {
			return int(d)
		}
		return strings.Compare(a, b)
	})
	err := m.findSpares(ctx, moved, max(sparesLeast, len(moved)/sparesEach))
	m.roll.known = err == nil
	return err
}

// findSpares takes the first n of these agents that have not left.
func (m *MapMember) findSpares(ctx context.Context, agents []string, n int) error {
	place := 0
	m.roll.spare = -1
	for _, id := range agents {
		if id == m.ID {
			m.roll.spare = place
			return nil
		}
		b, ok, err := m.t.w.readBeat(ctx, m.t.p, id)
		if err != nil {
			return err
		}
		if !ok || b.Phase == Left {
			continue
		}
		if place++; place == n {
			return nil
		}
	}
	return nil
}

// mayLeave says that nothing is claimable, and that others stay for what may
// become so (M12): they moved within the last roll. A chunk in back-off counts.
func (m *MapMember) mayLeave() bool {
	if !m.roll.known || m.roll.spare >= 0 || len(m.holds) > 0 || m.resting == 0 || m.t.now()-m.roll.at > rollEvery {
		return false
	}
	for _, c := range m.t.chunks {
		if _, free := c.Free(m.death); free && c.Wait > 0 {
			return false
		}
	}
	return true
}
