package cli

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
	"github.com/drover-run/drover/internal/record"
)

// metricsVerb is drover metrics.
type metricsVerb struct{ *app }

func newMetricsVerb(a *app) metricsVerb { return metricsVerb{a} }

// metricsFlags are what drover metrics was asked for.
type metricsFlags struct {
	csv, usage    bool
	node, attempt int // -1: all
	names         []string
}

func (a metricsVerb) command() *cobra.Command {
	var m metricsFlags
	c := &cobra.Command{Use: "metrics [JOB] [NAME ...]", Short: "Plot the numbers a job printed, and what it used", Args: cobra.ArbitraryArgs, ValidArgsFunction: a.completeMetrics}
	a.addStoreFlags(c)
	a.addJSONFlag(c)
	f := c.Flags()
	f.BoolVar(&m.csv, "csv", false, "print every point: time,attempt,node,name,step,value")
	f.BoolVar(&m.usage, "usage", false, "plot processor, memory, disk, network and GPU instead")
	f.IntVar(&m.node, "node", -1, "of this node alone")
	f.IntVar(&m.attempt, "attempt", -1, "of this attempt alone (default: all, joined where one went on)")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if m.csv && a.settings.json {
			return fault.New(fault.Invalid, "Use one of them.", "read command line: both --csv and --json")
		}
		j, s, err := a.jobAndStatus(cmd.Context(), args[:min(len(args), 1)])
		if err != nil {
			return err
		}
		if f.Changed("node") {
			if err := checkNodes(cmd.Context(), j, []int{m.node}); err != nil {
				return err
			}
		}
		if f.Changed("attempt") && (m.attempt < 1 || m.attempt > s.Attempt) {
			hint := fmt.Sprintf("Its attempts are 1 to %d.", s.Attempt)
			if s.Attempt == 0 {
				hint = "It has not begun: drover status " + s.ID + " says what it waits for."
			}
			return fault.New(fault.Invalid, hint, "read --attempt: job %s has no attempt %d", s.ID, m.attempt)
		}
		m.names = args[min(len(args), 1):]
		var o drover.MetricOptions // not the names: who mistypes one is told what there is
		if m.node >= 0 {
			o.Nodes = []int{m.node}
		}
		if m.attempt >= 0 {
			o.Attempts = []int{m.attempt}
		}
		all, used, err := measures(cmd.Context(), j, o)
		if err != nil {
			return err
		}
		return a.printMetrics(s, m, all, used)
	}
	return c
}

// printMetrics shows what is left of a job's numbers after the flags.
func (a metricsVerb) printMetrics(s drover.Status, m metricsFlags, all []series, used []nodeUsage) error {
	wanted := func(node, attempt int) bool {
		return (m.node < 0 || node == m.node) && (m.attempt < 0 || attempt == m.attempt)
	}
	used = slices.DeleteFunc(used, func(u nodeUsage) bool { return !wanted(u.Node, u.Attempt) })
	if m.usage {
		all = usageSeries(used)
	}
	all = slices.DeleteFunc(all, func(one series) bool { return !wanted(one.Node, one.Attempt) })
	if err := checkMetricNames(s, m, all); err != nil {
		return err
	}
	if len(m.names) > 0 {
		all = slices.DeleteFunc(all, func(one series) bool { return !slices.Contains(m.names, one.Name) })
	}
	switch {
	case a.settings.json:
		return metricsJSON(a.out, s, all, used)
	case m.csv:
		return metricsCSV(a.escapedOutput(), all)
	}
	p := a.newPaper()
	fmt.Fprintln(a.out, p.cut(headline(p, s, all, time.Now()), p.width))
	for _, line := range metricLines(p, s, m, all) {
		fmt.Fprintln(a.out, line)
	}
	if !m.usage {
		for _, line := range usageLines(p, used) {
			fmt.Fprintln(a.out, line)
		}
	}
	if len(all) == 0 {
		what := "no metrics yet"
		if s.State.Settled() {
			what = "no metrics"
		}
		a.note("%s: drover finds name=number in what a program prints; say otherwise with run --metric", what)
	}
	return nil
}

// checkMetricNames refuses a metric that was not printed.
func checkMetricNames(s drover.Status, m metricsFlags, all []series) error {
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
			hint = "Did you mean " + plainText(near) + "?"
		} else if len(there) > 0 {
			hint = "It has " + plainText(strings.Join(there[:min(len(there), 20)], ", ")) + "."
		}
		return fault.New(fault.Missing, hint, "plot metrics: job %s has no metric %q", s.ID, name)
	}
	return nil
}

// newPaper is the terminal that stdout is, or 80 columns of ASCII.
func (a metricsVerb) newPaper() paper {
	p := paper{width: 80, height: 10, ascii: true}
	out, ok := a.out.(*os.File)
	if !ok || !term.IsTerminal(int(out.Fd())) {
		return p
	}
	p.ascii, p.colour = os.Getenv("TERM") == "dumb", wantColour(out)
	if w, h, err := term.GetSize(int(out.Fd())); err == nil && w > 0 {
		p.width, p.height = max(w, 20), min(max(h/3, 5), 15)
	}
	return p
}

// headline says whose numbers these are, and how fresh.
func headline(p paper, s drover.Status, all []series, now time.Time) string {
	symbol := s.State.Symbol() + " "
	if p.ascii {
		symbol = ""
	}
	parts := []string{fmt.Sprintf("%s %s/%s %s%s", s.ID, s.Project, s.Task, symbol, strings.ToLower(string(s.State)))}
	if s.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", s.Attempt))
	}
	var newest point
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
		parts = append(parts, "in "+runTime(s))
	case !newest.Time.IsZero():
		parts = append(parts, "newest "+span(now.Sub(newest.Time))+" ago")
	}
	dot := " · "
	if p.ascii {
		dot = ", "
	}
	return strings.Join(parts, dot)
}

// metricLines are the plots with their legends, and what else there is.
func metricLines(p paper, s drover.Status, m metricsFlags, all []series) (lines []string) {
	merged := mergeAttempts(all)
	several := slices.ContainsFunc(merged, func(one track) bool { return one.node != merged[0].node })
	var shown [][]track
	var others []string
	switch {
	case m.usage && len(m.names) == 0:
		p.height = max(p.height/2, 4) // there are many
		for _, one := range merged {
			if lo, hi, _ := one.bounds(); lo.Value == 0 && hi.Value == 0 {
				continue
			}
			if i := slices.IndexFunc(shown, func(p []track) bool { return p[0].name == one.name && len(p) < len(strokes) }); i >= 0 {
				shown[i] = append(shown[i], one)
			} else {
				shown = append(shown, []track{one})
			}
		}
	case len(m.names) > 0:
		slices.SortStableFunc(merged, func(x, y track) int { return slices.Index(m.names, x.name) - slices.Index(m.names, y.name) })
		shown = plots(merged)
	default:
		shown, others = interesting(merged)
	}
	for _, plot := range shown {
		cs, over := curves(plot, several)
		under := seconds
		if over == "step" {
			under = func(x float64) string { return figure(math.Round(x)) }
		}
		drawn := p.draw(cs, under, unit(plot[0].name, m.usage))
		if drawn == nil {
			drawn = []string{"  nothing but NaN or infinity:"}
		}
		lines = append(append(lines, drawn...), p.flow("  ", p.legend(plot, several, m.usage))...)
	}
	if len(others) > 0 {
		for i := range others {
			others[i] = plainText(others[i])
		}
		lines = append(lines, p.cut("also: "+strings.Join(others, ", ")+"   drover metrics "+s.ID+" "+others[0], p.width))
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

func metricsJSON(out io.Writer, s drover.Status, all []series, used []nodeUsage) error {
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
		V      int         `json:"v"`
		Job    string      `json:"job"`
		Series []line      `json:"series"`
		Usage  []nodeUsage `json:"usage"`
	}{1, s.Job, []line{}, used}
	if used == nil {
		doc.Usage = []nodeUsage{}
	}
	for _, one := range all {
		l := line{one.Name, one.Node, one.Attempt, []dot{}}
		for _, q := range one.Points {
			l.Points = append(l.Points, dot{q.Time, q.Step, noNumber(q.Value)})
		}
		doc.Series = append(doc.Series, l)
	}
	return newJSON(out).Encode(doc)
}

func metricsCSV(out io.Writer, all []series) error {
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
func (a metricsVerb) completeMetrics(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeJobs(cmd, args, typed)
	}
	j, err := a.findJob(cmd.Context(), args[:1])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := j.Metrics(cmd.Context(), drover.MetricOptions{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, one := range all {
		name := string(record.Escape([]byte(one.Name), false))
		if name == one.Name && !slices.Contains(names, name) && !slices.Contains(args[1:], name) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
