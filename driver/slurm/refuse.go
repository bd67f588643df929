package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/drover-run/drover/driver/slurm/commands"
	"github.com/drover-run/drover/fault"
)

// refusals are Slurm's answers to a submission, by what a user can do about them. The first with
// words that occur in the answer applies.
var refusals = []struct {
	words string
	kind  fault.Kind
	hint  string
}{
	{"invalid partition", fault.Invalid, "See what there is: sinfo -s; then say --on slurm/PARTITION."},
	{"Invalid account", fault.Denied, "See yours: sacctmgr show assoc user=$USER; then add --target-arg account=NAME."},
	{"Invalid qos", fault.Denied, "See yours: sacctmgr show assoc user=$USER format=qos; then add --target-arg qos=NAME."},
	{"User's group not permitted", fault.Denied, "Choose a partition that you may use: --on slurm/PARTITION; sinfo -s lists them."},
	{"Access/permission denied", fault.Denied, "Ask the cluster's administrators, or choose another partition: --on slurm/PARTITION."},
	{"time limit is invalid", fault.Invalid, "Ask for less with --timeout, or choose a partition that allows it: sinfo -o '%P %l'."},
	{"Job violates accounting/QOS policy", fault.Full, "You have as many jobs as you may: wait, or cancel some; sacctmgr show qos says the limits."},
	{"Job limit", fault.Full, "The cluster accepts no more jobs at the moment: wait, or ask for fewer --workers."},
	{"maximum", fault.Full, "Wait, or ask for fewer --workers."},
	{"Too many", fault.Full, "Wait, or ask for fewer --workers."},
	{"temporarily unable", fault.Full, "Try it again in a while."},
	{"Memory specification", fault.Invalid, "Ask for less --memory, or choose a partition with larger nodes: sinfo -o '%P %m'."},
	{"Invalid generic resource", fault.Invalid, "See what GPUs there are: sinfo -o '%P %G'."},
	{"Invalid job array", fault.Invalid, "Ask for fewer --workers."},
	{"configuration is not available", fault.Invalid, "Ask for less, or choose another partition: sinfo -o '%P %D %c %m %G' says what nodes have."},
	{"Node count", fault.Invalid, "Ask for fewer --nodes, or choose another partition: sinfo -s."},
	{"More processors", fault.Invalid, "Ask for fewer --cpus, or choose another partition: sinfo -o '%P %c'."},
	{"nvalid feature", fault.Invalid, "See what there is: sinfo -o '%P %f'."},
	{"unrecognized option", fault.Invalid, "Check --target-arg, and the script's #SBATCH lines: man sbatch."},
	{"invalid option", fault.Invalid, "Check --target-arg, and the script's #SBATCH lines: man sbatch."},
}

// said makes a fault of what one of Slurm's commands answered. It leaves faults, and the error of a
// context, as they are.
func said(doing string, err error) error {
	var known *fault.Fault
	var lost *commands.Silent
	var no *commands.Refusal
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &lost) && lost.Why == commands.NoConfig:
		return fault.New(fault.Lost, "Run it on a machine of the cluster, or say where its configuration is: SLURM_CONF=/PATH/slurm.conf.", "%s: %s", doing, lost.Why)
	case errors.As(err, &lost):
		return fault.New(fault.Lost, "Is the cluster up? scontrol ping says. Then run it again.", "%s: Slurm does not answer: %s", doing, lost.Why)
	case errors.As(err, &no):
		for _, r := range refusals {
			if strings.Contains(strings.ToLower(no.Text), strings.ToLower(r.words)) {
				return fault.New(r.kind, r.hint, "%s: Slurm says: %s", doing, commands.Words(no.Text))
			}
		}
		return fault.New(fault.Invalid, "Check what was asked for: `--on slurm/PARTITION`, `--target-arg`.", "%s: Slurm says: %s", doing, commands.Words(no.Text))
	}
	return fmt.Errorf("%s: %w", doing, err)
}
