package start

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// mapFlags are what only drover map takes.
type mapFlags struct {
	from, format, itemTimeout, maxFails string
	slots, workers                      int
	out                                 []string
	stdin, shell, stream, fetch         bool
	trial                               trialFlags
	retryOn, memoryStep                 string
	lists                               io.Reader // the items behind :::; nil: there are none
}

// notOfMaps are flags of run that mean nothing for items, and what to do instead.
var notOfMaps = map[string]string{
	"nodes":       "Use --workers for more agents.",
	"timeout":     "Use --item-timeout: it is the limit of each item.",
	"no-mounts":   "Leave it out: items see the machine as it is.",
	"clean-state": "Leave it out: items have no /state.",
	"keep-state":  "Leave it out: items have no /state.",
	"metric":      "Leave it out: drover results shows what items printed.",
}

// forceItems is what --force does to a map.
const forceItems = "run all items again, in a new job; one that was interrupted is cancelled"

// MapFlags adds the flags of drover map: those of run that mean something for
// items, and its own.
func (a SpecReader) MapFlags(c *cobra.Command) (*startFlags, *mapFlags) {
	s, m := a.startFlags(c), &mapFlags{}
	f := c.Flags()
	o := optionFlags{f}
	o.textFlag(&m.from, "From")
	o.textFlag(&m.format, "Format")
	o.numberFlag(&m.slots, "Slots", 0)
	o.numberFlag(&m.workers, "Workers", 1)
	o.textFlag(&m.itemTimeout, "ItemTimeout")
	o.textFlag(&m.retryOn, "RetryOn")
	o.textFlag(&m.memoryStep, "MemoryStep")
	o.textFlag(&m.maxFails, "MaxFails")
	o.listFlag(&m.out, "Out")
	o.boolFlag(&m.stdin, "Stdin")
	o.boolFlag(&m.stream, "Stream")
	o.boolFlag(&m.fetch, "Fetch")
	o.boolFlag(&m.shell, "ByShell")
	f.BoolVarP(&a.KeepOrder, "keep-order", "k", false, "print what items print to stdout, in the order of the items, each when it and those before it have ended")
	m.trial.addFlags(f)
	for name := range notOfMaps {
		f.Lookup(name).Hidden = true
	}
	o.setItemsUsage()
	f.Lookup("force").Usage = forceItems
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"lines", "csv", "jsonl"}, cobra.ShellCompDirectiveNoFileComp))
	return s, m
}

// ReadMapSpec makes the spec of what was typed.
func (a SpecReader) ReadMapSpec(cmd *cobra.Command, s *startFlags, m *mapFlags, args []string) (job.Spec, error) {
	for name, hint := range notOfMaps {
		if cmd.Flags().Changed(name) {
			return job.Spec{}, fault.New(fault.Invalid, hint, "read command line: drover map has no --%s", name)
		}
	}
	file := len(args) > 0 && isJobFile(args[0]) && !m.shell
	if m.shell && len(args) > 1 {
		return job.Spec{}, fault.New(fault.Invalid, "Quote the whole line: `drover map --from x --shell 'convert {} {out} | wc'`.", "read command line: --shell takes one command line, got %d words", len(args))
	}
	verb := job.Map
	if m.shell {
		verb = job.Shell // its line is no job file, whatever its name
	}
	spec, err := a.readSpec(cmd, s, verb, args)
	if err != nil {
		return spec, err
	}
	if file && spec.Verb != job.Map && spec.Verb != "" {
		return spec, fault.New(fault.Invalid, "Use `drover run "+args[0]+"`, or write `verb: map` in it.", "read job file %s: it says verb: %s", args[0], spec.Verb)
	}
	spec.Verb = job.Map
	if err := m.applyFlags(cmd, &spec); err != nil {
		return spec, err
	}
	if strings.TrimSpace(spec.Program) == "" {
		return spec, fault.New(fault.Invalid, "Try `drover map --from items.txt -- ./work.sh {}`.", "read command line: no program given")
	}
	return spec, nil
}

// applyFlags takes over what was typed: 0 slots is a slip of the pen, not a default.
func (m *mapFlags) applyFlags(cmd *cobra.Command, spec *job.Spec) (err error) {
	set(&spec.From, m.from, spec.From)
	set(&spec.Format, m.format, spec.Format)
	set(&spec.MaxFails, m.maxFails, spec.MaxFails)
	for _, n := range []struct {
		flag         string
		value, least int
		field        *int
	}{{"slots", m.slots, 1, &spec.Slots}, {"workers", m.workers, 1, &spec.Workers}} {
		if !cmd.Flags().Changed(n.flag) {
			continue
		}
		if n.value < n.least {
			return fault.New(fault.Invalid, "Use 1 or more.", "read --%s: %d", n.flag, n.value)
		}
		*n.field = n.value
	}
	if m.itemTimeout != "" {
		if spec.ItemTimeout, err = job.ParseDuration(m.itemTimeout); err != nil {
			return err
		}
	}
	if m.retryOn != "" {
		if spec.RetryOn, err = job.ParseRetryOn(m.retryOn); err != nil {
			return err
		}
	}
	if m.memoryStep != "" {
		if spec.MemoryStep, err = job.ParseStep(m.memoryStep); err != nil {
			return err
		}
	}
	spec.Out = append(spec.Out, m.out...)
	spec.Stdin = spec.Stdin || m.stdin
	spec.ByShell = spec.ByShell || m.shell
	spec.Stream = spec.Stream || m.stream
	spec.Fetch = spec.Fetch || m.fetch
	return nil
}
