package ledger

import (
	"context"
	"maps"

	"github.com/drover-run/drover/job"
)

// Drained asks one agent to leave while its job goes on (J4): its machine is wanted for
// something else. It is an entry of the job's log, so that it reaches an agent that
// nobody can reach, at its next look (R7, E5). The agent begins nothing new. In a map
// it hands on what it has not begun, lets end what runs, and leaves; in a run it
// saves and leaves as an interruption, and another takes its rank. For everybody
// else it changes nothing: no fold, no budget and no decision but the keeper's, who
// asks for no other agent in the place of a map's.
type Drained struct {
	Agent  string `json:"agent"`
	Reason string `json:"reason,omitempty"`
	User   string `json:"user,omitempty"` // who asked, for people
}

func (d Drained) words() string { return "its agent is drained" + suffix(d.Reason) }

// withDrained adds one. Folds are copied, so what another holds stays.
func withDrained(all map[string]Drained, d Drained) map[string]Drained {
	more := map[string]Drained{}
	maps.Copy(more, all)
	if _, twice := more[d.Agent]; !twice {
		more[d.Agent] = d
	}
	return more
}

// DrainAgent asks an agent to leave. It returns once that is durable; stands is
// false when the job has ended or is being stopped.
func (w World) DrainAgent(ctx context.Context, p job.Path, by string, d Drained) (stands bool, err error) {
	j, err := w.Load(ctx, p)
	if err != nil {
		return false, err
	}
	l := w.openLog(jobDir(p)+"/log", by)
	for {
		if err := l.Read(ctx); err != nil {
			return false, err
		}
		if j.Spec.Verb == job.Map {
			if err := begin(ctx, l); err != nil {
				return false, err
			}
		}
		drained, open := w.drainedOf(j, l.Entries)
		if !open {
			return false, nil
		}
		if _, twice := drained[d.Agent]; twice {
			return true, nil
		}
		if mine, err := l.Append(ctx, Entry{Drained: &d}); err != nil || mine {
			return mine, err
		}
	}
}

// drainedOf folds a job's log; open is false once it was stopped or has settled.
func (w World) drainedOf(j job.Job, entries []Entry) (drained map[string]Drained, open bool) {
	if j.Spec.Verb == job.Map {
		m := NewMap(j)
		for _, e := range entries {
			m.Fold(e)
		}
		return m.Drained, m.Settled == nil && m.Stop == nil
	}
	r := foldRun(entries)
	return r.Drained, r.Settled == nil && r.Stop == nil
}
