package sagemaker

import (
	"context"
	"fmt"
	"strings"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/registry"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// Offer looks for the project's role, chooses a type of machines, and changes nothing. Without an account in this machine's
// configuration it sends nothing.
func (d *Driver) Offer(ctx context.Context, n driver.Needs) (o driver.Offer, err error) {
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	opts, err := parseOptions(n.Args)
	if err != nil {
		return o, err
	}
	at, err := parseSite(n.Detail)
	if err != nil {
		return o, err
	}
	if have := amazon.Configured(ctx, amazon.Options{Region: at.region}); !have.OK() {
		o.Reason, o.Hint = have.Missing, have.Fix
		return o, nil
	}
	c, err := d.engine.clients.In(ctx, at.region)
	if err != nil {
		return o, err
	}
	at.region = c.region
	k := at.kind()
	o.Machine, o.System = "SageMaker in "+c.region, "linux/amd64"
	made := setupOf{}
	if d.stores != nil {
		s, err := d.stores(ctx)
		if err != nil {
			return o, err
		}
		if made, err = c.findSetup(ctx, n.Labels["project"], s.String()); err != nil {
			return o, err
		}
	}
	if opts.role == "" {
		opts.role = made.role
	}
	o.Registry = made.images(c).Prefix()
	account := accountOf(opts.role)
	if at.account != "" && account != "" && at.account != account {
		return o, fault.New(fault.Denied, "Use credentials of account "+at.account+": `AWS_PROFILE`.", "the job is in account %s, and the role is of account %s", at.account, account)
	}
	if at.account == "" {
		at.account = account
	}
	o.Detail = at.String()
	if n.Agents == 0 {
		o.Fits = true
		return o, nil
	}
	m, err := chooseMachine(n, c.region, isSpot(n, k))
	if err == nil {
		o.Machine, o.Spot = "SageMaker in "+c.region+", "+m.words(), isSpot(n, k)
		o.Cores, o.Memory = m.cpus*n.Agents, int64(m.memory)<<30*int64(n.Agents)
		o.Identity = "the role " + opts.role
		err = check(n, opts, k)
	}
	limited := ""
	if err == nil {
		limited, err = d.engine.checkLimit(ctx, c, n, m, at)
	}
	if err != nil {
		o.Reason, o.Hint, o.Spot = err.Error(), fault.Hint(err), false
		return o, nil
	}
	o.Fits, o.Notes = true, notes(n, m, opts, k)
	if limited != "" {
		o.Notes = append(o.Notes, limited)
	}
	return o, nil
}

// isOfECR says whether an image lies in Amazon's registry: SageMaker pulls no other.
func isOfECR(image string) bool {
	host, _, _ := strings.Cut(image, "/")
	return (&registry.Registries{}).Has(host)
}

// check holds needs against what SageMaker has. Its errors are refusals in words for the plan.
func check(n driver.Needs, o options, k kind) error {
	switch {
	case o.role == "":
		return fault.New(fault.Denied, "Have one made: `drover target up sagemaker`; or name one: `--target-arg role=arn:aws:iam::ACCOUNT:role/NAME`.", "the project has no role for training jobs")
	case n.Place.Image == "" && !n.Place.Later:
		return fault.New(fault.Invalid, "Name one: `--framework pytorch:2.8.0`, `--image` of ECR, or a `--dockerfile`.", "a training job needs an image")
	case n.Place.Image != "" && !isOfECR(n.Place.Image):
		return fault.New(fault.Invalid, "Copy it there: `drover image copy "+n.Place.Image+" ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME`.", "SageMaker runs images of ECR alone, not %s", n.Place.Image)
	case len(n.Place.Mounts) > 0:
		return fault.New(fault.Invalid, "Give it as an input: `-i FOLDER`.", "containers on SageMaker see no folder of this machine: --mount %s", n.Place.Mounts[0].Source)
	case k == processing && (n.Spot == job.SpotOnly || n.Spot == job.SpotFirst):
		return fault.New(fault.Invalid, "Use `--on-demand`, or `--on sagemaker` for training jobs.", "processing jobs have no spot capacity")
	case n.Keep > 0 && k == processing:
		return fault.New(fault.Invalid, "Leave out `--keep-warm`.", "SageMaker keeps no machines of processing jobs")
	case n.Keep > 0 && n.Spot != job.SpotAny && n.Spot != job.SpotNever:
		return fault.New(fault.Invalid, "Use `--on-demand`, or leave out `--keep-warm`.", "SageMaker keeps no spot capacity")
	case n.Keep > mostKeep:
		return fault.New(fault.Invalid, "Use `--keep-warm 6h` at most.", "SageMaker keeps machines for %d hours at most", int(mostKeep.Hours()))
	case n.Spot == job.SpotFirst:
		return fault.New(fault.Invalid, "Use `--spot` or `--on-demand`.", "SageMaker has spot capacity or on-demand machines for a job, and not one after the other")
	case n.Time > k.mostLife:
		return fault.New(fault.Invalid, "Give it less: `--timeout`.", "a %s ends after %d days", k.words, int(k.mostLife.Hours()/24))
	}
	return nil
}

// notes are what a user may not expect of the offer.
func notes(n driver.Needs, m machine, o options, k kind) (all []string) {
	all = append(all, fmt.Sprintf("each agent has a machine alone, %s, with a disk of %d GB", m.words(), diskOf(n)))
	switch {
	case isSpot(n, k) && o.wait == 0:
		all = append(all, "spot capacity has to come within the job's own time limit")
	case isSpot(n, k):
		all = append(all, fmt.Sprintf("spot capacity is waited for %g hours at most: --target-arg wait= and --on-demand say otherwise", o.wait.Hours()))
	}
	if _, left := metrics(n.Console); k == training && len(left) > 0 {
		all = append(all, "SageMaker's console shows no metric "+strings.Join(left, ", "))
	}
	if n.Keep > 0 {
		all = append(all, fmt.Sprintf("its machines stay for %s when it has ended, and cost what they cost then too: drover down sagemaker ends that", n.Keep))
	}
	if n.Time == 0 {
		all = append(all, fmt.Sprintf("SageMaker ends it after %d days: --timeout says otherwise", int(longTime.Hours()/24)))
	}
	return all
}

// accountOf is the account of a role; "": it is none.
func accountOf(role string) string {
	if m := roleARN.FindStringSubmatch(role); m != nil {
		return m[1]
	}
	return ""
}
