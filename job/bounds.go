package job

import (
	"errors"
	"fmt"
	"math"

	"github.com/drover-run/drover/job/unit"
)

// The bounds of what a stored record may say. A record is read by every command that
// meets it, and others may have written it: a number that is used as a count, as the
// length of a list or as an end of a loop is checked when the record is decoded, by the
// Check of its type, and nowhere else.
const (
	// MaxItems is the most items of a map, as package items collects them at most.
	MaxItems = 1_000_000_000
	// MaxChunkSize is the most items of a chunk: sixteen times what a map is cut into
	// (rule M7 of docs/protocol.md), so that a later drover may cut it into larger ones.
	MaxChunkSize = 1 << 16
	// MaxChunks is the most chunks of a list of items: what MaxItems make at M7's 4,096 are
	// 244,141, and eight for each of 10,000 workers 80,000.
	MaxChunks = 1 << 20
	// MaxAgents is the most agents that one placement asks for: nodes or workers.
	MaxAgents = max(maxNodes, maxWorkers)
	// MaxNodes is the most ranks of an attempt.
	MaxNodes = maxNodes
	// MaxNumber is the largest number of an entry of a log: they have eight digits.
	// Attempts, claims and losses are counted by entries, so they are no more.
	MaxNumber = 99_999_999
)

// span is a number of a record, and the bounds that it must keep.
type span struct {
	what        string
	is          float64
	least, most float64
}

// CheckNumber refuses a number of a record that is not least to most; what names it.
func CheckNumber[N int | int64 | uint32 | float64](what string, n, least, most N) error {
	return checkSpans(span{what, float64(n), float64(least), float64(most)})
}

// checkSpans refuses the first number that is out of its bounds; NaN is out of all.
func checkSpans(all ...span) error {
	for _, n := range all {
		if !(n.is >= n.least && n.is <= n.most) {
			return fmt.Errorf("%s is %.20g, and may be %.20g to %.20g", n.what, n.is, n.least, n.most)
		}
	}
	return nil
}

// Check refuses a path that no submit could have written: its parts are names of folders
// in the store, and words of commands. The job may be left out: then it is a task's.
func (p Path) Check() error {
	switch {
	case ValidName("project", p.Project) != nil:
		return fmt.Errorf("%.80q is not a name of a project", p.Project)
	case ValidName("task", p.Task) != nil:
		return fmt.Errorf("%.80q is not a name of a task", p.Task)
	case p.Job != "" && !ValidID(p.Job):
		return fmt.Errorf("%.80q is not an id of a job", p.Job)
	}
	return nil
}

// Check refuses a job.json with a number that no submit lets through, and with outputs
// outside of their folder.
func (j Job) Check() error {
	if err := j.Spec.Check(); err != nil {
		return err
	}
	if err := j.Manifest.Check(j.ChunkSize); err != nil {
		return err
	}
	if err := j.Inherited.Check(); err != nil {
		return err
	}
	if j.Spec.Verb == Map && j.Manifest.Count > 0 && j.ChunkSize < 1 {
		return fmt.Errorf("it has %d items in chunks of %d", j.Manifest.Count, j.ChunkSize)
	}
	return checkSpans(
		span{"since", float64(j.Since), -1, MaxNumber + 1},
		span{"state_since", float64(j.StateSince), -1, MaxNumber + 1},
		span{"code.files", float64(j.Code.Files), 0, math.MaxInt32},
	)
}

// Check holds the numbers of a stored spec against the bounds of Normal. What else Normal
// refuses was allowed by some drover before, or is a matter of the submitting machine.
func (s Spec) Check() error {
	long := float64(unit.MaxDuration)
	err := checkSpans(
		span{"nodes", float64(s.Nodes), 0, maxNodes},
		span{"procs_per_node", float64(s.Procs), 0, maxProcs},
		span{"gpus", float64(s.GPUs), 0, maxGPUs},
		span{"workers", float64(s.Workers), 0, maxWorkers},
		span{"slots", float64(s.Slots), 0, maxSlots},
		span{"retries", float64(s.Retries), 0, maxRetries},
		span{"priority", float64(s.Priority), -1000, 1000},
		span{"timeout", float64(s.Timeout), 0, long},
		span{"grace", float64(s.Grace), 0, long},
		span{"item_timeout", float64(s.ItemTimeout), 0, long},
		span{"memory_step", s.MemoryStep, 0, math.MaxFloat32},
		span{"share.cpus", s.Share.CPUs, 0, math.MaxFloat32},
		span{"share.memory", float64(s.Share.Memory), 0, math.MaxInt64},
		span{"share.gpus", float64(s.Share.GPUs), 0, math.MaxInt32},
	)
	if err != nil {
		return err
	}
	if err := s.Limits.Check(); err != nil {
		return err
	}
	if len(s.Args) > maxArgs {
		return fmt.Errorf("it has %d arguments, at most %d", len(s.Args), maxArgs)
	}
	if checkMaxFails(s.MaxFails) != nil {
		return fmt.Errorf("max_fails is %.80q", s.MaxFails)
	}
	for _, out := range s.Out {
		if checkOut(out) != nil {
			return fmt.Errorf("output %.80q is not a name below the folder for outputs", out)
		}
	}
	return nil
}

// Check refuses limits that no submit lets through.
func (l Limits) Check() error {
	return checkSpans(
		span{"cpus", l.CPUs, 0, 10000},
		span{"memory", float64(l.Memory), 0, math.MaxInt64},
		span{"disk", float64(l.Disk), 0, math.MaxInt64},
		span{"processes", float64(l.Processes), 0, math.MaxInt32},
	)
}

// Check refuses a list of items that is larger than any, or that chunks of a size would
// cut into more than a reader goes through; size is 0 where there are none.
func (m Manifest) Check(size int) error {
	err := checkSpans(
		span{"manifest.count", float64(m.Count), 0, MaxItems},
		span{"chunk_size", float64(size), 0, MaxChunkSize},
		span{"the number of chunks", float64(m.Count) / float64(max(1, size)), 0, MaxChunks},
	)
	if err != nil || m.Files == nil {
		return err
	}
	if m.Files.Files != nil { // a list of lists is none
		return errors.New("manifest.files has files of its own")
	}
	return checkSpans(span{"manifest.files.count", float64(m.Files.Count), 0, MaxItems})
}

// Check refuses counts that are no items'.
func (t Tally) Check() error {
	for _, n := range []int{t.Items, t.Succeeded, t.Failed, t.Quarantined, t.Cancelled} {
		if err := checkSpans(span{"tally", float64(n), 0, MaxItems}); err != nil {
			return err
		}
	}
	return nil
}
