package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/option"
	"github.com/drover-run/drover/report"
)

// What a second command does with a map that has not ended: docs/design/006-maps.md.
// Its results are worth more than a guess at what an edit means, so the map is never
// cancelled without being asked to be, and no item runs with other code without being
// asked to.

// decideUnfinishedMap decides for a map that has not settled and is not being stopped. fresh is
// how many items the command has that the job does not.
func (p *Plan) decideUnfinishedMap(fresh int) error {
	rep := p.before
	id, live := rep.Job.Short, rep.State != job.Interrupted
	if fresh > 0 {
		p.Items.New = fresh
	}
	changed := p.differ.changedContent()
	switch {
	case len(p.differ.command) > 0:
		return p.anotherCommand(live)
	case live && len(p.differ.changedForLiveJob()) > 0:
		return p.liveOtherwise()
	case p.force && live:
		return p.decideUnsettled() // which refuses it
	case p.force:
		p.Action, p.Items.New = report.ActionReplace, p.Items.Count
		p.Note = fmt.Sprintf("job %s was interrupted: it is cancelled, as --force says, and all items run in a new job", id)
		return nil
	}
	if !live {
		if err := p.takeSettings(); err != nil {
			return err
		}
	}
	switch {
	case p.Spec.NewCode && hasCode(changed):
		return p.takeNewCode()
	case fresh > 0 && len(changed) > 0:
		return p.refuseItems(changed, fresh)
	case fresh > 0:
		p.Action = report.ActionExtend
		p.Note = fmt.Sprintf("job %s: added %d new %s%s", id, fresh, itemWord(fresh), p.newSettings())
		return nil
	case live:
		if err := p.decideUnsettled(); err != nil || len(changed) == 0 {
			return err
		}
	default:
		p.Action = report.ActionResume
		p.Note = fmt.Sprintf("job %s was interrupted; it continues%s", id, p.newSettings())
		if len(changed) > 0 {
			p.Note = fmt.Sprintf("job %s was interrupted; it continues with the code of %s, without what has changed since: %s%s%s",
				id, stamp(codeTime(rep)), strings.Join(changed, ", "), p.changedFiles(), p.newSettings())
		}
		if len(changed) == 0 && !p.differ.programWouldDiffer() {
			return nil
		}
	}
	p.Choices = p.otherCommands(changed)
	return nil
}

// liveOtherwise decides for a map that is live with other settings. Where its program
// would find other things, it is another job, beside it if it has no name. Where limits
// and numbers alone differ the items would merely run twice.
func (p *Plan) liveOtherwise() error {
	if p.Spec.Named || p.differ.programWouldDiffer() {
		if err := p.anotherCommand(true); err == nil || errors.Is(err, errBeside) {
			return err
		}
	}
	id := p.before.Job.Short
	return fault.New(fault.Invalid, "Let what runs end and go on with these: `drover cancel --drain "+id+"`, then "+p.markedWith("")+"; or follow it as it is: `drover logs -f "+id+"`.",
		"start task %s: job %s is live with other settings: %s", p.Spec.Task, id, strings.Join(p.differ.changedForLiveJob(), ", "))
}

// fixed are settings that a map keeps for life: where its agents are asked for, and what
// they see of the machine there.
var fixed = []string{"On", "Image", "Dockerfile", "Framework", "Shm", "Mounts", "NoMounts"}

// takeSettings has a map go on with the settings that were typed, and refuses those that
// no map can be given. Code and items stay.
func (p *Plan) takeSettings() error {
	var no []string
	for _, x := range p.differ.options {
		if slices.Contains(fixed, x.Name) {
			no = append(no, x.String())
		}
	}
	id := p.before.Job.Short
	if len(no) > 0 {
		return fault.New(fault.Invalid, "Go on as it was by `drover resume "+id+"`; or run all items in a new job: "+p.markedWith("--force")+".",
			"go on with job %s: a map cannot be moved: %s changed", id, strings.Join(no, ", "))
	}
	if len(p.differ.options) == 0 {
		return nil
	}
	settings := option.Settings(p.Spec)
	p.amend = &protocol.Amended{Settings: &settings}
	typed := func(names ...string) bool {
		return slices.ContainsFunc(p.differ.options, func(x option.Difference) bool { return slices.Contains(names, x.Name) })
	}
	if p.differ.python && !p.differ.code && typed("Python", "NoEnv", "Packages") { // it was asked for by name
		c := protocol.Code{Code: p.before.Job.Code, Environment: p.Environment.Digest, Interpreter: p.Environment.Active}
		p.amend.Code, p.differ.python = &c, false
	}
	return nil
}

// newSettings says with what a map goes on that it did not have before.
func (p *Plan) newSettings() string {
	if p.amend == nil {
		return p.differ.inheritedNote()
	}
	return ", with other settings from now on: " + strings.Join(p.differ.changedForLiveJob(), ", ")
}

// otherCommands are the commands for what a map that goes on with its own code leaves out.
func (p *Plan) otherCommands(changed []string) (lines []string) {
	id, before := p.before.Job.Short, ""
	if p.before.State != job.Interrupted && p.before.Run.Settled == nil {
		before = "drover cancel --drain " + id + ", then "
	}
	if hasCode(changed) {
		lines = append(lines, "new code for what is left: "+before+p.typedWith("--new-code"))
	}
	return append(lines, "all items anew: "+before+p.typedWith("--force"))
}

// typedWith is the command that was typed, with one flag more, to be pasted.
func (p *Plan) typedWith(flag string) string {
	if p.typed == nil {
		return strings.TrimSuffix("the same with "+flag, " with ")
	}
	return p.typed(flag)
}

// markedWith is typedWith for a hint.
func (p *Plan) markedWith(flag string) string {
	if p.typed == nil {
		return p.typedWith(flag)
	}
	return fault.Mark(p.typed(flag))
}

// takeNewCode has what is left of a map, and new items, run with the code that is here.
func (p *Plan) takeNewCode() error {
	rep := p.before
	id := rep.Job.Short
	if other := besideCode(p.differ.changedContent()); len(other) > 0 {
		return fault.New(fault.Invalid, "Go on with what it has by `drover resume "+id+"`, or run all items in a new job: "+p.markedWith("--force")+".",
			"run job %s with new code: it would get new code alone, and changed too: %s", id, strings.Join(other, ", "))
	}
	if len(rep.Living) > 0 && rep.Run.Settled == nil {
		return fault.New(fault.Invalid, "Let what runs end first: `drover cancel --drain "+id+"`; then "+p.markedWith("--new-code")+".",
			"run job %s with new code: it is running, and its agents have the earlier code", id)
	}
	p.Action, p.TakesNewCode = report.ActionReopen, true
	p.Note = fmt.Sprintf("job %s: what is left runs with the new code%s; results so far stay%s", id, p.changedFiles(), p.newSettings())
	return nil
}

// refuseItems refuses new items for a job that would run them with other code than is here.
func (p *Plan) refuseItems(changed []string, fresh int) error {
	rep := p.before
	id := rep.Job.Short
	before, first := "", "Run what is left, without new items, by `drover resume "+id+"`"
	if rep.State != job.Interrupted {
		before, first = "`drover cancel --drain "+id+"` and ", "Wait for it by `drover wait "+id+"`"
	}
	if hasCode(changed) {
		first += "; what is left and the new items with the new code by " + before + p.markedWith("--new-code")
	}
	return fault.New(fault.Invalid, first+"; or all items in a new job by "+before+p.markedWith("--force")+".",
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
func codeTime(rep views.Report) (t time.Time) {
	t = rep.Job.At
	for _, e := range rep.Log {
		if e.Amended != nil && e.Amended.Code != nil {
			t = e.At
		}
	}
	return t
}

// decideStopping decides for a map that is being stopped: what had no success runs again once
// it has settled, as it would for a command that came a moment later.
func (p *Plan) decideStopping() error {
	rep := p.before
	if err := p.takeSettings(); err != nil {
		return err
	}
	if len(p.differ.changedContent()) > 0 {
		if err := p.takeNewCode(); err != nil {
			return err
		}
	}
	p.Action, p.Items.Again = report.ActionReopen, rep.Map.Map.Items()-rep.Map.Tally.Succeeded
	p.Note = fmt.Sprintf("job %s is stopping (%s); what had no success runs again once it has ended", rep.Job.Short, rep.Run.Stop.Reason)
	if p.TakesNewCode {
		p.Note += ", with the new code" + p.changedFiles()
	}
	p.Note += p.newSettings()
	return nil
}

// endedWithNewCode decides for --new-code and a map that has settled: what had no
// success runs with the code that is here, and so do new items.
func (p *Plan) endedWithNewCode(fresh int) error {
	rep := p.before
	t := rep.Run.Settled.Tally
	p.Items.Again, p.Items.New = t.Failed+t.Quarantined+t.Cancelled, fresh
	if p.Items.Again+fresh > 0 {
		if err := p.takeSettings(); err != nil {
			return err
		}
		return p.takeNewCode()
	}
	p.Action = report.ActionSkip
	p.Note = "complete since " + stamp(rep.Ended()) + "; nothing is left for the new code, and --force runs all items with it"
	return nil
}
