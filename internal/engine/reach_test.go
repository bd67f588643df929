package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// far is a target with agents that see nothing of this machine and have an identity of their own.
func far(d driver.Driver) driver.Opened {
	return driver.Opened{Driver: d, Properties: driver.Properties{Apart: true, Containers: true, Stores: []string{"s3", "gs"}, Identity: "the role drover-agents"}}
}

func TestAStoreThatAgentsCannotOpenIsRefusedInThePlan(t *testing.T) {
	d := newDesk(t)
	d.Drivers[mem.Name] = far(d.mem)
	for url, want := range map[string]string{
		"/home/ann/store": "place job on mem: its agents cannot open the store /home/ann/store", "file:///home/ann/store": "place job on mem: its agents cannot open the store file:///home/ann/store",
		"s3://bucket/x": "", "gs://bucket": "",
	} {
		d.Boot.Store = url
		_, err := d.Plan(t.Context(), job.Spec{Project: "demo", Program: "train.sh", On: mem.Name}, false)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", url, err)
			}
			continue
		}
		if fault.KindOf(err) != fault.Invalid || err.Error() != want || fault.Hint(err) != "Name one that they can: --store s3://bucket/prefix, or --store gs://bucket/prefix." {
			t.Errorf("%s: %v\n  %s", url, err, fault.Hint(err))
		}
	}
}

// Agents with an identity of their own are handed no credential, and the store has no
// profile of the caller's for them.
func TestNoCredentialIsMadeForAgentsWithTheirOwn(t *testing.T) {
	d := newDesk(t)
	made := 0
	d.Passes = Passes{Store: "s3://bucket?profile=ann", Machine: func() (string, error) { return "s3://bucket", nil },
		Make: func(context.Context, store.Rights, bool) (Pass, error) {
			made++
			return Pass{File: []byte("key"), Note: "agents are given a session"}, nil
		}}
	d.Boot.Store = "s3://bucket?profile=ann"
	spec := job.Spec{Project: "demo", Program: "train.sh", On: mem.Name}
	heard := make(chan driver.Request, 1)
	d.Drivers[mem.Name] = far(listening{d.mem, heard})
	p, err := d.Plan(t.Context(), spec, false)
	d.check(err)
	if p.Pass != "agents open it as the role drover-agents" {
		t.Errorf("the plan says %q", p.Pass)
	}
	path, err := d.Submit(t.Context(), &p)
	d.check(err)
	_, err = d.Attend(t.Context(), path)
	d.check(err)
	if r := <-heard; r.Run.Pass != nil || r.Run.Store != "s3://bucket" || made != 0 {
		t.Errorf("agents begin with the store %s, and %d credentials were made", r.Run.Store, made)
	}
}

// accounted is a driver that alone knows the account of far, and says in an offer which role its
// agents will have.
type accounted struct{ driver.Driver }

func (a accounted) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	o, err := a.Driver.Offer(ctx, n)
	o.Identity = "the role drover-agents of account 123456789012"
	return o, err
}

func TestAnOfferSaysMoreCloselyAsWhomAgentsWillBeThere(t *testing.T) {
	d := newDesk(t)
	d.Boot.Store = "s3://bucket"
	spec := job.Spec{Project: "demo", Program: "train.sh", On: mem.Name}
	d.Drivers[mem.Name] = far(accounted{d.mem})
	p, err := d.Plan(t.Context(), spec, false)
	d.check(err)
	if want := "agents open it as the role drover-agents of account 123456789012"; p.Pass != want {
		t.Errorf("the plan says %q, want %q", p.Pass, want)
	}
	// The identity of a target is a constant: an offer alone does not take credentials away.
	d.Passes = Passes{Make: func(context.Context, store.Rights, bool) (Pass, error) {
		return Pass{Note: "agents are given a session"}, nil
	}}
	o := far(accounted{d.mem})
	o.Identity = ""
	d.Drivers[mem.Name] = o
	p, err = d.Plan(t.Context(), spec, false)
	d.check(err)
	if p.Pass != "agents are given a session" {
		t.Errorf("without an identity of the target the plan says %q", p.Pass)
	}
}

// The profile of the caller goes nowhere, also where the store cannot be named without it.
func TestAStoreThatCannotBeNamedWithoutAProfileStartsNothing(t *testing.T) {
	d := newDesk(t)
	d.Passes = Passes{Machine: func() (string, error) { return "", errors.New("there is no profile \"ann\"") }}
	d.Boot.Store = "s3://bucket?profile=ann"
	heard := make(chan driver.Request, 1)
	d.Drivers[mem.Name] = far(listening{d.mem, heard})
	p, err := d.Plan(t.Context(), job.Spec{Project: "demo", Program: "train.sh", On: mem.Name}, false)
	d.check(err)
	path, err := d.Submit(t.Context(), &p)
	d.check(err)
	if _, err = d.Attend(t.Context(), path); err == nil || !strings.Contains(err.Error(), `name the store as agents open it: there is no profile "ann"`) {
		t.Errorf("it ends with %v", err)
	}
	if len(heard) > 0 {
		t.Errorf("agents were started with the store %s", (<-heard).Run.Store)
	}
}

func TestAnImageThatLiesInNoRegistryIsRefusedInThePlan(t *testing.T) {
	d := newDesk(t)
	d.Boot.Store = "s3://bucket"
	var built []string
	d.Images.Build = func(_ context.Context, p *image.Plan) (string, error) {
		built = append(built, p.Reference)
		return p.Reference, nil
	}
	const registry = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
	d.Images.LookUp = func(_ context.Context, ref string) error {
		switch ref {
		case "ghcr.io/me/x:2":
			return fault.New(fault.Missing, "Check the name and the tag.", "look up image %s: the registry has no such image", ref)
		case "ghcr.io/me/private:1":
			return fault.New(fault.Denied, "Log in: docker login ghcr.io.", "look up image %s: the registry refused: denied", ref)
		}
		return nil
	}
	for name, c := range map[string]struct {
		container job.Container
		registry  string
		attached  bool
		own       string // the caller's registry
		line      string
		why, hint string
	}{
		"of a registry":              {container: job.Container{Image: "ghcr.io/me/x:1"}, line: "ghcr.io/me/x:1"},
		"of another's":               {container: job.Container{Image: "ghcr.io/me/private:1"}, line: "ghcr.io/me/private:1, which this machine may not see: look up image ghcr.io/me/private:1: the registry refused: denied"},
		"of no registry":             {container: job.Container{Image: "ghcr.io/me/x:2"}, why: "place job on mem: look up image ghcr.io/me/x:2: the registry has no such image", hint: "Check --image: its name and its tag."},
		"not asked":                  {container: job.Container{Image: "ghcr.io/me/x:2"}, attached: true},
		"of Docker Hub":              {container: job.Container{Image: "python:3.12-slim"}, registry: registry},
		"built, and pushed":          {container: job.Container{Dockerfile: "FROM python:3.12\n"}, registry: registry},
		"built, for the caller's":    {container: job.Container{Dockerfile: "FROM python:3.12\n"}, own: "ghcr.io/me"},
		"built, for the target's":    {container: job.Container{Dockerfile: "FROM python:3.12\n"}, own: "ghcr.io/me", registry: registry},
		"built, beside this machine": {container: job.Container{Dockerfile: "FROM python:3.12\n"}, attached: true},
		"built, and pushed nowhere": {container: job.Container{Dockerfile: "FROM python:3.12\n"}, why: "place job on mem: its machines see no image that is built here",
			hint: "Name a registry of yours, once: drover config set image_registry ghcr.io/me; or push the image and name it with --image: drover image build --push REGISTRY."},
		"built before": {container: job.Container{Image: "drover/demo-1:2"}, registry: registry, why: "place job on mem: the image drover/demo-1:2 lies in no registry",
			hint: "Push it to a registry, then name it with --image: drover image push drover/demo-1:2 REGISTRY."},
		"an id": {container: job.Container{Image: "sha256:12ab"}, why: "place job on mem: the image sha256:12ab lies in no registry",
			hint: "Push it to a registry, then name it with --image: drover image push sha256:12ab REGISTRY."},
	} {
		o := far(d.mem)
		o.Attached, o.Pulls = c.attached, !c.attached
		o.Driver = withRegistry{o.Driver, c.registry}
		d.Drivers[mem.Name], d.Images.Registry = o, c.own
		p, err := d.Plan(t.Context(), job.Spec{Project: "demo", Program: "train.sh", On: mem.Name, Container: c.container}, false)
		if c.why != "" {
			if fault.KindOf(err) != fault.Invalid || err.Error() != c.why || fault.Hint(err) != c.hint {
				t.Errorf("%s: %v\n  %s", name, err, fault.Hint(err))
			}
			continue
		}
		d.check(err)
		if c.line != "" && p.Image.Why != c.line {
			t.Errorf("%s: the plan says %q", name, p.Image.Why)
		}
		if c.container.Dockerfile != "" && strings.HasPrefix(p.Image.Reference, registry+"/drover/") != (c.registry != "") {
			t.Errorf("%s: it will be named %s", name, p.Image.Reference)
		}
		if c.own != "" && c.registry == "" && !strings.HasPrefix(p.Image.Reference, c.own+"/drover/") {
			t.Errorf("%s: it will be named %s", name, p.Image.Reference)
		}
	}
	if len(built) > 0 {
		t.Errorf("plans have built %v", built)
	}
}

// withRegistry is a target with a registry of its own.
type withRegistry struct {
	driver.Driver
	registry string
}

func (d withRegistry) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	o, err := d.Driver.Offer(ctx, n)
	o.Registry = d.registry
	return o, err
}
