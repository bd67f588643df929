package places

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/config"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Queue is drover queue.
type Queue struct{ *app.App }

// NewQueue returns a Queue of an invocation.
func NewQueue(a *app.App) Queue { return Queue{a} }

// Command returns the verb's command, with its flags.
func (a Queue) Command() *cobra.Command {
	c := &cobra.Command{Use: "queue", Short: "Who holds this machine and who waits; pause and resume queues", Args: app.Exactly(0),
		RunE: func(*cobra.Command, []string) error { return a.printQueues() }}
	a.AddJSONFlag(c)
	list := &cobra.Command{Use: "ls", Short: "Show who holds and who waits", Args: app.Exactly(0), RunE: c.RunE}
	a.AddJSONFlag(list)
	c.AddCommand(list,
		&cobra.Command{Use: "pause QUEUE", Short: "Let nothing more of a queue start; what runs goes on", Args: app.Exactly(1), RunE: func(_ *cobra.Command, args []string) error {
			return a.changeQueue(args[0], a.Queues.Pause, "paused")
		}},
		&cobra.Command{Use: "resume QUEUE", Short: "Let a paused queue go on", Args: app.Exactly(1), RunE: func(_ *cobra.Command, args []string) error {
			return a.changeQueue(args[0], a.Queues.Resume, "goes on")
		}},
	)
	return c
}

func (a Queue) changeQueue(queue string, change func(string) error, what string) error {
	if err := job.ValidName("queue", queue); err != nil {
		return err
	}
	if err := change(queue); err != nil {
		return err
	}
	a.Note("queue %s %s", queue, what)
	return nil
}

func (a Queue) printQueues() error {
	lines, err := a.Queues.Lines()
	if err != nil {
		return err
	}
	if a.Settings.JSON {
		if lines == nil {
			lines = []app.Line{}
		}
		return terminal.NewJSON(a.Out).Encode(lines)
	}
	if len(lines) == 0 {
		a.Note("no job has reserved any part of this machine")
		return nil
	}
	c, err := a.ReadConfig()
	if err != nil {
		return err
	}
	t := terminal.NewTable(a.Out, "QUEUE", "JOB", "STATE", "NODES", "CORES", "MEMORY", "GPUS", "PRIORITY", "WHY")
	for _, l := range lines {
		name := l.Queue
		if l.Paused {
			name += " (paused)"
		}
		if s, err := c.Share("", l.Queue); err == nil && s != (job.Share{}) {
			name += " " + config.ShareWords(s)
		}
		for _, cl := range l.Claims {
			state := "● runs"
			if cl.Waits {
				state = "◌ waits"
			}
			t.Row(name, cl.Who, state, fmt.Sprint(cl.Nodes), terminal.Number(cl.CPUs), terminal.Memory(cl.Memory), terminal.Number(float64(cl.GPUs)), terminal.Number(float64(cl.Priority)), terminal.Dash(cl.Why))
		}
		if len(l.Claims) == 0 {
			t.Row(name, "-")
		}
	}
	return t.Flush()
}
