package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Restored says that from here on an attempt writes the state of a rank: it
// fences every older writer (R6).
type Restored struct {
	Job        string `json:"job"`
	Place      int    `json:"place"` // the job's last `submitted` in its task's log
	Attempt    int    `json:"attempt"`
	Agent      string `json:"agent"`
	Generation int    `json:"generation"` // entry number of what was restored; -1: nothing
}

// Saved is one generation of a rank's state. Its blobs were stored before.
type Saved struct {
	Job     string `json:"job"`
	Place   int    `json:"place"`
	Attempt int    `json:"attempt"`
	Agent   string `json:"agent"`
	// State and Checkpoints are digests of file lists; empty: an empty folder. Files is
	// that of the files which the program made or changed in its working folder.
	State       store.Digest `json:"state,omitempty"`
	Checkpoints store.Digest `json:"checkpoints,omitempty"`
	Files       store.Digest `json:"files,omitempty"`
	Code        store.Digest `json:"code,omitempty"` // what was shipped into that folder; empty: nothing
	Bytes       int64        `json:"bytes,omitempty"`
}

// Lists are the digests of the file lists that a generation names.
func (s Saved) Lists() (all []store.Digest) {
	for _, d := range []store.Digest{s.State, s.Checkpoints, s.Files} {
		if d != "" {
			all = append(all, d)
		}
	}
	return all
}

// ErrFenced says that a newer attempt has taken a rank's state over. Who gets
// it stops writing for good; what he had is not lost, it is merely not the newest.
var ErrFenced = errors.New("a newer attempt has taken over")

// Generations is one writer's hold on the state of one rank of a task.
type Generations struct {
	log *Log
	me  Restored
}

// before orders writers: by their job's place, then by attempt.
func (r Restored) before(o Restored) bool {
	if r.Place != o.Place {
		return r.Place < o.Place
	}
	return r.Attempt < o.Attempt
}

// holder is the writer whose `restored` stands: the greatest so far. Two agents
// of one attempt and rank cannot be, a rank has one join.
func holder(entries []Entry) (Restored, bool) {
	var h Restored
	found := false
	for _, e := range entries {
		if e.Restored != nil && (!found || h.before(*e.Restored)) {
			h, found = *e.Restored, true
		}
	}
	return h, found
}

// generations lists, oldest first, the numbers of those `saved` entries that
// were written by the holder of their time.
func generations(entries []Entry) []int {
	var h Restored
	found := false
	var counted []int
	for n, e := range entries {
		switch {
		case e.Restored != nil && (!found || h.before(*e.Restored)):
			h, found = *e.Restored, true
		case e.Saved != nil && found && e.Saved.Place == h.Place && e.Saved.Attempt == h.Attempt && e.Saved.Agent == h.Agent:
			counted = append(counted, n)
		}
	}
	return counted
}

func stateDir(p job.Path, rank int) string { return fmt.Sprintf("%s/state/%d", taskDir(p), rank) }

// Restore takes the state of a rank over for the attempt that me names, and
// returns the newest generation that complete accepts, nil when there is none.
// Checkpoints and files of jobs before place since are not offered; state always is.
// It returns ErrFenced when a newer attempt already has it.
func (w World) Restore(ctx context.Context, p job.Path, rank int, me Restored, since int, complete func(Saved) (bool, error)) (*Generations, *Saved, error) {
	g := &Generations{log: w.openLog(stateDir(p, rank), me.Agent), me: me}
	// The first attempt of a task's first job finds nothing, or else its append does.
	for read := me.Place > 0 || me.Attempt > 1; ; read = true {
		if read {
			if err := g.log.Read(ctx); err != nil {
				return nil, nil, err
			}
		}
		if h, ok := holder(g.log.Entries); ok && !h.before(g.me) {
			if h.Agent == me.Agent && h.Attempt == me.Attempt && h.Place == me.Place {
				return g, nil, nil // ours already: nothing has run in between
			}
			return nil, nil, ErrFenced
		}
		number, saved, err := newest(g.log.Entries, complete)
		if err != nil {
			return nil, nil, err
		}
		g.me.Generation = number
		mine, err := g.log.Append(ctx, Entry{Restored: &g.me})
		if err != nil {
			return nil, nil, err
		}
		if mine {
			if saved != nil && saved.Place < since {
				saved.Checkpoints, saved.Files = "", ""
			}
			return g, saved, nil
		}
	}
}

// ReopenState gives the hold on a rank's state back to the attempt that me names, for what
// its agent had written and not saved when it died. newest is its newest generation,
// or the one that it began with; nil: there is none. ErrFenced unless that attempt was
// the last to take the state over.
func (w World) ReopenState(ctx context.Context, p job.Path, rank int, me Restored) (g *Generations, newest *Saved, err error) {
	g = &Generations{log: w.openLog(stateDir(p, rank), me.Agent), me: me}
	if err := g.log.Read(ctx); err != nil {
		return nil, nil, err
	}
	if h, ok := holder(g.log.Entries); !ok || h.Place != me.Place || h.Attempt != me.Attempt || h.Agent != me.Agent {
		return nil, nil, ErrFenced
	}
	if counted := generations(g.log.Entries); len(counted) > 0 {
		newest = g.log.Entries[counted[len(counted)-1]].Saved
	}
	return g, newest, nil
}

// newest finds the newest complete generation. A torn one, or one that misses a
// blob, is never offered: the one before it is.
func newest(entries []Entry, complete func(Saved) (bool, error)) (int, *Saved, error) {
	counted := generations(entries)
	for i := len(counted) - 1; i >= 0; i-- {
		s := *entries[counted[i]].Saved
		ok, err := complete(s)
		if err != nil {
			return 0, nil, err
		}
		if ok {
			return counted[i], &s, nil
		}
	}
	return -1, nil, nil
}

// Save adds a generation, whose blobs are stored already. ErrFenced when a newer
// attempt has taken over: the caller stops.
func (g *Generations) Save(ctx context.Context, s Saved) error {
	s.Job, s.Place, s.Attempt, s.Agent = g.me.Job, g.me.Place, g.me.Attempt, g.me.Agent
	for {
		if err := g.log.Read(ctx); err != nil {
			return err
		}
		if h, _ := holder(g.log.Entries); g.me.before(h) {
			return ErrFenced
		}
		mine, err := g.log.Append(ctx, Entry{Saved: &s})
		if err != nil || mine {
			return err
		}
	}
}

// State reads the newest generation of a rank's state without taking it over.
func (w World) State(ctx context.Context, p job.Path, rank int, complete func(Saved) (bool, error)) (*Saved, error) {
	l := w.openLog(stateDir(p, rank), "")
	if err := l.Read(ctx); err != nil {
		return nil, err
	}
	_, s, err := newest(l.Entries, complete)
	return s, err
}

// PutState adds a generation by hand, between two jobs: change gets what the
// newest complete one names (its zero value when there is none) and says what is
// to be there, whose blobs are stored already. The next job begins with it.
// ErrFenced when one has begun meanwhile.
func (w World) PutState(ctx context.Context, p job.Path, rank int, by string, complete func(Saved) (bool, error), change func(*Saved)) error {
	task, err := w.Task(ctx, p)
	if err != nil {
		return err
	}
	place, _ := task.PlaceOf(task.Newest())
	if len(task.Jobs) == 0 {
		place = -1 // before the first
	}
	l := w.openLog(stateDir(p, rank), by)
	if err := l.Read(ctx); err != nil {
		return err
	}
	me := Restored{Job: task.Newest(), Place: place, Agent: by}
	if h, ok := holder(l.Entries); ok && !h.before(me) {
		if h.Place > place {
			return ErrFenced
		}
		me.Attempt = h.Attempt + 1
	}
	number, saved, err := newest(l.Entries, complete)
	if err != nil {
		return err
	}
	if me.Generation = number; saved == nil {
		saved = &Saved{Place: place}
	}
	was := *saved
	if change(saved); was.Place < place { // a younger place would offer those of a job that ended well
		*saved = Saved{State: saved.State, Bytes: saved.Bytes}
	}
	if mine, err := l.Append(ctx, Entry{Restored: &me}); err != nil || !mine {
		return errors.Join(err, ErrFenced)
	}
	g := &Generations{log: l, me: me}
	return g.Save(ctx, *saved)
}
