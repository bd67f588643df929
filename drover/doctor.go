package drover

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine"
	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/internal/proc/resource"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Check is one line of Doctor's answer.
type Check struct {
	Area string `json:"area"` // this machine, store, targets
	OK   bool   `json:"ok"`
	// Unused is true of a target that cannot be used and that nothing names: OK, and
	// yet nothing that is there.
	Unused bool   `json:"unused,omitempty"`
	Text   string `json:"text"`
	Fix    string `json:"fix,omitempty"` // a sentence with something to paste
}

// Doctor looks for what is missing and what was left behind. It changes nothing, except
// that it writes a probe into the store and deletes it again. A target that cannot be used
// is a problem if it is among used, if a name in Options.Targets leads to it, or if it holds
// something of ours; other targets may be unusable.
func (c *Client) Doctor(ctx context.Context, used ...string) []Check {
	checks := c.machineChecks()
	checks = append(checks, c.storeChecks(ctx)...)
	return append(checks, c.targetChecks(ctx, used)...)
}

// limitsCheck says what holds a job's limits here. That nothing better can be had
// is no problem of the machine.
func limitsCheck(area string) Check {
	here := resource.SupportHere()
	by := func(how string) string {
		if how == "" {
			return "nothing"
		}
		return how
	}
	text := fmt.Sprintf("limits are enforced by: memory %s, cores %s, processes %s", by(here.Memory), by(here.CPUs), by(here.Processes))
	if here.Why != "" {
		text += " (" + here.Why + ")"
	}
	return Check{Area: area, OK: true, Text: text}
}

func bad(area string, err error) Check {
	return Check{Area: area, Text: err.Error(), Fix: fault.Hint(err)}
}

func (c *Client) machineChecks() []Check {
	const area = "this machine"
	var checks []Check
	for _, tool := range []struct{ name, missing string }{
		{"python3", "scripts need it: install Python 3"},
		{"git", "without git, .gitignore files alone decide what is shipped: install git"},
	} {
		if path, err := exec.LookPath(tool.name); err != nil {
			checks = append(checks, Check{Area: area, Text: tool.name + " is not on PATH", Fix: tool.missing})
		} else {
			checks = append(checks, Check{Area: area, OK: true, Text: tool.name + " is " + path})
		}
	}
	checks = append(checks, limitsCheck(area))
	cache := c.engine.Caller.Cache
	built, err := env.List(cache)
	if err != nil {
		return append(checks, bad(area, err))
	}
	var bytes int64
	for _, b := range built {
		bytes += b.Size
	}
	checks = append(checks, Check{Area: area, OK: true, Text: fmt.Sprintf("%d cached environments, %s, in %s", len(built), humanize.Bytes(uint64(bytes)), cache)})
	broken, err := env.Broken(cache)
	if err != nil {
		return append(checks, bad(area, err))
	}
	for _, b := range broken {
		checks = append(checks, Check{Area: area, Text: "half-built environment " + b.Path, Fix: "rm -r " + b.Path})
	}
	return checks
}

func (c *Client) storeChecks(ctx context.Context) []Check {
	const area = "store"
	may := c.rightsCheck(ctx, area)
	if !may.OK {
		return []Check{may}
	}
	if err := c.world.Store.Probe(ctx); err != nil {
		return []Check{bad(area, err)}
	}
	checks := []Check{{Area: area, OK: true, Text: c.world.Store.String() + " is readable, writable, and creates each object only once"}}
	if may.Text != "" {
		checks = append(checks, may)
	}
	jobs, err := c.Jobs(ctx, "")
	if err != nil {
		checks = append(checks, bad(area, err)) // the others are looked at
	}
	count := map[job.State]int{}
	for _, j := range jobs {
		s, err := j.BriefStatus(ctx)
		switch {
		case fault.KindOf(err) == fault.Missing:
			checks = append(checks, Check{Area: area, OK: true, Text: "a submission that was interrupted left the id of a job that was never created: " + j.path.String()})
		case err != nil:
			checks = append(checks, bad(area, err))
		default:
			count[s.State]++
			if s.State == job.Interrupted {
				checks = append(checks, Check{Area: area, OK: true, Text: fmt.Sprintf("job %s (%s/%s) is interrupted: drover resume %s goes on", s.ID, s.Project, s.Task, s.ID)})
			}
		}
	}
	live := count[job.Pending] + count[job.Starting] + count[job.Running]
	return append(checks, Check{Area: area, OK: true, Text: fmt.Sprintf("%d jobs, %d live", len(jobs), live)})
}

// RightsOf says which rights on a store an administrator has to grant for a project:
// those of "agents", which are programs' machines, or of "submitters", which are people.
func RightsOf(whose, project string) (r store.Rights, ok bool) {
	switch whose {
	case "agents":
		return engine.AgentRights(job.Path{Project: project}), true
	case "submitters":
		return engine.SubmitterRights(project), true
	}
	return r, false
}

// rightsCheck does once all that a submitter must be able to do, with an object of its
// own, and says in one line which of it is denied. Its text is empty where nothing is.
func (c *Client) rightsCheck(ctx context.Context, area string) Check {
	s := c.world.Store
	key := "probe/" + c.world.NewID() + "/rights"
	var lacks []string
	var refused error
	try := func(what string, do func() error) {
		if err := do(); fault.KindOf(err) == fault.Denied {
			lacks, refused = append(lacks, what), err
		}
	}
	try("write", func() error { return s.Put(ctx, key, []byte("x")) })
	try("read", func() error { _, err := s.Get(ctx, key); return err })
	try("look for what is absent", func() error { _, err := s.Get(ctx, key+"/none"); return err })
	try("list", func() error {
		for _, err := range s.List(ctx, "probe/") {
			return err
		}
		return nil
	})
	needed := len(lacks)
	try("delete", func() error { return s.Delete(ctx, key) })
	switch {
	case len(lacks) == 0:
		return Check{Area: area, OK: true}
	case needed == 0:
		return Check{Area: area, OK: true, Text: "you may not delete here: everything but drover gc works"}
	}
	return Check{Area: area, Text: fmt.Sprintf("you may not %s in %s: %v", strings.Join(lacks, ", nor "), s, refused),
		Fix: "Have its owner grant you what drover doctor --policy submitters prints."}
}

// targetChecks asks every target what it holds of ours.
func (c *Client) targetChecks(ctx context.Context, used []string) []Check {
	named, inUse := map[string]bool{}, map[string]job.Target{}
	for _, name := range used {
		t, ok := c.engine.Targets[name]
		if !ok {
			t.On = name
		}
		named[t.Base()], inUse[t.Base()] = true, t
	}
	for _, t := range c.engine.Targets {
		named[t.Base()] = true
	}
	names := slices.Sorted(maps.Keys(c.engine.Drivers))
	checks := make([]Check, len(names))
	driver.AskAll(ctx, len(names), func(ctx context.Context, i int) { checks[i] = c.targetCheck(ctx, names[i], named, inUse) })
	return checks
}

// targetCheck asks a target. One that is named has to be usable, and an agent has to fit in one that is in use.
func (c *Client) targetCheck(ctx context.Context, name string, named map[string]bool, inUse map[string]job.Target) Check {
	const area = "targets"
	held, err := c.engine.Drivers[name].List(ctx)
	n, t := driver.Needs{Labels: map[string]string{"project": c.project}}, inUse[name]
	if _, n.Detail = job.SplitTarget(t.On); t.On != "" {
		n.Agents, n.Args, n.Place.Later = 1, t.Args, true
	}
	offer, no := c.engine.Drivers[name].Offer(ctx, n)
	if err = cmp.Or(err, no); err != nil && ctx.Err() != nil {
		err = fmt.Errorf("ask %s: %w", name, context.Cause(ctx))
	}
	switch {
	case no == nil && (len(offer.Missing) > 0 && (named[name] || len(held) > 0) || err == nil && n.Agents > 0 && !offer.Fits):
		text := cmp.Or(offer.Reason, "you may not "+strings.Join(offer.Missing, ", nor "))
		return bad(area, fault.New(fault.Denied, offer.Hint, "%s: %s", name, text))
	case err != nil && len(held) == 0 && !named[name]:
		return Check{Area: area, OK: true, Unused: true, Text: fmt.Sprintf("%s cannot be used: %s", name, err)}
	case err != nil:
		return bad(area, err)
	}
	return Check{Area: area, OK: true, Text: fmt.Sprintf("%s answers, %d placements", name, len(held))}
}
