package look

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/plot"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/internal/record/screen"
)

// Metrics is drover metrics.
type Metrics struct{ *app.App }

// NewMetrics returns a Metrics of an invocation.
func NewMetrics(a *app.App) Metrics { return Metrics{a} }

// metricsFlags are what drover metrics was asked for.
type metricsFlags struct {
	csv, usage    bool
	node, attempt int // -1: all
	names         []string
}

// Command returns the verb's command, with its flags.
func (a Metrics) Command() *cobra.Command {
	var m metricsFlags
	c := &cobra.Command{Use: "metrics [JOB] [NAME ...]", Short: "Plot the numbers a job printed, and what it used", Args: cobra.ArbitraryArgs, ValidArgsFunction: a.completeMetrics}
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
	f := c.Flags()
	f.BoolVar(&m.csv, "csv", false, "print every point: time,attempt,node,name,step,value")
	f.BoolVar(&m.usage, "usage", false, "plot processor, memory, disk, network and GPU instead")
	f.IntVar(&m.node, "node", -1, "of this node alone")
	f.IntVar(&m.attempt, "attempt", -1, "of this attempt alone (default: all, joined where one went on)")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if m.csv && a.Settings.JSON {
			return fault.New(fault.Invalid, "Use one of them.", "read command line: both --csv and --json")
		}
		j, s, err := a.JobAndStatus(cmd.Context(), args[:min(len(args), 1)])
		if err != nil {
			return err
		}
		if f.Changed("node") {
			if err := summary.CheckNodes(cmd.Context(), j, []int{m.node}); err != nil {
				return err
			}
		}
		if f.Changed("attempt") && (m.attempt < 1 || m.attempt > s.Attempt) {
			hint := fmt.Sprintf("Its attempts are 1 to %d.", s.Attempt)
			if s.Attempt == 0 {
				hint = "It has not begun: `drover status " + s.ID + "` says what it waits for."
			}
			return fault.New(fault.Invalid, hint, "read --attempt: job %s has no attempt %d", s.ID, m.attempt)
		}
		m.names = args[min(len(args), 1):]
		var o drover.MetricOptions // not the names: a mistyped one is answered with those there are
		if m.node >= 0 {
			o.Nodes = []int{m.node}
		}
		if m.attempt >= 0 {
			o.Attempts = []int{m.attempt}
		}
		all, used, err := plot.Measures(cmd.Context(), j, o)
		if err != nil {
			return err
		}
		return a.printMetrics(s, m, all, used)
	}
	return c
}

// printMetrics shows what is left of a job's numbers after the flags.
func (a Metrics) printMetrics(s drover.Status, m metricsFlags, all []plot.Series, used []plot.NodeUsage) error {
	wanted := func(node, attempt int) bool {
		return (m.node < 0 || node == m.node) && (m.attempt < 0 || attempt == m.attempt)
	}
	used = slices.DeleteFunc(used, func(u plot.NodeUsage) bool { return !wanted(u.Node, u.Attempt) })
	if m.usage {
		all = plot.UsageSeries(used)
	}
	all = slices.DeleteFunc(all, func(one plot.Series) bool { return !wanted(one.Node, one.Attempt) })
	if err := checkMetricNames(s, m, all); err != nil {
		return err
	}
	if len(m.names) > 0 {
		all = slices.DeleteFunc(all, func(one plot.Series) bool { return !slices.Contains(m.names, one.Name) })
	}
	switch {
	case a.Settings.JSON:
		return metricsJSON(a.Out, s, all, used)
	case m.csv:
		return metricsCSV(a.EscapedOutput(), all)
	}
	p := a.newPaper()
	fmt.Fprintln(a.Out, p.Cut(headline(p, s, all, time.Now()), p.Width))
	for _, line := range metricLines(p, s, m, all) {
		fmt.Fprintln(a.Out, line)
	}
	if !m.usage {
		for _, line := range plot.UsageLines(p, used) {
			fmt.Fprintln(a.Out, line)
		}
	}
	if len(all) == 0 {
		what := "no metrics yet"
		if s.State.Settled() {
			what = "no metrics"
		}
		a.Note("%s: drover finds name=number in what a program prints; say otherwise with run --metric", what)
	}
	return nil
}

// checkMetricNames refuses a metric that was not printed.
func checkMetricNames(s drover.Status, m metricsFlags, all []plot.Series) error {
	var there []string
	for _, one := range all {
		if !slices.Contains(there, one.Name) {
			there = append(there, one.Name)
		}
	}
	for _, name := range m.names {
		if slices.Contains(there, name) {
			continue
		}
		hint := "It has none so far."
		if near := fault.Nearest(name, there); near != "" {
			hint = "Did you mean " + terminal.PlainText(near) + "?"
		} else if len(there) > 0 {
			hint = "It has " + terminal.PlainText(strings.Join(there[:min(len(there), 20)], ", ")) + "."
		}
		return fault.New(fault.Missing, hint, "plot metrics: job %s has no metric %q", s.ID, name)
	}
	return nil
}

// newPaper is the terminal that stdout is, or 80 columns of ASCII.
func (a Metrics) newPaper() plot.Paper {
	p := plot.Paper{Width: 80, Height: 10, Ascii: true}
	out, ok := a.Out.(*os.File)
	if !ok || !term.IsTerminal(int(out.Fd())) {
		return p
	}
	p.Ascii, p.Colour = os.Getenv("TERM") == "dumb", terminal.WantColour(out)
	if w, h, err := term.GetSize(int(out.Fd())); err == nil && w > 0 {
		p.Width, p.Height = max(w, 20), min(max(h/3, 5), 15)
	}
	return p
}

// headline names the job of these numbers, and how old they are.
func headline(p plot.Paper, s drover.Status, all []plot.Series, now time.Time) string {
	symbol := s.State.Symbol() + " "
	if p.Ascii {
		symbol = ""
	}
	parts := []string{fmt.Sprintf("%s %s/%s %s%s", s.ID, s.Project, s.Task, symbol, strings.ToLower(string(s.State)))}
	if s.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", s.Attempt))
	}
	var newest plot.Point
	step := int64(0)
	for _, one := range all {
		for _, q := range one.Points {
			step = max(step, q.Step)
			if q.Time.After(newest.Time) {
				newest = q
			}
		}
	}
	if step > 0 {
		parts = append(parts, fmt.Sprintf("step %d", step))
	}
	switch {
	case s.State.Settled():
		parts = append(parts, "in "+summary.RunTime(s))
	case !newest.Time.IsZero():
		parts = append(parts, "newest "+terminal.Span(now.Sub(newest.Time))+" ago")
	}
	dot := " · "
	if p.Ascii {
		dot = ", "
	}
	return strings.Join(parts, dot)
}

// metricLines are the plots with their legends, and what else there is.
func metricLines(p plot.Paper, s drover.Status, m metricsFlags, all []plot.Series) (lines []string) {
	merged := plot.MergeAttempts(all)
	several := slices.ContainsFunc(merged, func(one plot.Track) bool { return one.Node != merged[0].Node })
	var shown [][]plot.Track
	var others []string
	switch {
	case m.usage && len(m.names) == 0:
		p.Height = max(p.Height/2, 4) // there are many
		for _, one := range merged {
			if lo, hi, _ := one.Bounds(); lo.Value == 0 && hi.Value == 0 {
				continue
			}
			if i := slices.IndexFunc(shown, func(p []plot.Track) bool { return p[0].Name == one.Name && len(p) < len(plot.Strokes) }); i >= 0 {
				shown[i] = append(shown[i], one)
			} else {
				shown = append(shown, []plot.Track{one})
			}
		}
	case len(m.names) > 0:
		slices.SortStableFunc(merged, func(x, y plot.Track) int { return slices.Index(m.names, x.Name) - slices.Index(m.names, y.Name) })
		shown = plot.Plots(merged)
	default:
		shown, others = plot.Interesting(merged)
	}
	for _, one := range shown {
		cs, over := plot.Curves(one, several)
		under := plot.Seconds
		if over == "step" {
			under = func(x float64) string { return plot.Figure(math.Round(x)) }
		}
		drawn := p.Draw(cs, under, plot.Unit(one[0].Name, m.usage))
		if drawn == nil {
			drawn = []string{"  nothing but NaN or infinity:"}
		}
		lines = append(append(lines, drawn...), p.Flow("  ", p.Legend(one, several, m.usage))...)
	}
	if len(others) > 0 {
		for i := range others {
			others[i] = terminal.PlainText(others[i])
		}
		lines = append(lines, p.Cut("also: "+strings.Join(others, ", ")+"   drover metrics "+s.ID+" "+others[0], p.Width))
	}
	return lines
}

// noNumber is null where JSON has no word for a value.
type noNumber float64

func (v noNumber) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(v))
}

func metricsJSON(out io.Writer, s drover.Status, all []plot.Series, used []plot.NodeUsage) error {
	type dot struct {
		Time  time.Time `json:"time"`
		Step  int64     `json:"step"`
		Value noNumber  `json:"value"`
	}
	type line struct {
		Name    string `json:"name"`
		Node    int    `json:"node"`
		Attempt int    `json:"attempt"`
		Points  []dot  `json:"points"`
	}
	doc := struct {
		V      int              `json:"v"`
		Job    string           `json:"job"`
		Series []line           `json:"series"`
		Usage  []plot.NodeUsage `json:"usage"`
	}{1, s.Job, []line{}, used}
	if used == nil {
		doc.Usage = []plot.NodeUsage{}
	}
	for _, one := range all {
		l := line{one.Name, one.Node, one.Attempt, []dot{}}
		for _, q := range one.Points {
			l.Points = append(l.Points, dot{q.Time, q.Step, noNumber(q.Value)})
		}
		doc.Series = append(doc.Series, l)
	}
	return terminal.NewJSON(out).Encode(doc)
}

func metricsCSV(out io.Writer, all []plot.Series) error {
	w := csv.NewWriter(out)
	if err := w.Write([]string{"time", "attempt", "node", "name", "step", "value"}); err != nil {
		return err
	}
	for _, one := range all {
		for _, q := range one.Points {
			if err := w.Write([]string{q.Time.Format(time.RFC3339Nano), strconv.Itoa(one.Attempt), strconv.Itoa(one.Node), one.Name,
				strconv.FormatInt(q.Step, 10), strconv.FormatFloat(q.Value, 'g', -1, 64)}); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}

// completeMetrics offers jobs, then the names of the job's metrics.
func (a Metrics) completeMetrics(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.CompleteJobs(cmd, args, typed)
	}
	j, err := a.FindJob(cmd.Context(), args[:1])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := j.Metrics(cmd.Context(), drover.MetricOptions{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, one := range all {
		name := string(screen.Escape([]byte(one.Name), false))
		if name == one.Name && !slices.Contains(names, name) && !slices.Contains(args[1:], name) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
