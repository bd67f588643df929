package look

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/echo"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Logs is drover logs.
type Logs struct{ *app.App }

// NewLogs returns a Logs of an invocation.
func NewLogs(a *app.App) Logs { return Logs{a} }

// logFlags are what drover logs takes.
type logFlags struct {
	follow, agent, stamps bool
	prefix                bool
	search, source        string
	since, until          string
	around, tail, item    int
	nodes                 []int
}

// Command returns the verb's command, with its flags.
func (a Logs) Command() *cobra.Command {
	var l logFlags
	c := &cobra.Command{Use: "logs [JOB]", Short: "Print, follow or search what a job printed", Args: app.AtMostOne, ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
	f := c.Flags()
	f.BoolVarP(&l.follow, "follow", "f", false, "go on until the job has ended")
	f.StringVar(&l.search, "search", "", "only lines that this regular expression matches")
	f.IntVarP(&l.around, "context", "C", 0, "with --search: lines before and after each match")
	f.IntVar(&l.tail, "tail", 0, "begin with the last N lines")
	f.StringVar(&l.since, "since", "", "only what was printed from then on: 30m ago, or 2026-11-21T15:04:05")
	f.StringVar(&l.until, "until", "", "only what was printed before then")
	f.IntSliceVar(&l.nodes, "node", nil, "only what these nodes printed, such as 0 or 1,2")
	f.IntVar(&l.item, "item", 0, "of a map: only what this item printed, byte for byte")
	f.BoolVar(&l.prefix, "prefix", false, "of a map: each line after its item's number, as with --search anyway")
	f.StringVar(&l.source, "source", "", "program (default), stdout, stderr, or agent: drover's own notes")
	f.BoolVar(&l.stamps, "timestamps", false, "say when each line was printed")
	f.BoolVar(&l.agent, "agent", false, "the same as --source agent")
	_ = f.MarkHidden("agent") // what it was called first
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := a.FindJob(cmd.Context(), args)
		if err != nil {
			return err
		}
		if err := summary.CheckNodes(cmd.Context(), j, l.nodes); err != nil {
			return err
		}
		o, err := l.logOptions(time.Now())
		if err != nil {
			return err
		}
		if l.follow {
			o.Enough = a.closedWhenIdle(cmd.Context(), j)
		}
		many, err := checkItem(cmd.Context(), cmd, j, l)
		if err != nil {
			return err
		}
		re, err := regexp.Compile(l.search)
		switch {
		case err != nil:
			return fault.Wrap(err, fault.Invalid, "Quote special letters with \\, as in 'loss=0\\.1'.", "read --search %q", l.search)
		case many:
			// a search through all items says which item each line is of
			l.prefix = l.prefix || l.search != "" && l.item == 0 && !cmd.Flags().Changed("prefix")
			return a.printItemLogs(cmd.Context(), j, l, o, re)
		case l.search != "":
			return a.printLines(cmd.Context(), j, l, j.Search(cmd.Context(), o, re, l.around, l.around))
		case a.Settings.JSON || l.tail > 0 || l.stamps:
			return a.printLines(cmd.Context(), j, l, j.Lines(cmd.Context(), o))
		}
		return a.printRawLogs(cmd, j, o)
	}
	return c
}

// logOptions reads the flags; now is what "30m" is counted from.
func (l logFlags) logOptions(now time.Time) (o drover.LogOptions, err error) {
	o = drover.LogOptions{Follow: l.follow, Nodes: l.nodes, Tail: l.tail, Agent: l.agent}
	if l.tail < 0 || l.around < 0 {
		return o, fault.New(fault.Invalid, "Use 0 or more.", "read command line: a number of lines below 0")
	}
	switch l.source {
	case "", "program":
	case "stdout":
		o.Stdout = true
	case "stderr":
		o.Stderr = true
	case "agent":
		o.Agent = true
	default:
		return o, fault.New(fault.Invalid, "Use program, stdout, stderr or agent.", "read --source: unknown source %q", l.source)
	}
	for _, at := range []struct {
		flag, typed string
		field       *time.Time
	}{{"since", l.since, &o.Since}, {"until", l.until, &o.Until}} {
		if at.typed == "" {
			continue
		}
		if *at.field, err = moment(at.typed, now); err != nil {
			return o, fault.New(fault.Invalid, "Write how long ago, such as 30m, 2h or 1d, or a time such as 2026-11-21T15:04:05.", "read --%s: %q is not a time", at.flag, at.typed)
		}
	}
	return o, nil
}

// moment reads a length of time before now, or a time; one without a zone is here.
func moment(typed string, now time.Time) (time.Time, error) {
	if ago, err := job.ParseDuration(typed); err == nil {
		return now.Add(-time.Duration(ago)), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, typed, time.Local); err == nil {
			return t, nil
		}
	}
	t, err := time.ParseInLocation("15:04:05", typed, time.Local)
	if err != nil {
		t, err = time.ParseInLocation("15:04", typed, time.Local)
	}
	return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.Local), err
}

// closedWhenIdle returns a channel that is closed when no agent works on the job any more:
// nothing comes until a command continues it.
func (a Logs) closedWhenIdle(ctx context.Context, j *drover.Job) <-chan struct{} {
	idle := make(chan struct{})
	go func() { // ends with the command, or before
		s, err := j.Until(ctx, 0)
		if err == nil && s.State == job.Interrupted {
			a.Note("%s is interrupted   continue: drover resume %s", s.ID, s.ID)
			close(idle)
		}
	}()
	return idle
}

// printRawLogs prints bytes as they were; of progress bars, when they are not
// followed, the last state.
func (a Logs) printRawLogs(cmd *cobra.Command, j *drover.Job, o drover.LogOptions) error {
	rec, err := j.Spec(cmd.Context())
	if err != nil {
		return err
	}
	p := echo.NewPrinter(rec.Spec, o.Nodes)
	p.Fold = !o.Follow
	defer p.Finish(echo.All)
	for out, err := range j.Logs(cmd.Context(), o) {
		if err != nil {
			return err
		}
		if err := p.Print(out); err != nil {
			return fault.Wrap(err, fault.Full, "", "print output")
		}
	}
	return nil
}

// printLines prints lines that were looked for. When none is found, the exit status is 1.
func (a Logs) printLines(ctx context.Context, j *drover.Job, f logFlags, lines iter.Seq2[drover.Line, error]) error {
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	label := echo.NewPrinter(rec.Spec, f.nodes).Label
	found, printed := 0, false
	enc := terminal.NewJSON(a.Out)
	var text []byte
	for l, err := range lines {
		if err != nil {
			return err
		}
		if l.Match {
			found++
		}
		if a.Settings.JSON {
			if err := enc.Encode(l); err != nil {
				return err
			}
			continue
		}
		if l.Apart && f.around > 0 && printed { // between groups, as grep does
			fmt.Fprintln(a.Out, "--")
		}
		printed = true
		head := ""
		if f.stamps {
			head = l.Time.Local().Format("2006-01-02T15:04:05.000 ")
		}
		if label != nil {
			head += label(l.Node)
		}
		text = append(echo.AppendShown(append(text[:0], head...), l.Text, f.search != "" || terminal.IsTerminal(a.Out)), '\n')
		if _, err := a.Out.Write(text); err != nil {
			return nil
		}
	}
	if found == 0 && f.search != "" {
		return app.Status(fault.ExitItems) // as grep
	}
	return nil
}

// appendHead is what stands before a line of an item.
func (l logFlags) appendHead(dst []byte, line *drover.Line) []byte {
	if l.stamps {
		dst = line.Time.Local().AppendFormat(dst, "2006-01-02T15:04:05.000 ")
	}
	if l.prefix {
		dst = append(strconv.AppendInt(append(dst, '['), int64(line.Item), 10), "] "...)
	}
	return dst
}

// printItemLogs is drover logs of a map: what one item printed, byte for byte, or the
// lines of all, with prefix each after its item's number.
func (a Logs) printItemLogs(ctx context.Context, j *drover.Job, l logFlags, o drover.LogOptions, re *regexp.Regexp) error {
	o.Item = l.item
	switch {
	case l.search != "":
		return a.printAllItemLines(l, j.Search(ctx, o, re, l.around, l.around))
	case l.item == 0 || l.prefix || a.Settings.JSON || o.Tail > 0 || l.stamps:
		return a.printAllItemLines(l, j.Lines(ctx, o))
	}
	p := &echo.Printer{Out: a.Out, Err: a.Err, Filters: map[echo.Source]echo.Filter{}}
	defer p.Finish(echo.All)
	for out, err := range j.Logs(ctx, o) {
		if err != nil {
			return err
		}
		if err := p.Print(out); terminal.Closed(err) {
			return nil
		} else if err != nil {
			return fault.Wrap(err, fault.Full, "", "print output")
		}
	}
	return nil
}

// printAllItemLines prints lines of items. When a search finds none, the exit
// status is 1.
func (a Logs) printAllItemLines(l logFlags, lines iter.Seq2[drover.Line, error]) error {
	out := echo.NewPage(a.Out)
	found, err := a.printItemLines(out, l, lines)
	if e := out.Close(); err == nil && e != nil {
		err = fault.Wrap(e, fault.Full, "", "print output")
	}
	switch {
	case terminal.Closed(err):
		return nil
	case err == nil && l.search != "" && !found:
		return app.Status(fault.ExitItems) // as grep
	}
	return err
}

func (a Logs) printItemLines(out *echo.Page, l logFlags, lines iter.Seq2[drover.Line, error]) (found bool, err error) {
	enc := terminal.NewJSON(out)
	printed := false
	var text []byte
	for line, err := range lines {
		if err != nil {
			return found, err
		}
		found = found || line.Match
		if a.Settings.JSON {
			err = enc.Encode(line)
		} else {
			if text = text[:0]; line.Apart && l.around > 0 && printed {
				text = append(text, "--\n"...)
			}
			text = echo.AppendShown(l.appendHead(text, &line), line.Text, l.search != "" || terminal.IsTerminal(a.Out))
			_, err = out.Write(append(text, '\n'))
		}
		if printed = true; err != nil {
			return found, fault.Wrap(err, fault.Full, "", "print output")
		}
	}
	return found, nil
}

// checkItem refuses flags that mean nothing for a job, and gives whether the
// output is that of items.
func checkItem(ctx context.Context, cmd *cobra.Command, j *drover.Job, l logFlags) (many bool, err error) {
	if many, err = summary.IsMap(ctx, j); err != nil {
		return many, err
	}
	asked := cmd.Flags().Changed("item")
	switch {
	case !many && (asked || l.prefix):
		return many, fault.New(fault.Invalid, "Leave `--item` and `--prefix` out.", "read output of one item: job %s is not a map", j.Path().Job)
	case asked && l.item < 1:
		return many, fault.New(fault.Invalid, "Items are numbered from 1.", "read --item: %d", l.item)
	case many && len(l.nodes) > 0:
		return many, fault.New(fault.Invalid, "Use `--item`.", "read --node: job %s is a map, which has items and no nodes", j.Path().Job)
	}
	return many && l.source != "agent" && !l.agent, nil
}
