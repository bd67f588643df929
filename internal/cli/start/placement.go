package start

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// placementFlags say what is asked of machines, the same for every target.
type placementFlags struct {
	machine, where, spot string
	keepWarm             string
	onDemand             bool
	args                 []string
}

// addFlags declares the flags.
func (p *placementFlags) addFlags(c *cobra.Command, o optionFlags) {
	o.textFlag(&p.machine, "Machine")
	o.textFlag(&p.where, "Where")
	o.textFlag(&p.spot, "Spot")
	o.Lookup("spot").NoOptDefVal = string(job.SpotOnly)
	o.BoolVar(&p.onDemand, "on-demand", false, "no spot capacity (default: the target's choice)")
	o.textFlag(&p.keepWarm, "KeepWarm")
	o.listFlag(&p.args, "TargetArgs")
	_ = c.RegisterFlagCompletionFunc("spot", cobra.FixedCompletions([]string{string(job.SpotOnly), string(job.SpotFirst)}, cobra.ShellCompDirectiveNoFileComp))
}

// applyFlags puts what was typed into a spec.
func (p *placementFlags) applyFlags(spec *job.Spec) error {
	if p.onDemand && p.spot != "" {
		return fault.New(fault.Invalid, "Use one of them.", "read --on-demand: --spot says otherwise")
	}
	if p.onDemand {
		p.spot = string(job.SpotNever)
	}
	if p.spot != "" {
		spec.Spot = job.Spot(p.spot)
	}
	if p.keepWarm != "" {
		keep, err := job.ParseDuration(p.keepWarm)
		if err != nil {
			return err
		}
		spec.KeepWarm = keep
	}
	set(&spec.Machine, p.machine, spec.Machine)
	set(&spec.Where, p.where, spec.Where)
	if len(p.args) > 0 {
		if spec.TargetArgs == nil {
			spec.TargetArgs = map[string][]string{}
		}
		args, err := app.ReadArgFiles(p.args)
		if err != nil {
			return err
		}
		spec.TargetArgs[job.AnyTarget] = slices.Concat(spec.TargetArgs[job.AnyTarget], args)
	}
	return nil
}

// placementLines say in a plan what is asked of machines.
func placementLines(p *drover.Plan) (lines []string) {
	if p.Spec.Machine != "" {
		line := "machine  " + terminal.PlainText(p.Spec.Machine)
		if p.Properties.Attached {
			line += " is a label here: there are no types to choose from"
		}
		lines = append(lines, line)
	}
	if p.Spec.Where != "" {
		lines = append(lines, "where    "+terminal.PlainText(p.Spec.Where))
	}
	if text := map[job.Spot]string{job.SpotOnly: "only", job.SpotFirst: "first, then on-demand", job.SpotNever: "never: on-demand"}[p.Spec.Spot]; text != "" {
		lines = append(lines, "spot     "+text)
	}
	if args := p.Spec.TargetArgs[job.AnyTarget]; len(args) > 0 {
		lines = append(lines, "options  "+terminal.PlainText(strings.Join(args, " ")))
	}
	return lines
}
