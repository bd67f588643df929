package setup

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// Doctor is drover doctor.
type Doctor struct{ *app.App }

// NewDoctor returns a Doctor of an invocation.
func NewDoctor(a *app.App) Doctor { return Doctor{a} }

// Command returns the verb's command, with its flags.
func (a Doctor) Command() *cobra.Command {
	c := &cobra.Command{Use: "doctor", Short: "Check this machine, the store and what was left behind", Args: app.Exactly(0)}
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
	c.Flags().StringVar(&a.Settings.On, "on", "", "the target to check, or whose policy to print, such as kube/train")
	whose := c.Flags().String("policy", "", "print what agents, or submitters, must be granted on the store, or with --on by the target, and stop")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if *whose != "" {
			return a.printPolicy(cmd.Context(), *whose)
		}
		cl, err := a.OpenClient(cmd.Context())
		if err != nil {
			return err
		}
		conf, err := a.ReadConfig()
		if err != nil {
			return err
		}
		on := a.Settings.On
		if err := conf.Fill(&on, "on"); err != nil {
			return err
		}
		checks := append([]drover.Check{{Area: "this machine", OK: true, Text: fmt.Sprintf("drover %s %s/%s", a.Version, runtime.GOOS, runtime.GOARCH)}},
			cl.Doctor(cmd.Context(), on)...)
		bad := 0
		for _, ch := range checks {
			if !ch.OK {
				bad++
			}
		}
		if a.Settings.JSON {
			if err := terminal.NewJSON(a.Out).Encode(checks); err != nil {
				return err
			}
		} else {
			a.printChecks(checks, bad)
		}
		if bad > 0 {
			return app.Status(fault.ExitItems)
		}
		return nil
	}
	return c
}

// printPolicy prints what a user or an agent must be granted on the store, for its owner.
func (a Doctor) printPolicy(ctx context.Context, whose string) error {
	project, err := a.ProjectName()
	if err != nil {
		return err
	}
	r, ok := drover.RightsOf(whose, project)
	if !ok {
		return fault.New(fault.Invalid, "Write `--policy agents`, or `--policy submitters`.", "print policy: unknown role %q", whose)
	}
	if a.Settings.On != "" {
		return a.printTargetPolicy(ctx, whose, project)
	}
	url, endpoint, err := a.StoreURL()
	if err != nil {
		return err
	}
	rights, err := a.StoreRights(ctx, url, endpoint)
	if err != nil {
		return err
	}
	if rights.Policy == nil {
		return fault.New(fault.Invalid, "Name a bucket: `--store s3://bucket/prefix`.", "print policy: a user that may write to the folder %s may do everything", url)
	}
	text, err := rights.Policy(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(a.Out, text)
	return err
}

// printTargetPolicy prints what a user or an agent must be granted in a target's account or
// cluster.
func (a Doctor) printTargetPolicy(ctx context.Context, whose, project string) error {
	cl, err := a.OpenClient(ctx)
	if err != nil {
		return err
	}
	on, err := cl.Setup(a.Settings.On, project, nil)
	if err != nil {
		return err
	}
	text, err := on.Policy(driver.Party(whose))
	if err == nil && text == "" {
		err = fault.New(fault.Invalid, "Leave `--on` out for the rights on the store.", "print policy: target %s grants nothing apart", a.Settings.On)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(a.Out, text)
	return err
}

func (a Doctor) printChecks(checks []drover.Check, bad int) {
	area := ""
	for _, ch := range checks {
		if ch.Area == area {
			ch.Area = ""
		} else {
			area = ch.Area
		}
		sign := "✓"
		switch {
		case !ch.OK:
			sign = "✗"
		case ch.Unused:
			sign = "–"
		}
		fmt.Fprintf(a.Out, "%-13s %s %s\n", ch.Area, sign, terminal.PlainText(ch.Text))
		if ch.Fix != "" {
			fmt.Fprintf(a.Out, "%-13s   %s\n", "", terminal.PlainText(ch.Fix))
		}
	}
	if bad == 0 {
		fmt.Fprintln(a.Out, "No problems.")
	} else {
		fmt.Fprintf(a.Out, "%s.\n", terminal.Count(bad, "problem"))
	}
}
