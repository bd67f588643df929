package start

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// MapFlags are what only drover map takes.
type mapFlags struct {
	from, format, itemTimeout, maxFails string
	slots, workers                      int
	out                                 []string
	stdin, shell, stream, fetch         bool
	trial                               trialFlags
	retryOn, memoryStep                 string
	lists                               io.Reader // the items behind :::; nil: there are none
}

// What drover map and drover retry say of the rules of retry.
const (
	RetryOnUsage    = "try an item again after these failures alone, such as 75,100-110,SIGSEGV,OOM,timeout (default: after any)"
	MemoryStepUsage = "after an item runs out of memory, multiply its memory by this, such as 2x, up to what the machine has"
)

// notOfMaps are flags of run that mean nothing for items, and what to do instead.
var notOfMaps = map[string]string{
	"nodes":       "Use --workers for more agents.",
	"timeout":     "Use --item-timeout: it is the limit of each item.",
	"no-mounts":   "Leave it out: items see the machine as it is.",
	"clean-state": "Leave it out: items have no /state.",
	"keep-state":  "Leave it out: items have no /state.",
	"metric":      "Leave it out: drover results shows what items printed.",
}

// ofEachItem are flags of run whose words differ for items.
var ofEachItem = map[string]string{
	"task":    "name of the task: it is skipped when all items have succeeded",
	"output":  "folder that receives what --out names, of items that have succeeded",
	"source":  "folder shipped as code (default: the program's folder, or the current one)",
	"input":   "data that every item reads: PATH or NAME=URI[:sharded][:subfolder]; may be repeated",
	"gpus":    "GPUs for each item",
	"cpus":    "cores for each item: what fits runs at once",
	"memory":  "memory for each item, such as 512M or 16G: what fits runs at once, and no more is used",
	"procs":   "processes and threads of each item at once",
	"disk":    "disk for files that --fetch brings, and for outputs that wait to be stored, each: 20G (default 10G)",
	"retries": "how often an item may fail and be tried again; interruptions are free",
	"grace":   "time between SIGTERM and SIGKILL of each item, and between the stop signal and SIGTERM (default 30s)",
	"force":   "run all items again, in a new job; one that was interrupted is cancelled",

	"new-code": "run what is left, and items without success, with the code as it is now; results so far stay",
}

// MapFlags adds the flags of drover map: those of run that mean something for
// items, and its own.
func (a specReader) MapFlags(c *cobra.Command) (*startFlags, *mapFlags) {
	s, m := a.startFlags(c), &mapFlags{}
	f := c.Flags()
	f.StringVar(&m.from, "from", "", "items: a file, - for standard input, a folder, a glob, any of these in a bucket (s3://, gs://), or a range such as 1-1000")
	f.StringVar(&m.format, "format", "", "of the items: lines, csv or jsonl (default: by the file's ending, else lines)")
	f.IntVarP(&m.slots, "slots", "j", 0, "items that each worker runs at once (default: what fits, or one for each core)")
	f.IntVar(&m.workers, "workers", 1, "agents that work on the items")
	f.StringVar(&m.itemTimeout, "item-timeout", "", "time limit of one try of an item, such as 90s or 2h")
	f.StringVar(&m.retryOn, "retry-on", "", RetryOnUsage)
	f.StringVar(&m.memoryStep, "memory-step", "", MemoryStepUsage)
	f.StringVar(&m.maxFails, "max-fails", "", "stop when more items have failed: a number, or percent such as 5%")
	f.StringArrayVar(&m.out, "out", nil, "file or folder that each item must leave, written to {out}: thumbs/{.stem}.png; may be repeated ({out2} ...)")
	f.BoolVar(&m.stdin, "stdin", false, "give the item to the program as its standard input too")
	f.BoolVar(&m.stream, "stream", false, "the program stays, and asks for items: for item in drover.items()")
	f.BoolVar(&m.fetch, "fetch", false, "items are addresses (https://, s3://, gs://, file://) or paths: bring each here before it begins, as {}")
	f.BoolVar(&m.shell, "shell", false, "the command is one line for the shell; what placeholders stand for is quoted")
	f.BoolVarP(&a.KeepOrder, "keep-order", "k", false, "print what items print to stdout, in the order of the items, each when it and those before it have ended")
	m.trial.add(f)
	for name := range notOfMaps {
		f.Lookup(name).Hidden = true
	}
	for name, usage := range ofEachItem {
		f.Lookup(name).Usage = usage
	}
	_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"lines", "csv", "jsonl"}, cobra.ShellCompDirectiveNoFileComp))
	return s, m
}

// ReadMapSpec makes the spec of what was typed.
func (a specReader) ReadMapSpec(cmd *cobra.Command, s *startFlags, m *mapFlags, args []string) (job.Spec, error) {
	for name, hint := range notOfMaps {
		if cmd.Flags().Changed(name) {
			return job.Spec{}, fault.New(fault.Invalid, hint, "read command line: drover map has no --%s", name)
		}
	}
	file := len(args) > 0 && isJobFile(args[0]) && !m.shell
	if m.shell && len(args) > 1 {
		return job.Spec{}, fault.New(fault.Invalid, "Quote the whole line: drover map --from x --shell 'convert {} {out} | wc'.", "read command line: --shell takes one command line, got %d words", len(args))
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
		return spec, fault.New(fault.Invalid, "Use drover run "+args[0]+", or write verb: map in it.", "read job file %s: it says verb: %s", args[0], spec.Verb)
	}
	spec.Verb = job.Map
	if err := m.apply(cmd, &spec); err != nil {
		return spec, err
	}
	if strings.TrimSpace(spec.Program) == "" {
		return spec, fault.New(fault.Invalid, "Try drover map --from items.txt -- ./work.sh {}.", "read command line: no program given")
	}
	return spec, nil
}

// apply takes over what was typed: 0 slots is a slip of the pen, not a default.
func (m *mapFlags) apply(cmd *cobra.Command, spec *job.Spec) (err error) {
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
