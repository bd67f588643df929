// Package follow shows a job until it has settled or the user leaves it: its output or its
// progress, what Ctrl-C does, how it has ended, and the command of --notify.
// It decides nothing of the job. Proved by the scripts run_* and map_*.
package follow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/bring"
	"github.com/drover-run/drover/internal/cli/echo"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Follower follows a job until it has settled or the user leaves it, and reports how it ended.
type Follower struct{ *app.App }

// NewFollower returns a Follower of an invocation.
func NewFollower(a *app.App) Follower { return Follower{a} }

// FollowJob prints a live job's output until it has settled, then where things are.
// attached says that its agents live beside us, so that Ctrl-C is for them.
// What was printed before since (zero: from the beginning) is left out.
func (a Follower) FollowJob(ctx context.Context, j *drover.Job, id string, output string, attached bool, since time.Time) error {
	switch many, err := summary.IsMap(ctx, j); {
	case err != nil:
		return err
	case many:
		return NewMapFollower(a.App).followMap(ctx, j, id, output, attached)
	}
	return a.followRun(ctx, j, id, output, attached, since)
}

func (a Follower) followRun(ctx context.Context, j *drover.Job, id, output string, attached bool, since time.Time) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// Before anything begins: a user that sees the program run may press Ctrl-C.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT)
	defer signal.Stop(signals)
	// Or "| head" would end us with the pipe, while the job goes on.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	type end struct {
		st  drover.Status
		err error
	}
	ended := make(chan end, 1)
	go func() {
		st, err := j.WaitTold(ctx, a.NoteWaiting)
		ended <- end{st, err}
	}()
	printed := make(chan error, 1)
	reading, hush := context.WithCancel(context.WithoutCancel(ctx))
	defer hush()
	enough, settled := make(chan struct{}), make(chan struct{})
	unread := make(chan struct{})
	go func() {
		printed <- a.printOutput(reading, j, drover.LogOptions{Since: since, Enough: enough, Settled: settled}, func() { close(unread) })
	}()

	for {
		select {
		case e := <-ended:
			signal.Stop(signals) // from here on Ctrl-C ends us: the job needs us no more
			a.EndStdin()
			if e.err != nil {
				hush()
				<-printed
				return e.err
			}
			close(settled)
			if err := <-printed; err != nil {
				return err
			}
			return a.ReportEnd(context.WithoutCancel(ctx), j, e.st, output)
		case <-unread:
			stop(errors.New("nobody reads the output"))
			<-ended
			<-printed
			return a.leaveUnread(context.WithoutCancel(ctx), j, id, attached && !a.Joined, signals)
		case <-signals:
			stop(errors.New("Ctrl-C"))
			<-ended
			if !attached {
				hush()
				<-printed
				return a.confirmDetach(context.WithoutCancel(ctx), j, id, "logs -f", signals)
			}
			err := a.interruptJob(context.WithoutCancel(ctx), j, signals)
			signal.Stop(signals) // nothing is left to be asked; Ctrl-C ends us
			close(enough)        // what the program said last is stored now
			<-printed
			if err != nil {
				return err
			}
			return a.reportInterrupted(context.WithoutCancel(ctx), j, output)
		}
	}
}

// mostReasons is how many different things that agents wait for are shown.
const mostReasons = 3

// NoteWaiting shows what agents wait for before they can begin.
func (a Follower) NoteWaiting(all []drover.Waiting) {
	for i, w := range all {
		if i == mostReasons {
			a.Note("  and for %s: drover why last", terminal.Count(len(all)-i, "other reason"))
			return
		}
		a.Note("%s: %s", terminal.Count(w.Agents, "agent")+" "+waits(w.Agents), terminal.PlainText(w.Reason))
		if w.Hint != "" {
			a.Note("  %s", terminal.PlainText(w.Hint))
		}
	}
}

// waits is the verb for a number of agents.
func waits(agents int) string {
	if agents == 1 {
		return "waits"
	}
	return "wait"
}

// leaveUnread is the end of a command with an output that is no longer read, as of one before
// "| head". A program would die of that, so one that this command has started here is
// stopped as by Ctrl-C; others, and those elsewhere, go on.
func (a Follower) leaveUnread(ctx context.Context, j *drover.Job, id string, stops bool, signals <-chan os.Signal) error {
	if !stops {
		a.Note("stdout is closed: %s goes on", id)
		a.Note("  follow: drover logs -f %s   stop: drover cancel %s", id, id)
		return app.Status(fault.ExitPipe)
	}
	a.Note("stdout is closed: stopping %s, as Ctrl-C does", id)
	if err := a.interruptJob(ctx, j, signals); err != nil {
		return err
	}
	st, err := j.BriefStatus(ctx)
	if err != nil {
		return err
	}
	if st.State.Settled() {
		a.Note("%s %s %s", a.PaintState(st.State, st.State.Symbol()), id, strings.ToLower(string(st.State)))
	} else {
		a.Note("%s %s interrupted   continue: drover resume %s", a.PaintState(job.Interrupted, job.Interrupted.Symbol()), id, id)
	}
	return app.Status(fault.ExitPipe)
}

// interruptJob is Ctrl-C where agents live beside us: the first gives the program its stop
// signal, which is SIGINT as at a terminal, and leads to SIGTERM and SIGKILL in time; the
// second sends SIGTERM, the third kills. It returns when the agents are gone.
func (a Follower) interruptJob(ctx context.Context, j *drover.Job, signals <-chan os.Signal) error {
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	spec := rec.Spec
	left := []time.Duration{spec.StopTime(), spec.TermTime(), 0} // of the agents, until they are killed
	if spec.FirstSignal() == "SIGTERM" {
		left = left[1:]
	}
	idle := a.idleReason(ctx, j)
	gone := make(chan error, 1)
	go func(left time.Duration) { gone <- j.Interrupt(ctx, left) }(left[0])
	dropRepeats(signals)
	a.noteStop(spec, len(left), idle)
	for {
		select {
		case err := <-gone:
			return err
		case <-signals:
		}
		if idle != "" {
			idle = a.idleReason(ctx, j)
		}
		more := len(left) > 1
		if more {
			left = left[1:]
		}
		if err := j.Hasten(ctx, left[0]); err != nil {
			return err
		}
		dropRepeats(signals)
		if more {
			a.noteStop(spec, len(left), idle)
		}
	}
}

// RepeatTime is how long after a SIGINT another one can be the same Ctrl-C.
const RepeatTime = 250 * time.Millisecond

// dropRepeats drops the SIGINTs that come within RepeatTime. They are the same Ctrl-C:
// timeout and npm hand on to their child what the terminal, or timeout itself, has sent to
// the child's process group as well. drover's line about a Ctrl-C is printed after it, so
// that a Ctrl-C that answers the line is always another.
func dropRepeats(signals <-chan os.Signal) {
	over := time.NewTimer(RepeatTime)
	defer over.Stop()
	for {
		select {
		case <-signals:
		case <-over.C:
			return
		}
	}
}

// noteStop says what a Ctrl-C does of which steps are left: three from the stop signal on, two
// from SIGTERM on. idle is why there is no program that could be stopped; "" when there is.
func (a Follower) noteStop(spec job.Spec, steps int, idle string) {
	whom, it := "the program", "it"
	if spec.Verb == job.Map {
		whom, it = "the running items", "them"
	}
	switch {
	case idle != "":
		a.Note("\nStopping: %s", idle)
	case steps == 3:
		a.Note("\nStopping: sent %s to %s; SIGTERM follows in %s (Ctrl-C again sends it now)", spec.FirstSignal(), whom, spec.Grace)
	case steps == 2:
		a.Note("\nStopping: sent SIGTERM to %s; SIGKILL follows in %s (Ctrl-C again kills %s)", whom, spec.Grace, it)
	default:
		a.Note("Killed %s", whom)
	}
}

// idleReason says why there is no program that could be stopped; "" when there is one, or
// that is not known.
func (a Follower) idleReason(ctx context.Context, j *drover.Job) string {
	if many, err := summary.IsMap(ctx, j); err != nil || many {
		s, err := j.Status(ctx)
		if err != nil || s.MapStatus == nil {
			return ""
		}
		running := slices.ContainsFunc(s.Agents, func(g drover.MapAgent) bool { return g.State == "running" })
		if !running && s.Items.Open() == s.Items.Items {
			return "no item has started yet"
		}
		return ""
	}
	st, err := j.BriefStatus(ctx)
	running := slices.ContainsFunc(st.Nodes, func(n drover.Node) bool { return n.State == "running" })
	switch {
	case err != nil || running:
		return ""
	case st.Started.IsZero():
		return "the program has not started yet"
	}
	return "the program is not running"
}

// reportInterrupted says how to continue a job without agents, unless it had just ended.
func (a Follower) reportInterrupted(ctx context.Context, j *drover.Job, output string) error {
	st, err := j.BriefStatus(ctx)
	if err != nil {
		return err
	}
	if st.State.Settled() {
		return a.ReportEnd(ctx, j, st, output)
	}
	a.Note("%s %s interrupted   continue: drover resume %s", a.PaintState(job.Interrupted, job.Interrupted.Symbol()), st.ID, st.ID)
	if a.Grammar == nil && st.Attempt > 0 {
		if err := bring.NewBringer(a.App).BringRunOutputs(ctx, j, st, output); err != nil {
			a.PrintError(err) // that it was interrupted says more
		}
	}
	return app.Status(fault.ExitInterrupted)
}

// printOutput writes the program's output as it comes. What drover does before the
// program starts, and a new attempt, are told beside it. unread is called, once, when
// the output is no longer read.
func (a Follower) printOutput(ctx context.Context, j *drover.Job, o drover.LogOptions, unread func()) error {
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	p := echo.NewPrinter(rec.Spec, nil)
	p.Own = j.IsCallers(rec)
	defer p.Finish(echo.All)
	told := &telling{said: map[string]bool{}}
	o.Stdout, o.Stderr, o.Agent, o.Follow = true, true, true, true
	for o, err := range j.Logs(ctx, o) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			a.Note("note: output cannot be read at the moment: %s", err)
			continue
		}
		if o.Stream == "agent" {
			a.noteAgentOutput(o, told)
			continue
		}
		if err := p.Print(o); terminal.Closed(err) {
			unread()
			return nil
		} else if err != nil {
			a.Note("note: output is no longer shown: %s", err)
			return nil
		}
	}
	return nil
}

// telling is what agents were heard to say: what all nodes say is said once.
type telling struct {
	attempt int
	said    map[string]bool
}

// noteAgentOutput shows what drover itself does where it takes time or changes what is
// printed: building an environment, a new attempt, what it begins from.
func (a Follower) noteAgentOutput(o drover.Output, t *telling) {
	if o.Attempt > 1 && o.Attempt > t.attempt {
		a.Note("‖ attempt %d began", o.Attempt)
		t.said = map[string]bool{}
	}
	t.attempt = max(t.attempt, o.Attempt)
	has := func(line string, beginnings ...string) bool {
		return slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(line, b) })
	}
	for line := range strings.Lines(string(o.Data)) {
		line = terminal.PlainText(strings.TrimSuffix(line, "\n"))
		plain := has(line, "prepared in", "environment: ", "leaving: ")
		if !t.said[line] && (o.Attempt == 0 && !plain || has(line, "restored ", "waiting for room: ", "no private ", "interrupted: ", "files of yours changed: ")) {
			t.said[line] = true
			a.Note("  %s", line)
		}
	}
}

// ReportEnd says how a job has ended and where its things are, and gives the
// program's own exit status.
func (a Follower) ReportEnd(ctx context.Context, j *drover.Job, st drover.Status, output string) error {
	switch many, err := summary.IsMap(ctx, j); {
	case err != nil:
		return err
	case many:
		return NewMapFollower(a.App).reportMapEnd(ctx, j, output)
	}
	head := fmt.Sprintf("%s %s %s/%s %s", a.PaintState(st.State, st.State.Symbol()), st.ID, st.Project, st.Task, strings.ToLower(string(st.State)))
	if ran, ok := st.Ran(time.Now()); ok && !st.Ended.IsZero() {
		head += " in " + terminal.Span(ran)
	}
	head += summary.AttemptWords(st)
	if st.Reason != "" && st.State != job.Cancelled {
		head += ": " + terminal.PlainText(st.Reason)
	}
	if st.Code != nil && *st.Code == fault.ExitDrover {
		a.Quiet = false // the program never ran, so this is the only line
	}
	a.Note("%s", head)
	code := 0
	if st.Code != nil {
		code = *st.Code
	}
	if err := a.BringOutputs(ctx, j, st, output); err != nil {
		if code == 0 {
			return err
		}
		a.PrintError(err) // the program's own status says more
	}
	if st.State == job.Failed {
		if hint := a.HintInGrammar(st.Hint); hint != "" {
			a.Note("  %s", terminal.PlainText(hint))
		} else if hint := j.StayedHome(ctx); hint != "" {
			a.Note("  %s", terminal.PlainText(hint))
		}
		a.Note("  why: drover why %s", st.ID)
	}
	switch {
	case code != 0 && a.Grammar != nil:
		return a.Grammar.ExitStatus(st)
	case code != 0:
		return app.Status(code)
	}
	return nil
}

// BringOutputs downloads the outputs when a folder was named, and says where they are.
func (a Follower) BringOutputs(ctx context.Context, j *drover.Job, st drover.Status, output string) error {
	switch many, err := summary.IsMap(ctx, j); {
	case err != nil:
		return err
	case many:
		return bring.NewBringer(a.App).BringItems(ctx, j, output)
	}
	if a.Grammar != nil {
		return a.Grammar.Bring(ctx, j, st, output)
	}
	return bring.NewBringer(a.App).BringRunOutputs(ctx, j, st, output)
}
