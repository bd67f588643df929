package places

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// Worker is drover worker.
type Worker struct{ *app.App }

// NewWorker returns a Worker of an invocation.
func NewWorker(a *app.App) Worker { return Worker{a} }

// Command returns the verb's command, with its flags.
func (a Worker) Command() *cobra.Command {
	c := &cobra.Command{Use: "worker [JOB]", Short: "Agents of live jobs: where they are, what they do; drain one", Args: app.AtMostOne, ValidArgsFunction: a.CompleteJobs}
	list := &cobra.Command{Use: "ls [JOB]", Short: "Show the agents of live jobs, or of one", Args: app.AtMostOne, ValidArgsFunction: a.CompleteJobs}
	all := false
	for _, l := range []*cobra.Command{c, list} {
		a.AddStoreFlags(l)
		a.AddJSONFlag(l)
		l.Flags().BoolVarP(&all, "all", "a", false, "those that are gone, too")
		l.RunE = func(cmd *cobra.Command, args []string) error { return a.printWorkers(cmd.Context(), args, all) }
	}
	reason := ""
	drain := &cobra.Command{Use: "drain AGENT", Short: "Have an agent begin nothing new and leave; its job goes on without it", Args: app.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.drainWorker(cmd.Context(), args[0], reason) }}
	a.AddStoreFlags(drain)
	a.AddJSONFlag(drain)
	drain.Flags().StringVar(&reason, "reason", "", "reason, which is recorded")
	drain.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "no notes")
	c.AddCommand(list, drain)
	return c
}

func (a Worker) printWorkers(ctx context.Context, args []string, all bool) error {
	workers, err := a.listWorkers(ctx, args, all)
	bad, err := summary.Unreadable(err)
	if err != nil {
		return err
	}
	if a.Settings.JSON {
		if workers == nil {
			workers = []drover.Worker{}
		}
		return cmp.Or(terminal.NewJSON(a.Out).Encode(workers), bad)
	}
	if len(workers) == 0 {
		a.Note("no agents live")
		return bad
	}
	t := terminal.NewTable(a.Out, "JOB", "AGENT", "WHERE", "ENGINE", "STATE", "HEARTBEAT", "WORK", "CORES", "MEMORY", "GPUS")
	for _, w := range workers {
		age := "-"
		if w.Age >= 0 {
			age = time.Duration(w.Age*float64(time.Second)).Round(time.Second).String() + " ago"
		}
		state := terminal.Dash(w.State)
		if w.Drained {
			state += ", drained"
		}
		t.Row(w.Job, terminal.Dash(w.Agent), strings.TrimSpace(w.Target+" "+w.Where), strings.TrimSuffix(w.Engine+": "+w.Reason, ": "), state, age, workOf(w), terminal.Number(w.CPUs), terminal.Memory(w.Memory), terminal.Number(float64(w.GPUs)))
	}
	return cmp.Or(t.Flush(), bad)
}

// listWorkers are those of the job that was named, or of all that live.
func (a Worker) listWorkers(ctx context.Context, args []string, all bool) ([]drover.Worker, error) {
	if len(args) > 0 {
		j, err := a.FindJob(ctx, args)
		if err != nil {
			return nil, err
		}
		return j.Workers(ctx, all)
	}
	c, err := a.OpenClient(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := c.Live(ctx, a.Settings.Project)
	bad, err := summary.Unreadable(err)
	var list []drover.Worker
	for _, j := range jobs {
		if err != nil {
			break
		}
		var more []drover.Worker
		more, err = j.Workers(ctx, all)
		list = append(list, more...)
	}
	return list, cmp.Or(err, bad)
}

// workOf is what an agent does: "node 0", or "3 of 8 slots, 120 items done".
func workOf(w drover.Worker) string {
	switch {
	case w.Rank != nil:
		return fmt.Sprintf("node %d", *w.Rank)
	case w.Slots > 0:
		return fmt.Sprintf("%d of %d slots, %s done", min(w.Flight, w.Slots), w.Slots, terminal.Count(w.Done, "item"))
	}
	return "-"
}

func (a Worker) drainWorker(ctx context.Context, agent, reason string) error {
	c, err := a.OpenClient(ctx)
	if err != nil {
		return err
	}
	j, err := c.FindWorker(ctx, agent, a.Settings.Project)
	if err != nil {
		return err
	}
	w, err := j.DrainWorker(ctx, agent, reason)
	if err != nil {
		return err
	}
	if a.Settings.JSON {
		return terminal.NewJSON(a.Out).Encode(w)
	}
	what := "what runs on it ends first"
	if w.Rank != nil {
		what = "it saves, and its job continues elsewhere"
	}
	a.Note("agent %s of job %s is drained: it begins nothing new; %s   see: drover worker ls %s", w.Agent, w.Job, what, w.Job)
	return nil
}
