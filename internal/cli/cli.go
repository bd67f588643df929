// Package cli is drover's face in a terminal: words in, words out. It reads
// flags and config files, prints plans, output, tables and errors, and decides
// nothing: every decision is package drover's.
//
// stdout carries the program's output or the table asked for; plans, progress,
// notes and errors go to stderr. There is one printer of errors, here.
// Proved by the scripts in cmd/drover/testdata/script.
package cli

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/act"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/data"
	"github.com/drover-run/drover/internal/cli/look"
	"github.com/drover-run/drover/internal/cli/places"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/internal/cli/results"
	"github.com/drover-run/drover/internal/cli/sagemaker"
	"github.com/drover-run/drover/internal/cli/setup"
	"github.com/drover-run/drover/internal/cli/start"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/internal/cli/top"
	"github.com/drover-run/drover/job"
)

// commandTree is the root of all verbs: it lists them, prints their help, and corrects what was mistyped.
type commandTree struct{ *app.App }

func newCommandTree(a *app.App) commandTree { return commandTree{a} }

// Main runs one command line and returns its exit status.
func Main(ctx context.Context, h Host, args []string) int {
	a := &app.App{Host: h, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Colour: terminal.WantColour(os.Stderr), Typed: args, Away: &progress.StoreWatch{}}
	root := newCommandTree(a).newRoot()
	root.SetArgs(args)
	rememberOutputs(h.Dirs)
	err := root.ExecuteContext(ctx)
	a.EndStdin()
	a.Away.End()
	rememberOutputs(h.Dirs) // by now the other end of a pipe has opened its files
	var s app.Status
	if errors.As(err, &s) {
		return int(s)
	}
	if err != nil {
		a.PrintError(err)
	}
	return fault.Exit(err)
}

func (a commandTree) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "drover",
		Short:         "Run the code you already have, here or elsewhere, and bring the results back",
		Version:       a.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          a.answerNoVerb,
	}
	root.SetFlagErrorFunc(a.explainFlagError)
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		name = strings.ReplaceAll(name, "_", "-")
		if native, ok := start.Aliases[name]; ok {
			name = native
		}
		return pflag.NormalizedName(name)
	})
	root.CompletionOptions.HiddenDefaultCmd = false
	root.SetHelpFunc(a.printHelp)
	root.SetUsageFunc(func(*cobra.Command) error { return nil })
	root.SetVersionTemplate("")
	root.SetHelpCommand(a.newHelpCommand())
	for _, c := range []*cobra.Command{
		start.NewRun(a.App).Command(), start.NewShell(a.App).Command(), start.NewProcess(a.App).Command(), start.NewMap(a.App).Command(), look.NewStatus(a.App).Command(), top.NewTop(a.App).Command(), look.NewLogs(a.App).Command(), look.NewMetrics(a.App).Command(), look.NewWhy(a.App).Command(), look.NewEvents(a.App).Command(),
		results.NewItems(a.App).Command(), results.NewResults(a.App).Command(), results.NewVerify(a.App).Command(),
		data.NewGet(a.App).Command(), data.NewPut(a.App).Command(), data.NewData(a.App).Command(), act.NewAttach(a.App).Command(), places.NewTarget(a.App).Command(), places.NewTarget(a.App).DownCommand(), places.NewOffers(a.App).Command(), places.NewWorker(a.App).Command(), places.NewQueue(a.App).Command(), places.NewImage(a.App).Command(), data.NewGC(a.App).Command(), act.NewWait(a.App).Command(), act.NewRetry(a.App).Command(), act.NewPause(a.App).Command(), act.NewResume(a.App).Command(), act.NewCancel(a.App).Command(),
		setup.NewInit(a.App).Command(), setup.NewDoctor(a.App).Command(), setup.NewConfig(a.App).Command(), setup.NewVersion(a.App).Command(), sagemaker.NewVerb(a.App).Command(),
	} {
		root.AddCommand(c)
	}
	root.InitDefaultCompletionCmd()
	return root
}

// otherVerbs are the words that other programs have for what a verb of drover does.
var otherVerbs = map[string]string{
	"kill":      "drover cancel JOB ends a job for good.",
	"scancel":   "drover cancel JOB ends a job for good.",
	"abort":     "drover cancel JOB ends a job for good.",
	"stop":      "drover cancel JOB ends a job for good; drover pause JOB lets a map start no more items until drover resume.",
	"rm":        "drover gc JOB removes a job that has ended; drover cancel JOB ends one that runs.",
	"delete":    "drover gc JOB removes a job that has ended; drover cancel JOB ends one that runs.",
	"remove":    "drover gc JOB removes a job that has ended; drover cancel JOB ends one that runs.",
	"clean":     "drover gc shows what is left over, and removes it.",
	"list":      "drover status lists the jobs.",
	"jobs":      "drover status lists the jobs.",
	"squeue":    "drover status lists the jobs; drover queue ls shows which of them wait for this machine.",
	"show":      "drover status JOB shows one job; drover results JOB what a map's items printed.",
	"describe":  "drover status JOB shows one job.",
	"info":      "drover status JOB shows one job.",
	"history":   "drover status -a lists all jobs; drover events JOB what happened to one.",
	"watch":     "drover status -w follows all jobs; drover logs -f JOB what one prints.",
	"tail":      "drover logs -f JOB follows what a job prints.",
	"log":       "drover logs JOB prints what a job printed.",
	"output":    "drover get JOB -o out brings what a job wrote; drover logs JOB prints what it printed.",
	"download":  "drover get JOB -o out brings what a job wrote.",
	"fetch":     "drover get JOB -o out brings what a job wrote.",
	"upload":    "drover put FOLDER s3://bucket/folder copies a folder to a bucket.",
	"exec":      "drover attach JOB -- COMMAND runs a command beside a running job; drover run PROGRAM starts a new job.",
	"ssh":       "drover attach JOB opens a shell beside a running job.",
	"submit":    "drover run --detach SCRIPT starts a job and returns; without --detach its output is shown.",
	"sbatch":    "drover run --detach SCRIPT starts a job and returns; without --detach its output is shown.",
	"start":     "drover run SCRIPT starts a job; drover resume JOB continues an interrupted one.",
	"launch":    "drover run SCRIPT starts a job.",
	"restart":   "drover resume JOB continues an interrupted job; drover retry JOB runs a map's failed items again; drover run --force SCRIPT starts anew.",
	"rerun":     "drover retry JOB runs a map's failed items again; drover run --force SCRIPT starts anew.",
	"continue":  "drover resume JOB continues an interrupted job.",
	"parallel":  "drover map --from ITEMS -- COMMAND {} runs a command for each item.",
	"foreach":   "drover map --from ITEMS -- COMMAND {} runs a command for each item.",
	"bash":      "drover shell 'COMMAND LINE' runs a shell line as a job.",
	"plot":      "drover metrics JOB plots the numbers that a job printed.",
	"debug":     "drover why JOB explains why a job failed or waits.",
	"nodes":     "drover worker ls shows the agents of live jobs; drover target ls the places to run.",
	"workers":   "drover worker ls shows the agents of live jobs.",
	"targets":   "drover target ls shows the places to run.",
	"clusters":  "drover target ls shows the places to run.",
	"login":     "drover init helps to choose a store; drover target add NAME names a place to run.",
	"configure": "drover init writes drover.yaml; drover config shows the settings.",
	"setup":     "drover init writes drover.yaml for this project.",
}

// answerNoVerb answers "drover" and "drover trian".
func (a commandTree) answerNoVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		a.printHelp(cmd, nil)
		return nil
	}
	var verbs []string
	for _, c := range cmd.Commands() {
		verbs = append(verbs, c.Name())
	}
	hint := "`drover help` lists the verbs."
	if meant := otherVerbs[args[0]]; meant != "" {
		hint = meant
	} else if near := fault.Nearest(args[0], verbs); near != "" {
		hint = "Did you mean drover " + near + "?"
	} else if _, err := os.Stat(args[0]); err == nil {
		hint = "Try `drover run " + args[0] + "`."
	}
	return fault.New(fault.Invalid, hint, "read command line: unknown command %q", args[0])
}

// explainFlagError turns a mistyped flag into one error with the flag that was meant.
func (a commandTree) explainFlagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	verb, hint := strings.TrimPrefix(cmd.CommandPath(), "drover "), "`drover help` lists the verbs."
	if cmd.HasParent() {
		hint = "`drover help " + verb + "` lists the flags."
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		return badValue(value, hint)
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return fault.New(fault.Invalid, hint, "read command line: %s", err)
	}
	typed := "-" + unknown.GetSpecifiedName()
	if len(typed) > 2 {
		typed = "-" + typed
		near, script := fault.Nearest(typed, names), cmd.Name() == string(job.Run)
		switch {
		case script && slices.Contains([]string{"--from", "--out", "--slots", "--workers", "--item-timeout", "--max-fails"}, typed):
			hint = "Items are for `drover map`: `drover map --from items.txt -- ./work.sh {}`."
		case near != "" && script:
			hint = "Did you mean " + near + "? Flags of your script come after the script."
		case near != "":
			hint = "Did you mean " + near + "?"
		case script:
			hint = "Flags of your script come after the script: `drover run train.py " + typed + "`."
		}
	}
	return fault.New(fault.Invalid, hint, "read command line: %s has no flag %q", cmd.CommandPath(), typed)
}

// badValue says of a flag's value what it should be.
func badValue(e *pflag.InvalidValueError, hint string) error {
	flag := e.GetFlag()
	kinds := map[string]string{"int": "a whole number", "int64": "a whole number", "uint": "a whole number", "float64": "a number", "duration": "a time", "bool": "true or false"}
	if kind := kinds[flag.Value.Type()]; kind != "" {
		if kind == "a time" {
			hint = "Write it as 90s, 30m or 2h."
		}
		return fault.New(fault.Invalid, hint, "read --%s: %q is not %s", flag.Name, e.GetValue(), kind)
	}
	cause := errors.Unwrap(e)
	if fault.MarkedHint(cause) != "" {
		hint = fault.MarkedHint(cause)
	}
	return fault.New(fault.Invalid, hint, "read --%s: %s", flag.Name, cause)
}
