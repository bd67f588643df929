// Package build makes the images that package image plans: by Docker's builder,
// or, where a Dockerfile only copies files and sets what a container starts
// with, by appending layers to the base without any daemon. Both give the same
// image. What was built is found again by its digest, listed, and pushed.
//
// It refuses to know what a job is and where it runs.
//
// Proved by a registry in the test's own process, and by TestReal...: the same
// Dockerfiles built both ways and compared, file by file.
package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image"
)

// Way is how an image is made.
type Way int

// The ways. Auto takes Docker where it answers and the image is for it, else
// appends.
const (
	Auto Way = iota
	ByDocker
	ByAppending
)

// Order is what is to be done with a plan. Without Push and File the image goes
// to Docker, under the plan's name.
type Order struct {
	Plan  *image.Plan
	Way   Way
	Push  string // a registry prefix, such as ghcr.io/me: the image is pushed below it
	File  string // an archive to write, as docker save does
	Force bool   // also when it is there already
	Pull  bool   // ask for newer bases first
}

// Built says what came of it.
type Built struct {
	Reference string `json:"reference"` // what a job can name
	Digest    string `json:"digest"`    // of what went into it
	Skipped   bool   `json:"skipped"`   // it was there
	Way       string `json:"way,omitempty"`
}

// Builder makes images. Docker may be nil: then nothing answers there, and its
// user is told why.
type Builder struct {
	Docker     *Docker
	Why        error
	Words      io.Writer // what the builder says, as it says it; nil: nowhere
	Registries Registries
}

// New connects to Docker where there is one; that none answers is no error yet.
func New(ctx context.Context, words io.Writer, at Registries) *Builder {
	if words == nil {
		words = io.Discard
	}
	b := &Builder{Words: words, Registries: at}
	b.Docker, b.Why = Connect(ctx, at)
	return b
}

// Close ends the connection to Docker.
func (b *Builder) Close() error {
	if b.Docker == nil {
		return nil
	}
	return b.Docker.cli.Close()
}

// Pin looks the plan's bases up and makes their digests part of its own. What
// neither Docker nor a registry knows is left out; Build will say so.
func (b *Builder) Pin(ctx context.Context, p *image.Plan) error {
	digests := map[string]string{}
	for _, base := range p.Bases() {
		digest, err := b.baseDigest(ctx, base, p.Platform)
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		digests[base] = digest
	}
	return p.Pin(digests)
}

func (b *Builder) baseDigest(ctx context.Context, base, platform string) (string, error) {
	if _, _, ok := image.Local(base); ok {
		img, err := openLocal(base, platform)
		if err != nil {
			return "", err
		}
		h, err := img.ConfigName()
		return h.String(), err
	}
	if b.Docker != nil {
		if digest := b.Docker.contentDigest(ctx, base); digest != "" {
			return digest, nil
		}
	}
	short, cancel := context.WithTimeout(ctx, patience) // the user waits for the plan
	defer cancel()
	return b.Registries.headDigest(short, base)
}

// Build makes the image, unless it is there. An interrupted build leaves no
// container and no half image. Faults: Invalid or Missing where the Dockerfile
// or the base is wrong, Failed (with exit status 2) where a RUN failed, Denied
// by a registry, Lost where one cannot be reached.
func (b *Builder) Build(ctx context.Context, o Order) (Built, error) {
	p := o.Plan
	if p.Recipe == nil {
		return Built{}, fault.New(fault.Invalid, "Name a Dockerfile.", "build image: %s is not built", p.Reference)
	}
	out := Built{Reference: p.Reference, Digest: p.Digest}
	if o.Push != "" {
		out.Reference = p.Name(o.Push)
	}
	if err := b.renewBases(ctx, o); err != nil {
		return out, err
	}
	there, err := b.alreadyBuilt(ctx, o, out.Reference)
	if err != nil || there {
		out.Skipped = there
		return out, err
	}
	done, waited, err := b.lockBuild(ctx, o)
	if err != nil {
		return out, err
	}
	defer done()
	if waited {
		if there, err := b.alreadyBuilt(ctx, o, out.Reference); err != nil || there {
			out.Skipped = there
			return out, err
		}
	}
	appends, err := b.canAppend(o)
	if err != nil {
		return out, err
	}
	if appends {
		out.Way = "appended"
		return out, b.buildByAppending(ctx, o, out.Reference)
	}
	out.Way = "built by docker"
	if err := b.Docker.buildImage(ctx, p, b.Words); err != nil {
		return out, err
	}
	switch {
	case o.Push != "":
		return out, b.pushByDocker(ctx, p.Reference, out.Reference)
	case o.File != "":
		return out, b.Docker.saveImage(ctx, p.Reference, o.File)
	}
	return out, nil
}

// renewBases fetches the bases again, and pins what came.
func (b *Builder) renewBases(ctx context.Context, o Order) error {
	if !o.Pull || b.Docker == nil {
		return nil
	}
	for _, base := range o.Plan.Bases() {
		if _, _, ok := image.Local(base); ok {
			continue
		}
		if err := b.Docker.pullImage(ctx, base, o.Plan.Platform, b.Words); err != nil {
			return err
		}
	}
	return b.Pin(ctx, o.Plan)
}

// alreadyBuilt says whether the same was built before.
func (b *Builder) alreadyBuilt(ctx context.Context, o Order, reference string) (bool, error) {
	switch {
	case o.Force || o.File != "":
		return false, nil
	case o.Push != "":
		return b.Registries.pushed(ctx, reference, o.Plan.Digest)
	case b.Docker != nil:
		return b.Docker.hasImage(ctx, reference, o.Plan.Digest)
	}
	return false, nil
}

// canAppend chooses between the ways, or says why neither will do.
func (b *Builder) canAppend(o Order) (bool, error) {
	why := Appendable(o.Plan)
	where := o.Push != "" || o.File != ""
	switch {
	case o.Way == ByAppending && why != nil:
		return false, why
	case o.Way == ByAppending && !where && b.Docker == nil, o.Way == Auto && why == nil && !where && b.Docker == nil:
		return false, fault.Wrap(b.Why, fault.Missing, "Add `--push REGISTRY` or `-o FILE`, which need no Docker.", "build image: there is nowhere to put it")
	case o.Way == ByAppending, o.Way == Auto && why == nil && (where || b.Docker == nil):
		return true, nil
	case b.Docker == nil && why != nil && o.Way == Auto:
		return false, fault.Wrap(b.Why, fault.Missing, fault.MarkedHint(b.Why), "%s, which needs Docker", reason(why))
	case b.Docker == nil:
		return false, b.Why
	case hasLocalBase(o.Plan):
		if why != nil {
			return false, fault.Wrap(why, fault.Invalid, "Load it first: `docker load`, then name it.", "build image: Docker does not build on a file")
		}
		return true, nil
	}
	return false, nil
}

// reason is a fault's text without what was being done.
func reason(err error) string {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f.Text
	}
	return err.Error()
}

func hasLocalBase(p *image.Plan) bool {
	for _, base := range p.Bases() {
		if _, _, ok := image.Local(base); ok {
			return true
		}
	}
	return false
}

// buildByAppending makes the image here and brings it where it belongs.
func (b *Builder) buildByAppending(ctx context.Context, o Order, reference string) error {
	temp, err := os.MkdirTemp("", "drover-image-")
	if err != nil {
		return fault.Wrap(err, fault.Full, "Set TMPDIR to a folder with room.", "build image")
	}
	defer os.RemoveAll(temp)
	p := o.Plan
	base, err := b.fetchBase(ctx, p, temp)
	if err != nil {
		return err
	}
	img, err := Append(ctx, p, base, temp, b.Words)
	if err != nil {
		return err
	}
	switch {
	case o.Push != "":
		fmt.Fprintf(b.Words, "Pushing %s\n", reference)
		return b.Registries.pushImage(ctx, img, reference)
	case o.File != "":
		return writeArchive(img, reference, o.File)
	}
	return b.Docker.loadImage(ctx, img, reference)
}
