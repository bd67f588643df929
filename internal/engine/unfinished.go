package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger"
	"github.com/drover-run/drover/job"
)

// What a second command does with a map that has not ended: docs/design/006-maps.md.
// Its results are worth more than a guess at what an edit means, so the map is never
// cancelled without being asked to be, and no item runs with other code without being
// asked to.

// unfinished decides for a map that has not settled and is not being stopped. changed
// is what differs between its job and the command, and fresh how many items the
// command has that the job does not.
func (p *Plan) unfinished(force bool, changed []string, fresh int) error {
	rep := p.before
	id, live := rep.Job.Short, rep.State != job.Interrupted
	if fresh > 0 {
		p.Items.New = fresh
	}
	switch {
	case !p.Spec.Same(rep.Job.Spec), force && live:
		return p.again(force) // which refuses the one by name, and the other
	case force:
		p.Action, p.Items.New = Replace, p.Items.Count
		p.Note = fmt.Sprintf("job %s was interrupted: it is cancelled, as --force says, and all items run in a new job", id)
		return nil
	case p.Spec.NewCode && hasCode(changed):
		return p.takeNewCode(changed)
	case fresh > 0 && len(changed) > 0:
		return p.refuseItems(changed, fresh)
	case fresh > 0:
		p.Action = Extend
		p.Note = fmt.Sprintf("job %s: added %d new %s", id, fresh, itemWord(fresh))
		return nil
	}
	if err := p.again(false); err != nil || len(changed) == 0 {
		return err
	}
	if live {
		p.Action = Attach
	} else {
		p.Action = Resume
		p.Note = fmt.Sprintf("job %s was interrupted; it continues with the code of %s, without what has changed since: %s%s",
			id, stamp(codeTime(rep)), strings.Join(changed, ", "), p.changedFiles())
	}
	p.Choices = p.choices(changed)
	return nil
}

// choices are the commands for what a map that goes on with its own code leaves out.
func (p *Plan) choices(changed []string) (lines []string) {
	id, before := p.before.Job.Short, ""
	if p.before.State != job.Interrupted {
		before = "drover cancel --drain " + id + ", then "
	}
	if hasCode(changed) {
		lines = append(lines, "new code for what is left: "+before+p.command("--new-code"))
	}
	return append(lines, "all items anew: "+before+p.command("--force"))
}

// command is the command that was typed, with one flag more, to be pasted.
func (p *Plan) command(flag string) string {
	if p.typed == nil {
		return "the same with " + flag
	}
	return p.typed(flag)
}

// takeNewCode has what is left of a map, and new items, run with the code that is here.
func (p *Plan) takeNewCode(changed []string) error {
	rep := p.before
	id := rep.Job.Short
	if other := besideCode(changed); len(other) > 0 {
		return fault.New(fault.Invalid, "Go on with what it has by drover resume "+id+", or run all items in a new job: "+p.command("--force")+".",
			"run job %s with new code: it would get new code alone, and changed too: %s", id, strings.Join(other, ", "))
	}
	if len(rep.Living) > 0 && rep.Run.Settled == nil {
		return fault.New(fault.Invalid, "Let what runs end first: drover cancel --drain "+id+"; then "+p.command("--new-code")+".",
			"run job %s with new code: it is running, and its agents have the earlier code", id)
	}
	p.Action, p.TakesNewCode = Reopen, true
	p.Note = fmt.Sprintf("job %s: what is left runs with the new code%s; results so far stay", id, p.changedFiles())
	return nil
}

// refuseItems refuses new items for a job that would run them with other code than is here.
func (p *Plan) refuseItems(changed []string, fresh int) error {
	rep := p.before
	id := rep.Job.Short
	before, first := "", "Run what is left, without new items, by drover resume "+id
	if rep.State != job.Interrupted {
		before, first = "drover cancel --drain "+id+" and ", "Wait for it by drover wait "+id
	}
	if hasCode(changed) {
		first += "; what is left and the new items with the new code by " + before + p.command("--new-code")
	}
	return fault.New(fault.Invalid, first+"; or all items in a new job by "+before+p.command("--force")+".",
		"add %d %s to job %s: it has other %s than is here%s", fresh, itemWord(fresh), id, strings.Join(changed, ", "), p.changedFiles())
}

// hasCode tells whether code is among what has changed: what an `amended` of a job can
// bring it.
func hasCode(changed []string) bool { return slices.ContainsFunc(changed, inCode) }

func inCode(change string) bool { return change == "code" || change == "Python environment" }

// besideCode is what has changed beside the code.
func besideCode(changed []string) []string {
	return slices.DeleteFunc(slices.Clone(changed), inCode)
}

// codeTime is since when a map's items run with the code that they run with.
func codeTime(rep ledger.Report) (t time.Time) {
	t = rep.Job.At
	for _, e := range rep.Log {
		if e.Amended != nil && e.Amended.Code != nil {
			t = e.At
		}
	}
	return t
}

// stopping decides for a map that is being stopped: what had no success runs again once
// it has settled, as it would for a command that came a moment later.
func (p *Plan) stopping(changed []string) error {
	rep := p.before
	if len(changed) > 0 {
		if err := p.takeNewCode(changed); err != nil {
			return err
		}
	}
	p.Action, p.Items.Again = Reopen, rep.Map.Map.Items()-rep.Map.Tally.Succeeded
	p.Note = fmt.Sprintf("job %s is stopping (%s); what had no success runs again once it has settled", rep.Job.Short, rep.Run.Stop.Reason)
	if p.TakesNewCode {
		p.Note += ", with the new code" + p.changedFiles()
	}
	return nil
}

// endedWithNewCode decides for --new-code and a map that has settled: what had no
// success runs with the code that is here, and so do new items.
func (p *Plan) endedWithNewCode(changed []string, fresh int) error {
	rep := p.before
	t := rep.Run.Settled.Tally
	p.Items.Again, p.Items.New = t.Failed+t.Quarantined+t.Cancelled, fresh
	if p.Items.Again+fresh > 0 {
		return p.takeNewCode(changed)
	}
	p.Action = Skip
	p.Note = "complete since " + stamp(rep.Ended()) + "; nothing is left for the new code, and --force runs all items with it"
	return nil
}
