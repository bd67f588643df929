package cli

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
)

// doctorVerb is drover doctor.
type doctorVerb struct{ *app }

func newDoctorVerb(a *app) doctorVerb { return doctorVerb{a} }

func (a doctorVerb) command() *cobra.Command {
	c := &cobra.Command{Use: "doctor", Short: "Check this machine, the store and what was left behind", Args: exactly(0)}
	a.addStoreFlags(c)
	a.addJSONFlag(c)
	whose := c.Flags().String("policy", "", "print what agents, or submitters, must be granted on the store, and stop")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if *whose != "" {
			return a.printPolicy(cmd.Context(), *whose)
		}
		cl, err := a.openClient(cmd.Context())
		if err != nil {
			return err
		}
		conf, err := a.readConfig()
		if err != nil {
			return err
		}
		on, err := conf.use("on")
		if err != nil {
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
		if a.settings.json {
			if err := newJSON(a.out).Encode(checks); err != nil {
				return err
			}
		} else {
			a.printChecks(checks, bad)
		}
		if bad > 0 {
			return status(fault.ExitItems)
		}
		return nil
	}
	return c
}

// printPolicy prints what somebody must be granted on the store, for its owner.
func (a doctorVerb) printPolicy(ctx context.Context, whose string) error {
	project, err := a.projectName()
	if err != nil {
		return err
	}
	r, ok := drover.RightsOf(whose, project)
	if !ok {
		return fault.New(fault.Invalid, "Write --policy agents, or --policy submitters.", "print policy: unknown role %q", whose)
	}
	url, endpoint, err := a.storeURL()
	if err != nil {
		return err
	}
	rights, err := a.storeRights(ctx, url, endpoint)
	if err != nil {
		return err
	}
	if rights.Policy == nil {
		return fault.New(fault.Invalid, "Name a bucket: --store s3://bucket/prefix.", "print policy: a user that may write to the folder %s may do everything", url)
	}
	text, err := rights.Policy(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(a.out, text)
	return err
}

func (a doctorVerb) printChecks(checks []drover.Check, bad int) {
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
		fmt.Fprintf(a.out, "%-13s %s %s\n", ch.Area, sign, plainText(ch.Text))
		if ch.Fix != "" {
			fmt.Fprintf(a.out, "%-13s   %s\n", "", plainText(ch.Fix))
		}
	}
	if bad == 0 {
		fmt.Fprintln(a.out, "No problems.")
	} else {
		fmt.Fprintf(a.out, "%s.\n", count(bad, "problem"))
	}
}
