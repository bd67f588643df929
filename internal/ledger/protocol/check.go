package protocol

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// What stands in a store may be another's, or damaged. Each type of record has one place
// that says what it may hold, its Check, and decode calls it: no fold, no loop and no list
// is made by a number that was not held against its bound. A record that breaks one is
// ErrUnreadable, which is its job's damage and hides no other job.

// The bounds of records, in bytes and in counts. They are far above what drover writes.
const (
	// MaxEntry bounds an entry of a log and a snapshot. The largest are a map's: one
	// flush (256 KiB) and one result beyond it, which names at most 10,000 files, 1 MiB of names.
	MaxEntry = 32 << 20
	// MaxRecord bounds all other records: job.json, a short id, heartbeats, joins, exits. The
	// largest is a job.json, by its arguments: Linux gives a program at most 2 MiB of them.
	MaxRecord = 4 << 20
	// MaxResults bounds the results of one entry: a flush has one for each 8 bytes at most.
	MaxResults = 1 << 16
	// maxStructs bounds the JSON objects in a record, which take a hundred times their text
	// in memory. The most are in a flush, and the outputs of a result: 24 MiB have room for
	// 350,000. They are counted where a record has more than fewBytes.
	maxStructs = 1 << 19
	fewBytes   = 1 << 20
	// maxWhy bounds what an error quotes of a record.
	maxWhy = 200
)

// checked is a record that knows its bounds.
type checked interface{ Check() error }

// maxSize is how large a record of a type may be.
func maxSize(into any) int {
	switch into.(type) {
	case *TaskEntry, *JobEntry, *ChunkEntry, *StateEntry, *InputEntry, *OutputsEntry, *RoundsEntry, *SweepEntry, *Snapshot:
		return MaxEntry
	}
	return MaxRecord
}

// Structs counts the JSON objects of a text that begin in it, without making them.
func Structs(text []byte) (n int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '{' && !quoted:
			n++
		}
	}
	return n
}

// Check refuses an entry that no drover writes.
func (e *TaskEntry) Check() error {
	var ids []string
	if e.Submitted != nil {
		ids = append(ids, e.Submitted.Job)
		if d := e.Submitted.Record; d != "" {
			if _, err := store.ParseDigest(string(d)); err != nil {
				return err
			}
		}
	}
	if e.Closed != nil {
		ids = append(ids, e.Closed.Job)
	}
	if e.Removed != nil {
		ids = append(ids, e.Removed.Job)
		if err := first(number("since", e.Removed.Since, -1, job.MaxNumber+1), number("state_since", e.Removed.StateSince, -1, job.MaxNumber+1)); err != nil {
			return err
		}
	}
	if b := e.Beside; b != nil {
		if len(b.Key) > 2*sha256.Size {
			return errors.New("the key of settings is too long")
		}
		if err := job.ValidName("task", b.Task); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if strings.Contains(id, "/") || store.CheckKey(id) != nil {
			return fmt.Errorf("%.80q is not an id of a job", id) // it becomes a part of keys
		}
	}
	return nil
}

// Check refuses an entry that no drover writes.
func (e *JobEntry) Check() error {
	if p := e.Placed; p != nil {
		if err := first(counted("placement", p.Placement), number("agents", p.Agents, 0, job.MaxAgents), p.Inherited.Check()); err != nil {
			return err
		}
	}
	if a := e.Attempt; a != nil {
		if err := counted("attempt", a.K); err != nil {
			return err
		}
		for _, rank := range a.Ranks {
			if err := number("rank", rank, 0, job.MaxNodes); err != nil {
				return err
			}
		}
		for rank, agent := range a.Keep {
			if err := first(number("rank", rank, 0, job.MaxNodes), named(agent)); err != nil {
				return err
			}
		}
	}
	if s := e.Settled; s != nil {
		if err := first(counted("attempt", s.Attempt), number("rank", s.Rank, 0, job.MaxNodes), counted("submission", s.Submission)); err != nil {
			return err
		}
		if s.Tally != nil {
			if err := s.Tally.Check(); err != nil {
				return err
			}
		}
	}
	if e.Drained != nil {
		if err := named(e.Drained.Agent); err != nil {
			return err
		}
	}
	for agent := range e.Gone {
		if err := named(agent); err != nil {
			return err
		}
	}
	if r := e.Reopened; r != nil {
		if err := first(counted("submission", r.Submission), r.Items.checkOrder(job.MaxItems)); err != nil {
			return err
		}
	}
	return first(e.Extended.check(), e.Amended.check())
}

// Check refuses an entry that no drover writes.
func (e *RoundsEntry) Check() error { return first(e.Extended.check(), e.Amended.check()) }

func (x *Extended) check() error {
	if x == nil {
		return nil
	}
	return first(number("first", x.First, 0, job.MaxItems+1), number("size", x.Size, 0, job.MaxChunkSize), x.Manifest.Check(x.Size))
}

func (a *Amended) check() error {
	if a == nil {
		return nil
	}
	if a.Settings != nil {
		if err := a.Settings.Check(); err != nil {
			return err
		}
	}
	if a.Limits != nil {
		if err := a.Limits.Check(); err != nil {
			return err
		}
	}
	if a.Timeout != nil {
		if err := length("timeout", time.Duration(*a.Timeout)); err != nil {
			return err
		}
	}
	if a.Retries != nil {
		if err := counted("retries", *a.Retries); err != nil {
			return err
		}
	}
	if a.MemoryStep != nil {
		return job.CheckNumber("memory_step", *a.MemoryStep, 0, math.MaxFloat32)
	}
	return nil
}

// Check refuses an entry that no drover writes.
func (e *ChunkEntry) Check() error {
	if err := counted("claim", e.Claim); err != nil {
		return err
	}
	if c := e.Claimed; c != nil {
		if err := first(named(c.Agent), counted("claim", c.N), number("risk", c.Risk, 0, job.MaxItems)); err != nil {
			return err
		}
	}
	if err := items(e.Starting); err != nil {
		return err
	}
	if h := e.Handed; h != nil {
		if h.To != "" {
			if err := named(h.To); err != nil {
				return err
			}
		}
		if err := h.Seed.Check(); err != nil {
			return err
		}
	}
	if r := e.Released; r != nil {
		if err := first(items(r.Flight), number("stopped", r.Stopped, 0, job.MaxItems)); err != nil {
			return err
		}
	}
	if e.Ended != nil {
		if err := counted("ended.by", e.Ended.By); err != nil {
			return err
		}
	}
	if a := e.Again; a != nil {
		if err := first(counted("again.by", a.By), a.Items.checkOrder(job.MaxChunkSize)); err != nil {
			return err
		}
	}
	return resultsCheck(e.Results)
}

// Check refuses a chunk that is larger than any, or with items that have behind them what no
// log can have counted.
func (s Seed) Check() error {
	if err := first(s.Items.checkOrder(job.MaxChunkSize), counted("mark", s.Mark), length("wait", s.Wait)); err != nil {
		return err
	}
	for item, had := range s.Carry {
		if err := first(number("item", item, 1, job.MaxItems), counted("failures", had.Failures), counted("interruptions", had.Interruptions),
			counted("blames", had.Blames), counted("suspicions", had.Suspicions), counted("ooms", had.OOMs)); err != nil {
			return err
		}
	}
	return nil
}

func resultsCheck(all []Result) error {
	if len(all) > MaxResults {
		return fmt.Errorf("it has %d results, at most %d", len(all), MaxResults)
	}
	for i := range all {
		r := &all[i]
		if err := first(number("item", r.Item, 1, job.MaxItems), number("exit status", r.Code, math.MinInt32, math.MaxInt32),
			number("wall time", r.Wall, 0, math.MaxInt64), number("cpu time", r.CPU, 0, math.MaxInt64), number("memory", r.MaxRSS, 0, math.MaxInt64),
			number("size", r.Size, 0, math.MaxInt64)); err != nil {
			return err
		}
		for _, o := range r.Outputs {
			if err := number("size", o.Size, 0, math.MaxInt64); err != nil {
				return err
			}
		}
	}
	return nil
}

// Check refuses an entry that no drover writes. Places begin at -1: before the first job.
func (e *StateEntry) Check() error {
	if r := e.Restored; r != nil {
		if err := first(number("submission", r.Submission, -1, job.MaxNumber), counted("attempt", r.Attempt), number("generation", r.Generation, -1, job.MaxNumber)); err != nil {
			return err
		}
	}
	if s := e.Saved; s != nil {
		if err := first(number("submission", s.Submission, -1, job.MaxNumber), counted("attempt", s.Attempt), number("bytes", s.Bytes, 0, math.MaxInt64)); err != nil {
			return err
		}
	}
	if b := e.Begun; b != nil {
		if len(b.Own) > job.MaxNodes {
			return fmt.Errorf("it has folders of %d nodes, at most %d", len(b.Own), job.MaxNodes)
		}
		return first(number("submission", b.Submission, -1, job.MaxNumber), counted("attempt", b.Attempt), number("bytes", b.Bytes, 0, math.MaxInt64))
	}
	return nil
}

// Check refuses an entry that no drover writes.
func (e *InputEntry) Check() error {
	if v := e.Version; v != nil {
		return first(number("files", v.Files, 0, math.MaxInt32), number("bytes", v.Bytes, 0, math.MaxInt64))
	}
	return nil
}

// Check refuses an entry that no drover writes.
func (e *SweepEntry) Check() error {
	if s := e.Sweep; s != nil {
		if err := length("for", s.For); err != nil {
			return err
		}
	}
	if e.Swept != nil {
		return counted("swept", e.Swept.N)
	}
	return nil
}

// Check refuses a join that no agent writes.
func (j *Join) Check() error {
	return first(named(j.Agent), number("port", j.Port, 0, math.MaxInt32), number("procs", j.Procs, 0, math.MaxInt32))
}

// Check refuses an exit that no agent writes.
func (e *Exit) Check() error {
	return first(number("exit status", e.Code, math.MinInt32, math.MaxInt32), length("cpu", e.CPU),
		number("max_rss", e.MaxRSS, 0, math.MaxInt64), number("peak_memory", e.Peak, 0, math.MaxInt64))
}

// Check refuses a heartbeat that no agent writes.
func (b *Heartbeat) Check() error {
	return first(number("counter", b.Counter, 0, math.MaxInt64), counted("attempt", b.Attempt), number("rank", b.Rank, -1, job.MaxNodes),
		counted("saved", b.Saved), number("recorded", b.Recorded, 0, math.MaxInt64), number("failed", b.Failed, 0, math.MaxInt64),
		number("flight", b.Flight, 0, job.MaxItems), number("slots", b.Slots, 0, job.MaxItems))
}

// Check refuses a snapshot that no agent writes.
func (s *Snapshot) Check() error { return first(counted("n", s.N), resultsCheck(s.Results)) }

// checkOrder refuses ranges that are out of order, overlap, or hold more than most items.
func (s Spans) checkOrder(most int) error {
	last, n := 0, 0
	for _, r := range s {
		if r[0] <= last || r[1] < r[0] || r[1] > job.MaxItems {
			return fmt.Errorf("items %d to %d are no range behind item %d", r[0], r[1], last)
		}
		if n += r[1] - r[0] + 1; n > most {
			return fmt.Errorf("it has more than %d items", most)
		}
		last = r[1]
	}
	return nil
}

// items refuses numbers that no item has.
func items(all []int) error {
	for _, item := range all {
		if err := number("item", item, 1, job.MaxItems); err != nil {
			return err
		}
	}
	return nil
}

// named refuses what is no agent's id: ids are the last part of keys.
func named(agent string) error {
	if strings.Contains(agent, "/") || store.CheckKey(agent) != nil {
		return fmt.Errorf("%.80q is not an agent", agent)
	}
	return nil
}

// counted refuses what is no number of an entry, nor a count of entries.
func counted(what string, n int) error { return number(what, n, 0, job.MaxNumber) }

func length(what string, d time.Duration) error { return number(what, int64(d), 0, math.MaxInt64) }

// number refuses n where it is not least to most.
func number[N int | int64](what string, n, least, most N) error {
	if n < least || n > most {
		return fmt.Errorf("%s is %d, and may be %d to %d", what, n, least, most)
	}
	return nil
}

// first is the first error there is.
func first(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}
