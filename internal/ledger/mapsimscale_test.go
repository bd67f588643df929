package ledger

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	scaleFile = flag.String("scale", "", "the file in which TestScale writes what maps of up to 10,000 agents and 10 million items ask of a store; \"\": it plays small ones, and writes nothing")
	scaleMost = flag.Int("scaleitems", 10_000_000, "leave out maps of more items: each million takes a minute or two")
)

// scaleWork is how long the items of each map take, all slots busy: of few items less,
// for none takes longer than scaleItem.
const (
	scaleWork = 20 * time.Minute
	scaleItem = 85 * time.Second
)

// scaleLine is what one map asked of its store, a line of docs/scale.md: package price
// knows what that comes to.
type scaleLine struct {
	Agents  int `json:"agents"`
	Items   int `json:"items"`
	Chunks  int `json:"chunks"`
	Seconds int `json:"seconds"` // until it had settled
	// AgentSeconds is how long its agents lived, all together.
	AgentSeconds int `json:"agent_seconds"`

	Writes  int            `json:"writes"` // creates and puts
	Lists   int            `json:"lists"`
	Reads   int            `json:"reads"`
	Deletes int            `json:"deletes"`
	Kinds   map[string]int `json:"kinds"` // of all of these, by what is asked for

	PeakWrites   int    `json:"peak_writes"` // of one prefix in one second
	PeakWritesOf string `json:"peak_writes_of"`
	PeakReads    int    `json:"peak_reads"`
	PeakReadsOf  string `json:"peak_reads_of"`
	PeakClaims   int    `json:"peak_claims"` // in one second
	Claims       int    `json:"claims"`

	BytesUp   int64 `json:"bytes_up"`
	BytesDown int64 `json:"bytes_down"`
	Heap      int64 `json:"heap"` // of the simulator, with its store

	Plan       Requests `json:"plan"` // what --plan says of it
	PlanMinute Requests `json:"plan_minute"`
}

// scaleMaps are those that are played: all agents come in one instant, as an engine
// may start them.
func scaleMaps() (maps [][2]int) {
	if *scaleFile == "" {
		return [][2]int{{1, 300}, {10, 2000}, {100, 10_000}}
	}
	for _, size := range [][2]int{{10, 10_000}, {10, 1_000_000}, {100, 10_000}, {100, 1_000_000}, {1000, 100_000}, {1000, 1_000_000},
		{10_000, 100_000}, {10, 10_000_000}, {100, 10_000_000}, {1000, 10_000_000}, {10_000, 1_000_000}, {10_000, 10_000_000}} {
		if size[1] <= *scaleMost {
			maps = append(maps, size)
		}
	}
	return maps
}

// TestScale plays maps of all sizes to their end, holds each prefix against the limits
// of S3, and what --plan says against what was asked. `make scale` has it write that down.
func TestScale(t *testing.T) {
	var lines []scaleLine
	for i, size := range scaleMaps() {
		f := newField(uint64(1000+i), size[0], size[1])
		f.rng = rand.New(rand.NewPCG(uint64(i), 23))
		f.plot = comeAtOnce
		mean := min(scaleItem/2, scaleWork*time.Duration(size[0]*f.j.Spec.Slots)/time.Duration(size[1]))
		f.shortest, f.longest = mean/4, mean*7/4
		f.play()
		line := f.line()
		t.Logf("%d agents, %d items of %s\n%s", size[0], size[1], mean, f.report())
		for _, text := range f.broken {
			t.Errorf("%d agents, %d items: %s", size[0], size[1], text)
		}
		if lines = append(lines, line); *scaleFile == "" {
			continue
		}
		text, err := json.MarshalIndent(lines, "", "\t")
		if err == nil {
			err = os.WriteFile(*scaleFile, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (f *field) line() scaleLine {
	s := f.store
	l := scaleLine{Agents: f.agents, Items: f.items, Chunks: chunksIn(f.items, f.j.ChunkSize), Seconds: int(s.settled / time.Second), AgentSeconds: int(f.minutes * 60),
		Kinds: s.total, BytesUp: s.up, BytesDown: s.out, Heap: int64(f.memory), PeakClaims: slices.Max(append(s.claims, 0))}
	for _, n := range s.claims {
		l.Claims += n
	}
	for k, n := range s.total {
		what, _, _ := strings.Cut(k, " ")
		*map[string]*int{"create": &l.Writes, "put": &l.Writes, "list": &l.Lists, "get": &l.Reads, "delete": &l.Deletes}[what] += n
	}
	for _, name := range sortedKeys(s.peak) {
		way, kind, _ := strings.Cut(name, " of ")
		if n := s.peak[name]; way == "writes" && n > l.PeakWrites {
			l.PeakWrites, l.PeakWritesOf = n, kind
		} else if way == "reads" && n > l.PeakReads {
			l.PeakReads, l.PeakReadsOf = n, kind
		}
	}
	l.Plan, l.PlanMinute = Estimate(f.items, l.Chunks, f.agents)
	return l
}
