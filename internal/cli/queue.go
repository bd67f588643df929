package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/job"
)

// queueVerb is drover queue.
type queueVerb struct{ *app }

func newQueueVerb(a *app) queueVerb { return queueVerb{a} }

func (a queueVerb) command() *cobra.Command {
	c := &cobra.Command{Use: "queue", Short: "Who holds this machine and who waits; pause and resume queues", Args: exactly(0),
		RunE: func(*cobra.Command, []string) error { return a.printQueues() }}
	a.addJSONFlag(c)
	list := &cobra.Command{Use: "ls", Short: "Show who holds and who waits", Args: exactly(0), RunE: c.RunE}
	a.addJSONFlag(list)
	c.AddCommand(list,
		&cobra.Command{Use: "pause QUEUE", Short: "Let nothing more of a queue start; what runs goes on", Args: exactly(1), RunE: func(_ *cobra.Command, args []string) error {
			return a.changeQueue(args[0], a.Queues.Pause, "paused")
		}},
		&cobra.Command{Use: "resume QUEUE", Short: "Let a paused queue go on", Args: exactly(1), RunE: func(_ *cobra.Command, args []string) error {
			return a.changeQueue(args[0], a.Queues.Resume, "goes on")
		}},
	)
	return c
}

func (a queueVerb) changeQueue(queue string, change func(string) error, what string) error {
	if err := job.ValidName("queue", queue); err != nil {
		return err
	}
	if err := change(queue); err != nil {
		return err
	}
	a.note("queue %s %s", queue, what)
	return nil
}

func (a queueVerb) printQueues() error {
	lines, err := a.Queues.Lines()
	if err != nil {
		return err
	}
	if a.settings.json {
		if lines == nil {
			lines = []Line{}
		}
		return newJSON(a.out).Encode(lines)
	}
	if len(lines) == 0 {
		a.note("no job has reserved any part of this machine")
		return nil
	}
	c, err := a.readConfig()
	if err != nil {
		return err
	}
	t := newTable(a.out, "QUEUE", "JOB", "STATE", "NODES", "CORES", "MEMORY", "GPUS", "PRIORITY", "WHY")
	for _, l := range lines {
		name := l.Queue
		if l.Paused {
			name += " (paused)"
		}
		if s, err := c.share("", l.Queue); err == nil && s != (job.Share{}) {
			name += " " + shareWords(s)
		}
		for _, cl := range l.Claims {
			state := "● runs"
			if cl.Waits {
				state = "◌ waits"
			}
			t.row(name, cl.Who, state, fmt.Sprint(cl.Nodes), number(cl.CPUs), memory(cl.Memory), number(float64(cl.GPUs)), number(float64(cl.Priority)), dash(cl.Why))
		}
		if len(l.Claims) == 0 {
			t.row(name, "-")
		}
	}
	return t.flush()
}
