package act

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/follow"
	"github.com/drover-run/drover/internal/cli/results"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/option"
)

// Retry is drover retry.
type Retry struct{ *app.App }

// NewRetry returns a Retry of an invocation.
func NewRetry(a *app.App) Retry { return Retry{a} }

// retryFlags are what drover retry takes.
type retryFlags struct {
	states          []string
	failed, items   string
	memory, timeout string
	retryOn, step   string
	cpus            float64
	retries         int
	output          string
	detach, newCode bool
}

// Command returns the verb's command, with its flags.
func (a Retry) Command() *cobra.Command {
	var r retryFlags
	c := &cobra.Command{Use: "retry [JOB]", Short: "Run a map's failed, cancelled or chosen items again", Args: app.AtMostOne, ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	f := c.Flags()
	f.StringSliceVar(&r.states, "state", nil, "only items that are failed, quarantined or cancelled; may be repeated (default: all of them)")
	f.StringVar(&r.failed, "error", "", "only items whose failure, or what they printed last, matches this expression (RE2)")
	f.StringVar(&r.items, "items", "", "only these, by number: 1-100,998")
	f.StringVar(&r.memory, "memory", "", "memory for each item from now on, such as 16G")
	f.Float64Var(&r.cpus, "cpus", 0, "cores for each item from now on")
	f.StringVar(&r.timeout, "timeout", "", "time limit of one try of an item from now on; none takes it away")
	f.IntVar(&r.retries, "retries", 0, "how often an item may fail and be tried again from now on")
	f.StringVar(&r.retryOn, "retry-on", "", option.Of("RetryOn").Usage+"; any: after all failures again")
	f.StringVar(&r.step, "memory-step", "", option.Of("MemoryStep").Usage)
	f.BoolVar(&r.newCode, "new-code", false, "with the code as it is now in this folder, from now on; successes stay")
	f.StringVarP(&r.output, "output", "o", "", "folder, or s3://bucket/folder, that receives the outputs")
	a.AddOverwriteFlag(f)
	f.BoolVar(&r.detach, "detach", false, "return as soon as it is started")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "no notes")
	a.AddNotifyFlag(f)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		if err := cmp.Or(follow.NewNotifier(a.App).CheckNotify(r.detach), a.CheckMayStart()); err != nil {
			return err
		}
		j, s, err := a.JobAndStatus(ctx, args)
		if err != nil {
			return err
		}
		rec, err := j.Spec(ctx)
		if err != nil {
			return err
		}
		if rec.Spec.Verb != job.Map {
			return fault.New(fault.Invalid, "Run its command again; `drover resume "+s.ID+"` continues one that was interrupted.", "retry job %s: it is a %s, not a map", s.ID, rec.Spec.Verb)
		}
		o, err := r.retryOptions(cmd, rec)
		if err != nil {
			return err
		}
		o.OnCode = func(dir string, files int) {
			what := fmt.Sprintf("%s from %s", terminal.Count(files, "file"), dir)
			for _, dep := range rec.Spec.Deps {
				what += ", and " + dep
			}
			a.Note("code     %s", terminal.PlainText(what))
		}
		changed := !r.newCode && !a.Quiet && j.CodeChanged(ctx)
		n, err := j.Retry(ctx, o)
		if err != nil {
			return err
		}
		a.Note("%s: %s again", s.ID, terminal.Count(n, "item")+map[bool]string{true: " runs", false: " run"}[n == 1])
		if changed {
			a.Note("note: the script or its folder has changed since; items run with the earlier code: drover retry --new-code uses the new code")
		}
		if r.detach {
			return j.Start(ctx)
		}
		attached, err := j.Attached(ctx)
		if err != nil {
			return err
		}
		return follow.NewNotifier(a.App).NotifyEnd(ctx, j, follow.NewFollower(a.App).FollowJob(ctx, j, s.ID, r.output, attached, time.Now()))
	}
	return c
}

// retryOptions are what was typed, on top of what binds the job's items.
func (r *retryFlags) retryOptions(cmd *cobra.Command, rec job.Job) (o drover.RetryOptions, err error) {
	if o.States, err = results.ParseStates(r.states); err != nil {
		return o, err
	}
	for _, s := range o.States {
		if s != job.ItemFailed && s != job.ItemQuarantined && s != job.ItemCancelled {
			return o, fault.New(fault.Invalid, "Use failed, quarantined or cancelled.", "read --state: items that are %s do not run again", results.StateWord(s))
		}
	}
	if o.Error, err = app.Expression("--error", r.failed); err != nil {
		return o, err
	}
	if o.Items, err = parseSpans(r.items); err != nil {
		return o, err
	}
	limits, changed := rec.Spec.Limits, false
	if r.memory != "" {
		if limits.Memory, err = job.ParseBytes(r.memory); err != nil {
			return o, err
		}
		changed = true
	}
	if cmd.Flags().Changed("cpus") {
		limits.CPUs, changed = r.cpus, true
	}
	if changed {
		o.Limits = &limits
	}
	if r.timeout != "" {
		d := job.Duration(0)
		if r.timeout != "none" {
			if d, err = job.ParseDuration(r.timeout); err != nil {
				return o, err
			}
		}
		o.Timeout = &d
	}
	if cmd.Flags().Changed("retries") {
		if r.retries < 0 {
			return o, fault.New(fault.Invalid, "Use 0 or more.", "read --retries: %d", r.retries)
		}
		o.Retries = &r.retries
	}
	o.NewCode = r.newCode
	return o, r.applyRules(&o)
}

// applyRules are those of retry.
func (r *retryFlags) applyRules(o *drover.RetryOptions) error {
	if r.retryOn != "" {
		on, err := job.ParseRetryOn(r.retryOn)
		if err != nil {
			return err
		}
		o.RetryOn = &on
	}
	if r.step != "" {
		step, err := job.ParseStep(r.step)
		if err != nil {
			return err
		}
		o.MemoryStep = &step
	}
	return nil
}

// parseSpans reads numbers of items: 1-100,998.
func parseSpans(text string) (spans [][2]int, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(part), "-")
		if !ranged {
			to = from
		}
		a, err := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || a < 1 || b < a {
			return nil, fault.New(fault.Invalid, "Use numbers and ranges: `--items 1-100,998`.", "read --items: %q is neither a number nor a range", part)
		}
		spans = append(spans, [2]int{a, b})
	}
	return merged(spans), nil
}

// merged puts ranges in order, and those together that touch.
func merged(spans [][2]int) (all [][2]int) {
	for len(spans) > 0 {
		first := 0
		for i, s := range spans {
			if s[0] < spans[first][0] {
				first = i
			}
		}
		s := spans[first]
		spans[first] = spans[len(spans)-1]
		spans = spans[:len(spans)-1]
		if n := len(all) - 1; n >= 0 && s[0] <= all[n][1]+1 {
			all[n][1] = max(all[n][1], s[1])
			continue
		}
		all = append(all, s)
	}
	return all
}
