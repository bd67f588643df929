package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/ledger/attached"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/storetest"
)

// counter is a target that keeps the passes it was handed.
type counter struct {
	driver.Driver
	started []int // placements
	passes  []string
}

func (c *counter) Start(ctx context.Context, r driver.Request) (driver.Handle, error) {
	pass, err := r.Run.Pass(ctx)
	c.started, c.passes = append(c.started, r.Placement), append(c.passes, string(pass))
	return driver.Handle{}, err
}

// passing is an engine that makes the passes a, b, c, ..., good for a life each.
func passing(life time.Duration) (e *Engine, clock *storetest.Clock, asked *[]store.Rights) {
	clock, asked = &storetest.Clock{}, new([]store.Rights)
	w := protocol.World{Store: store.New(mem.New(), store.Options{Clock: clock})}
	return New(session.Session{World: w}, Passes{Make: func(_ context.Context, r store.Rights, images bool) (Pass, error) {
		*asked = append(*asked, r)
		p := Pass{File: []byte{byte('a' + len(*asked) - 1)}}
		if life > 0 {
			p.Until = clock.Now().Add(life)
		}
		return p, nil
	}}), clock, asked
}

func TestAPassIsForOneTaskAndDeletesNothing(t *testing.T) {
	e, _, asked := passing(time.Hour)
	for _, id := range []string{"one", "two"} {
		if p, err := e.pass(t.Context(), job.Path{Project: "demo", Task: "train", Job: id}, false); err != nil || string(p.File) != "a" {
			t.Errorf("%s: %q, %v: two jobs of a task share one", id, p.File, err)
		}
	}
	want := []store.Rights{{Read: []string{"blobs/", "_gc/", "demo/", "_placements/requests/", "_placements/tasks/demo/train/", "_programs/"}, Create: []string{"blobs/"},
		Write: []string{"demo/train/", "_placements/tasks/demo/train/"}}}
	if diff := cmp.Diff(want, *asked); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// Agents in images see no profile of their machine: what was made for others of their
// task would not open the store.
func TestAPassForAgentsInImagesIsTheirOwn(t *testing.T) {
	e, _, _ := passing(0)
	p := job.Path{Project: "demo", Task: "train"}
	for _, c := range []struct {
		images bool
		want   string
	}{{false, "a"}, {true, "b"}, {false, "a"}, {true, "b"}} {
		if got, err := e.pass(t.Context(), p, c.images); err != nil || string(got.File) != c.want {
			t.Errorf("with images %v: %q, %v; want %q", c.images, got.File, err, c.want)
		}
	}
}

// While a command line is attached, agents that live are handed a newer pass at half of
// its life. Agents that are gone are not started, and no agent is where agents inherit
// what this process has.
func TestPassesOfLiveAgentsAreRenewedAtHalfTheirLife(t *testing.T) {
	e, clock, _ := passing(time.Hour)
	d := &counter{}
	j := job.Job{ID: "j", Spec: job.Spec{Project: "demo", Task: "train"}}
	r := renewal{e: e, d: driver.Opened{Driver: d}, j: j}
	rows := []attached.Machine{{Placement: 1}, {Placement: 2, Alive: true}, {Placement: 2, Index: 1}}
	for range 7 { // every ten minutes, from the attach on
		r.look(t.Context(), rows)
		if err := clock.Sleep(t.Context(), 10*time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(d.passes, want) || !slices.Equal(d.started, []int{2, 2, 2}) {
		t.Errorf("placements %v were handed %v, want %v", d.started, d.passes, want)
	}
	beside := &counter{}
	r = renewal{e: e, d: driver.Opened{Driver: beside, Properties: driver.Properties{Attached: true}}, j: j}
	r.look(t.Context(), rows)
	if len(beside.started) > 0 {
		t.Errorf("agents that inherit ours were handed %v", beside.passes)
	}
}

func TestAgentsWithAnIdentityOfTheirOwnAreHandedNothingAnew(t *testing.T) {
	e, _, asked := passing(time.Hour)
	d := &counter{}
	own := driver.Opened{Driver: d, Properties: driver.Properties{Apart: true, Identity: "the role drover-agents"}}
	r := renewal{e: e, d: own, j: job.Job{ID: "j", Spec: job.Spec{Project: "demo", Task: "train"}}}
	r.look(t.Context(), []attached.Machine{{Placement: 1, Alive: true}})
	if len(d.started) > 0 || len(*asked) > 0 {
		t.Errorf("handed over %d times, made %d times", len(d.started), len(*asked))
	}
}

func TestAPassWithoutAnEndIsNotRenewed(t *testing.T) {
	e, clock, asked := passing(0)
	d := &counter{}
	r := renewal{e: e, d: driver.Opened{Driver: d}, j: job.Job{ID: "j", Spec: job.Spec{Project: "demo", Task: "train"}}}
	for range 3 {
		r.look(t.Context(), []attached.Machine{{Placement: 1, Alive: true}})
		if err := clock.Sleep(t.Context(), 100*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.started) != 1 || len(*asked) != 1 {
		t.Errorf("handed over %d times, made %d times", len(d.started), len(*asked))
	}
}
