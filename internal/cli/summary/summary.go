// Package summary puts a job, its spec and its figures into lines that several verbs
// print. It prints nothing itself. Proved by the screens of these verbs.
package summary

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// AttemptWords is " after 3 attempts", or " (attempt 3, 1 interruption, 1 failure)".
func AttemptWords(st drover.Status) string {
	switch {
	case st.Attempt <= 1:
		return ""
	case st.Interruptions == 0:
		return fmt.Sprintf(" after %d attempts", st.Attempt)
	}
	words := fmt.Sprintf(" (attempt %d, %s", st.Attempt, terminal.Count(st.Interruptions, "interruption"))
	if st.Failures > 0 {
		words += ", " + terminal.Count(st.Failures, "failure")
	}
	return words + ")"
}

// RunTime is how long a job has run, "-" before its start.
func RunTime(s drover.Status) string {
	ran, ok := s.Ran(time.Now())
	if !ok {
		return "-"
	}
	return terminal.Span(ran)
}

// NodeWords say what the record's words for a node's state mean.
var NodeWords = map[string]string{"asked": "stopped on request", "lost": "lost, because its agent died", "notice": "stopped, because its machine was taken away"}

// CodeLine is "/home/me/proj at commit 4f2a..., with changes"; "" where it is not known.
func CodeLine(s drover.Status) string {
	line := s.Root
	if s.Commit != "" {
		line += " at commit " + s.Commit
	}
	if s.Dirty {
		line += ", with changes"
	}
	return terminal.PlainText(line)
}

// From says where items come from.
func From(typed string) string {
	if typed == "-" {
		return "standard input"
	}
	return terminal.PlainText(typed)
}

// SlotsLine is "8 at once on each of 2 workers, each with 2 cores, tried up to 3 times".
func SlotsLine(s job.Spec) string {
	line := "one at once for each core"
	if s.Stream {
		line = "one stream program for each core"
	}
	switch {
	case s.Slots > 0:
		line = terminal.Comma(s.Slots) + " at once"
		if s.Stream {
			line = terminal.Count(s.Slots, "program") + " that " + map[bool]string{true: "stays", false: "stay"}[s.Slots == 1]
		}
	case s.CPUs > 0 || s.Memory > 0 || s.GPUs > 0:
		line = "as many at once as fit"
	}
	if s.Workers > 1 {
		line += " on each of " + terminal.Comma(s.Workers) + " workers"
	}
	each := limitsOf(s)
	if s.ItemTimeout > 0 {
		each = append(each, "up to "+s.ItemTimeout.String())
	}
	if len(each) > 0 {
		line += ", each with " + strings.Join(each, ", ")
	}
	if s.Retries > 0 {
		line += ", tried up to " + terminal.Count(s.Retries+1, "time")
		if len(s.RetryOn) > 0 {
			line += " (after " + strings.Join(s.RetryOn, ", ") + " alone)"
		}
		if s.MemoryStep > 1 {
			line += fmt.Sprintf(", with %gx the memory after each time it ran out, at most %s", s.MemoryStep, s.Memory.Stepped(s.MemoryStep, s.Retries, 0).Words())
		}
	}
	if s.MaxFails != "" {
		line += "; it stops when more than " + s.MaxFails + " have failed"
	}
	return line
}

// limitsOf is what each item of a map may use.
func limitsOf(s job.Spec) (words []string) {
	if s.CPUs > 0 {
		words = append(words, terminal.CoreWords(s.CPUs))
	}
	if s.Memory > 0 {
		words = append(words, s.Memory.Words()+" of memory")
	}
	if s.GPUs > 0 {
		words = append(words, terminal.Count(s.GPUs, "GPU"))
	}
	if s.Processes > 0 {
		words = append(words, terminal.Processes(s.Processes))
	}
	return words
}

// UsesItem says whether something in a command could stand for the item, or the
// program gets it by its standard input.
func UsesItem(s job.Spec) bool {
	holds := func(arg string) bool { return strings.Contains(arg, "{") }
	return s.Stdin || slices.ContainsFunc(append([]string{s.Program}, s.Args...), holds) || strings.Contains(strings.Join(append([]string{s.Program}, s.Args...), " "), "DROVER_ITEM")
}

// LastOnes is "2 items run on to their end, 88 are left".
func LastOnes(s drover.Status) string {
	running := min(s.Running, s.Items.Open())
	left := s.Items.Open() - running
	verb := map[bool]string{true: "is", false: "are"}[left == 1]
	switch running {
	case 0:
		return fmt.Sprintf("nothing runs, %s %s left", terminal.Comma(left), verb)
	case 1:
		return fmt.Sprintf("1 item runs to its end, %s %s left", terminal.Comma(left), verb)
	}
	return fmt.Sprintf("%s items run to their end, %s %s left", terminal.Comma(running), terminal.Comma(left), verb)
}

// PausedSince is "by ann at 2026-11-22 05:11:07: lunch".
func PausedSince(s drover.Status) string {
	text := ""
	if s.PausedBy != "" {
		text = "by " + s.PausedBy + " "
	}
	text += "at " + s.PausedAt.Local().Format(time.DateTime)
	if s.PausedWhy != "" {
		text += ": " + s.PausedWhy
	}
	return text
}

// CostLines say what a bucket's owner pays for the requests of the job: "store  about
// 1,900 requests, $0.01 at S3's prices, and 90, $0.0002, for each minute of work". A
// folder costs nothing; --json has for it what a bucket would cost.
func CostLines(p *drover.Plan) []string {
	c := p.Cost
	if !c.Here {
		return nil
	}
	return []string{fmt.Sprintf("store    about %s, %s at %s's prices, and %s, %s, for each minute of work",
		terminal.Count(c.Requests.Sum(), "request"), c.Of(c.Requests), c.Price.Name, terminal.Comma(c.Minute.Sum()), c.Of(c.Minute))}
}

// CostJSON is what --plan --json says of it.
func CostJSON(p *drover.Plan) map[string]any {
	c := p.Cost
	counts := func(r drover.Requests) map[string]any {
		return map[string]any{"writes": r.Writes, "lists": r.Lists, "reads": r.Reads, "dollars": float64(c.Of(r))}
	}
	return map[string]any{"object_store": c.Here, "prices": c.Price.Name, "region": c.Price.Region, "source": c.Price.Source, "day": c.Price.Day,
		"whole": counts(c.Requests), "minute": counts(c.Minute)}
}

// NodesLine is "2, 4 processes on each by mpi, 1 GPU each"; "" for one plain node.
func NodesLine(s job.Spec) string {
	if s.Verb == job.Map {
		return "" // it has workers: SlotsLine
	}
	line := fmt.Sprint(s.Nodes)
	if s.Procs > 1 {
		line += fmt.Sprintf(", %d processes on each", s.Procs)
	}
	if s.Launcher != job.Alone {
		line += ", started by " + string(s.Launcher)
	}
	if s.GPUs > 0 {
		line += ", " + terminal.Count(s.GPUs, "GPU") + " each"
	}
	if line == "1" {
		return ""
	}
	return line
}

// CrowdLine says that more agents are to be on one machine than it has cores.
func CrowdLine(p driver.Properties, o driver.Offer, agents int, what string) []string {
	if !p.Attached || o.Cores == 0 || agents <= o.Cores {
		return nil
	}
	return []string{fmt.Sprintf("         all %s %s are on this one machine, and share its %s", terminal.Comma(agents), what, terminal.Count(o.Cores, "core"))}
}

// LimitsLine says what a job may use; "" when nothing is limited.
func LimitsLine(s job.Spec) string {
	var words []string
	if s.Verb == job.Map {
		s.Limits = job.Limits{Disk: s.Disk} // the rest is each item's: SlotsLine
	}
	if s.CPUs > 0 {
		words = append(words, terminal.CoreWords(s.CPUs))
	}
	if s.Memory > 0 {
		words = append(words, s.Memory.Words()+" of memory")
	}
	if s.Disk > 0 {
		words = append(words, s.Disk.Words()+" of disk")
	}
	if s.Processes > 0 {
		words = append(words, terminal.Processes(s.Processes))
	}
	if s.Queue != job.DefaultQueue && s.Queue != "" {
		words = append(words, "queue "+s.Queue)
	}
	if s.Priority != 0 {
		words = append(words, fmt.Sprintf("priority %d", s.Priority))
	}
	return strings.Join(words, ", ")
}
