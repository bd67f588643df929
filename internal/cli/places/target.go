// Package places has the verbs for where jobs run: target, offers, worker, queue and image.
// It knows no target. Proved by the scripts of these verbs.
package places

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/config"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Target is drover target.
type Target struct{ *app.App }

// NewTarget returns a Target of an invocation.
func NewTarget(a *app.App) Target { return Target{a} }

// Command returns the verb's command, with its flags.
func (a Target) Command() *cobra.Command {
	c := &cobra.Command{Use: "target", Short: "Places to run: list, name, try out, set up and forget them", Args: app.Exactly(0)}
	list := &cobra.Command{Use: "ls", Short: "Show the targets, and whether each can be used", Args: app.Exactly(0)}
	for _, l := range []*cobra.Command{c, list} {
		a.AddStoreFlags(l)
		a.AddJSONFlag(l)
		l.RunE = func(cmd *cobra.Command, _ []string) error { return a.printTargets(cmd.Context()) }
	}
	test := &cobra.Command{Use: "test NAME", Short: "Run an agent there that does nothing, and say how long each step took", Args: app.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.testTarget(cmd.Context(), args[0]) }}
	a.AddStoreFlags(test)
	a.AddJSONFlag(test)
	rm := &cobra.Command{Use: "rm NAME", Short: "Forget a target of your config; what runs there goes on", Args: app.Exactly(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.removeTarget(args[0]) }}
	c.AddCommand(list, a.addCommand(), test, rm, a.upCommand(), a.DownCommand())
	return c
}

func (a Target) addCommand() *cobra.Command {
	var t job.Target
	memory, timeout := "", ""
	c := &cobra.Command{Use: "add NAME --on TARGET", Short: "Name a target in your config, with options and limits", Args: app.Exactly(1)}
	f := c.Flags()
	f.StringVar(&t.On, "on", "", "what it means, such as slurm/gpu")
	f.StringArrayVar(&t.Args, "arg", nil, "option of the target's own engine, such as --account=bio; NAME=@FILE is read when the target is used; may be repeated")
	f.IntVar(&t.Workers, "max-workers", 0, "most nodes or workers of one job")
	f.Float64Var(&t.CPUs, "max-cpus", 0, "most cores for each")
	f.StringVar(&memory, "max-memory", "", "most memory for each, such as 64G")
	f.IntVar(&t.GPUs, "max-gpus", 0, "most GPUs for each")
	f.StringVar(&timeout, "max-time", "", "longest time limit, such as 12h; and that of runs that have none")
	f.StringVar(&t.Machine, "machine", "", "types of machines of jobs that name none")
	f.StringVar(&t.Where, "where", "", "machines to run on, beside what a job says: feature == a100")
	f.StringVar((*string)(&t.Spot), "spot", "", "how machines are bought for jobs that do not say it: only, first or never")
	f.StringVar(&t.Store, "store", "", "where jobs with --on NAME keep their facts")
	c.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if memory != "" {
			if t.Memory, err = job.ParseBytes(memory); err != nil {
				return fmt.Errorf("read --max-memory: %w", err)
			}
		}
		if timeout != "" {
			if t.Timeout, err = job.ParseDuration(timeout); err != nil {
				return fmt.Errorf("read --max-time: %w", err)
			}
		}
		for key, value := range map[string]string{"where": t.Where, "spot": string(t.Spot)} {
			if value != "" {
				if err := config.SetTarget(&t, key, value); err != nil {
					return err
				}
			}
		}
		if t.Workers < 0 || t.GPUs < 0 || t.CPUs < 0 {
			return fault.New(fault.Invalid, "Leave out the options that set no limit.", "add target: a limit is below 0")
		}
		return a.addTarget(args[0], t)
	}
	return c
}

func (a Target) addTarget(name string, t job.Target) error {
	drivers := a.Drivers()
	switch {
	case job.ValidName("target", name) != nil || job.Label(name) != name:
		return fault.New(fault.Invalid, "Use lower-case letters, digits and `-`: `drover target add gpu-big --on slurm/gpu`.", "add target: %q is not a valid name", name)
	case drivers[name].Driver != nil:
		return fault.New(fault.Invalid, "Choose another name.", "add target %s: a target of that name is built in", name)
	case t.On == "":
		return fault.New(fault.Invalid, "Say what it means: `drover target add "+name+" --on slurm/gpu`.", "add target %s: --on is missing", name)
	case drivers[t.Base()].Driver == nil:
		return fault.New(fault.Invalid, "`drover target ls` shows those there are.", "add target %s: unknown target %q", name, t.Base())
	}
	if _, err := app.ReadArgFiles(t.Args); err != nil {
		return fmt.Errorf("add target %s: %w", name, err)
	}
	here, err := os.Getwd()
	if err != nil {
		return fault.Wrap(err, fault.Failed, "", "add target %s", name)
	}
	for i, arg := range t.Args { // the config is read from any folder
		t.Args[i] = config.AnchorArg(arg, here)
	}
	there, err := a.targetExists(name, t)
	if err == nil && !there {
		err = a.changeTarget(name, &t)
	}
	if err == nil {
		a.Note("target %s is %s%s, in %s   try it: drover target test %s", name, t.On, limitWords(t), a.Conf.UserFile, name)
	}
	return err
}

// targetExists says whether a target is in the user's config already, just as t. A name
// that means something else is refused: jobs are sent to what it means.
func (a Target) targetExists(name string, t job.Target) (there bool, err error) {
	c, err := a.ReadConfig()
	if err != nil {
		return false, err
	}
	if hasTarget(c.ProjectKeys, name) {
		return false, fault.New(fault.Invalid, "Edit that file, or choose another name.", "add target %s: it is set in %s already", name, c.ProjectPath())
	}
	if !hasTarget(c.User, name) {
		return false, nil
	}
	all, err := a.NamedTargets(c)
	if err != nil {
		return false, err
	}
	if was := all[name]; !slices.Equal(config.TargetLines(was), config.TargetLines(t)) {
		return false, fault.New(fault.Invalid, "To change it, forget it first: `drover target rm "+name+"`.", "add target %s: it exists already, for %s%s", name, was.On, limitWords(was))
	}
	return true, nil
}

// hasTarget says whether a layer of the config says something of a target.
func hasTarget(layer map[string]string, name string) bool {
	for key := range layer {
		if m := config.TargetKey.FindStringSubmatch(key); m != nil && m[1] == name {
			return true
		}
	}
	return false
}

func (a Target) removeTarget(name string) error {
	c, err := a.ReadConfig()
	if err != nil {
		return err
	}
	if hasTarget(c.ProjectKeys, name) {
		return fault.New(fault.Invalid, "Edit that file.", "remove target %s: it is in %s", name, c.ProjectPath())
	}
	if !hasTarget(c.User, name) {
		hint := "`drover target ls` shows those there are."
		if a.Drivers()[name].Driver != nil {
			hint = "It is built in, and stays."
		}
		return fault.New(fault.Missing, hint, "remove target: the config has no target %q", name)
	}
	if err := a.changeTarget(name, nil); err != nil {
		return err
	}
	a.Note("target %s is removed from %s", name, c.UserFile)
	return nil
}

// changeTarget writes a target into the user's config, or takes it out. The limits of
// its queues stay.
func (a Target) changeTarget(name string, t *job.Target) error {
	c, err := a.ReadConfig()
	if err != nil {
		return err
	}
	lines, err := config.OpenConfig(c.UserFile)
	if err != nil {
		return err
	}
	for key := range c.User {
		if m := config.TargetKey.FindStringSubmatch(key); m != nil && m[1] == name {
			lines.Set(key, "")
			delete(c.User, key)
		} else if strings.HasPrefix(key, "targets."+name+".queues.") && t != nil {
			return fault.New(fault.Invalid, "Edit it by hand: "+c.UserFile+".", "add target %s: the config already has queues of that name", name)
		}
	}
	var body []string
	if t != nil {
		body = config.TargetLines(*t)
		for _, line := range body {
			key, _, _ := strings.Cut(line, ":")
			c.User["targets."+name+"."+key] = valueOf(*t, key)
		}
	}
	lines.SetTable("targets", name, body)
	return lines.Save(c.UserFile, c.User)
}

// valueOf is a key of a target as reading the config gives it.
func valueOf(t job.Target, key string) string {
	switch key {
	case "on":
		return t.On
	case "args":
		return strings.Join(t.Args, "\n")
	case "store":
		return t.Store
	}
	for _, line := range config.TargetLines(t) {
		if value, ok := strings.CutPrefix(line, key+": "); ok {
			return value
		}
	}
	return ""
}

func limitWords(t job.Target) string {
	if l := t.Limits(); l != "" {
		return ", at most " + l
	}
	return ""
}

func (a Target) printTargets(ctx context.Context) error {
	c, err := a.OpenClient(ctx)
	if err != nil {
		return err
	}
	all := c.Targets(ctx)
	if a.Settings.JSON {
		return terminal.NewJSON(a.Out).Encode(all)
	}
	t := terminal.NewTable(a.Out, "TARGET", "IS", "USABLE", "WHAT IT HAS, OR WHY NOT")
	for _, s := range all {
		is, usable := "built in", "no"
		if s.Named != nil {
			is = s.Named.On + limitWords(*s.Named)
		}
		if s.OK {
			usable = "yes"
		}
		t.Row(s.Name, is, usable, strings.TrimSuffix(s.Text+". "+s.Fix, ". "))
	}
	return t.Flush()
}

func (a Target) testTarget(ctx context.Context, name string) error {
	a.Settings.On = name // its own store
	conf, err := a.ReadConfig()
	if err == nil {
		err = cmp.Or(conf.MayTarget(name), a.CheckMayStart())
	}
	if err != nil {
		return err
	}
	project, err := a.ProjectName()
	if err != nil {
		return err
	}
	c, err := a.OpenClient(ctx)
	if err != nil {
		return err
	}
	var steps []drover.Step
	var whole time.Duration
	err = c.TestTarget(ctx, name, project, func(s drover.Step) {
		whole += s.Took
		if steps = append(steps, s); a.Settings.JSON {
			return
		}
		if s.Err != nil {
			fmt.Fprintf(a.Out, "✗ %-9s %6.2fs\n", s.What, s.Took.Seconds())
			return
		}
		fmt.Fprintf(a.Out, "%s\n", strings.TrimRight(fmt.Sprintf("✓ %-9s %6.2fs  %s", s.What, s.Took.Seconds(), s.Text), " "))
	})
	if a.Settings.JSON {
		if jerr := terminal.NewJSON(a.Out).Encode(steps); err == nil {
			err = jerr
		}
		return err
	}
	if err == nil {
		fmt.Fprintf(a.Out, "%s works: %.2fs in all\n", name, whole.Seconds())
	}
	return err
}
