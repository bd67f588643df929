package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// slowBucket answers each request for an object after as long as a far one takes.
type slowBucket struct {
	store.Bucket
	broken string // a key that cannot be read
}

const slowAnswer = 30 * time.Millisecond

func (b slowBucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	time.Sleep(slowAnswer) // in a bubble of synctest
	if key == b.broken {
		return nil, errUnreadable
	}
	return b.Bucket.Get(ctx, key, off, n)
}

var errUnreadable = errors.New("it cannot be read")

// A look at a map of a thousand agents, each with a chunk that it works on, takes
// seconds and not minutes: what it reads of them it reads side by side, and in order.
func TestALookAtAThousandAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const agents = 1000
		bucket := mem.New()
		w := protocol.World{Store: store.New(bucket, store.Options{}), Rand: rand.Reader, Gone: func(protocol.Host) (bool, bool) { return false, false }, Lanes: 16}
		j := job.Job{V: job.Format, ID: "job", Short: "j", Manifest: job.Manifest{Count: 4 * agents, Digest: "x", Format: "range"}, ChunkSize: 2,
			Spec: job.Spec{Project: "p", Task: "t", Verb: job.Map, Nodes: 1, Items: job.Items{From: "1-9", Workers: agents, Slots: 1}}}
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := tasks.SubmitJob(t.Context(), w, j, "boss")
		check(err)
		var last string
		for i := range agents {
			id := liveness.NewAgentID(w, 1, i)
			m := mapagent.NewMapMember(w, j, id, protocol.Host{}, mapagent.MapOptions{Slots: 1})
			m.Ready()
			_, err := m.Poll(t.Context())
			check(err)
			h, err := m.Seek(t.Context())
			check(err)
			try, ok := h.Next()
			if !ok {
				t.Fatalf("agent %d has nothing to do", i)
			}
			h.Done(protocol.Result{Item: try.Item})
			check(h.Record(t.Context()))
			b := protocol.Heartbeat{Agent: id, Counter: 1, Phase: "running"}
			m.FillHeartbeat(&b)
			check(liveness.WriteHeartbeat(t.Context(), w, j.Path(), b))
			last = id
		}
		look := func(b slowBucket) (views.MapReport, time.Duration, error) {
			far := w
			far.Store = store.New(b, store.Options{})
			began := time.Now()
			r, err := views.NewMapView(far, j).Refresh(t.Context())
			return r, time.Since(began), err
		}
		r, took, err := look(slowBucket{Bucket: bucket})
		check(err)
		for i := 1; i < len(r.Heartbeats); i++ {
			if r.Heartbeats[i-1].Agent >= r.Heartbeats[i].Agent {
				t.Errorf("%s comes before %s", r.Heartbeats[i-1].Agent, r.Heartbeats[i].Agent)
			}
		}
		if len(r.Living) != agents || r.Tally.Succeeded != agents {
			t.Errorf("%d agents live, %d items have succeeded", len(r.Living), r.Tally.Succeeded)
		}
		// A heartbeat, two entries and the end of a log of each, at least.
		if least := 4 * agents * slowAnswer / 16; took < least || took > 2*least {
			t.Errorf("it took %s, and %s is the least", took, least)
		}
		if _, _, err := look(slowBucket{bucket, protocol.AgentKey(j.Path(), last)}); !errors.Is(err, errUnreadable) {
			t.Errorf("of a heartbeat that cannot be read it says %v", err)
		}
	})
}

// Every chunk is found by its id, and nothing else is.
func TestIndexOfAChunk(t *testing.T) {
	t.Parallel()
	m := &chunks.Map{Base: job.Manifest{Count: 25}, Size: 10, Extensions: []chunks.Extension{
		{N: 7, Fact: protocol.Extended{First: 26, Size: 2, Manifest: job.Manifest{Count: 5}}}, {N: 12, Fact: protocol.Extended{First: 31, Size: 4, Manifest: job.Manifest{Count: 4}}}}}
	for i := range m.Chunks() {
		id, _ := m.Seed(i)
		if got, ok := m.Index(id); !ok || got != i {
			t.Errorf("chunk %s is %d, and said to be %d, %t", id, i, got, ok)
		}
	}
	for _, id := range []string{"", "-", "x", "000003", "x7-000003", "x12-000001", "x8-000000", "x0-000000", "1", "0000001", "000000.4", "-00001", "x7-", "busy", "999999999999999999999"} {
		if i, ok := m.Index(id); ok {
			t.Errorf("%q is said to be chunk %d", id, i)
		}
	}
}

// Agents that come at once begin with chunks of their own, whatever their number and
// that of the chunks: parts that touch, do not overlap and leave nothing out.
func TestAgentsBeginApart(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]int{{1, 1}, {80, 10}, {7, 10}, {10, 7}, {5000, 1000}, {0, 3}} {
		chunks, agents := size[0], size[1]
		tried, more := make([]int, chunks), make([]int, chunks+13)
		for i := range agents {
			var f mapagent.Search
			id := fmt.Sprintf("1-%d-x", i)
			for f.DivideChunks(chunks, agents, id); !f.IsExhausted(); {
				tried[f.NextChunk()]++
			}
			for f.DivideChunks(chunks+13, agents, id); !f.IsExhausted(); { // the job was extended
				more[f.NextChunk()]++
			}
		}
		for at, n := range tried {
			if n != 1 {
				t.Errorf("%d agents: chunk %d of %d is the first part of %d", agents, at, chunks, n)
			}
		}
		for at, n := range more {
			if want := min(1, max(0, at-chunks+1)); n != want {
				t.Errorf("%d agents: chunk %d of %d and 13 is in %d parts, want %d", agents, at, chunks, n, want)
			}
		}
	}
}

// tallyBucket counts what is asked for.
type tallyBucket struct {
	store.Bucket
	gets, lists int
}

func (b *tallyBucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	b.gets++
	return b.Bucket.Get(ctx, key, off, n)
}

func (b *tallyBucket) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	b.lists += (limit + mapagent.OnePage - 1) / mapagent.OnePage // a server's pages
	return b.Bucket.List(ctx, prefix, after, limit)
}

// wide is a member of a map of so many agents, and what it asks for.
func wide(t *testing.T, agents, chunks int) (*mapagent.MapMember, *tallyBucket) {
	b := &tallyBucket{Bucket: mem.New()}
	w := protocol.World{Store: store.New(b, store.Options{}), Rand: rand.Reader, Gone: func(protocol.Host) (bool, bool) { return false, false }}
	j := job.Job{V: job.Format, ID: "job", Short: "j", Manifest: job.Manifest{Count: chunks, Digest: "x", Format: "range"}, ChunkSize: 1,
		Spec: job.Spec{Project: "p", Task: "t", Verb: job.Map, Nodes: 1, Items: job.Items{From: "1-9", Workers: agents, Slots: 1}}}
	if _, _, err := tasks.SubmitJob(t.Context(), w, j, "boss"); err != nil {
		t.Fatal(err)
	}
	m := mapagent.NewMapMember(w, j, liveness.NewAgentID(w, 1, 0), protocol.Host{}, mapagent.MapOptions{Slots: 1})
	m.Ready()
	if _, err := m.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.Inventory.Map.Placed = []protocol.Placed{{Placement: 1, Agents: agents}}
	return m, b
}

// Of thousands of idle agents each look finds others, with a page or two.
func TestIdleAgentsAreFoundAmongThousands(t *testing.T) {
	const agents = 5000
	for _, idle := range []int{agents, 3, 0} {
		m, b := wide(t, agents, 1)
		m.IdleFlagSeen = true
		for i := range agents {
			text := mapagent.Busy
			if i%(agents/max(idle, 1)) == 0 && idle > 0 {
				text = ""
			}
			if err := m.Inventory.World.Store.Put(t.Context(), m.IdleKey(fmt.Sprintf("1-%d-%08x", i, i)), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		found := map[string]int{}
		for range 100 {
			b.lists = 0
			got, err := m.IdleAgents(t.Context())
			if err != nil || b.lists > 2 {
				t.Fatalf("%d lists: %v", b.lists, err)
			}
			once := map[string]bool{}
			for _, agent := range got {
				if once[agent] {
					t.Errorf("it gives %s twice", agent)
				}
				once[agent] = true
				found[agent]++
			}
		}
		if few := min(idle, 1000); len(found) < few {
			t.Errorf("of %d idle agents it found %d", idle, len(found))
		}
	}
	m, _ := wide(t, agents, 1) // of a few names each look finds all, wherever it begins
	m.IdleFlagSeen = true
	for i := range 5 {
		if err := m.Inventory.World.Store.Put(t.Context(), m.IdleKey(fmt.Sprintf("1-%d-x", 1000*i)), []byte{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if got, err := m.IdleAgents(t.Context()); err != nil || len(got) != 5 {
			t.Fatalf("%v, %v", got, err)
		}
	}
}

// An agent that has found work in a scan begins with it: what else is there is for another look.
func TestASurveyEndsWithWorkToDo(t *testing.T) {
	m, b := wide(t, 1, 300)
	m.Cursor = mapagent.Search{Chunks: 300, Pages: map[int]bool{}}
	for page := range 256 { // no listing shows what is free any more
		m.Cursor.Pages[page] = true
	}
	b.gets = 0
	h, err := m.ScanAndTend(t.Context())
	if err != nil || h == nil || b.gets > 10 {
		t.Errorf("%v, %v after %d reads", h, err, b.gets)
	}
}

// The idle flag never goes: an owner that has seen it asks for it no more (E8).
func TestTheIdleFlagIsAskedForOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.mapJob(4, 4, func(s *job.Spec) { s.Workers = 1000 })
	asked := 0
	w := d.meddled(meddler{slow: func(key string) {
		if path.Base(key) == "idle-flag" {
			asked++
		}
	}})
	m := mapagent.NewMapMember(w, j, "1-0-a", protocol.Host{}, mapagent.MapOptions{Slots: 2})
	for i, want := range []bool{false, true, true} {
		if i == 1 {
			d.check(d.Store.Put(t.Context(), m.IdleFlagKey(), nil))
		}
		if rung, err := m.IdleFlagIsSet(t.Context()); rung != want || err != nil {
			t.Errorf("question %d: %t, %v", i, rung, err)
		}
	}
	if asked != 2 {
		t.Errorf("the store was asked %d times, twice before the flag was seen", asked)
	}
}
