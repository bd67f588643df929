package drover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

// Figures sum up the items of a map that have ended with a result: what they took,
// and in which ways they failed.
type Figures struct {
	Seconds Spread `json:"seconds"`
	CPU     Spread `json:"cpu_seconds"`
	Memory  Spread `json:"max_rss_bytes"` // of each item's largest process
	Cores   Spread `json:"cores"`         // kept busy; of items that took at least a tenth of a second
	// Groups are the items that ended without success, the largest group first.
	Groups []Group    `json:"groups,omitempty"`
	Limits job.Limits `json:"limits"` // that bind items which start now
}

// Figures reads what items have come to. Of parts of the job that are done that is
// done once for each machine: what they come to is remembered in drover's cache
// there, so asking again costs one listing. It holds a chunk or two at a time.
func (j *jobFigures) Figures(ctx context.Context) (Figures, error) {
	v, _, err := j.newMapView(ctx)
	if err != nil {
		return Figures{}, err
	}
	m, err := mapOf(ctx, v)
	if err != nil {
		return Figures{}, err
	}
	parts, err := v.Parts(ctx)
	if err != nil {
		return Figures{}, err
	}
	sum := j.remembered()
	if !sum.isCurrent(parts) {
		sum = summary{V: summaryFormat}
	}
	fresh, open, err := j.readFigures(ctx, v, sum.unreadParts(parts))
	if err != nil {
		return Figures{}, fmt.Errorf("read results of job %s: %w", j.path.Job, err)
	}
	if sum.mergeSummary(fresh); len(fresh.Seals) > 0 && m.Items() > notWorthIt {
		j.saveFigures(sum)
	}
	sum.mergeSummary(open)
	return Figures{Seconds: sum.Seconds, CPU: sum.CPU, Memory: sum.Memory, Cores: sum.Cores, Groups: sum.sortedGroups(), Limits: v.Limits()}, nil
}

// readFigures sums parts up: fresh are those that cannot change any more, open the others.
func (j *jobFigures) readFigures(ctx context.Context, v *views.MapView, parts []views.Part) (fresh, open summary, err error) {
	work := make(chan views.Part)
	var mu sync.Mutex
	var readers sync.WaitGroup
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for range min(runtime.GOMAXPROCS(0), readersMost, len(parts)) {
		readers.Go(func() {
			for p := range work {
				var s summary
				err := v.Ended(ctx, p, s.addResult)
				if err != nil {
					stop(err)
				}
				mu.Lock()
				if p.Seal == "" {
					open.mergeSummary(s)
				} else {
					s.Seals = []string{p.Seal}
					fresh.mergeSummary(s)
				}
				mu.Unlock()
			}
		})
	}
	for _, p := range parts {
		work <- p
	}
	close(work)
	readers.Wait()
	return fresh, open, context.Cause(ctx)
}

const (
	// readersMost bounds how many chunks are held at once: 4 MB each.
	readersMost = 4
	// notWorthIt is how many items are read again in less time than a person notices.
	notWorthIt = 1_000
	// rememberedMost is how many jobs a cache has figures of, a few kilobytes each.
	rememberedMost = 200
	// summaryFormat changes with what a summary is made of.
	summaryFormat = 1
)

// summary is what parts of a map come to, and which parts: what is remembered.
type summary struct {
	V       int      `json:"v"`
	Seals   []string `json:"seals"` // in order
	Seconds Spread   `json:"seconds"`
	CPU     Spread   `json:"cpu"`
	Memory  Spread   `json:"memory"`
	Cores   Spread   `json:"cores"`
	Failed  []Group  `json:"failed"`
	grouping
}

func (s *summary) addResult(r views.ItemReport) {
	it := ItemResult{Item: r.N, State: r.State, Interruptions: r.Interruptions}
	if r.Result != nil {
		it.Try = tryOf(r.Agent, *r.Result)
		s.Seconds.addValue(it.Seconds, r.N)
		s.CPU.addValue(it.CPU, r.N)
		if it.MaxRSS > 0 { // it is 0 for an item that never ran, or with a process that ran others too
			s.Memory.addValue(float64(it.MaxRSS), r.N)
		}
		if it.Seconds >= 0.1 {
			s.Cores.addValue(it.CPU/it.Seconds, r.N)
		}
	}
	if r.State != job.ItemSucceeded {
		s.grouping.addResult(it)
	}
}

func (s *summary) mergeSummary(o summary) {
	s.Seals = append(s.Seals, o.Seals...)
	s.Seconds.mergeSpread(o.Seconds)
	s.CPU.mergeSpread(o.CPU)
	s.Memory.mergeSpread(o.Memory)
	s.Cores.mergeSpread(o.Cores)
	for _, g := range o.groups {
		s.grouping.mergeGroup(g)
	}
}

// isCurrent says whether all that was summed up is still as it was: a reopen undoes it.
func (s *summary) isCurrent(parts []views.Part) bool {
	now := map[string]bool{}
	for _, p := range parts {
		now[p.Seal] = true
	}
	return !slices.ContainsFunc(s.Seals, func(seal string) bool { return seal == "" || !now[seal] })
}

// unreadParts are the parts that are not in it.
func (s *summary) unreadParts(parts []views.Part) (left []views.Part) {
	in := map[string]bool{}
	for _, seal := range s.Seals {
		in[seal] = true
	}
	for _, p := range parts {
		if !in[p.Seal] {
			left = append(left, p)
		}
	}
	return left
}

// figuresFile is the file that holds a summary of the job.
func (j *jobFigures) figuresFile() string {
	sum := sha256.Sum256([]byte(j.c.world.Store.String() + " " + j.path.String()))
	return filepath.Join(j.c.engine.Caller.Cache, "figures", hex.EncodeToString(sum[:12])+".json")
}

// remembered is what remember has kept; nothing when that cannot be read.
func (j *jobFigures) remembered() (s summary) {
	b, err := os.ReadFile(j.figuresFile())
	if err != nil || json.Unmarshal(b, &s) != nil || s.V != summaryFormat {
		return summary{V: summaryFormat}
	}
	for _, g := range s.Failed {
		s.grouping.mergeGroup(g)
	}
	return s
}

// saveFigures keeps a summary for the next look. It costs time when it cannot, nothing else.
func (j *jobFigures) saveFigures(s summary) {
	s.Failed = s.groups
	b, err := json.Marshal(s)
	file := j.figuresFile()
	if err != nil || os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return
	}
	part, err := os.CreateTemp(filepath.Dir(file), "new-")
	if err != nil {
		return
	}
	_, err = part.Write(b)
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Rename(part.Name(), file)
	}
	if err != nil {
		_ = os.Remove(part.Name())
	}
	forget(filepath.Dir(file))
}

// forget removes the oldest files of a folder when there are too many.
func forget(folder string) {
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) <= rememberedMost {
		return
	}
	age := map[string]fs.FileInfo{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			age[e.Name()] = info
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		x, y := age[a.Name()], age[b.Name()]
		if x == nil || y == nil {
			return strings.Compare(a.Name(), b.Name())
		}
		return x.ModTime().Compare(y.ModTime())
	})
	for _, e := range entries[:len(entries)-rememberedMost] {
		_ = os.Remove(filepath.Join(folder, e.Name()))
	}
}
