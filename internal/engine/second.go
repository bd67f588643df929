package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/option"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// What a second command does: DESIGN section 7, docs/design/014-what-was-typed-runs.md.

// errBeside says that the job which is there is live, and the command another one: a task
// without a name has another job beside it then.
var errBeside = errors.New("another job beside the live one")

// maxBeside is how many tasks are looked at, one beside the other, before a plan gives up.
// More than one is a collision of names, which have six hex digits of a digest.
const maxBeside = 8

// beside is a task that needs an entry in its log before a command's job is submitted: that
// jobs with the settings of this one belong to another task.
type beside struct {
	task job.Path
	live string // the job with other settings
	to   string // the other task
}

// decider finds out what a plan comes to, given the jobs that its task has had.
type decider struct{ *Engine }

func (e *Engine) newDecider() decider { return decider{e} }

// decideAction applies the second-command rule. It may be called again, when what it was decided
// by has changed since.
func (e decider) decideAction(ctx context.Context, p *Plan) error {
	if p.undecided == nil {
		p.inherited = nil
		if p.Properties.Inherits() && p.Spec.Rules != job.SSM { // under the seed's rules a task goes by its name alone
			p.inherited = e.inherited(p.Spec, false)
		}
		blank := *p
		p.undecided = &blank
	}
	note := ""
	for range maxBeside {
		err := e.decideTask(ctx, p)
		if !errors.Is(err, errBeside) {
			if err == nil {
				p.Note = strings.TrimPrefix(note+"; "+p.Note, "; ")
				p.Note = strings.TrimSuffix(p.Note, "; ")
				p.keepJobSettings()
			}
			return err
		}
		to := job.TaskBeside(p.Spec.Task, settingsKey(p.Spec, p.inherited))
		if live := p.before.Job.Short; live != "" {
			note = fmt.Sprintf("job %s of this command is live with other settings: %s; this is another job beside it", live, strings.Join(p.differ.changedForLiveJob(), ", "))
		}
		all := append(p.besides, beside{job.Path{Project: p.Spec.Project, Task: p.Spec.Task}, p.Job.Job, to})
		p.resetTo(to, all)
	}
	return fault.New(fault.Invalid, "Give it a name with `-t`.", "start task %s: as many jobs with other settings are live under names alike", p.Spec.Task)
}

// resetTo makes a plan undecided again, for a task.
func (p *Plan) resetTo(task string, besides []beside) {
	if p.Items.fresh != nil {
		_ = p.Items.fresh.Close()
	}
	blank, watch := p.undecided, p.Watch
	*p = *blank
	p.undecided, p.Watch, p.besides = blank, watch, besides
	p.Spec.Task = task
}

// keepJobSettings has the plan say what runs where it is a job that is there: that one's settings.
func (p *Plan) keepJobSettings() {
	switch {
	case p.Action == report.ActionAttach, p.Action == report.ActionSkip, p.Action == report.ActionResume && p.amend == nil:
	case (p.Action == report.ActionExtend || p.Action == report.ActionReopen) && p.amend == nil:
	default:
		return
	}
	output, newCode := p.Spec.Output, p.Spec.NewCode
	p.Spec = p.before.Job.Spec
	p.Spec.Output, p.Spec.NewCode = output, newCode
}

// KeepsCode says that the job which is there goes on with the code that it has, and since
// when it has that; what Code and Environment say is not what runs.
func (p *Plan) KeepsCode() (since time.Time, keeps bool) {
	switch p.Action {
	case report.ActionAttach, report.ActionResume, report.ActionExtend, report.ActionReopen:
		return codeTime(p.before), !p.TakesNewCode && hasCode(p.differ.changedContent())
	}
	return since, false
}

// decideTask decides for the task that the plan names.
func (e decider) decideTask(ctx context.Context, p *Plan) error {
	path := job.Path{Project: p.Spec.Project, Task: p.Spec.Task}
	task, err := tasks.ReadTask(ctx, e.World, path)
	if err != nil {
		return err
	}
	p.Action = report.ActionStart
	if !p.Spec.Named && len(task.Beside) > 0 {
		if to, ok := task.Beside[settingsKey(p.Spec, p.inherited)]; ok {
			p.resetTo(to, p.besides)
			return e.decideTask(ctx, p)
		}
	}
	path.Job = task.Newest()
	if path.Job == "" {
		return nil
	}
	rep, err := views.ReadReport(ctx, e.World, path)
	if errors.Is(err, store.ErrNotExist) { // removed since
		gone := task.Gone[path.Job]
		p.setFirstState(task, path.Job, gone.Since, gone.StateSince, p.force)
		if p.Spec.Rules == job.SSM {
			return e.decideBySSM(ctx, p, task, p.force)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if err := e.begunElsewhere(p.Spec, rep.Job); err != nil {
		return err
	}
	if rep.Map != nil {
		rep.Job = rep.Map.Map.Bind(rep.Job)
	}
	if is := rep.Job.Spec.Task; is != path.Task && strings.EqualFold(is, path.Task) { // the store's folder ignores case
		return fault.New(fault.Invalid, "Use the name "+is+", or choose another `-t`.", "start task %s: the store has a task %s, and its file system takes the two names for one", path.Task, is)
	}
	p.before, p.Job = rep, path
	e.compareCode(ctx, p, rep.Job.Code)
	p.differ = p.differences(rep.Job, rep.Run.Placed)
	p.setFirstState(task, path.Job, rep.Job.Since, rep.Job.StateSince, rep.State == job.Succeeded || p.force)
	if p.Spec.Verb == job.Map && rep.Map != nil {
		return e.decideMap(ctx, p, p.force)
	}
	if rep.Run.Settled == nil {
		return p.decideUnsettled()
	}
	if p.Spec.Rules == job.SSM {
		return e.decideBySSM(ctx, p, task, p.force)
	}
	if rep.State != job.Succeeded {
		p.Note = fmt.Sprintf("job %s %s; this is a new one", rep.Job.Short, badEnd(rep.State))
		if other := p.differ.changedForLiveJob(); len(other) > 0 {
			p.Note += ", with other settings: " + strings.Join(other, ", ")
		}
		return nil
	}
	p.Changed = p.differ.allChanges()
	switch {
	case p.Spec.Named && !p.force && len(p.Changed) == 0:
		p.Action = report.ActionSkip
		p.Note = "complete since " + stamp(rep.Ended()) + "; --force runs it again"
		if rep.Job.Spec.StdinOf != "" && p.Spec.StdinOf == "" {
			p.Note += "; its program has read standard input, and this command has none"
		}
	case p.Spec.Named && len(p.Changed) > 0:
		p.Note = p.runsAgain()
	}
	return nil
}

// runsAgain says why a named task that is complete runs again.
func (p *Plan) runsAgain() string {
	return "running again: " + strings.Join(p.Changed, ", ") + " changed since job " + p.before.Job.Short + p.changedFiles()
}

// begunElsewhere refuses a named task that a command in another folder of this user on
// this machine has begun, where the project was not named: it only happens to have the
// name of the folder, and the task's state would be another program's.
func (e decider) begunElsewhere(s job.Spec, j job.Job) error {
	if s.ProjectOf == "" || !s.Named || j.Folder == "" || j.Host != e.Caller.Host || j.User != e.Caller.User || sameFolder(j.Folder, e.Caller.Folder) {
		return nil
	}
	own := job.Label(filepath.Base(filepath.Dir(e.Caller.Folder)) + "-" + filepath.Base(e.Caller.Folder))
	hint := "Use `-p " + s.Project + "` if it is the same task, which goes on here from then on"
	if own != "" && own != s.Project && job.ValidName("project", own) == nil {
		hint += "; or a project of its own: `-p " + own + "`"
	} else {
		hint += "; or a project of its own: `-p NAME`"
	}
	return fault.New(fault.Invalid, hint+" (`drover init -p` writes it down).",
		"start task %s/%s: it was begun in %s, and this is %s, which has its project's name alone in common", s.Project, s.Task, j.Folder, e.Caller.Folder)
}

// sameFolder says whether two paths are one folder; one that is gone is its path.
func sameFolder(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// setFirstState says from where on a new job may begin with checkpoints and state, given
// where the newest one might; fresh is with no checkpoints.
func (p *Plan) setFirstState(task tasks.Task, newest string, since, stateSince int, fresh bool) {
	p.since, p.stateSince = since, stateSince
	place, _ := task.PlaceOf(newest)
	if fresh {
		p.since = place + 1
	}
	if p.Spec.CleanState {
		p.stateSince = place + 1
	}
}

// decideUnsettled decides for a run that has not settled, and for what a map has in common with it.
func (p *Plan) decideUnsettled() error {
	rep, d := p.before, p.differ
	id, live := rep.Job.Short, rep.State != job.Interrupted
	if rep.Run.Stop != nil {
		p.Action = report.ActionReplace
		p.Note = fmt.Sprintf("job %s is stopping (%s); a new one starts once it has ended", id, rep.Run.Stop.Reason)
		return nil
	}
	if err := p.anotherCommand(live); err != nil {
		return err
	}
	seed := p.Spec.Rules == job.SSM // its scripts say --force_running each time, and mean the job that they started
	if p.force && !seed {
		return fault.New(fault.Invalid, "End it first: `drover cancel "+id+"`.", "start task %s anew: job %s has not ended (%s)", p.Spec.Task, id, strings.ToLower(string(rep.State)))
	}
	content := d.changedContent()
	code := slices.ContainsFunc(content, func(c string) bool { return c == "code" || strings.HasPrefix(c, "input ") })
	changed := append(content, d.changedSettings()...)
	switch {
	case live && p.Spec.NewCode && code:
		return fault.New(fault.Invalid, "End it first: `drover cancel "+id+"`; then "+p.markedWith("--new-code")+".",
			"run job %s with new code: it is live, and runs the code as it was", id)
	case live:
		p.Action = report.ActionAttach
		p.Note = fmt.Sprintf("already running since %[2]s as job %[1]s: showing its output", id, stamp(rep.Job.At))
		if code {
			p.Note += "; it runs the code as it was then"
			if files := p.changedFiles(); files != "" {
				p.Note += ", without changes since" + files
			}
		}
		if rep.State == job.Paused {
			p.Note += "; it is paused: drover resume " + id + " has it go on"
		}
	case seed && p.Spec.CleanState && !rep.Job.Spec.CleanState:
		p.Action = report.ActionReplace
		p.Note = fmt.Sprintf("job %s was interrupted: it is cancelled, and a new job starts with an empty state", id)
	case len(changed) > 0:
		p.Action = report.ActionReplace
		p.Note = fmt.Sprintf("job %s was interrupted and %s changed: it is cancelled, and a new job starts from its checkpoints%s", id, strings.Join(changed, ", "), p.changedFiles())
	case rep.Job.Spec.StdinOf != "" && p.Spec.StdinOf == "":
		return stdinGone(rep.Job)
	default:
		p.Action = report.ActionResume
		p.Note = fmt.Sprintf("job %s was interrupted; it continues%s", id, d.inheritedNote())
	}
	return nil
}

// anotherCommand refuses a command of a named task if the task's job has not ended and is
// another command's, or is live and has other settings. In a task without a name, a job
// is started beside that one.
func (p *Plan) anotherCommand(live bool) error {
	d, id := p.differ, p.before.Job.Short
	other := d.changedForLiveJob()
	switch {
	case len(d.command) > 0 && !p.Spec.Named:
		return errBeside
	case len(d.command) > 0 && live:
		return fault.New(fault.Invalid, "Wait for it with `drover wait "+id+"`, end it with `drover cancel "+id+"`, or choose another `-t`.",
			"start task %s: job %s is live with another command: %s changed", p.Spec.Task, id, strings.Join(d.command, ", "))
	case len(d.command) > 0:
		return fault.New(fault.Invalid, "Go on with it by `drover resume "+id+"`, end it with `drover cancel "+id+"`, or choose another `-t`.",
			"start task %s: job %s was interrupted, and is another command: %s changed", p.Spec.Task, id, strings.Join(d.command, ", "))
	case !live || len(other) == 0:
		return nil
	case !p.Spec.Named:
		return errBeside
	}
	return fault.New(fault.Invalid, "Follow it as it is with `drover logs -f "+id+"`, end it with `drover cancel "+id+"`, or choose another `-t`.",
		"start task %s: job %s is live with other settings: %s", p.Spec.Task, id, strings.Join(other, ", "))
}

// differ is what differs between a plan and an earlier job, in words.
type differ struct {
	command   []string // what makes another command of it
	code      bool
	python    bool     // what the script runs in, found by the code's requirements or by the settings
	data      []string // what inputs hold, and what an image is built from
	options   []option.Difference
	inherited []string // names of variables
}

// differences finds out what differs between the plan and an earlier job, given the
// placements of that job's agents.
func (p *Plan) differences(old job.Job, placed []protocol.Placed) (d differ) {
	s, o := p.Spec, old.Spec
	d.code, d.python = !p.codeIsSame(old.Code), p.Environment.Digest != "" && p.Environment.Digest != old.Environment
	for _, x := range option.Differences(s, o) {
		if x.Class == option.ClassCommand {
			d.command = append(d.command, x.String())
			continue
		}
		d.options = append(d.options, x)
	}
	if old.Code.Root != "" && p.Sub != old.Code.Sub {
		d.command = append(d.command, "working folder")
	}
	for _, in := range s.Inputs {
		if was, ok := old.Contents[in.Name]; ok && was != p.Contents[in.Name] {
			d.data = append(d.data, "input "+in.Name)
		}
	}
	if p.Image.Built != old.ImageBuilt && s.Image == o.Image && s.Framework == o.Framework {
		d.data = append(d.data, "image")
	}
	d.inherited = otherVariables(p.inherited, s, inheritedBy(old, placed), o)
	return d
}

// changedContent is what has changed though the same was typed.
func (d differ) changedContent() (all []string) {
	if d.code {
		all = append(all, "code")
	}
	all = append(all, d.data...)
	if d.python {
		all = append(all, "Python environment")
	}
	return all
}

// changedSettings are those that were typed otherwise.
func (d differ) changedSettings() (all []string) {
	for _, x := range d.options {
		all = append(all, x.String())
	}
	return all
}

// changedForLiveJob is what a job that is live would have to be told, and cannot.
func (d differ) changedForLiveJob() []string {
	all := d.changedSettings()
	if len(d.inherited) > 0 {
		all = append(all, option.Variables(d.inherited))
	}
	return all
}

// allChanges is what makes a complete task run again.
func (d differ) allChanges() []string {
	all := append(slices.Clone(d.command), d.changedContent()...)
	for _, x := range d.options {
		if x.Class != option.ClassLabel {
			all = append(all, x.String())
		}
	}
	if len(d.inherited) > 0 {
		all = append(all, option.Variables(d.inherited))
	}
	return all
}

// inheritedNote says that what goes on has other variables than before: its new agents
// inherit those of this command.
func (d differ) inheritedNote() string {
	if len(d.inherited) == 0 {
		return ""
	}
	return ", with " + option.Variables(d.inherited) + " as here"
}

// programWouldDiffer says that the program, or what it finds, would be another by what differs, and not
// merely its limits.
func (d differ) programWouldDiffer() bool {
	return len(d.inherited) > 0 || slices.ContainsFunc(d.options, func(x option.Difference) bool { return x.Class == option.ClassSetting })
}

// Submit carries a plan out as far as a job that is durably there: it ships
// code and inputs and submits, or finds that another command was quicker. The
// job it returns is live, unless the action was ActionSkip. The plan's action and
// note are brought up to date.
func (e *Engine) Submit(ctx context.Context, p *Plan) (job.Path, error) {
	for {
		path, done, err := e.newSubmitter().submitOnce(ctx, p)
		if done || err != nil {
			return path, err
		}
		if err := e.newDecider().decideAgain(ctx, p); err != nil {
			return job.Path{}, err
		}
	}
}

// decideAgain decides by what has come since the plan was made.
func (e decider) decideAgain(ctx context.Context, p *Plan) error {
	if p.Properties.Inherits() && p.Spec.Rules != job.SSM {
		p.undecided.inherited = e.inherited(p.undecided.Spec, true)
	}
	p.resetTo(p.undecided.Spec.Task, nil)
	return e.decideAction(ctx, p)
}

// submitOnce is Submit by what the plan was decided by; done is false when that has
// changed, and nothing was submitted.
func (e submitter) submitOnce(ctx context.Context, p *Plan) (path job.Path, done bool, err error) {
	for _, b := range p.besides {
		to, ok, err := tasks.PutBeside(ctx, e.World, b.task, e.Caller.By, b.live, settingsKey(p.Spec, p.inherited), b.to)
		if err != nil || !ok || to != b.to {
			return path, false, err
		}
	}
	switch p.Action {
	case report.ActionAttach, report.ActionSkip:
		return p.Job, true, nil
	case report.ActionResume:
		return e.resumeJob(ctx, p)
	case report.ActionExtend, report.ActionReopen:
		return e.reopenJob(ctx, p)
	}
	if err := e.buildImage(ctx, p); err != nil {
		return path, true, err
	}
	if p.Action == report.ActionReplace {
		if _, err := control.CancelJob(ctx, e.World, p.Job, e.Caller.By, "replaced by a new job with "+p.replacedBy()); err != nil {
			return path, true, err
		}
		if _, err := e.Attend(ctx, p.Job); err != nil { // it may have been stopping before
			return path, true, err
		}
	}
	e.stopLeftAgents(ctx, p.Spec.On)
	j, err := e.proposeJob(ctx, p)
	if err != nil {
		return path, true, err
	}
	if err := context.Cause(ctx); err != nil {
		return path, true, err
	}
	// From here on the command line cannot be interrupted: whether there is a job must be known.
	live, mine, err := tasks.SubmitJob(context.WithoutCancel(ctx), e.World, j, e.Caller.By)
	if err != nil || live == "" {
		return path, false, err
	}
	path = j.Path()
	path.Job = live
	if mine {
		return path, true, nil
	}
	return e.attachToWinner(ctx, p, path)
}

// replacedBy says what the job is cancelled for.
func (p *Plan) replacedBy() string {
	if len(p.differ.changedSettings()) > 0 && len(p.differ.changedContent()) == 0 {
		return "other settings"
	}
	return "changed code"
}

// attachToWinner is a submit that another one has beaten: it attaches if that is the same command.
func (e submitter) attachToWinner(ctx context.Context, p *Plan, path job.Path) (job.Path, bool, error) {
	winner, err := tasks.LoadJob(ctx, e.World, path)
	if err != nil {
		return path, true, err
	}
	d := differ{}
	for _, x := range option.Differences(p.Spec, winner.Spec) {
		if x.Class == option.ClassCommand {
			d.command = append(d.command, x.String())
			continue
		}
		d.options = append(d.options, x)
	}
	d.inherited = otherVariables(p.inherited, p.Spec, winner.Inherited, winner.Spec)
	other := d.changedForLiveJob()
	switch {
	case !p.Spec.Named && len(d.command)+len(other) > 0:
		return path, false, nil
	case len(d.command) > 0:
		return path, true, fault.New(fault.Invalid, "Wait for it with `drover wait "+winner.Short+"`, or choose another `-t`.",
			"start task %s: job %s was started a moment ago with another command: %s changed", p.Spec.Task, winner.Short, strings.Join(d.command, ", "))
	case len(other) > 0:
		return path, true, fault.New(fault.Invalid, "Follow it as it is with `drover logs -f "+winner.Short+"`, or choose another `-t`.",
			"start task %s: job %s was started a moment ago with other settings: %s", p.Spec.Task, winner.Short, strings.Join(other, ", "))
	}
	p.Action, p.Job = report.ActionAttach, path
	p.before.Job = winner
	p.Note = fmt.Sprintf("job %s was started a moment ago: showing its output", winner.Short)
	p.keepJobSettings()
	return path, true, nil
}

// resumeJob has a job that was interrupted go on; a map with the settings that were typed.
func (e submitter) resumeJob(ctx context.Context, p *Plan) (job.Path, bool, error) {
	if p.amend == nil {
		return p.Job, true, nil
	}
	stands, err := control.AmendMap(ctx, e.World, p.Job, e.Caller.By, *p.amend)
	return p.Job, stands, err
}
