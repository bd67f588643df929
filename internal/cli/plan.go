package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/ledger"
	"github.com/drover-run/drover/job"
)

// planner makes plans, and prints them.
type planner struct{ *app }

func newPlanner(a *app) planner { return planner{a} }

// printPlan says in a few lines what is about to happen.
func (a planner) printPlan(p *drover.Plan) {
	if a.quiet {
		return
	}
	s := p.Spec
	a.note("%s/%s on %s", s.Project, s.Task, orElse(p.Offer.Machine, s.On))
	for _, line := range a.planLines(p) {
		a.note("  %s", line)
	}
}

func (a planner) planLines(p *drover.Plan) []string {
	var lines []string
	if a.conf != nil {
		if line := a.conf.usedLine(); line != "" {
			lines = append(lines, "settings "+line)
		}
	}
	if since, keeps := p.KeepsCode(); keeps {
		lines = append(lines, fmt.Sprintf("code     as the job has it since %s, without what has changed here", since.Local().Format("2006-01-02 15:04:05")))
		return append(append(lines, mapLines(p)...), useLines(p)...)
	}
	if p.CodeNote != "" {
		lines = append(lines, "code     "+p.CodeNote)
	} else if len(p.Code.Entries) > 0 {
		lines = append(lines, fmt.Sprintf("code     %s, %s from %s", count(len(p.Code.Entries), "file"), size(p.Code.Bytes), p.Code.Dir))
	}
	if p.Sub != "" {
		lines = append(lines, "         working folder "+plainText(p.Sub))
	}
	if line := seenLine(p.Seen, p.InPlace); line != "" {
		lines = append(lines, "         "+line)
	}
	if line := leftLine(p.Code.Left); line != "" {
		lines = append(lines, "         "+line)
	}
	for i, n := range p.Code.Notes {
		if i == 3 {
			lines = append(lines, fmt.Sprintf("         and %s", count(len(p.Code.Notes)-3, "more note")))
			break
		}
		lines = append(lines, "         "+plainText(n))
	}
	lines = append(append(lines, mapLines(p)...), useLines(p)...)
	if p.Environment.Interpreter != "" {
		lines = append(lines, "python   "+p.Environment.Why)
	}
	return append(lines, costLines(p)...)
}

// useLines say what the job uses, beside its code and its items.
func useLines(p *drover.Plan) (lines []string) {
	if line := nodesLine(p.Spec); line != "" {
		lines = append(append(lines, "nodes    "+line), crowdLine(p.Offer, p.Spec.Nodes, "nodes")...)
	}
	if line := limitsLine(p.Spec); line != "" {
		lines = append(lines, "limits   "+line)
	}
	lines = append(lines, saidLines(p.Said)...)
	if p.Spec.Machine != "" && p.Offer.Attached {
		lines = append(lines, "machine  "+p.Spec.Machine+" is a label here: there are no types to choose from")
	}
	for _, in := range p.Spec.Inputs {
		lines = append(lines, fmt.Sprintf("input    %s from %s", in.Name, in.Path))
	}
	if p.Offer.Containers {
		lines = append(lines, "image    "+orElse(p.Image.Why, "the target's own, with Python "+orElse(p.Image.Python, "3")))
	}
	if p.Pass != "" {
		lines = append(lines, "rights   "+plainText(p.Pass))
	}
	return lines
}

// seenLine is "not shipped: 3 ignored files, 12 MB (data/, a.bin)"; "" for none. inPlace
// says that the program finds them all the same.
func seenLine(s bundle.Seen, inPlace bool) string {
	if s.Files == 0 {
		return ""
	}
	number, names := count(s.Files, "ignored file"), slices.Clone(s.Names)
	if s.More {
		number = "more than " + number
	}
	for i, name := range names {
		names[i] = plainText(name)
	}
	if s.MoreNames {
		names = append(names, "...")
	}
	switch text := fmt.Sprintf("%s, %s (%s)", number, size(s.Bytes), strings.Join(names, ", ")); {
	case inPlace && s.More:
		return "found in place, not shipped: " + text + "; changes in them are not noticed"
	case inPlace:
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
		lines[i] = fmt.Sprintf("%-8s ", label) + plainText(l)
		label = ""
	}
	return lines
}

// costLines say what a bucket's owner pays for the requests of the job: "store  about
// 1,900 requests, $0.01 at S3's prices, and 90, $0.0002, for each minute of work". A
// folder costs nothing; --json has for it what a bucket would cost.
func costLines(p *drover.Plan) []string {
	c := p.Cost
	if !c.Here {
		return nil
	}
	return []string{fmt.Sprintf("store    about %s, %s at %s's prices, and %s, %s, for each minute of work",
		count(c.Requests.Sum(), "request"), c.Of(c.Requests), c.Price.Name, comma(c.Minute.Sum()), c.Of(c.Minute))}
}

// costJSON is what --plan --json says of it.
func costJSON(p *drover.Plan) map[string]any {
	c := p.Cost
	counts := func(r ledger.Requests) map[string]any {
		return map[string]any{"writes": r.Writes, "lists": r.Lists, "reads": r.Reads, "dollars": float64(c.Of(r))}
	}
	return map[string]any{"object_store": c.Here, "prices": c.Price.Name, "region": c.Price.Region, "source": c.Price.Source, "day": c.Price.Day,
		"whole": counts(c.Requests), "minute": counts(c.Minute)}
}

// nodesLine is "2, 4 processes on each by mpi, 1 GPU each"; "" for one plain node.
func nodesLine(s job.Spec) string {
	if s.Verb == job.Map {
		return "" // it has workers: slotsLine
	}
	line := fmt.Sprint(s.Nodes)
	if s.Procs > 1 {
		line += fmt.Sprintf(", %d processes on each", s.Procs)
	}
	if s.Launcher != job.Alone {
		line += ", started by " + string(s.Launcher)
	}
	if s.GPUs > 0 {
		line += ", " + count(s.GPUs, "GPU") + " each"
	}
	if line == "1" {
		return ""
	}
	return line
}

// crowdLine says that more agents are to be on one machine than it has cores.
func crowdLine(o driver.Offer, agents int, what string) []string {
	if !o.Attached || o.Cores == 0 || agents <= o.Cores {
		return nil
	}
	return []string{fmt.Sprintf("         all %s %s are on this one machine, and share its %s", comma(agents), what, count(o.Cores, "core"))}
}

// showPlan is --plan: exit status 3 when there is nothing to do.
func (a planner) showPlan(p *drover.Plan) error {
	action := map[string]string{"start": "starts a new job", "attach": "attaches to the live job", "resume": "resumes the interrupted job",
		"replace": "cancels the interrupted job and starts a new one from its checkpoints", "skip": "does nothing",
		"extend": "adds new items to the live job", "reopen": "reopens the job that has ended"}[string(p.Action)]
	if p.TakesNewCode {
		action = "goes on with the job that is there, with the new code"
	}
	if a.settings.json {
		plan := map[string]any{"v": 1, "action": p.Action, "note": p.Note, "changed": p.Changed, "spec": p.Spec, "choices": p.Choices,
			"code": map[string]any{"files": len(p.Code.Entries), "bytes": p.Code.Bytes, "digest": p.Digest, "note": p.CodeNote, "folder": p.Code.Dir, "working_folder": p.Sub,
				"not_shipped": map[string]any{"files": p.Seen.Files, "bytes": p.Seen.Bytes, "more": p.Seen.More, "names": p.Seen.Names, "in_place": p.InPlace},
				"left_out":    leftOut(p.Code.Left), "changed_files": p.ChangedFiles, "taken": p.TakesNewCode},
			"environment": map[string]any{"source": p.Environment.Source, "why": p.Environment.Why, "build": p.Environment.Build}}
		plan["store"] = costJSON(p)
		if a.conf != nil {
			plan["settings"] = a.conf.used
		}
		if p.Said.Mark != "" {
			plan["script"] = p.Said
		}
		if p.Spec.Verb == job.Map {
			plan["items"] = mapPlanJSON(p)
		}
		if err := newJSON(a.out).Encode(plan); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.out, "%s/%s on %s: %s\n", p.Spec.Project, p.Spec.Task, orElse(p.Offer.Machine, p.Spec.On), action)
		if p.Note != "" {
			fmt.Fprintf(a.out, "  note     %s\n", plainText(p.Note))
		}
		for _, line := range p.Choices {
			fmt.Fprintf(a.out, "           %s\n", plainText(line))
		}
		for _, line := range a.planLines(p) {
			fmt.Fprintf(a.out, "  %s\n", line)
		}
	}
	if p.Action == "skip" {
		return status(fault.ExitComplete)
	}
	return nil
}
