package engine

import (
	"context"
	"maps"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// proposeJob stores all that a job needs and writes what the job is. From then on no
// gc takes any of it; what one took before is stored again (docs/design/004-gc.md).
func (e submitter) proposeJob(ctx context.Context, p *Plan) (job.Job, error) {
	sweeps, err := removal.ReadSweeps(ctx, e.World)
	if err != nil {
		return job.Job{}, err
	}
	for _, f := range p.feeds {
		if f.Cache != nil { // it believes what a command before has sent, whatever gc did since
			sweeps.Since(0)
		}
	}
	j, err := e.storeJob(ctx, p)
	if err != nil {
		return j, err
	}
	if err := tasks.NameJob(ctx, e.World, &j); err != nil {
		return j, err
	}
	if err := e.shipItems(ctx, p, &j); err != nil {
		return j, err
	}
	if err := tasks.ProposeJob(ctx, e.World, j); err != nil {
		return j, err
	}
	need := func() ([]store.Digest, error) {
		files, err := e.blobsOfItems(ctx, j.Manifest)
		return append(files, p.blobsOfJob(j)...), err
	}
	return j, sweeps.Assure(ctx, need, func(ctx context.Context, gone []store.Digest) error {
		for _, f := range p.feeds {
			if f.Cache != nil {
				f.Cache.Forget(gone...)
			}
		}
		again, err := e.storeJob(ctx, p)
		if err == nil && (again.Code.Blob != j.Code.Blob || !maps.Equal(again.Inputs, j.Inputs)) {
			err = fault.New(fault.Invalid, "Run it again.", "submit job: code or inputs changed while they were stored")
		}
		if err != nil || p.Spec.Verb != job.Map {
			return err
		}
		return e.storeItemsAgain(ctx, p, p.Items.list, j.Manifest)
	})
}

// blobsOfJob are the blobs that the planned job names.
func (p *Plan) blobsOfJob(j job.Job) (all []store.Digest) {
	if j.Code.Blob != "" {
		all = append(all, store.Digest(j.Code.Blob))
	}
	for _, f := range p.feeds {
		all = append(append(all, store.Digest(j.Inputs[f.In.Name])), f.StoredTree().Blobs()...)
	}
	return all
}
