// Package gc finds what is of no use, in a store, at targets and on this machine, and
// removes it: submits that never finished, what is left of removed jobs, blobs that nothing names,
// environments, agents of ended jobs, and the jobs that a user lets go.
//
// It refuses to know what a command means. It may be stopped at any moment, and run beside others
// and beside all else: a log of sweeps keeps it from removing what a saver is about to name.
//
// Proved by a simulation with planted mutants, and by its tests over the memory store.
package gc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/engine/programs"
	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/job"
)

// Remover removes what is of no use from one store, its targets and this machine. Its methods
// may be called from many goroutines.
type Remover struct {
	World   protocol.World
	Drivers map[string]driver.Opened // by target
	By      string                   // this process's name in logs; never used twice
	Cache   string                   // root of drover's cache; "": environments are not looked at
	// Folders are the work folders of agents that have died on this machine, and Remove
	// takes one of them away. Nil: there are none.
	Folders func() []WorkFolder
	Remove  func(dir string) error
}

// WorkFolder is the folder of an agent that died: what its program had written last
// may be there alone.
type WorkFolder struct {
	Dir   string
	Store string // as its store calls itself
	Job   job.Path
	Bytes int64
}

// Options say what may go beside what is of no use.
type Options struct {
	// Project limits the jobs that are considered to those of one project; "": all. Blobs
	// and environments belong to no project.
	Project string
	// Keep, above 0, lets settled jobs go beyond the newest Keep of their task,
	// Older, above 0, those that ended longer ago; with both a job goes that both
	// let go. A task's newest success stays.
	Keep  int
	Older time.Duration
	// Jobs are to go in any case, but for live ones and those that others name.
	Jobs []job.Path
	// MinAge is how old the store says that an unnamed blob is, or a
	// submit that was not finished; 0 is DefaultMinAge. It spares savers work;
	// what keeps their blobs is the sweeps' log (package ledger).
	MinAge time.Duration
	// Lag is how old a listing of the store may be; 0 on a disk and on stores with current
	// listings.
	Lag time.Duration
	// Self is this process, so that a later gc does not wait for it when it has died.
	Self protocol.Host
}

const (
	// DefaultMinAge is more than most submits take.
	DefaultMinAge = time.Hour
	// idleEnvironment is how long an environment may be unused.
	idleEnvironment = 30 * 24 * time.Hour
	// tidyAge is when what a gc keeps for itself is of no use any more.
	tidyAge = 24 * time.Hour
)

// The kinds of Leftover.
const (
	LeftJob         = "job"
	LeftSubmit      = "submit"      // never finished
	LeftRest        = "rest"        // of a removed job
	LeftBlobs       = "blobs"       // that nothing names
	LeftEnvironment = "environment" // of drover's cache
	LeftAgents      = "agents"      // that a target holds of an ended job
	LeftFolder      = "folder"      // in which an agent worked that died on this machine
	LeftProgram     = "program"     // that was stored for machines of targets
)

// Leftover is one thing that may go, or one that stays and why.
type Leftover struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Count int    `json:"count,omitempty"` // of blobs
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"` // one sentence

	job    job.Path
	short  string // of an unfinished submit: its id, to be given back
	handle driver.Handle
}

// Garbage is what Leftovers found. Only what it names is removed by Collect.
type Garbage struct {
	V     int        `json:"v"`
	Items []Leftover `json:"items"`
	Kept  []Leftover `json:"kept,omitempty"` // what was asked for, or old enough, and stays
	Bytes int64      `json:"bytes"`          // of all items
	Notes []string   `json:"notes,omitempty"`

	options Options
	blobs   []blob
}

// Freed is what Collect removed.
type Freed struct {
	V     int        `json:"v"`
	Items []Leftover `json:"items"`
	Kept  []Leftover `json:"kept,omitempty"` // what has come into use since
	Bytes int64      `json:"bytes"`
}

// Leftovers finds what is of no use and changes nothing: submits that never
// finished, what is left of removed jobs, blobs that nothing names, environments half
// built or long unused, agents of ended jobs; and the jobs that o lets go.
func (r *Remover) Leftovers(ctx context.Context, o Options) (Garbage, error) {
	if o.MinAge == 0 {
		o.MinAge = DefaultMinAge
	}
	g := Garbage{V: 1, options: o, Items: []Leftover{}}
	now := r.World.Store.Clock().Now()
	census := removal.NewInventory(r.World)
	if err := census.Look(ctx); err != nil {
		return g, err
	}
	choice := o.chooseJobs(census.Jobs(), nil, now)
	g.Kept = choice.kept
	if err := r.addJobs(ctx, &g, census, choice, now); err != nil {
		return g, err
	}
	r.leftAgents(ctx, &g, census)
	r.leftFolders(&g, census)
	if err := r.leftEnvironments(&g, now); err != nil {
		return g, err
	}
	if err := r.leftPrograms(ctx, &g, now); err != nil {
		return g, err
	}
	names, going := newNames(r.World.Store), map[job.Path]bool{}
	for _, item := range g.Items {
		going[item.job] = true
	}
	if err := names.addNames(ctx, census, going); err != nil {
		return g, err
	}
	for _, bad := range names.unknown {
		g.Notes = append(g.Notes, bad.Error())
	}
	if blind := names.whyNotKnown(); blind != "" {
		g.Kept = append(g.Kept, Leftover{Kind: LeftBlobs, Name: "all", Why: blind})
		return g.withTotal(), nil
	}
	var err error
	if g.blobs, err = names.listUnnamed(ctx, now.Add(-o.MinAge)); err != nil {
		return g, err
	}
	if n := len(g.blobs); n > 0 {
		item := Leftover{Kind: LeftBlobs, Name: plural(n, "blob"), Count: n, Why: "no job that stays, and no state, names them"}
		for _, b := range g.blobs {
			item.Bytes += b.size
		}
		g.Items = append(g.Items, item)
	}
	return g.withTotal(), nil
}

func (g Garbage) withTotal() Garbage {
	for _, item := range g.Items {
		g.Bytes += item.Bytes
	}
	return g
}

// addJobs adds the jobs that go, unfinished submits, and rests.
func (r *Remover) addJobs(ctx context.Context, g *Garbage, census *removal.Inventory, c choice, now time.Time) error {
	jobs := map[job.Path]*removal.Counted{}
	for _, j := range census.Jobs() {
		jobs[j.Path] = j
	}
	sizes := map[job.Path]removal.Folder{}
	for _, t := range census.Tasks() {
		if !g.options.includesJob(t.Path) && !c.includesTask(t.Path) || t.Bad != nil { // which jobs it has had is not known
			continue
		}
		folders, err := removal.ListFolders(ctx, r.World, t.Path)
		if err != nil {
			return err
		}
		for _, f := range folders {
			p := t.Path
			p.Job = f.Job
			sizes[p] = f
			_, known := jobs[p]
			_, removed := t.Task.Gone[p.Job]
			switch {
			case !g.options.includesJob(t.Path):
			case removed:
				g.Items = append(g.Items, Leftover{Kind: LeftRest, Name: p.String(), Bytes: f.Bytes, Why: "its job was removed", job: p})
			case !known && now.Sub(f.Newest) >= g.options.MinAge:
				g.Items = append(g.Items, Leftover{Kind: LeftSubmit, Name: p.String(), Bytes: f.Bytes, Why: "it was given up while it was being submitted", job: p})
			}
		}
	}
	for _, j := range census.Jobs() {
		if g.options.unfinished(j, now) {
			g.Items = append(g.Items, Leftover{Kind: LeftSubmit, Name: j.Path.String(), Bytes: sizes[j.Path].Bytes,
				Why: "it was named " + ago(now.Sub(j.Since)) + " ago and never submitted", job: j.Path, short: j.Short})
		}
	}
	for _, j := range c.order {
		g.Items = append(g.Items, Leftover{Kind: LeftJob, Name: j.Path.String(), Bytes: sizes[j.Path].Bytes, Why: c.going[j.Path], job: j.Path})
	}
	return nil
}

func (o Options) includesJob(p job.Path) bool { return o.Project == "" || o.Project == p.Project }

// unfinished says whether a submit has been going on for longer than any does.
func (o Options) unfinished(j *removal.Counted, now time.Time) bool {
	return o.includesJob(j.Path) && !j.Submitted && !j.Removed && j.Bad == nil && now.Sub(j.Since) >= o.MinAge
}

// leftAgents adds what targets hold of jobs that have ended. A target that cannot
// be asked is a note.
func (r *Remover) leftAgents(ctx context.Context, g *Garbage, census *removal.Inventory) {
	ended := map[string]*removal.Counted{}
	for _, j := range census.Jobs() {
		if g.options.includesJob(j.Path) && (j.Removed || j.Settled != nil) {
			ended[j.Path.Job] = j
		}
	}
	for _, target := range slices.Sorted(maps.Keys(r.Drivers)) {
		held, err := r.Drivers[target].List(ctx)
		if err != nil {
			g.Notes = append(g.Notes, fmt.Sprintf("%s was not checked: %v", target, err))
		}
		for _, h := range held {
			j, ok := ended[h.Job]
			if !ok {
				continue // live, or of another store
			}
			why := "its job was removed"
			if j.Settled != nil {
				why = "its job has " + strings.ToLower(string(j.Settled.State)) // succeeded, failed, cancelled
			}
			g.Items = append(g.Items, Leftover{Kind: LeftAgents, Name: h.String(), Why: why, handle: h})
		}
	}
}

// leftFolders adds the work folders of agents that died on this machine, of jobs that
// have ended. Those of others are kept: what they hold may not be stored.
func (r *Remover) leftFolders(g *Garbage, census *removal.Inventory) {
	if r.Folders == nil {
		return
	}
	jobs := map[job.Path]*removal.Counted{}
	for _, j := range census.Jobs() {
		jobs[j.Path] = j
	}
	for _, f := range r.Folders() {
		l := Leftover{Kind: LeftFolder, Name: f.Dir, Bytes: f.Bytes, job: f.Job}
		j := jobs[f.Job]
		switch {
		case !g.options.includesJob(f.Job):
			continue
		case f.Store != r.World.Store.String():
			l.Why = "its job is in another store, " + f.Store
			g.Kept = append(g.Kept, l)
			continue
		case j == nil || j.Removed:
			l.Why = "its job was removed"
		case j.Bad != nil:
			l.Why = "its job cannot be read"
			g.Kept = append(g.Kept, l)
			continue
		case j.Settled == nil:
			l.Why = "its agent died, and job " + j.Short + ", which has not ended, begins with what it holds"
			g.Kept = append(g.Kept, l)
			continue
		default:
			l.Why = "its agent died, and its job has ended: " + strings.ToLower(string(j.Settled.State))
		}
		g.Items = append(g.Items, l)
	}
}

// leftEnvironments adds environments that are unfinished or unused.
func (r *Remover) leftEnvironments(g *Garbage, now time.Time) error {
	if r.Cache == "" {
		return nil
	}
	broken, err := env.Broken(r.Cache)
	if err != nil {
		return err
	}
	for _, b := range broken {
		g.Items = append(g.Items, Leftover{Kind: LeftEnvironment, Name: b.Digest, Bytes: b.Size, Why: "it is half built, and no command is building it"})
	}
	whole, err := env.List(r.Cache)
	if err != nil {
		return err
	}
	for _, b := range whole {
		if idle := now.Sub(b.Used); idle > idleEnvironment {
			g.Items = append(g.Items, Leftover{Kind: LeftEnvironment, Name: b.Digest, Bytes: b.Size, Why: "it was not used for " + ago(idle)})
		}
	}
	return nil
}

// leftPrograms adds programs that no placement was started with for a long time.
func (r *Remover) leftPrograms(ctx context.Context, g *Garbage, now time.Time) error {
	for o, err := range r.World.Store.List(ctx, programs.Prefix) {
		if err != nil {
			return err
		}
		if age := now.Sub(o.Time); age > programs.KeptFor {
			g.Items = append(g.Items, Leftover{Kind: LeftProgram, Name: o.Key, Bytes: o.Size, Why: "no agents were started with it for " + ago(age)})
		}
	}
	return nil
}

// ago is a length of time for people: "3 days".
func ago(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return plural(int(d/(24*time.Hour)), "day")
	case d >= 2*time.Hour:
		return plural(int(d/time.Hour), "hour")
	}
	return plural(int(d/time.Minute), "minute")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
