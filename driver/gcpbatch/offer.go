package gcpbatch

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// Offer holds needs against what Google Batch has, and changes nothing. Without an account in this machine's configuration it sends nothing; else it asks whether
// Google Batch is there, for the caller's permissions, for the set-up's account and, where agents are wanted, for the region's quotas.
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
	if have := (google.Source{}).Configured(); !have.OK() {
		o.Reason, o.Hint = have.Missing, have.Fix
		return o, nil
	}
	if at, err = at.complete(); err != nil {
		o.Reason, o.Hint = err.Error(), fault.Hint(err)
		return o, nil
	}
	o.Detail, o.Machine, o.System = at.String(), "Google Batch in "+at.region, "linux/amd64"
	if err := d.engine.probe(ctx, at); err != nil {
		if fault.KindOf(err) != fault.Denied && fault.KindOf(err) != fault.Missing && fault.KindOf(err) != fault.Invalid {
			return o, err
		}
		o.Reason, o.Hint = err.Error(), fault.Hint(err)
		if fault.KindOf(err) == fault.Missing {
			o.Hint = "Name one that `gcloud compute regions list` shows: `--on gcp/REGION`."
		}
		return o, nil
	}
	must, may, grant := d.engine.lacks(ctx, at)
	if o.Missing = slices.Concat(must, may); len(o.Missing) > 0 {
		o.Hint = grant
	}
	if len(must) > 0 {
		o.Reason = "you may not " + strings.Join(must, ", nor ") + " in project " + at.project
		return o, nil
	}
	if opts.account == "" && d.stores != nil {
		s, err := d.stores(ctx)
		if err == nil {
			opts.account, err = d.engine.findAccount(ctx, at, n.Labels["project"], s.String())
		}
		if err != nil {
			return o, err
		}
	}
	o.Identity = "the default service account of Compute Engine in project " + at.project
	if opts.account != "" {
		o.Identity = "the service account " + opts.account
	}
	if n.Agents == 0 {
		o.Fits = true
		return o, nil
	}
	m, err := chooseMachine(n, at.region)
	if err == nil {
		err = check(n, opts, at, m)
	}
	var limits []string
	if err == nil {
		limits, err = d.engine.checkQuotas(ctx, at, n, opts, m)
	}
	if err != nil {
		o.Reason, o.Hint = err.Error(), fault.Hint(err)
		return o, nil
	}
	if m.arch != "" {
		o.System = "linux/" + m.arch
	}
	o.Machine, o.Spot, o.Fits = "Google Batch in "+at.region+", "+m.words(), isSpot(n), true
	o.Cores, o.Memory = m.cpus*n.Agents, int64(m.memory)<<20*int64(n.Agents)
	o.Notes = append(notes(n, opts, m), limits...)
	return o, nil
}

// probe asks for a job that no user has: the answer says whether the region is there and the caller may ask.
func (e *engine) probe(ctx context.Context, at site) error {
	_, err := e.client(at).List(ctx, `labels.drover="none"`)
	return err
}

// check holds needs against what Google Batch has. Its errors are refusals in words for the plan.
func check(n driver.Needs, o options, at site, m machine) error {
	for _, z := range o.zones {
		if !strings.HasPrefix(z, at.region+"-") {
			return fault.New(fault.Invalid, "Name zones of "+at.region+", or use `--on gcp/REGION`.", "read --target-arg zones=%s: %s is no zone of %s", strings.Join(o.zones, ","), z, at.region)
		}
	}
	for _, v := range o.volumes {
		if v.zone != "" && !strings.HasPrefix(v.zone, at.region+"-") {
			return fault.New(fault.Invalid, "Use a disk of "+at.region+", or `--on gcp/REGION`.", "mount disk %s: its zone %s is none of %s", v.disk, v.zone, at.region)
		}
		if v.zone != "" && (len(o.zones) > 0 && !slices.Equal(o.zones, []string{v.zone}) || slices.ContainsFunc(o.volumes, func(w volume) bool { return w.zone != "" && w.zone != v.zone })) {
			return fault.New(fault.Invalid, "Leave `zones` away, and use disks of one zone.", "mount disk %s: machines may be outside its zone %s", v.disk, v.zone)
		}
	}
	switch {
	case n.Spot == job.SpotFirst && (o.patch != nil || n.Agents > mostTasks):
		return fault.New(fault.Invalid, "Use `--spot` or `--on-demand`.", "buy on-demand machines in the place of spot capacity: that is for the one job of %d agents at most, without --target-arg job", mostTasks)
	case n.Spot == job.SpotFirst && o.wait > 0 && o.wait <= firstTime:
		return fault.New(fault.Invalid, "Wait for longer: `--target-arg wait=1h`.", "buy on-demand machines in the place of spot capacity: that is after %s, and the job waits for %s", firstTime, o.wait)
	case o.reserved != "" && o.reserved != "NO_RESERVATION" && isSpot(n):
		return fault.New(fault.Invalid, "Use `--on-demand`.", "use reservation %s: spot capacity comes from none", o.reserved)
	case o.reserved != "" && o.near:
		return fault.New(fault.Invalid, "Leave one of them out.", "use reservation %s: collocated machines come from none", o.reserved)
	case len(n.Place.Mounts) > 0:
		return fault.New(fault.Invalid, "Give it as an input: `-i FOLDER`; or name a bucket, share or disk: `--target-arg volume=gs://bucket/folder:/data`.", "containers on Google Batch see no folder of this machine: --mount %s", n.Place.Mounts[0].Source)
	case o.patch != nil && n.Agents > mostTasks:
		return fault.New(fault.Invalid, "Ask for fewer agents, with `--workers`.", "read --target-arg job: it is for the one job of %d agents at most", mostTasks)
	case n.Time > longTime-saveTime:
		return fault.New(fault.Invalid, "Give it less: `--timeout`.", "a job of Google Batch ends after %d days", int(longTime.Hours()/24))
	}
	return nil
}

// notes are what a user may not expect of the offer.
func notes(n driver.Needs, o options, m machine) (all []string) {
	if m.name != "" || n.Place.Nodes > 1 {
		all = append(all, "each agent has a machine alone")
	}
	if n.Time == 0 {
		all = append(all, fmt.Sprintf("Google Batch ends it after %d days: --timeout says otherwise", int(longTime.Hours()/24)))
	} else {
		all = append(all, fmt.Sprintf("an agent that hangs is ended by Google Batch after %s, and started again, %d times at most", timeLimit(n.Time), mostRetries))
	}
	if o.wait > 0 {
		all = append(all, fmt.Sprintf("a command that looks after %s cancels what no machine has come for", o.wait))
	}
	if n.Spot == job.SpotFirst {
		all = append(all, fmt.Sprintf("where no machine has come within %s, a command that looks asks for on-demand ones", firstTime))
	}
	if isSpot(n) {
		all = append(all, fmt.Sprintf("Google Batch starts an agent again %d times: what is taken more often a command that follows the job places anew", mostRetries))
	}
	return all
}
