package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// snapshot is one object below results/: an index of a chunk's results up to an
// entry that closed it, with the counts in its name.
type snapshot struct {
	name string
	ending
	results []protocol.Result
	cut     bool // it has none: they are in the log
	met     int  // results that the log has had
	wrong   bool
}

// parseSnapshot reads a name: chunk, entry, mark, children, and the counts.
func parseSnapshot(name string) (s snapshot, ok bool) {
	parts := strings.Split(name, "_")
	s.name = name
	t := &s.tally
	into := []*int{&s.n, &s.mark, &s.children, &t.Items, &t.Succeeded, &t.Failed, &t.Quarantined, &t.Cancelled}
	if len(parts) != len(into)+1 {
		return s, false
	}
	for i, part := range parts[1:] {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return s, false
		}
		*into[i] = n
	}
	return s, true
}

// snapshots reads what was left of a chunk.
func (w *walk) snapshots(ctx context.Context, c *chunk) error {
	for _, name := range w.shots[c.id] {
		s, ok := parseSnapshot(name)
		if !ok {
			w.v.addFinding(RuleSnapshot, report.VerifyNote{Log: "results/" + name, Entry: -1, Why: "its name is not valid"})
			continue
		}
		b, err := w.v.s.Get(ctx, w.v.dir+"/results/"+name)
		if errors.Is(err, store.ErrNotExist) {
			continue // an index may go
		}
		if err != nil && !errors.Is(err, store.ErrMalformed) {
			return fmt.Errorf("read snapshot: %w", err)
		}
		var held protocol.Snapshot
		if err != nil || json.Unmarshal(b, &held) != nil || held.V != format || held.ID != c.id || held.N != s.n {
			w.v.addFinding(RuleSnapshot, report.VerifyNote{Log: "results/" + name, Entry: -1, Why: "its content does not match its name"})
			continue
		}
		s.results, s.cut = held.Results, held.Cut
		c.snaps = append(c.snaps, &s)
	}
	delete(w.shots, c.id)
	return nil
}

// compareSnapshots holds the results of entry n against those of the snapshots that hold any:
// of each item the one that counts, in the order of the log.
func (c *chunk) compareSnapshots(n int) {
	for _, s := range c.snaps {
		for _, r := range c.counted {
			if s.cut || s.wrong || n > s.n || r.Failed && !r.Final {
				continue
			}
			if s.met == len(s.results) || !reflect.DeepEqual(s.results[s.met], r) {
				s.wrong = true
				c.w.v.addFinding(RuleSnapshot, report.VerifyNote{Log: "results/" + s.name, Entry: -1, Item: r.Item, Why: fmt.Sprintf("it does not have the result of entry %d", n)})
			}
			s.met++
		}
	}
}

// checkSnapshots holds their names against the log.
func (c *chunk) checkSnapshots() {
	for _, s := range c.snaps {
		note := report.VerifyNote{Log: "results/" + s.name, Entry: -1}
		var at *ending
		for i := range c.ends {
			if c.ends[i].n == s.n {
				at = &c.ends[i]
			}
		}
		switch {
		case s.wrong || c.cut:
		case at == nil:
			note.Why = fmt.Sprintf("after entry %d the chunk was still open", s.n)
			c.w.v.addFinding(RuleSnapshot, note)
		case *at != s.ending:
			note.Why = fmt.Sprintf("it counts %s; the log says %s", words(s.ending), words(*at))
			c.w.v.addFinding(RuleSnapshot, note)
		case !s.cut && s.met < len(s.results):
			note.Item, note.Why = s.results[s.met].Item, "it has a result that the log does not have"
			c.w.v.addFinding(RuleSnapshot, note)
		}
	}
}

func words(e ending) string {
	return fmt.Sprintf("mark %d, %d given away, %s", e.mark, e.children, tallied(e.tally))
}

// tallied is a tally in words of its own: what was counted is what is shown.
func tallied(t job.Tally) string {
	return fmt.Sprintf("%d items, %d succeeded, %d failed, %d quarantined, %d cancelled", t.Items, t.Succeeded, t.Failed, t.Quarantined, t.Cancelled)
}
