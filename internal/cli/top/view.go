package top

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/plot"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// screenLines is the whole screen: at most height lines, none wider than width. Rows
// go to what matters most first: the job's name, the selected node, its log.
func (s topState) screenLines() []string {
	var out []string
	switch {
	case s.Height < 1 || s.Width < 1:
		return nil
	case s.mode == topHelping:
		out = s.helpLines()
	case s.open == "":
		out = s.listLines()
	case s.job.many != nil:
		out = s.mapScreen()
	default:
		out = s.jobScreen()
	}
	out = out[:min(len(out), max(s.Height-1, 0))]
	for len(out) < s.Height-1 {
		out = append(out, "")
	}
	out = append(out, s.Paint("2", s.bottomLine()))
	for i := range out {
		out[i] = s.Cut(out[i], s.Width)
	}
	return out
}

func (s topState) helpLines() []string {
	return []string{"drover top", "",
		"up, down, k, j     select a job or a node", "enter              open the job", "esc                back to the whole log, then to the jobs",
		"/                  search the log: a regular expression, then enter", "page up, page down scroll the log; home, end",
		"c                  cancel the job; it asks", "q, Ctrl-C          quit; jobs go on", "",
		"Bars: cpu of the cores it used at most; mem of its limit, else of its peak; gpu of 100%.",
		"Small bars: the last five minutes. Any key goes back."}
}

// StateWord is a state as sign and word, padded; colour comes on top.
func (s topState) stateWord(state job.State, width int) string {
	code := map[job.State]string{job.Succeeded: "32", job.Failed: "31", job.Running: "36", job.Interrupted: "33", job.Paused: "33", job.Cancelled: "33"}[state]
	return s.Paint(code, s.Pad(state.Symbol()+" "+strings.ToLower(string(state)), width))
}

// markedLine is a line under the marker: with a sign, as colours never stand alone.
func (s topState) markedLine(on bool, line string) string {
	if !on {
		return "  " + line
	}
	return s.Paint("1", "▸") + " " + line
}

func (s topState) listLines() []string {
	head := fmt.Sprintf("drover top   %d live, %d more", s.countLive(), len(s.jobs)-s.countLive())
	if s.project != "" {
		head += "   project " + s.project
	}
	lines := []string{s.Paint("1", head)}
	if len(s.jobs) == 0 {
		text := "looking ..."
		if s.loaded {
			text = "no jobs yet   start one: drover run train.py"
		}
		return append(lines, "", text)
	}
	task := 4
	for _, j := range s.jobs {
		task = max(task, ansi.StringWidth(j.Project+"/"+j.Task))
	}
	task = min(task, max(s.Width/3, 10))
	if s.Height > 6 {
		lines = append(lines, "", "  "+s.Pad("JOB", 7)+s.Pad("TASK", task+2)+s.Pad("STATE", 14)+s.Pad("TRY", 4)+s.Pad("AGE", 8)+s.Pad("TIME", 8)+"NOTE")
	}
	room := max(s.Height-1-len(lines), 1)
	at := s.markerIndex()
	first := min(max(at-room/2, 0), max(len(s.jobs)-room, 0))
	for i, j := range s.jobs[first:min(first+room, len(s.jobs))] {
		line := s.Pad(j.ID, 7) + s.Pad(terminal.PlainText(j.Project+"/"+j.Task), task) + "  " + s.stateWord(j.State, 14) + s.Pad(fmt.Sprint(j.Attempt), 4) +
			s.Pad(terminal.Span(s.now.Sub(j.Submitted)), 8) + s.Pad(s.runningTime(j), 8) + terminal.PlainText(j.Reason)
		lines = append(lines, strings.TrimRight(s.markedLine(first+i == at, line), " "))
	}
	return lines
}

// runningTime is how long a job's program has run, by this screen's clock.
func (s topState) runningTime(j drover.Status) string {
	ran, ok := j.Ran(s.now)
	if !ok {
		return "-"
	}
	return terminal.Span(ran)
}

// topWide is from where on events stand beside the nodes, not below.
const topWide = 110

func (s topState) jobScreen() []string {
	j := s.job.status
	head := fmt.Sprintf("%s %s/%s  ", s.open, terminal.PlainText(j.Project), terminal.PlainText(j.Task))
	lines := []string{s.Paint("1", head) + s.stateWord(j.State, 0+len([]rune(j.State.Symbol()))+1+len(j.State)) + s.headingEnd()}
	rest := s.Height - 1 - len(lines) // the last line is for the keys
	if progress := s.metricsProgress(); progress != "" && rest >= 5 {
		lines = append(lines, progress)
		rest--
	}
	nodes := s.nodeLines()
	rows := min(len(nodes), max(rest/3, 1))
	events := min(len(s.job.events), max(rest/5, 0))
	switch {
	case rest < 3:
		events = 0
		rows = min(rows, max(rest-1, 0))
	case rest < 9:
		events = 0
	case s.Width >= topWide:
		events = min(len(s.job.events), max(rows, rest/3))
	}
	first := min(max(s.node-rows/2, 0), max(len(nodes)-rows, 0))
	nodes = nodes[first : first+rows]
	if s.Width >= topWide && events > 0 {
		lines = append(lines, s.sideBySide(nodes, events)...)
	} else {
		lines = append(lines, nodes...)
		if events > 0 {
			lines = append(append(lines, s.titleRule("events")), s.newestEvents(events, s.Width)...)
		}
	}
	if s.Height-1-len(lines) >= 3 {
		lines = append(lines, s.titleRule(s.logTitle()))
	}
	return append(lines, s.logLines(s.Height-1-len(lines))...)
}

func (s topState) headingEnd() string {
	j := s.job.status
	text := ""
	if j.Attempt > 1 {
		text += fmt.Sprintf("   attempt %d", j.Attempt)
	}
	text += "   " + s.runningTime(j)
	if j.Reason != "" {
		text += "   " + terminal.PlainText(j.Reason)
	}
	return text
}

// metricsProgress is what the metrics say that people watch most.
func (s topState) metricsProgress() string {
	metrics := plot.WithoutSettings(plot.MergeAttempts(s.job.series))
	plot.ByInterest(metrics)
	step := int64(0)
	var items []string
	seen := map[string]bool{}
	for _, m := range metrics {
		step = max(step, m.Points[len(m.Points)-1].Step)
		if seen[m.Name] || len(items) == 4 {
			continue
		}
		seen[m.Name] = true
		all := make([]float64, len(m.Points))
		for i, p := range m.Points {
			all[i] = p.Value
		}
		items = append(items, fmt.Sprintf("%s %s %s", terminal.PlainText(m.Name), plot.Figure(all[len(all)-1]), s.Trend(all, plot.SparkCells)))
	}
	if step > 0 {
		items = append([]string{fmt.Sprintf("step %d", step)}, items...)
	}
	if len(items) == 0 {
		return ""
	}
	return s.Flow("", items)[0]
}

// topWindow is how far back the small bars of a node reach.
const topWindow = 5 * time.Minute

// nodeLines is a line for each node. Cells are left out from the right where the
// screen is narrow, for all nodes alike.
func (s topState) nodeLines() []string {
	used := plot.ByNode(s.job.usage)
	var lines []string
	for _, n := range s.job.status.Nodes {
		cells := []string{s.Pad(fmt.Sprintf("%d", n.Rank), 3) + s.Pad(terminal.PlainText(n.State), 10)}
		if i := slices.IndexFunc(used, func(u plot.NodeUsage) bool { return u.Node == n.Rank }); i >= 0 {
			cells = append(cells, s.gaugeCells(used[i].Samples, s.nodesWidth() < 70)...)
		}
		cells = append(cells, s.Pad(terminal.PlainText(n.Host), 16))
		line := ""
		for _, c := range cells {
			if line != "" && ansi.StringWidth(line)+2+ansi.StringWidth(c)+2 > s.nodesWidth() {
				break
			}
			line = strings.TrimPrefix(line+"  "+c, "  ")
		}
		lines = append(lines, s.markedLine(n.Rank == s.node, strings.TrimRight(line, " ")))
	}
	if len(lines) == 0 {
		lines = append(lines, "  no node has started yet")
	}
	return lines
}

func (s topState) nodesWidth() int {
	if s.Width >= topWide {
		return s.Width * 6 / 10
	}
	return s.Width
}

// gaugeCells are the bars of a node, of the same width for every node; short ones
// leave out the small bars of the last minutes.
func (s topState) gaugeCells(samples []plot.Sample, short bool) (cells []string) {
	const cellsOfBar = 6
	now := samples[len(samples)-1]
	recent := samples[slices.IndexFunc(samples, func(x plot.Sample) bool { return now.Time.Sub(x.Time) <= topWindow }):]
	cell := func(head, figure string, digits int, all []float64, top float64) {
		if short {
			cells = append(cells, s.Pad(head+" "+figure, len("gpu ")+cellsOfBar+1+digits))
			return
		}
		cells = append(cells, s.Pad(head+" "+s.Pad(figure, digits)+" "+s.Spark(all, plot.SparkCells, top), len("gpu ")+cellsOfBar+1+digits+1+plot.SparkCells))
	}
	cpu := plot.Sampled(recent, func(x plot.Sample) float64 { return x.CPU })
	most := math.Ceil(plot.Peak(plot.Sampled(samples, func(x plot.Sample) float64 { return x.CPU })))
	cell("cpu "+s.Bar(now.CPU, most, cellsOfBar), strings.TrimPrefix(plot.Cores(now.CPU), "cpu "), 4, cpu, most)
	if len(now.GPU) > 0 {
		util := plot.Sampled(recent, func(x plot.Sample) float64 { return meanUtil(x.GPU) })
		last := util[len(util)-1]
		figure := fmt.Sprintf("%.0f%%", last)
		if len(now.GPU) > 1 {
			figure += fmt.Sprintf(" ×%d", len(now.GPU))
		}
		cell("gpu "+s.Bar(last, 100, cellsOfBar), figure, 7, util, 100)
	}
	whole := float64(now.MemoryLimit)
	if whole <= 0 {
		whole = plot.Peak(plot.Sampled(samples, func(x plot.Sample) float64 { return float64(x.Memory) }))
	}
	figure := plot.OfLimit(now.Memory, now.MemoryLimit)
	if short {
		figure = terminal.Size(now.Memory)
	}
	return append(cells, s.Pad("mem "+s.Bar(float64(now.Memory), whole, cellsOfBar)+" "+figure, len("mem ")+cellsOfBar+1+len(figure)))
}

func meanUtil(gpus []plot.GPUSample) float64 {
	if len(gpus) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, g := range gpus {
		sum += g.Util
	}
	return sum / float64(len(gpus))
}

// newestEvents are the newest n, the newest last.
func (s topState) newestEvents(n, width int) (lines []string) {
	all := s.job.events
	for _, e := range all[max(len(all)-n, 0):] {
		lines = append(lines, s.Cut("  "+e.Time.Local().Format(time.TimeOnly)+"  "+s.Pad(terminal.PlainText(e.Kind), 9)+"  "+terminal.PlainText(e.Text), width))
	}
	return lines
}

func (s topState) sideBySide(nodes []string, events int) (lines []string) {
	left := s.nodesWidth()
	right := s.newestEvents(events, s.Width-left-3)
	for i := range max(len(nodes), len(right)) {
		l, r := "", ""
		if i < len(nodes) {
			l = nodes[i]
		}
		if i < len(right) {
			r = right[i]
		}
		lines = append(lines, s.Pad(l, left)+" │ "+r)
	}
	return lines
}

func (s topState) titleRule(title string) string {
	return s.Paint("2", "── "+title+" "+strings.Repeat("─", max(s.Width-ansi.StringWidth(title)-4, 0)))
}

func (s topState) logTitle() string {
	title := "log"
	if len(s.job.status.Nodes) > 1 && s.job.many == nil {
		title += fmt.Sprintf(" of node %d", s.node)
	}
	if s.search != nil {
		title += fmt.Sprintf(": %s with %q", terminal.Count(len(s.foundLines()), "line"), strings.TrimPrefix(s.search.String(), "(?i)"))
	}
	if s.back > 0 {
		title += fmt.Sprintf(", %d back", s.back)
	}
	return title
}

// logLines are the last lines that are not scrolled past; those that a search
// left show what it found.
func (s topState) logLines(rows int) (lines []string) {
	if rows < 1 {
		return nil
	}
	all := s.foundLines()
	end := max(len(all)-s.back, min(rows, len(all)))
	for _, text := range all[max(end-rows, 0):end] {
		if s.search != nil && s.Colour {
			text = s.search.ReplaceAllStringFunc(text, func(hit string) string { return s.Paint("7", hit) })
		}
		lines = append(lines, text)
	}
	return lines
}
