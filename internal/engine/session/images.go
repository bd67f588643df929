package session

import (
	"cmp"
	"context"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image"
	"github.com/drover-run/drover/job"
)

// Images says where images come from.
type Images struct {
	Region string // the region with the registry of SageMaker's images; "": us-east-1
	Mirror string // registry prefix that stands for it; "": none
	// Registry is the prefix to push images to that are built for targets that pull images and
	// have no registry themselves; "": there is none.
	Registry string
	// Pin looks up what an image that is to be built begins from, which is part of
	// its name. Nil: the plan's name may not be the one that Build gives.
	Pin func(ctx context.Context, p *image.Plan) error
	// Build makes an image where the targets of this machine find it, unless it is
	// there, and gives the name by which they do. Nil: nothing is built.
	Build func(ctx context.Context, p *image.Plan) (reference string, err error)
	// LookUp asks a registry for an image. That it has none is a fault of kind Missing. Nil:
	// no registry is asked.
	LookUp func(ctx context.Context, reference string) error
	// Entrypoint asks a registry for an image's ENTRYPOINT. Nil: no registry is asked.
	Entrypoint func(ctx context.Context, reference string) ([]string, error)
}

// FindRegistry is where an image that is built or copied for a job is pushed: to its target's registry, else to the caller's. "":
// nowhere, or none is built.
func (i Images) FindRegistry(ctx context.Context, c job.Container, p driver.Properties, d driver.Driver, n driver.Needs) (string, error) {
	copied := p.PullsFrom != nil && c.Image != "" && !p.PullsFrom(c.Image)
	if !p.Pulls || c.Dockerfile == "" && !copied {
		return "", nil
	}
	n.Place.Later = true
	o, err := d.Offer(ctx, n)
	return cmp.Or(o.Registry, i.Registry), err
}

// lookUpTime is how long a registry has to answer.
const lookUpTime = 5 * time.Second

// CheckImage refuses an image that lies in no registry, for a target that pulls images from
// registries. An image that is built for a target with a registry is pushed there. unknown says why
// this machine may not know whether the registry has it; "": it has, or did not answer.
func (i Images) CheckImage(ctx context.Context, p driver.Properties, on string, made *image.Plan) (unknown string, err error) {
	switch {
	case !p.Pulls:
		return "", nil
	case made.Recipe != nil && made.Registry == "":
		return "", fault.New(fault.Invalid, "Name a registry of yours, once: `drover config set image_registry ghcr.io/me`; or push the image and name it with `--image`: `drover image build --push REGISTRY`.",
			"place job on %s: its machines see no image that is built here", on)
	case made.Recipe == nil && image.IsOfThisMachine(made.Reference):
		return "", fault.New(fault.Invalid, "Push it to a registry, then name it with `--image`: `drover image push "+made.Reference+" "+cmp.Or(i.Registry, "REGISTRY")+"`.",
			"place job on %s: the image %s lies in no registry", on, made.Reference)
	case made.Recipe != nil, made.Reference == "", i.LookUp == nil:
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	switch err := i.LookUp(ctx, made.Reference); {
	case fault.KindOf(err) == fault.Missing:
		return "", fault.Wrap(err, fault.Invalid, "Check `--image`: its name and its tag.", "place job on %s", on)
	case fault.KindOf(err) == fault.Denied: // the target's machines may have a login that this one has not
		return err.Error(), nil
	}
	return "", nil
}

// FindEntrypoint is the ENTRYPOINT of an image; nil: it has none, or this machine cannot see it.
func (i Images) FindEntrypoint(ctx context.Context, reference string) []string {
	if i.Entrypoint == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	words, err := i.Entrypoint(ctx, reference)
	if err != nil {
		return nil // the target's machines may have a login that this one has not
	}
	return words
}
