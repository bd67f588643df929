package start

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/bring"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Planner makes plans, and prints them.
type Planner struct{ *app.App }

// NewPlanner returns a Planner of an invocation.
func NewPlanner(a *app.App) Planner { return Planner{a} }

// PrintPlan says in a few lines what is about to happen.
func (a Planner) PrintPlan(p *drover.Plan) {
	if a.Quiet {
		return
	}
	s := p.Spec
	a.Note("%s/%s on %s", s.Project, s.Task, terminal.OrElse(p.Offer.Machine, s.On))
	for _, line := range a.planLines(p) {
		a.Note("  %s", line)
	}
}

func (a Planner) planLines(p *drover.Plan) []string {
	var lines []string
	if a.Conf != nil {
		if line := a.Conf.UsedLine(); line != "" {
			lines = append(lines, "settings "+line)
		}
	}
	if since, keeps := p.KeepsCode(); keeps {
		lines = append(lines, fmt.Sprintf("code     as the job has it since %s, without what has changed here", since.Local().Format("2006-01-02 15:04:05")))
		return append(append(lines, mapLines(p)...), useLines(p)...)
	}
	if p.Code.Note != "" {
		lines = append(lines, "code     "+p.Code.Note)
	} else if p.Code.Files > 0 {
		lines = append(lines, fmt.Sprintf("code     %s, %s from %s", terminal.Count(p.Code.Files, "file"), terminal.Size(p.Code.Bytes), p.Code.Dir))
	}
	if p.Code.WorkingFolder != "" {
		lines = append(lines, "         working folder "+terminal.PlainText(p.Code.WorkingFolder))
	}
	if line := seenLine(p.Code.Unshipped); line != "" {
		lines = append(lines, "         "+line)
	}
	if line := bring.LeftLine(p.Code.Left); line != "" {
		lines = append(lines, "         "+line)
	}
	for i, n := range p.Code.Notes {
		if i == 3 {
			lines = append(lines, fmt.Sprintf("         and %s", terminal.Count(len(p.Code.Notes)-3, "more note")))
			break
		}
		lines = append(lines, "         "+terminal.PlainText(n))
	}
	lines = append(append(lines, mapLines(p)...), useLines(p)...)
	if p.Python.Interpreter != "" {
		lines = append(lines, "python   "+p.Python.Why)
	}
	return append(lines, summary.CostLines(p)...)
}

// useLines say what the job uses, beside its code and its items.
func useLines(p *drover.Plan) (lines []string) {
	if line := summary.NodesLine(p.Spec); line != "" {
		lines = append(append(lines, "nodes    "+line), summary.CrowdLine(p.Properties, p.Offer, p.Spec.Nodes, "nodes")...)
	}
	label := "limits   "
	if line := summary.LimitsLine(p.Spec); line != "" {
		lines = append(lines, label+line)
		label = "         "
	}
	if p.Spec.Timeout > 0 && !p.Properties.Attached && !p.Properties.TimeLimit {
		lines = append(lines, label+"the program is ended after "+p.Spec.Timeout.String()+" by its agent: "+p.Spec.On+" itself holds no time limit")
	}
	if p.Offer.Price.Known() {
		lines = append(lines, "price    "+terminal.PlainText(p.Offer.Price.String())+" for each "+agentNoun(p.Spec))
	}
	lines = append(lines, saidLines(p.Said)...)
	lines = append(lines, placementLines(p)...)
	for _, note := range p.Offer.Notes {
		lines = append(lines, "note     "+terminal.PlainText(note))
	}
	for _, in := range p.Spec.Inputs {
		lines = append(lines, fmt.Sprintf("input    %s from %s", in.Name, in.Path))
	}
	if p.Properties.Containers {
		lines = append(lines, "image    "+terminal.OrElse(p.Image.Why, "the target's own, with Python "+terminal.OrElse(p.Image.Python, "3")))
	}
	if p.Pass != "" {
		lines = append(lines, "rights   "+terminal.PlainText(p.Pass))
	}
	return lines
}

// agentNoun is what an agent is to the user: a node of a run, or a worker of a map.
func agentNoun(s job.Spec) string {
	if s.Verb == job.Map {
		return "worker"
	}
	return "node"
}

// seenLine is "not shipped: 3 ignored files, 12 MB (data/, a.bin)"; "" for none.
func seenLine(s drover.Unshipped) string {
	if s.Files == 0 {
		return ""
	}
	what := "ignored file"
	if s.Partial {
		what = "file"
	}
	number, names := terminal.Count(s.Files, what), slices.Clone(s.Names)
	if s.More {
		number = "more than " + number
	}
	for i, name := range names {
		names[i] = terminal.PlainText(name)
	}
	if s.MoreNames {
		names = append(names, "...")
	}
	switch text := fmt.Sprintf("%s, %s (%s)", number, terminal.Size(s.Bytes), strings.Join(names, ", ")); {
	case s.InPlace && s.More:
		return "found in place, not shipped: " + text + "; changes in them are not noticed"
	case s.InPlace:
		if s.Partial {
			return "found in place, not shipped: " + text + "; a change in them is noticed by size and time"
		}
		return "found in place, not shipped: " + text
	default:
		return "not shipped: " + text
	}
}

// saidLines are "#SBATCH  --partition=gpu --time=1:00:00", and below it what is not taken.
func saidLines(s driver.Said) (lines []string) {
	taken := slices.Clone(s.Args)
	if s.Nodes > 0 {
		taken = append(taken, fmt.Sprintf("--nodes=%d", s.Nodes))
	}
	if len(taken) > 0 {
		lines = append(lines, strings.Join(taken, " "))
	}
	for _, l := range s.Left {
		lines = append(lines, "not taken: "+l)
	}
	label := s.Mark
	for i, l := range lines {
		lines[i] = fmt.Sprintf("%-8s ", label) + terminal.PlainText(l)
		label = ""
	}
	return lines
}

// showPlan is --plan: exit status 3 when there is nothing to do.
func (a Planner) showPlan(p *drover.Plan) error {
	action := map[string]string{"start": "starts a new job", "attach": "attaches to the live job", "resume": "resumes the interrupted job",
		"replace": "cancels the interrupted job and starts a new one from its checkpoints", "skip": "does nothing",
		"extend": "adds new items to the live job", "reopen": "reopens the job that has ended"}[string(p.Action)]
	if p.TakesNewCode {
		action = "goes on with the job that is there, with the new code"
	}
	if a.Settings.JSON {
		plan := map[string]any{"v": 1, "action": p.Action, "note": p.Note, "changed": p.Changed, "spec": p.Spec, "choices": p.Choices,
			"code": map[string]any{"files": p.Code.Files, "bytes": p.Code.Bytes, "digest": p.Code.Digest, "note": p.Code.Note, "folder": p.Code.Dir, "working_folder": p.Code.WorkingFolder,
				"not_shipped": map[string]any{"files": p.Code.Unshipped.Files, "bytes": p.Code.Unshipped.Bytes, "more": p.Code.Unshipped.More, "names": p.Code.Unshipped.Names, "in_place": p.Code.Unshipped.InPlace},
				"left_out":    bring.LeftOut(p.Code.Left), "changed_files": p.Code.ChangedFiles, "taken": p.TakesNewCode},
			"environment": map[string]any{"source": p.Python.Source, "why": p.Python.Why, "build": p.Python.Build}}
		plan["store"] = summary.CostJSON(p)
		if price := p.Price(); price != nil {
			plan["price"] = price
		}
		if len(p.Offer.Notes) > 0 {
			plan["target_notes"] = p.Offer.Notes
		}
		if a.Conf != nil {
			plan["settings"] = a.Conf.Used
		}
		if p.Said.Mark != "" {
			plan["script"] = p.Said
		}
		if p.Spec.Verb == job.Map {
			plan["items"] = mapPlanJSON(p)
		}
		if err := terminal.NewJSON(a.Out).Encode(plan); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.Out, "%s/%s on %s: %s\n", p.Spec.Project, p.Spec.Task, terminal.OrElse(p.Offer.Machine, p.Spec.On), action)
		if p.Note != "" {
			fmt.Fprintf(a.Out, "  note     %s\n", terminal.PlainText(p.Note))
		}
		for _, line := range p.Choices {
			fmt.Fprintf(a.Out, "           %s\n", terminal.PlainText(line))
		}
		for _, line := range a.planLines(p) {
			fmt.Fprintf(a.Out, "  %s\n", line)
		}
	}
	if p.Action == "skip" {
		return app.Status(fault.ExitComplete)
	}
	return nil
}

// printPlanNote prints why the plan does what it does, and what else may be meant.
func (a Planner) printPlanNote(p *drover.Plan) {
	note := a.HintInGrammar(p.Note)
	if note == "" {
		return
	}
	a.Note("note: %s", terminal.PlainText(note))
	for _, line := range p.Choices {
		a.Note("  %s", terminal.PlainText(line))
	}
}

// longPlan is how long a plan takes before a line says what is going on.
const longPlan = 3 * time.Second

// planPatience is how long a plan that Ctrl-C has ended may take to clear up. One that
// reads a pipe does not hear of it.
const planPatience = time.Second

// MakePlan gives what plan makes, unless Ctrl-C comes first.
func (a Planner) MakePlan(ctx context.Context, plan func(ctx context.Context) (*drover.Plan, error)) (*drover.Plan, error) {
	within, over := app.UntilTold(ctx, app.NothingStarted)
	defer over()
	p, err := a.awaitPlan(within, plan)
	if told := context.Cause(within); told != nil && ctx.Err() == nil {
		return nil, told
	}
	return p, err
}

// awaitPlan waits for plan, and says what takes long. It does not wait for one that goes
// on although ctx has ended.
func (a Planner) awaitPlan(ctx context.Context, plan func(ctx context.Context) (*drover.Plan, error)) (*drover.Plan, error) {
	type result struct {
		p   *drover.Plan
		err error
	}
	done := make(chan result, 1)
	go func() {
		p, err := plan(ctx)
		done <- result{p, err}
	}()
	long := time.NewTimer(longPlan)
	defer long.Stop()
	for {
		select {
		case r := <-done:
			return r.p, r.err
		case <-long.C:
			a.Note("planning: still looking at the files here and at what the store has of this task (Ctrl-C: nothing has started)")
		case <-ctx.Done():
			select {
			case <-done:
			case <-time.After(planPatience):
			}
			return nil, context.Cause(ctx)
		}
	}
}
