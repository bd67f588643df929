package ledger

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/report"
)

var (
	scaleFile = flag.String("scale", "", "the file in which TestScale writes what maps of up to 10,000 agents and 10 million items ask of a store; \"\": it plays small ones, and writes nothing")
	scaleOnly = flag.String("scalemaps", ".", "play the maps whose size, as 1000x100000, this `regexp` matches; the lines of others stay in the file as they are")
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

	Plan       report.Requests `json:"plan"` // what --plan says of it
	PlanMinute report.Requests `json:"plan_minute"`
}

// scaleMaps are those that are played: all agents come in one instant, as an engine
// may start them.
func scaleMaps() (maps [][2]int) {
	if *scaleFile == "" {
		return [][2]int{{1, 300}, {10, 2000}, {100, 10_000}}
	}
	for agents := 10; agents <= 10_000; agents *= 10 {
		for items := 10_000; items <= 10_000_000; items *= 10 {
			maps = append(maps, [2]int{agents, items})
		}
	}
	return maps
}

// readScale is what stands in the file by now.
func readScale(t *testing.T) (lines []scaleLine) {
	text, err := os.ReadFile(*scaleFile)
	if *scaleFile == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &lines)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestScale plays maps of all sizes to their end, holds each prefix against the limits
// of S3, and what --plan says against what was asked. `make scale` has it write that down.
func TestScale(t *testing.T) {
	only, lines := regexp.MustCompile(*scaleOnly), readScale(t)
	for i, size := range scaleMaps() {
		if !only.MatchString(fmt.Sprintf("%dx%d", size[0], size[1])) {
			continue
		}
		began := time.Now()
		f := newField(uint64(1000+i), size[0], size[1])
		f.rng = rand.New(rand.NewPCG(uint64(i), 23))
		f.plot = comeAtOnce
		mean := min(scaleItem/2, scaleWork*time.Duration(size[0]*f.j.Spec.Slots)/time.Duration(size[1]))
		f.shortest, f.longest = mean/4, mean*7/4
		f.play()
		line := f.line()
		t.Logf("%d agents, %d items of %s, played in %s\n%s", size[0], size[1], mean, time.Since(began).Round(time.Second), f.report())
		for _, text := range f.broken {
			t.Errorf("%d agents, %d items: %s", size[0], size[1], text)
		}
		if *scaleFile == "" {
			continue
		}
		lines = slices.DeleteFunc(lines, func(l scaleLine) bool { return l.Agents == line.Agents && l.Items == line.Items })
		lines = append(lines, line)
		slices.SortFunc(lines, func(a, b scaleLine) int {
			return cmp.Or(cmp.Compare(a.Agents, b.Agents), cmp.Compare(a.Items, b.Items))
		})
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
	l := scaleLine{Agents: f.agents, Items: f.items, Chunks: chunks.ChunksIn(f.items, f.j.ChunkSize), Seconds: int(s.settled / time.Second), AgentSeconds: int(f.minutes * 60),
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
	l.Plan, l.PlanMinute = mapagent.Estimate(f.items, l.Chunks, f.agents)
	return l
}
