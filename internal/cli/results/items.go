package results

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/internal/record/screen"
	"github.com/drover-run/drover/job"
)

// Items is drover items.
type Items struct{ *app.App }

// NewItems returns an Items of an invocation.
func NewItems(a *app.App) Items { return Items{a} }

// Command returns the verb's command, with its flags.
func (a Items) Command() *cobra.Command {
	var states []string
	failed := ""
	var m mostFlags
	c := &cobra.Command{Use: "items [JOB [NUMBER]]", Short: "A map's items by state; one item's tries, use and output", ValidArgsFunction: a.CompleteJobs,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 2 {
				return fault.New(fault.Invalid, "Name a job, and one item: `drover items "+args[0]+" "+args[1]+"`.", "read command line: drover items takes a job and a number, not %d words", len(args))
			}
			return nil
		}}
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
	c.Flags().StringSliceVar(&states, "state", nil, "only items that are pending, leased (running on a worker, or next there), succeeded, failed, quarantined or cancelled; may be repeated")
	c.Flags().StringVar(&failed, "error", "", "only items whose failure, or what they printed last, matches this expression (RE2)")
	m.addFlags(c.Flags())
	c.RunE = func(cmd *cobra.Command, args []string) error {
		n, less, args, err := m.mostAsked(cmd.Flags(), args)
		if err != nil {
			return err
		}
		chosen, err := ParseStates(states)
		if err != nil {
			return err
		}
		re, err := app.Expression("--error", failed)
		if err != nil {
			return err
		}
		j, err := a.FindJob(cmd.Context(), args[:min(len(args), 1)])
		if err != nil {
			return err
		}
		o := drover.ResultOptions{States: chosen, Error: re}
		switch {
		case n > 0:
			return a.printMostItems(cmd.Context(), j, o, n, less)
		case len(args) < 2:
			return a.printItemList(cmd.Context(), j, o)
		}
		n, err = strconv.Atoi(args[1])
		if err != nil || n < 1 {
			return fault.New(fault.Invalid, "Items are numbered from 1: `drover items "+args[0]+" 1`.", "read command line: %q is not an item number", args[1])
		}
		return a.printOneItem(cmd.Context(), j, n)
	}
	return c
}

func (a Items) printItemList(ctx context.Context, j *drover.Job, o drover.ResultOptions) error {
	out := bufio.NewWriterSize(a.Out, 64<<10)
	items := j.Results(ctx, o)
	if a.Settings.JSON {
		return ended(jsonResults(out, items), out)
	}
	s, err := j.Status(ctx)
	if err != nil {
		return err
	}
	t := NewResults(a.App).newItemTable(out, s.Items.Items)
	shown := 0
	for r, err := range items {
		if err == nil && shown == 0 {
			err = t.printRow("ITEM", "STATE", "STATUS", "TIME", "VALUE", "WHY")
		}
		if err == nil {
			err = t.printRow(strconv.Itoa(r.Item), itemState(r.State), codeWord(r.Code, "-"), tookWord(r.Try), r.Value, itemWhy(r))
		}
		if err != nil {
			return ended(err, out)
		}
		shown++
	}
	if shown == 0 {
		what := terminal.OrElse(strings.ToLower(joinStates(o.States)), "there")
		if o.Error != nil {
			what += fmt.Sprintf(" with %q", o.Error)
		}
		a.Note("no item is %s   %s", what, strings.Join(progress.Counts(s), ", "))
	}
	return ended(nil, out)
}

func joinStates(states []job.ItemState) string {
	var words []string
	for _, s := range states {
		words = append(words, StateWord(s))
	}
	return strings.Join(words, " or ")
}

// outputTail is how many lines of what an item printed are shown with it.
const outputTail = 20

func (a Items) printOneItem(ctx context.Context, j *drover.Job, n int) error {
	r, err := j.Item(ctx, n)
	if err != nil {
		return err
	}
	if a.Settings.JSON {
		return terminal.NewJSON(a.Out).Encode(r)
	}
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	p := func(key, format string, args ...any) {
		fmt.Fprintf(a.Out, "  %-10s %s\n", key, terminal.PlainText(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(a.Out, "%s item %d %s\n", rec.Short, r.Item, itemState(r.State))
	p("value", "%s", r.Value)
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		p("field", "%s = %s", name, r.Fields[name])
	}
	if w := r.FailedWhy(); r.State != job.ItemSucceeded && w != "" {
		p("why", "%s", w)
	}
	for _, c := range []struct {
		n    int
		what string
	}{{r.Failures, "failure"}, {r.Interruptions, "interruption"}, {r.Blames, "time that its agent died while it was running"}} {
		if c.n > 0 {
			p("behind it", "%s", terminal.Count(c.n, c.what))
		}
	}
	for i, t := range r.Tries {
		p(fmt.Sprintf("try %d", i+1), "%s", tryLine(t))
	}
	for _, f := range r.Outputs {
		p("output", "%s (%s)", f.Name, terminal.Size(f.Bytes))
	}
	return a.printItemTail(ctx, j, rec.Short, n)
}

func tryLine(t drover.Try) string {
	words := []string{t.Why()}
	if !t.Ended.IsZero() {
		words = append(words, "ended "+t.Ended.Local().Format(time.DateTime))
	}
	words = append(words, tookWord(t), fmt.Sprintf("%.2fs of processor time", t.CPU))
	if t.MaxRSS > 0 {
		words = append(words, terminal.Size(t.MaxRSS)+" of memory")
	}
	return strings.Join(words, ", ") + ", by " + terminal.OrElse(t.Agent, "-")
}

// printItemTail prints the end of what an item printed.
func (a Items) printItemTail(ctx context.Context, j *drover.Job, short string, n int) error {
	head := fmt.Sprintf("  printed    (all of it: drover logs %s --item %d)\n", short, n)
	for l, err := range j.Lines(ctx, drover.LogOptions{Item: n, Tail: outputTail}) {
		if err != nil {
			return err
		}
		fmt.Fprint(a.Out, head)
		head = ""
		sign := " "
		if l.Stream == "stderr" {
			sign = "!"
		}
		fmt.Fprintf(a.Out, "  %s %s\n", sign, screen.Escape(screen.Fold([]byte(l.Text)), false))
	}
	return nil
}

// itemWhy says of an item without success why that is so, beside its status.
func itemWhy(r drover.ItemResult) string {
	switch {
	case r.State == job.ItemSucceeded || r.Code == nil && r.State == job.ItemPending:
		return ""
	case r.State == job.ItemFailed && r.Reason != "":
		return r.Reason
	}
	return r.FailedWhy()
}
