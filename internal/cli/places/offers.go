package places

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Offers is drover offers.
type Offers struct{ *app.App }

// NewOffers returns an Offers of an invocation.
func NewOffers(a *app.App) Offers { return Offers{a} }

// Command returns the verb's command, with its flags.
func (a Offers) Command() *cobra.Command {
	n := driver.Needs{Agents: 1, Place: driver.Place{Later: true}}
	mem := ""
	c := &cobra.Command{Use: "offers [TARGET]", Short: "What the targets have for what a job needs: kinds of machine, how many are free, price", Args: app.Between(0, 1)}
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
	f := c.Flags()
	f.Float64Var(&n.CPUs, "cpus", 0, "cores for each node")
	f.StringVar(&mem, "memory", "", "memory for each node, such as 16G")
	f.IntVar(&n.GPUs, "gpus", 0, "GPUs for each node")
	f.IntVar(&n.Agents, "nodes", 1, "nodes that run together")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if mem != "" {
			b, err := job.ParseBytes(mem)
			if err != nil {
				return fmt.Errorf("read --memory: %w", err)
			}
			n.Memory = int64(b)
		}
		if n.Agents < 1 {
			return fault.New(fault.Invalid, "Leave it out for a job of one node.", "read command line: --nodes is %d, and a job has at least 1", n.Agents)
		}
		if n.CPUs < 0 || n.GPUs < 0 {
			return fault.New(fault.Invalid, "Use numbers above 0.", "read command line: a limit is below 0")
		}
		n.Place.Nodes = n.Agents
		target := ""
		if len(args) > 0 {
			target = args[0]
		}
		return a.printOffers(cmd.Context(), target, n)
	}
	return c
}

func (a Offers) printOffers(ctx context.Context, target string, n driver.Needs) error {
	conf, err := a.ReadConfig()
	if err == nil {
		err = conf.MayTarget(target)
	}
	if err != nil {
		return err
	}
	c, err := a.OpenClient(ctx)
	if err != nil {
		return err
	}
	list, err := c.Offers(ctx, target, n)
	if err != nil {
		return err
	}
	if a.Settings.JSON {
		return terminal.NewJSON(a.Out).Encode(list)
	}
	t := terminal.NewTable(a.Out, "TARGET", "FITS", "MACHINE", "FREE", "TIME LIMIT", "PRICE/H", "WHY NOT")
	for _, o := range list {
		name, fits := o.Target, "no"
		if o.Detail != "" {
			name += "/" + o.Detail
		}
		if o.Default && o.Detail != "" {
			name += " (default)"
		}
		if o.Fits {
			fits = "yes"
		}
		t.Row(name, fits, terminal.Dash(o.Machine), freeWords(o), limitTime(o.Time), price(o), terminal.Dash(o.Reason))
	}
	return t.Flush()
}

// freeWords is "3 of 16" agents.
func freeWords(o drover.Choice) string {
	if o.All < 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", o.Free, o.All)
}

func limitTime(seconds float64) string {
	if seconds <= 0 {
		return "-"
	}
	return terminal.Span(time.Duration(math.Round(seconds)) * time.Second)
}

func price(o drover.Choice) string {
	p := o.Price
	switch {
	case p == nil:
		return "-"
	case p.Spot == 0:
		return fmt.Sprintf("%.4g %s", p.OnDemand, p.Currency)
	case p.OnDemand == 0:
		return fmt.Sprintf("%.4g %s (spot)", p.Spot, p.Currency)
	}
	return fmt.Sprintf("%.4g %s (spot %.4g)", p.OnDemand, p.Currency, p.Spot)
}
