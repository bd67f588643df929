package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

func (a *app) statusCommand() *cobra.Command {
	all := false
	c := &cobra.Command{Use: "status [JOB]", Aliases: []string{"ps", "ls"}, Short: "Jobs and their progress; one job in full with an id",
		Args: atMostOne, ValidArgsFunction: a.completeJobs}
	a.storeFlags(c)
	a.jsonFlag(c)
	c.Flags().BoolVarP(&all, "all", "a", false, "all jobs, not the newest 20")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return a.statusOf(cmd, args)
		}
		return a.statusList(cmd, all)
	}
	return c
}

const newest = 20

func (a *app) statusList(cmd *cobra.Command, all bool) error {
	ctx := cmd.Context()
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	jobs, err := c.Jobs(ctx, a.settings.project)
	if err != nil {
		return err
	}
	slices.Reverse(jobs)
	left := 0
	if !all && len(jobs) > newest {
		left, jobs = len(jobs)-newest, jobs[:newest]
	}
	list := []drover.Status{}
	for _, j := range jobs {
		s, err := j.Status(ctx)
		if err != nil && fault.KindOf(err) == fault.Missing {
			continue // withdrawn or removed
		}
		if err != nil {
			return err
		}
		list = append(list, s)
	}
	if a.settings.json {
		return json.NewEncoder(a.out).Encode(list)
	}
	if len(list) == 0 {
		a.note("no jobs yet   start one: drover run train.py")
		return nil
	}
	t := newTable(a.out, "JOB", "TASK", "STATE", "ATTEMPT", "AGE", "TIME", "NOTE")
	for _, s := range list {
		t.row(s.ID, s.Project+"/"+s.Task, s.State.Symbol()+" "+strings.ToLower(string(s.State)), fmt.Sprint(s.Attempt),
			span(time.Since(s.Submitted)), runTime(s), s.Reason)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if left > 0 {
		a.note("%s more: drover status -a", count(left, "job"))
	}
	return nil
}

func runTime(s drover.Status) string {
	switch {
	case s.Started.IsZero():
		return "-"
	case s.Ended.IsZero():
		return span(time.Since(s.Started))
	}
	return span(s.Ended.Sub(s.Started))
}

func (a *app) statusOf(cmd *cobra.Command, args []string) error {
	j, s, err := a.look(cmd.Context(), args)
	if err != nil {
		return err
	}
	if a.settings.json {
		return json.NewEncoder(a.out).Encode(s)
	}
	rec, err := j.Spec(cmd.Context())
	if err != nil {
		return err
	}
	p := func(key, format string, args ...any) {
		fmt.Fprintf(a.out, "  %-10s %s\n", key, plainText(fmt.Sprintf(format, args...)))
	}
	fmt.Fprintf(a.out, "%s %s/%s %s %s\n", s.ID, s.Project, s.Task, s.State.Symbol(), s.State)
	if s.Reason != "" {
		p("reason", "%s", s.Reason)
	}
	if s.Message != "" {
		p("message", "%s", s.Message)
	}
	p("command", "%s", strings.Join(s.Command, " "))
	if line := nodesLine(rec.Spec); line != "" {
		p("nodes", "%s", line)
	}
	p("submitted", "%s by %s on %s", s.Submitted.Local().Format(time.DateTime), s.User, s.Host)
	if !s.Started.IsZero() {
		p("started", "%s, %s", s.Started.Local().Format(time.DateTime), runTime(s))
	}
	p("attempt", "%d (%s, %s)", s.Attempt, count(s.Interruptions, "interruption"), count(s.Failures, "failure"))
	if s.Code != nil {
		p("exit", "%d", *s.Code)
	}
	for _, n := range s.Nodes {
		line := n.State
		if n.Host != "" {
			line += " on " + n.Host
		}
		if n.MaxRSS > 0 {
			line += fmt.Sprintf(", %.1fs of processor time, %s of memory", n.CPU, size(n.MaxRSS))
		}
		if n.Saved > 0 {
			line += fmt.Sprintf(", %s saved", count(n.Saved, "checkpoint"))
		}
		p(fmt.Sprintf("node %d", n.Rank), "%s", line)
		for _, note := range n.Notes {
			p("", "note: %s", note)
		}
	}
	return nil
}

func (a *app) logsCommand() *cobra.Command {
	var follow, agent bool
	var search string
	var around int
	var nodes []int
	c := &cobra.Command{Use: "logs [JOB]", Short: "Print, follow or search what a job printed", Args: atMostOne, ValidArgsFunction: a.completeJobs}
	a.storeFlags(c)
	a.jsonFlag(c)
	f := c.Flags()
	f.BoolVarP(&follow, "follow", "f", false, "go on until the job has ended")
	f.StringVar(&search, "search", "", "only lines that this regular expression matches")
	f.IntVarP(&around, "context", "C", 0, "with --search: lines before and after each match")
	f.IntSliceVar(&nodes, "node", nil, "only what these nodes printed, such as 0 or 1,2")
	f.BoolVar(&agent, "agent", false, "drover's own notes instead")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := a.find(cmd.Context(), args)
		if err != nil {
			return err
		}
		if err := a.checkNodes(cmd.Context(), j, nodes); err != nil {
			return err
		}
		o := drover.LogOptions{Follow: follow, Agent: agent, Nodes: nodes}
		if follow {
			o.Enough = a.untilIdle(cmd.Context(), j)
		}
		if search == "" && !a.settings.json {
			return a.rawLogs(cmd, j, o)
		}
		re, err := regexp.Compile(search)
		if err != nil {
			return fault.Wrap(err, fault.Invalid, "Quote special letters with \\, as in 'loss=0\\.1'.", "read --search %q", search)
		}
		return a.searchLogs(cmd, j, o, re, around)
	}
	return c
}

// untilIdle is closed when nobody works on the job any more: there is nothing to
// wait for then until somebody goes on with it.
func (a *app) untilIdle(ctx context.Context, j *drover.Job) <-chan struct{} {
	idle := make(chan struct{})
	go func() { // ends with the command, or before
		s, err := j.Until(ctx, 0)
		if err == nil && s.State == job.Interrupted {
			a.note("%s is interrupted   go on: drover resume %s", s.ID, s.ID)
			close(idle)
		}
	}()
	return idle
}

// rawLogs prints bytes as they were.
func (a *app) rawLogs(cmd *cobra.Command, j *drover.Job, o drover.LogOptions) error {
	rec, err := j.Spec(cmd.Context())
	if err != nil {
		return err
	}
	p := newPrinter(rec.Spec, o.Nodes)
	defer p.finish(all)
	for out, err := range j.Logs(cmd.Context(), o) {
		if err != nil {
			return err
		}
		if err := p.print(out); err != nil {
			return fault.Wrap(err, fault.Full, "", "print output")
		}
	}
	return nil
}

func (a *app) searchLogs(cmd *cobra.Command, j *drover.Job, o drover.LogOptions, re *regexp.Regexp, around int) error {
	found, printed := 0, false
	enc := json.NewEncoder(a.out)
	for l, err := range j.Search(cmd.Context(), o, re, around, around) {
		if err != nil {
			return err
		}
		if l.Match {
			found++
		}
		if a.settings.json {
			if err := enc.Encode(l); err != nil {
				return err
			}
			continue
		}
		if l.Apart && around > 0 && printed { // between groups, as grep does
			fmt.Fprintln(a.out, "--")
		}
		printed = true
		if _, err := fmt.Fprintf(a.out, "%s\n", record.Escape([]byte(l.Text), true)); err != nil {
			return nil
		}
	}
	if found == 0 && re.String() != "" {
		return status(fault.ExitItems) // as grep
	}
	return nil
}

func (a *app) eventsCommand() *cobra.Command {
	follow := false
	c := &cobra.Command{Use: "events [JOB]", Short: "What happened, in order", Args: atMostOne, ValidArgsFunction: a.completeJobs}
	a.storeFlags(c)
	a.jsonFlag(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the job has ended")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := a.find(cmd.Context(), args)
		if err != nil {
			return err
		}
		enc := json.NewEncoder(a.out)
		show := func(e job.Event) error {
			if a.settings.json {
				return enc.Encode(e)
			}
			_, err := fmt.Fprintf(a.out, "%s  %-9s  %s\n", e.Time.Local().Format("15:04:05.000"), e.Kind, plainText(e.Text))
			return err
		}
		if !follow {
			events, err := j.Events(cmd.Context())
			for _, e := range events {
				if err := show(e); err != nil {
					return err
				}
			}
			return err
		}
		for e, err := range j.Watch(cmd.Context()) {
			if err != nil {
				return err
			}
			if err := show(e); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

func (a *app) whyCommand() *cobra.Command {
	c := &cobra.Command{Use: "why [JOB]", Short: "Explain why a job failed, waits or stopped, and what would change it", Args: atMostOne, ValidArgsFunction: a.completeJobs}
	a.storeFlags(c)
	a.jsonFlag(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := a.find(cmd.Context(), args)
		if err != nil {
			return err
		}
		w, err := j.Why(cmd.Context())
		if err != nil {
			return err
		}
		if a.settings.json {
			return json.NewEncoder(a.out).Encode(w)
		}
		fmt.Fprintf(a.out, "%s %s/%s %s: %s\n", w.ID, w.Project, w.Task, w.State, plainText(w.Answer))
		for _, line := range w.Detail {
			fmt.Fprintf(a.out, "  %s\n", record.Escape([]byte(line), false))
		}
		if w.Next != "" {
			fmt.Fprintf(a.out, "Next: %s\n", plainText(w.Next))
		}
		return nil
	}
	return c
}

func (a *app) getCommand() *cobra.Command {
	output := ""
	c := &cobra.Command{Use: "get [JOB]", Short: "Bring model, outputs, files and logs", Args: atMostOne, ValidArgsFunction: a.completeJobs}
	a.storeFlags(c)
	c.Flags().StringVarP(&output, "output", "o", "", "folder to put them in (default: the job's id)")
	c.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "no notes")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, s, err := a.look(cmd.Context(), args)
		if err != nil {
			return err
		}
		if output == "" {
			output = s.ID
			if _, err := os.Lstat(output); !errors.Is(err, fs.ErrNotExist) {
				return fault.New(fault.Invalid, "Choose a folder: drover get "+s.ID+" -o out.", "get outputs: %q is there already", output)
			}
		}
		got, err := j.Get(cmd.Context(), output)
		if err != nil {
			return err
		}
		a.note("%s %s/%s %s", s.ID, s.Project, s.Task, strings.ToLower(string(s.State)))
		a.printGot(got, output)
		return nil
	}
	return c
}
