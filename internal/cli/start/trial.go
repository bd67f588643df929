package start

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/follow"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// runDrill is drover map --drill: exit status 0 when the outputs were the same.
func (a trial) runDrill(ctx context.Context, t trialFlags, p *drover.Plan) error {
	if t.seed == 0 {
		t.seed = 1 + rand.Uint64N(maxSeed)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT)
	defer stop()
	defer context.AfterFunc(ctx, func() {
		a.Note("\nStopping: the drill's job is cancelled; sent SIGTERM to the running items (Ctrl-C again does not wait for them)")
		time.Sleep(follow.RepeatTime) // a SIGINT until then is the same Ctrl-C
		stop()                        // a second Ctrl-C ends drover; the agents end by themselves
	})()
	a.Note("%s", seedLine(t.seed))
	r, err := p.Drill(ctx, drover.DrillOptions{Items: t.pilot, Seed: t.seed, Told: a.noteDrillEvent})
	if err != nil {
		return err
	}
	if a.Settings.JSON {
		err = terminal.NewJSON(a.Out).Encode(r)
	} else {
		_, err = fmt.Fprintln(a.Out, strings.Join(drillLines(r), "\n"))
	}
	if err == nil && !r.Same() {
		err = app.Status(fault.ExitItems)
	}
	return err
}

// noteDrillEvent tells what happens while it does.
func (a trial) noteDrillEvent(e drover.DrillEvent) {
	switch {
	case e.Hit != "":
		a.Note("         %-6s %s", terminal.Span(e.After), fmt.Sprintf(hitWords[e.Hit], agentWord(e.Agent)))
	case e.Ended != nil:
		a.Note("         %s in %s: %s", strings.ToLower(string(e.Ended.State)), terminal.Span(e.Ended.Ended.Sub(e.Ended.Submitted)), strings.Join(progress.Counts(*e.Ended), ", "))
	default:
		a.Note("%s", stageLine(e.Stage, e.Items, e.Job.Path().Task))
	}
}

// trial runs a pilot or a drill of a map before all of its items.
type trial struct{ *app.App }

func newTrial(a *app.App) trial { return trial{a} }

// trialFlags run some of a map's items before all, or instead.
type trialFlags struct {
	pilot int
	drill bool
	seed  uint64
}

func (t *trialFlags) addFlags(f *pflag.FlagSet) {
	f.IntVar(&t.pilot, "pilot", 0, "run so many items first, spread over all; say what all would take, and ask")
	f.BoolVar(&t.drill, "drill", false, "run a sample (--pilot, default 100) twice, the second time with its agents killed at random; say whether the outputs are the same")
	f.Uint64Var(&t.seed, "seed", 0, "of --drill: what happens when, to have the same again (default: a new one)")
}

// checkFlags refuses what does not go together.
func (t *trialFlags) checkFlags(cmd *cobra.Command, s *startFlags) error {
	changed := cmd.Flags().Changed
	switch {
	case changed("pilot") && t.pilot < 1:
		return fault.New(fault.Invalid, "Use 1 or more, such as `--pilot 20`.", "read --pilot: %d", t.pilot)
	case changed("seed") && !t.drill:
		return fault.New(fault.Invalid, "Add `--drill`, or leave it out.", "read --seed: it is for --drill")
	case t.drill && s.detach:
		return fault.New(fault.Invalid, "Omit `--detach`.", "plan drill: it cannot run detached")
	}
	return nil
}

// runTrial is what comes before a map runs. done says that it does not: this was all
// that was asked for, or it was not wanted any more.
func (a trial) runTrial(ctx context.Context, s *startFlags, t trialFlags, p *drover.Plan) (done bool, err error) {
	switch {
	case t.drill:
		return true, a.runDrill(ctx, t, p)
	case t.pilot == 0:
		return false, nil
	case p.Action != "start" && p.Action != "replace":
		a.Note("note: no pilot: this continues job %s", p.Job.Job)
		return false, nil
	case t.pilot >= p.Items.Count:
		a.Note("note: no pilot: there are only %s", terminal.Count(p.Items.Count, "item"))
		return false, nil
	}
	sample, numbers, err := p.Sample(ctx, "pilot", t.pilot)
	if err != nil {
		return true, err
	}
	defer sample.Close()
	if sample.Note != "" {
		a.Note("note: %s", sample.Note)
	}
	j, err := NewSubmitter(a.App).SubmitPlan(ctx, sample)
	if err != nil {
		return true, err
	}
	a.Note("pilot    %s of %s, as task %s", terminal.Count(len(numbers), "item"), terminal.Comma(p.Items.Count), sample.Spec.Task)
	err = follow.NewMapFollower(a.App).FollowMapTo(ctx, j, j.Path().Job, p.Properties.Attached, func(ctx context.Context) error {
		done, err = a.reportPilot(ctx, s, p, j)
		return err
	})
	return done || err != nil, err
}

// reportPilot says what a pilot came to, and whether all items are to be run.
func (a trial) reportPilot(ctx context.Context, s *startFlags, p *drover.Plan, j *drover.Job) (done bool, err error) {
	st, err := follow.NewMapFollower(a.App).PrintMapEnd(ctx, j)
	if err != nil {
		return true, err
	}
	if st.Items.Succeeded == 0 || st.State == job.Cancelled {
		code := fault.ExitItems
		if st.Code != nil && *st.Code != 0 {
			code = *st.Code
		}
		return true, app.Status(code)
	}
	r, err := p.Forecast(ctx, j)
	if err != nil {
		return true, err
	}
	if a.Settings.JSON {
		err = terminal.NewJSON(a.Out).Encode(r)
	} else {
		_, err = fmt.Fprintln(a.Out, strings.Join(pilotLines(r, p.Cost.Here), "\n"))
	}
	if err != nil || s.yes {
		return err != nil, err
	}
	from, to, asks := a.AnswerStreams(p.Spec.From == "-")
	if !asks {
		a.Note("  all:     %s", a.commandWithoutPilot(p.Spec.From == "-"))
		return true, nil
	}
	defer from.Close()
	fmt.Fprintf(to, "Run all %s? [y/N] ", terminal.Comma(p.Items.Count))
	if app.Answer(from) {
		return false, nil
	}
	a.Note("  Nothing else was run.")
	return true, nil
}

// commandWithoutPilot is the command that was typed, for all items.
func (a trial) commandWithoutPilot(piped bool) string {
	typed := slices.Clone(a.Typed)
	for i, word := range typed {
		if word == "--pilot" && i+1 < len(typed) {
			typed = slices.Delete(typed, i, i+2)
			break
		}
		if strings.HasPrefix(word, "--pilot=") {
			typed = slices.Delete(typed, i, i+1)
			break
		}
	}
	return terminal.Pasted(typed, piped)
}

// pilotLines are a pilot's figures and what follows from them; paid says that the
// owner of the store pays for requests.
func pilotLines(r drover.Pilot, paid bool) []string {
	failed := "none failed"
	if bad := r.Tally.Failed + r.Tally.Quarantined; bad > 0 {
		failed = fmt.Sprintf("%s of %s failed", terminal.Comma(bad), terminal.Comma(r.Items))
	}
	line := fmt.Sprintf("pilot    %s each (%s to %s)", terminal.Brief(r.Mean), terminal.Brief(r.Least), terminal.Brief(r.Most))
	if r.MaxRSS > 0 {
		line += ", up to " + terminal.Size(r.MaxRSS) + " of memory"
	}
	f := r.Forecast
	about := "about " + terminal.Brief(f.Seconds)
	if f.High > f.Low*5/4 {
		about += fmt.Sprintf(" (%s to %s)", terminal.Brief(f.Low), terminal.Brief(f.High))
	}
	forecast := fmt.Sprintf("forecast %s for %s, %s at once", about, terminal.Count(r.Of, "item"), terminal.Comma(f.Slots))
	if paid {
		forecast += fmt.Sprintf("; the store gets about %s, for %s", terminal.Count(f.Writes+f.Lists+f.Reads, "request"), drover.Dollars(f.Dollars))
	}
	return []string{line + ", " + failed, forecast}
}
