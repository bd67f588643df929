package engine

import (
	"context"
	"fmt"
	"os"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/ledger"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// NewCode is a map's code as it lies here now, found and not yet stored.
type NewCode struct {
	Same bool // as what the job's items run with
	Dir  string

	plan Plan
}

// FindCode finds a map's code again: in the folder where its command was typed, or
// in the current one when that is not here. It changes nothing. The program must be
// the same one.
func (e *Engine) FindCode(ctx context.Context, j job.Job, m *ledger.Map) (c NewCode, err error) {
	here := *e
	if info, err := os.Stat(j.Folder); j.Host == e.Caller.Host && err == nil && info.IsDir() {
		here.Caller.Folder = j.Folder
	}
	r, err := items.Open(ctx, e.World.Store, m.Base, 1)
	if err != nil {
		return c, err
	}
	files, err := here.itemFiles(ctx, j.Spec.From, m.Base.Format, r.Range(ctx, 1, min(m.Base.Count, maxItemFiles)))
	if err != nil {
		return c, err
	}
	c.plan.Spec = j.Spec
	d, err := e.Driver(j.Spec.On)
	if err != nil {
		return c, err
	}
	if c.plan.Offer, err = d.Offer(ctx, needsOf(j)); err != nil {
		return c, err
	}
	if c.plan.ship, err = here.locate(ctx, j.Spec, files, others(c.plan.Offer, j.Spec)); err != nil {
		return c, err
	}
	p := &c.plan
	p.Code, p.Script, p.CodeNote = p.ship.files, p.ship.script, p.ship.note
	c.Dir = p.Code.Dir
	was := m.Code(j).Code
	if p.Script != was.Script || p.ship.nothing != (was.Blob == "") {
		return c, fault.New(fault.Invalid, "Change to the folder where it was started, "+j.Folder+"; or run the command anew for another job.",
			"find code of job %s: %q is not the program in %s that it was", j.Short, j.Spec.Program, here.Caller.Folder)
	}
	if !p.ship.nothing {
		if p.Digest, err = p.Code.Digest(ctx); err != nil {
			return c, err
		}
	}
	c.Same = p.Digest == was.Digest
	if !p.Offer.Attached || p.Offer.Apart {
		return c, nil
	}
	p.Environment, err = e.environment(ctx, *p)
	return c, err
}

// Recode gives a map another round with new code: that is stored, then named, and what
// gc took meanwhile is stored again; only then the round begins, and items may ask for
// it. live is as Reopen gives it.
func (e *Engine) Recode(ctx context.Context, j job.Job, c NewCode, r ledger.Round) (live string, ok bool, err error) {
	sweeps, err := e.World.Sweeps(ctx)
	if err != nil {
		return "", false, err
	}
	b, err := bundle.Put(ctx, e.World.Store, c.plan.Code)
	if err != nil {
		return "", false, fmt.Errorf("store code of job %s: %w", j.Short, err)
	}
	code := ledger.Code{Environment: c.plan.Environment.Digest, Interpreter: c.plan.Environment.Active,
		Code: job.Code{Blob: string(b.Blob), Digest: b.Content, Files: len(c.plan.Code.Entries), Bytes: c.plan.Code.Bytes, Script: c.plan.Script, Note: c.plan.CodeNote}}
	amend := ledger.Amended{Code: &code}
	if r.Amend != nil {
		amend = *r.Amend
		amend.Code = &code
	}
	r.Amend = &amend
	if err := e.World.NameRound(ctx, j.Path(), e.Caller.By, r); err != nil {
		return "", false, fmt.Errorf("name code of job %s: %w", j.Short, err)
	}
	need := func() ([]store.Digest, error) { return []store.Digest{b.Blob}, nil }
	err = sweeps.Assure(ctx, need, func(ctx context.Context, _ []store.Digest) error {
		again, err := bundle.Put(ctx, e.World.Store, c.plan.Code)
		if err == nil && again.Blob != b.Blob {
			err = fault.New(fault.Invalid, "Run it again.", "store code of job %s: it changed meanwhile", j.Short)
		}
		return err
	})
	if err != nil {
		return "", false, err
	}
	return e.World.Reopen(ctx, j, e.Caller.By, r)
}
