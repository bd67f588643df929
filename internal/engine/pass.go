package engine

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/ledger/attached"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Passes say what agents open the store with. The zero value is for a store that
// asks for no credentials.
type Passes struct {
	// Store is how agents name the store, where it is not as this process does.
	Store string
	// Machine is how agents name the store on machines that have credentials of their own;
	// nil: as Store says.
	Machine func() (string, error)
	// Make gives what agents with these rights open it with where they inherit
	// nothing of this process. images says that they see an image, and so none of
	// their machine's profiles. Nil: nothing is needed.
	Make func(ctx context.Context, r store.Rights, images bool) (Pass, error)
}

// Pass is what the agents of a task open the store with.
type Pass struct {
	File  []byte    // a secret, for a driver to hand over; nil: what their machine has
	Until time.Time // zero: it does not end
	Note  string    // for the plan, in half a line; "": nothing to say
}

// retryPass is the pause after a pass that could not be renewed. What agents have
// still works: it is renewed at half its life.
const retryPass = time.Minute

// passes are those that this process has made.
type passes struct {
	mu   sync.Mutex
	made map[passKey]madePass
}

// passKey says which agents a pass is for: those of a task, in images or not.
type passKey struct {
	task   string
	images bool
}

type madePass struct {
	Pass
	half time.Time // from here on another one is made; zero: never
}

// pass gives one for a task, which may have been made before.
func (e *Engine) pass(ctx context.Context, p job.Path, images bool) (Pass, error) {
	e.passes.mu.Lock()
	defer e.passes.mu.Unlock()
	key := passKey{p.Project + "/" + p.Task, images}
	now := e.World.Store.Clock().Now()
	if m, ok := e.passes.made[key]; ok && (m.half.IsZero() || now.Before(m.half)) {
		return m.Pass, nil
	}
	made, err := e.Passes.Make(ctx, AgentRights(p), images)
	if err != nil {
		return made, err
	}
	m := madePass{Pass: made}
	if !made.Until.IsZero() {
		m.half = now.Add(made.Until.Sub(now) / 2)
	}
	e.passes.made[key] = m
	return made, nil
}

// noteOfPass finds out for a plan what its agents would open the store with.
func (e *Engine) noteOfPass(ctx context.Context, p *Plan) error {
	if id := p.Properties.Identity; id != "" {
		p.Pass = "agents open it as " + cmp.Or(p.Offer.Identity, id)
		return nil
	}
	if e.Passes.Make == nil || p.Properties.Inherits() {
		return nil
	}
	made, err := e.pass(ctx, job.Path{Project: p.Spec.Project, Task: p.Spec.Task}, p.Properties.Containers)
	p.Pass = made.Note
	return err
}

// storeOf is how the agents of a target name the store. Agents with an identity of their own
// have no use for a profile of this machine, and get a name without it.
func (e *Engine) storeOf(p driver.Properties) (string, error) {
	if p.Identity == "" || e.Passes.Machine == nil {
		return e.Boot.Store, nil
	}
	name, err := e.Passes.Machine()
	if err != nil {
		return "", fmt.Errorf("name the store as agents open it: %w", err)
	}
	return name, nil
}

// renewal renews the passes of a job's agents while a command line is attached.
type renewal struct {
	e    *Engine
	d    driver.Opened
	j    job.Job
	next time.Time // zero: at once, as the age of theirs is not known
	off  bool
}

// begun says that agents were just started. The driver's properties tell whether they run
// in images.
func (r *renewal) begun(ctx context.Context) {
	if r.e.Passes.Make == nil || r.off {
		return
	}
	r.handed(r.d.Containers)
}

// handed says that a pass was just handed over.
func (r *renewal) handed(images bool) {
	r.e.passes.mu.Lock()
	defer r.e.passes.mu.Unlock()
	m := r.e.passes.made[passKey{r.j.Spec.Project + "/" + r.j.Spec.Task, images}]
	r.next, r.off = m.half, m.half.IsZero()
}

// look starts placements that live once more, which starts nothing and hands over
// what was made anew. It is a courtesy, until theirs has ended: what goes wrong is
// tried again.
func (r *renewal) look(ctx context.Context, rows []attached.Machine) {
	now := r.e.World.Store.Clock().Now()
	if r.e.Passes.Make == nil || r.off || now.Before(r.next) {
		return
	}
	if r.d.Inherits() || r.d.Identity != "" {
		r.off = true
		return
	}
	agents := map[int]int{}
	live := map[int]bool{}
	for _, m := range rows {
		agents[m.Placement]++
		live[m.Placement] = live[m.Placement] || m.Alive
	}
	for placement, n := range agents {
		if !live[placement] {
			continue
		}
		if err := r.e.requestAgents(ctx, r.d, r.j, placement, n, nil); err != nil {
			r.next = now.Add(retryPass)
			return
		}
		r.handed(r.d.Containers)
	}
}
