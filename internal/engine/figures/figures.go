// Package figures sums up what the items of a map have come to: how long they took and what they
// used, in which ways they failed, which results are first in an order, what less they could ask
// for, how two jobs over the same items differ, and what a sample says of all. It knows how items
// are read, and nothing of agents and targets. Proved by its tests and by those of package drover.
package figures

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

	"github.com/drover-run/drover/internal/engine/results"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// Read reads what items have come to. Of parts of the job that are done that is done once for
// each machine: what they come to is remembered in drover's cache there, so asking again costs
// one listing. It holds a chunk or two at a time.
func Read(ctx context.Context, session *session.Session, p job.Path, rec job.Job) (report.Figures, error) {
	v := views.NewMapView(session.World, rec)
	now, err := v.Refresh(ctx)
	if err != nil {
		return report.Figures{}, err
	}
	parts, err := v.Parts(ctx)
	if err != nil {
		return report.Figures{}, err
	}
	file := summaryFile(session, p)
	sum := loadSummary(file)
	if !sum.isCurrent(parts) {
		sum = summary{V: summaryFormat}
	}
	fresh, open, err := readParts(ctx, v, sum.unreadParts(parts))
	if err != nil {
		return report.Figures{}, fmt.Errorf("read results of job %s: %w", p.Job, err)
	}
	if sum.mergeSummary(fresh); len(fresh.Seals) > 0 && now.Map.Items() > notWorthIt {
		sum.save(file)
	}
	sum.mergeSummary(open)
	return report.Figures{Seconds: sum.Seconds, CPU: sum.CPU, Memory: sum.Memory, Cores: sum.Cores, Groups: sum.sortedGroups(), Limits: v.Limits()}, nil
}

// readParts sums parts up: fresh are those that cannot change any more, open the others.
func readParts(ctx context.Context, v *views.MapView, parts []views.Part) (fresh, open summary, err error) {
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
	V       int            `json:"v"`
	Seals   []string       `json:"seals"` // in order
	Seconds report.Spread  `json:"seconds"`
	CPU     report.Spread  `json:"cpu"`
	Memory  report.Spread  `json:"memory"`
	Cores   report.Spread  `json:"cores"`
	Failed  []report.Group `json:"failed"`
	grouping
}

func (s *summary) addResult(r views.ItemReport) {
	it := report.ItemResult{Item: r.N, State: r.State, Interruptions: r.Interruptions}
	if r.Result != nil {
		it.Try = results.TryOf(r.Agent, *r.Result)
		s.Seconds.AddValue(it.Seconds, r.N)
		s.CPU.AddValue(it.CPU, r.N)
		if it.MaxRSS > 0 { // it is 0 for an item that never ran, or with a process that ran others too
			s.Memory.AddValue(float64(it.MaxRSS), r.N)
		}
		if it.Seconds >= 0.1 {
			s.Cores.AddValue(it.CPU/it.Seconds, r.N)
		}
	}
	if r.State != job.ItemSucceeded {
		s.grouping.addResult(it)
	}
}

func (s *summary) mergeSummary(o summary) {
	s.Seals = append(s.Seals, o.Seals...)
	s.Seconds.MergeSpread(o.Seconds)
	s.CPU.MergeSpread(o.CPU)
	s.Memory.MergeSpread(o.Memory)
	s.Cores.MergeSpread(o.Cores)
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

// summaryFile is the file that holds a summary of the job.
func summaryFile(session *session.Session, p job.Path) string {
	sum := sha256.Sum256([]byte(session.World.Store.String() + " " + p.String()))
	return filepath.Join(session.Caller.Cache, "figures", hex.EncodeToString(sum[:12])+".json")
}

// loadSummary reads what save has kept; nothing when that cannot be read.
func loadSummary(file string) (s summary) {
	b, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(b, &s) != nil || s.V != summaryFormat {
		return summary{V: summaryFormat}
	}
	for _, g := range s.Failed {
		s.grouping.mergeGroup(g)
	}
	return s
}

// save keeps a summary for the next time. It costs time when it cannot, nothing else.
func (s summary) save(file string) {
	s.Failed = s.groups
	b, err := json.Marshal(s)
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
