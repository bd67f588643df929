package drover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine"
	"github.com/drover-run/drover/internal/engine/figures"
	"github.com/drover-run/drover/internal/engine/hits"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
)

// DrillOptions say how a drill is done. Told is called of each thing that happens, by
// one goroutine at a time; it may be nil.
type DrillOptions struct {
	Items int    // of the sample; 0: 100
	Seed  uint64 // the same one makes the same hits, in the same order
	Told  func(DrillEvent)
}

// DrillEvent is a run that begins or ends, or a hit.
type DrillEvent struct {
	Stage string // calm, drill or again
	Job   *Job
	Items int
	Ended *Status       // the run has
	Hit   string        // "": none
	Agent string        // that it befell
	After time.Duration // since the stage began
}

// DrillReport is what a drill came to.
type DrillReport struct {
	V     int    `json:"v"`
	Seed  uint64 `json:"seed"`
	Items int    `json:"items"`
	Calm  string `json:"calm"` // the jobs' ids
	Drill string `json:"drill"`
	Again string `json:"again,omitempty"` // the third run, when the two differed
	// Hits counts what befell the agents, by its name.
	Hits map[string]int `json:"hits"`
	// Extra are recorded runs of items beyond one for each, Lost the claims of agents
	// that were killed, and Unseen how many runs these may have begun and not recorded.
	Extra  int `json:"extra_runs"`
	Lost   int `json:"lost_claims"`
	Unseen int `json:"unrecorded_runs_at_most"`
	// Findings is what verify found wrong with the disturbed job's logs: drover's own fault.
	Findings    int          `json:"doubts"`
	Differences []Difference `json:"differences"`
}

// Same says that the outputs were the same, of a job that was disturbed.
func (r DrillReport) Same() bool {
	return len(r.Differences) == 0 && r.Findings == 0 && r.Struck() > 0
}

// Struck is how many hits there were.
func (r DrillReport) Struck() (n int) {
	for _, hits := range r.Hits {
		n += hits
	}
	return n
}

// drillItems is how many items a drill runs when no number is given.
const drillItems = 100

// drillRetries lets a program that stays, and is killed while it runs an item alone, cost
// a try: that is the rule for crashes, and a difference that the report has no use for.
const drillRetries = 3

// drill is one at work.
type drill struct {
	p    *Plan
	o    DrillOptions
	n    int
	r    DrillReport
	calm Status
	rate hitRate
	left string // what became of the job that was interrupted
}

// Drillable refuses a plan with agents on other machines than this one.
func (p *Plan) Drillable() error {
	if p.Properties.Attached && !p.Properties.Apart {
		return nil
	}
	return fault.New(fault.Invalid, "Leave out `--on`: a drill runs its items on this machine, wherever all of them run.", "plan drill: agents are killed on this machine alone, not on %s", p.Spec.On)
}

// Drill runs a sample of p's items twice, in tasks beside p's: undisturbed, and then
// with its agents asked to go, killed and stopped at random. It compares what came
// out; where that differs, a third, undisturbed run tells whether it always does.
// Whatever the first run's items come to, the second has to come to the same. p itself
// is not submitted. When ctx ends, the run at hand is cancelled, and Drill returns once
// nothing of it is left: fault.Interrupted, and what it was at.
func (p *Plan) Drill(ctx context.Context, o DrillOptions) (DrillReport, error) {
	if err := p.Drillable(); err != nil {
		return DrillReport{}, err
	}
	if o.Items <= 0 {
		o.Items = drillItems
	}
	if o.Told == nil {
		o.Told = func(DrillEvent) {}
	}
	d := &drill{p: p, o: o, r: DrillReport{V: 1, Seed: o.Seed, Hits: map[string]int{}, Differences: []Difference{}}}
	err := d.runStages(ctx)
	if err != nil && ctx.Err() != nil {
		err = d.interrupted()
	}
	return d.r, err
}

// runStages does the runs one after the other, and compares them.
func (d *drill) runStages(ctx context.Context) error {
	calm, err := d.runStage(ctx, "calm", nil)
	if err != nil {
		return err
	}
	if d.rate, err = rateOf(ctx, calm, d.calm); err != nil {
		return err
	}
	hurt, err := d.runStage(ctx, "drill", d.hitAgents)
	if err != nil {
		return err
	}
	v, err := hurt.Verify(ctx, VerifyOptions{})
	if err != nil {
		return err
	}
	d.r.Extra, d.r.Lost, d.r.Unseen, d.r.Findings = v.Extra.Sum(), v.Losses, v.Bound, v.Doubted
	if d.r.Differences, err = compareResults(ctx, calm, hurt); err != nil || len(d.r.Differences) == 0 {
		return err
	}
	return d.runThirdTime(ctx, calm)
}

// compareResults gives the items of two jobs over the same list that have not ended alike.
func compareResults(ctx context.Context, before, after *Job) ([]Difference, error) {
	return figures.Compare(before.Results(ctx, ResultOptions{}), after.Results(ctx, ResultOptions{}))
}

// runThirdTime runs the sample once more, undisturbed, and marks the differences that it
// has as well.
func (d *drill) runThirdTime(ctx context.Context, calm *Job) error {
	third, err := d.runStage(ctx, "again", nil)
	if err != nil {
		return err
	}
	anyway, err := compareResults(ctx, calm, third)
	if err != nil {
		return err
	}
	differs := map[int]bool{}
	for _, x := range anyway {
		differs[x.Item] = true
	}
	for i := range d.r.Differences {
		d.r.Differences[i].Anyway = differs[d.r.Differences[i].Item]
	}
	return nil
}

// runStage does one of the runs to its end. beside disturbs it, until its context ends.
func (d *drill) runStage(ctx context.Context, stage string, beside func(context.Context, *Job) error) (*Job, error) {
	what := stage
	if stage == "again" {
		what = "calm"
	}
	s, numbers, err := d.p.Sample(ctx, what, d.o.Items)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.Spec.Stream {
		s.Spec.Retries = max(s.Spec.Retries, drillRetries)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// A submit that is broken off may have made a job that no command knows of.
	j, err := s.Submit(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	d.n = len(numbers)
	d.o.Told(DrillEvent{Stage: stage, Job: j, Items: d.n})
	st, err := d.attendJob(ctx, j, beside)
	if err != nil {
		return j, d.cancelStage(ctx, j, err)
	}
	d.o.Told(DrillEvent{Stage: stage, Job: j, Items: d.n, Ended: &st})
	if st.State != job.Succeeded && st.State != job.Failed { // as the items of an undisturbed job end
		return j, fault.New(fault.Invalid, "`drover why "+st.ID+"` says more.", "run drill: job %s ended as %s: %s", st.ID, st.State, st.Reason)
	}
	switch stage {
	case "calm":
		d.calm, d.r.Calm, d.r.Items = st, st.ID, d.n
	case "drill":
		d.r.Drill = st.ID
	default:
		d.r.Again = st.ID
	}
	return j, nil
}

// cancelStage cancels a run when the drill was interrupted, and waits until its agents are
// gone.
func (d *drill) cancelStage(ctx context.Context, j *Job, err error) error {
	if ctx.Err() == nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	stands, failed := j.Stop(ctx, "the drill was interrupted")
	short := j.path.Job
	if rec, err := j.Spec(ctx); err == nil {
		short = rec.Short
	}
	switch {
	case failed != nil:
		d.left = fmt.Sprintf("; job %s may still run, cancel it with drover cancel %s: %v", short, short, failed)
	case stands:
		d.left = fmt.Sprintf("; job %s is cancelled", short)
	default:
		d.left = fmt.Sprintf("; job %s had ended", short)
	}
	return err
}

// interrupted says what is left of a drill that was interrupted.
func (d *drill) interrupted() error {
	return fault.New(fault.Interrupted, fmt.Sprintf("Run it again: `--seed %d` makes the same hits.", d.o.Seed), "run drill: it was interrupted%s", d.left)
}

// attendJob sees that the job has agents until it has settled. Agents that were asked
// to go look as if a person had stopped the job: of those that we asked, we know better.
func (d *drill) attendJob(ctx context.Context, j *Job, beside func(context.Context, *Job) error) (Status, error) {
	hurting, enough := context.WithCancel(ctx)
	defer enough()
	struck := make(chan error, 1)
	go func() {
		var err error
		if beside != nil {
			err = beside(hurting, j)
		}
		struck <- err
	}()
	for {
		_, err := j.Wait(ctx)
		if err != nil && beside != nil && ctx.Err() == nil && fault.KindOf(err) == fault.Interrupted {
			continue
		}
		enough()
		if hit := <-struck; err == nil && ctx.Err() == nil && hurting.Err() == nil {
			err = hit
		}
		if err != nil {
			return Status{}, err
		}
		return j.Status(ctx)
	}
}

// hitRate says how fast hits may follow each other: gap is what items need, start
// what an agent needs until its first one runs, share a small part of all the work.
type hitRate struct{ share, gap, start time.Duration }

const (
	// mostHits bounds a drill: then the job goes on undisturbed to its end.
	mostHits = 12
	// hitShare of the undisturbed time lies between two hits, about.
	hitShare = 8
	leastGap = 30 * time.Millisecond
	longHalt = 2 * time.Second // far below a lease
	// hitPoll is how often agents are looked for that could be hit.
	hitPoll = 20 * time.Millisecond
)

// rateOf goes by the undisturbed run: an item must be able to end between two hits,
// or one that is running when three agents are killed is put aside.
func rateOf(ctx context.Context, calm *Job, s Status) (hitRate, error) {
	var longest float64
	var first, last time.Time
	for it, err := range calm.Results(ctx, ResultOptions{}) {
		if err != nil {
			return hitRate{}, err
		}
		if it.Code == nil {
			continue
		}
		began := it.Ended.Add(-time.Duration(it.Seconds * float64(time.Second)))
		if first.IsZero() || began.Before(first) {
			first = began
		}
		if it.Ended.After(last) {
			last = it.Ended
		}
		longest = max(longest, it.Seconds)
	}
	share := max(leastGap, last.Sub(first)/hitShare)
	return hitRate{share, max(share, time.Duration(longest*float64(time.Second))), max(0, first.Sub(s.Submitted))}, nil
}

// hitAgents hits the job's agents until ctx ends or there were enough hits. The seed
// chooses what is done, and after which pause; the agent that is hit is one of those that
// live then.
func (d *drill) hitAgents(ctx context.Context, j *Job) error {
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	v := views.NewMapView(j.c.world, rec)
	clock := j.c.world.Store.Clock()
	random := d.newRandom()
	began := clock.Boot()
	for d.r.Struck() < mostHits {
		b := blow{}
		b.kind, b.after, b.pick, b.pause = d.drawHit(random, rec.Spec)
		if err := clock.Sleep(ctx, b.after); err != nil {
			return nil // the job has settled, or the drill was interrupted
		}
		for did := false; !did; {
			agent, settled, err := d.hitOneAgent(ctx, j.c.engine, v, rec, b)
			if err != nil && ctx.Err() == nil {
				return err
			}
			if settled || ctx.Err() != nil {
				return nil
			}
			if did = agent != ""; did {
				d.r.Hits[string(b.kind)]++
				d.o.Told(DrillEvent{Stage: "drill", Job: j, Items: d.n, Hit: string(b.kind), Agent: agent, After: clock.Boot() - began})
			} else if err := clock.Sleep(ctx, hitPoll); err != nil {
				return nil
			}
		}
	}
	return nil
}

// blow is a hit that was drawn.
type blow struct {
	kind         hits.Hit
	after, pause time.Duration
	pick         uint64
}

// hitOneAgent looks for an agent that works, and hits it; agent is "" when there is none.
// But for the first time it is one that has recorded something: what always begins
// anew never ends.
func (d *drill) hitOneAgent(ctx context.Context, e *engine.Engine, v *views.MapView, rec job.Job, b blow) (agent string, settled bool, err error) {
	r, err := v.Refresh(ctx)
	if err != nil || r.Map.Settled != nil {
		return "", err == nil, err
	}
	busy := slices.DeleteFunc(slices.Clone(r.Living), func(l protocol.Heartbeat) bool {
		return l.Phase != "running" || l.Flight == 0 && len(l.Chunks) == 0 || d.r.Struck() > 0 && l.Recorded == 0
	})
	if len(busy) == 0 {
		return "", false, nil
	}
	chosen := busy[b.pick%uint64(len(busy))]
	did, err := hits.Strike(ctx, e.Session, rec, chosen, b.kind, b.pick, b.pause)
	if !did {
		return "", false, err
	}
	return chosen.Agent, false, err
}

// newRandom is where hits come from.
func (d *drill) newRandom() *rand.Rand { return rand.New(rand.NewPCG(d.o.Seed, 1)) }

// drawHit takes the next hit from the seed, the same numbers whatever is hit.
func (d *drill) drawHit(random *rand.Rand, s job.Spec) (kind hits.Hit, after time.Duration, pick uint64, pause time.Duration) {
	bag := []hits.Hit{hits.Kill, hits.Kill, hits.Kill, hits.Notice, hits.Term, hits.Pause}
	if s.Stream {
		bag = append(bag, hits.Program, hits.Program)
	}
	which, wait, pick, halt := random.Uint64(), random.Float64(), random.Uint64(), random.Float64()
	gap := float64(d.rate.gap)
	after = time.Duration(float64(d.rate.share) * wait / 2) // a short job must not be over before it begins
	if d.r.Struck() > 0 {
		after = d.rate.start + time.Duration(gap*(1+wait))
	}
	return bag[which%uint64(len(bag))], after, pick, min(longHalt, time.Duration(gap*(0.5+halt)))
}
