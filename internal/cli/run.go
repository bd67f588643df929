package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/jobfile"
	"github.com/drover-run/drover/job"
)

// startFlags are the flags of verbs that start a job.
type startFlags struct {
	task, output, source, python string
	deps, inputs, env, envFile   []string
	timeout, grace               string
	retries                      int
	noEnv, force, detach, plan   bool
	yes                          bool
}

func (a *app) startFlags(c *cobra.Command) *startFlags {
	s := &startFlags{}
	a.storeFlags(c)
	a.jsonFlag(c)
	f := c.Flags()
	f.SetInterspersed(false) // after the script everything is the script's
	f.StringVarP(&s.task, "task", "t", "", "name of the task: its state survives, and it is skipped when complete")
	f.StringVarP(&s.output, "output", "o", "", "folder that receives model/, output/, files/ and logs/")
	f.StringVarP(&s.source, "source", "s", "", "folder shipped as code (default: the script's folder)")
	f.StringArrayVarP(&s.deps, "dependency", "d", nil, "another file or folder to put beside the code; may be repeated")
	f.StringArrayVarP(&s.inputs, "input", "i", nil, "data the program reads: PATH or NAME=PATH; may be repeated")
	f.StringArrayVar(&s.env, "env", nil, "environment variable: NAME=VALUE, or NAME to copy yours; may be repeated")
	f.StringArrayVar(&s.envFile, "env-file", nil, "file of NAME=VALUE lines; may be repeated")
	f.StringVar(&s.python, "python", "", "interpreter: a path, a name or a version")
	f.BoolVar(&s.noEnv, "no-env", false, "take the interpreter as it is, whatever requirements.txt says")
	f.StringVar(&s.timeout, "timeout", "", "time limit of one attempt, such as 90s or 2h")
	f.StringVar(&s.grace, "grace", "", "time between SIGTERM and SIGKILL (default 30s)")
	f.IntVar(&s.retries, "retries", 0, "how often the program may fail and start again; interruptions are free")
	f.StringVar(&a.settings.on, "on", "", "target (default: $DROVER_ON, the config, local)")
	f.BoolVar(&s.force, "force", false, "run though complete, from no checkpoint")
	f.BoolVar(&s.detach, "detach", false, "return as soon as it is started")
	f.BoolVar(&s.plan, "plan", false, "say what would be done, and stop")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "no plan and no notes; with --detach print the id alone")
	f.BoolVarP(&s.yes, "yes", "y", false, "answer yes to every question")
	return s
}

func (a *app) runCommand() *cobra.Command {
	c := &cobra.Command{Use: "run [flags] SCRIPT|PROGRAM|JOB.yaml [its arguments]",
		Short: "Run a script or program and follow it; again: attach, resume or skip", Args: cobra.ArbitraryArgs}
	s := a.startFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error { return a.run(cmd, s, job.Run, args) }
	return c
}

func (a *app) shellCommand() *cobra.Command {
	c := &cobra.Command{Use: "shell [flags] 'command line'", Short: "Run one shell command line", Args: cobra.ArbitraryArgs}
	s := a.startFlags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error { return a.run(cmd, s, job.Shell, args) }
	return c
}

// spec makes the spec of what was typed.
func (a *app) spec(cmd *cobra.Command, s *startFlags, verb job.Verb, args []string) (job.Spec, error) {
	spec := job.Spec{Verb: verb}
	var err error
	if len(args) > 0 && verb == job.Run && isJobFile(args[0]) {
		if spec, err = readJobFile(args[0]); err != nil {
			return spec, err
		}
		spec.Args = append(spec.Args, args[1:]...)
	} else if len(args) > 0 {
		spec.Program, spec.Args = args[0], args[1:]
	}
	conf, err := a.config()
	if err != nil {
		return spec, err
	}
	if spec.Project == "" || a.settings.project != "" {
		if spec.Project, err = a.project(); err != nil {
			return spec, err
		}
	}
	if s.task != "" {
		spec.Task, spec.Named = s.task, true
	}
	set(&spec.Source, s.source)
	set(&spec.Python, s.python)
	set(&spec.Python, spec.Python, conf.get("python").value)
	set(&spec.On, a.settings.on)
	set(&spec.On, spec.On, conf.get("on").value)
	set(&spec.Output, s.output)
	set(&spec.Output, spec.Output, conf.get("output").value)
	spec.Deps = append(spec.Deps, s.deps...)
	spec.NoEnv = spec.NoEnv || s.noEnv
	if cmd.Flags().Changed("retries") {
		spec.Retries = s.retries
	}
	if s.timeout != "" {
		if spec.Timeout, err = job.ParseDuration(s.timeout); err != nil {
			return spec, err
		}
	}
	if s.grace != "" {
		if spec.Grace, err = job.ParseDuration(s.grace); err != nil {
			return spec, err
		}
	}
	if err := addInputs(&spec, s.inputs); err != nil {
		return spec, err
	}
	return spec, addEnv(&spec, s.envFile, s.env)
}

// set gives a field the first value that is not empty.
func set(field *string, values ...string) {
	for _, v := range values {
		if v != "" {
			*field = v
			return
		}
	}
}

func isJobFile(name string) bool {
	return filepath.Ext(name) == ".yaml" || filepath.Ext(name) == ".yml"
}

func readJobFile(name string) (job.Spec, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return job.Spec{}, fault.Wrap(err, fault.Invalid, "Check the path.", "read job file")
	}
	full, err := filepath.Abs(name)
	if err != nil {
		return job.Spec{}, err
	}
	return jobfile.Parse(full, b)
}

// addInputs reads -i PATH and -i NAME=PATH. The first one without a name is
// "data", as SageMaker's examples call it; others are named after their path.
func addInputs(spec *job.Spec, typed []string) error {
	for _, text := range typed {
		name, path, named := strings.Cut(text, "=")
		if !named || strings.ContainsAny(name, "/.") {
			name, path = "data", text
			if slices.ContainsFunc(spec.Inputs, func(in job.Input) bool { return in.Name == "data" }) {
				name = job.Label(strings.TrimSuffix(filepath.Base(text), filepath.Ext(text)))
			}
		}
		spec.Inputs = append(spec.Inputs, job.Input{Name: name, Path: path})
	}
	return nil
}

func addEnv(spec *job.Spec, files, typed []string) error {
	var lines []string
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return fault.Wrap(err, fault.Invalid, "Check the path.", "read --env-file")
		}
		defer f.Close()
		sc := bufio.NewScanner(f)
		for sc.Scan() {
			line := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(sc.Text()), "export "))
			if line != "" && line[0] != '#' {
				lines = append(lines, line)
			}
		}
		if err := sc.Err(); err != nil {
			return fault.Wrap(err, fault.Invalid, "", "read --env-file %q", file)
		}
	}
	for _, kv := range append(lines, typed...) {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			if value, ok = os.LookupEnv(name); !ok {
				return fault.New(fault.Invalid, "Set it, or write --env "+name+"=VALUE.", "read --env: %s is not set here", name)
			}
		}
		if spec.Env == nil {
			spec.Env = map[string]string{}
		}
		spec.Env[name] = value
	}
	return nil
}

// tailNote says where a drover flag went that was typed after the script.
func (a *app) tailNote(cmd *cobra.Command, spec job.Spec) {
	var seen []string
	for _, arg := range spec.Args {
		name, _, _ := strings.Cut(arg, "=")
		long, ok := strings.CutPrefix(name, "--")
		if !ok || long == "" {
			continue
		}
		if f := cmd.Flags().Lookup(long); f != nil && f.Name == long && !slices.Contains(seen, name) {
			seen = append(seen, name)
		}
	}
	if len(seen) > 0 && spec.Verb == job.Run {
		a.note("note: %s went to %s: drover's own flags come before the script", strings.Join(seen, ", "), spec.Program)
	}
}

// run is the verbs run and shell.
func (a *app) run(cmd *cobra.Command, s *startFlags, verb job.Verb, args []string) error {
	ctx := cmd.Context()
	spec, err := a.spec(cmd, s, verb, args)
	if err != nil {
		return err
	}
	if info, err := os.Stat(spec.Output); spec.Output != "" && err == nil && !info.IsDir() {
		return fault.New(fault.Invalid, "Name a folder with -o.", "read --output: %q is a file", spec.Output)
	}
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	p, err := c.Plan(ctx, spec, s.force)
	if err != nil {
		return err
	}
	a.tailNote(cmd, spec)
	if s.plan {
		return a.showPlan(p)
	}
	a.printPlan(p)
	j, err := p.Submit(ctx)
	if err != nil {
		return err
	}
	return a.carryOn(ctx, p, j, spec.Output, s.detach)
}

// carryOn follows a submitted job, or says where it is.
func (a *app) carryOn(ctx context.Context, p *drover.Plan, j *drover.Job, output string, detach bool) error {
	st, err := j.Status(ctx)
	if err != nil {
		return err
	}
	if p.Action == "skip" {
		a.note("%s %s/%s %s", a.paint(job.Succeeded, job.Succeeded.Symbol()), st.Project, st.Task, p.Note)
		return a.bring(ctx, j, st, output)
	}
	if p.Note != "" {
		a.note("note: %s", p.Note)
	}
	// What an attached job has printed is shown from its beginning; what is gone
	// on with has been seen.
	var since time.Time
	if p.Action == "resume" {
		since = time.Now()
	}
	if !detach {
		return a.follow(ctx, j, st, output, p.Offer.Attached, since)
	}
	if err := j.Start(ctx); err != nil {
		return err
	}
	if a.quiet {
		fmt.Fprintln(a.out, st.ID)
		return nil
	}
	a.note("%s started   follow: drover logs -f %s   stop: drover cancel %s", st.ID, st.ID, st.ID)
	return nil
}

// follow prints a live job's output until it has settled, then where things are.
// attached says that its agents live beside us, so that Ctrl-C is for them.
// What was printed before since (zero: from the beginning) is left out.
func (a *app) follow(ctx context.Context, j *drover.Job, st drover.Status, output string, attached bool, since time.Time) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	type end struct {
		st  drover.Status
		err error
	}
	ended := make(chan end, 1)
	go func() {
		st, err := j.Wait(ctx)
		ended <- end{st, err}
	}()
	printed := make(chan error, 1)
	reading, hush := context.WithCancel(context.WithoutCancel(ctx))
	defer hush()
	enough := make(chan struct{})
	go func() { printed <- a.print(reading, j, since, enough) }()

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT)
	defer signal.Stop(signals)
	// Or "| head" would end us with the pipe, before the outputs are brought.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	for {
		select {
		case e := <-ended:
			signal.Stop(signals) // from here on Ctrl-C ends us: the job needs us no more
			if e.err != nil {
				hush()
				<-printed
				return e.err
			}
			if err := <-printed; err != nil {
				return err
			}
			return a.finish(context.WithoutCancel(ctx), j, e.st, output)
		case <-signals:
			stop(errors.New("Ctrl-C"))
			<-ended
			if !attached {
				hush()
				<-printed
				a.note("\nDetached; %s goes on.   follow: drover logs -f %s   stop: drover cancel %s", st.ID, st.ID, st.ID)
				return status(fault.ExitInterrupted)
			}
			err := a.interrupt(context.WithoutCancel(ctx), j, signals)
			signal.Stop(signals) // nothing is left to be asked; Ctrl-C ends us
			close(enough)        // what the program said last is stored now
			<-printed
			if err != nil {
				return err
			}
			return a.interrupted(context.WithoutCancel(ctx), j, output)
		}
	}
}

// interrupt is Ctrl-C where agents live beside us: the first asks them to save
// and go, the second kills them. It returns when they are gone.
func (a *app) interrupt(ctx context.Context, j *drover.Job, signals <-chan os.Signal) error {
	a.note("\nStopping: the program has got SIGTERM, so that it can save (Ctrl-C again: kill it)")
	spec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	const margin = 30 * time.Second // for storing what the program saved
	gone := make(chan error, 1)
	go func() { gone <- j.Interrupt(ctx, time.Duration(spec.Spec.Grace)+margin) }()
	for {
		select {
		case err := <-gone:
			return err
		case <-signals:
			if err := j.Interrupt(ctx, 0); err != nil {
				return err
			}
		}
	}
}

// interrupted says how to go on with a job whose agents are gone, unless it had
// just ended.
func (a *app) interrupted(ctx context.Context, j *drover.Job, output string) error {
	st, err := j.Status(ctx)
	if err != nil {
		return err
	}
	if st.State.Settled() {
		return a.finish(ctx, j, st, output)
	}
	a.note("%s %s interrupted   go on: drover resume %s", a.paint(job.Interrupted, job.Interrupted.Symbol()), st.ID, st.ID)
	return status(fault.ExitInterrupted)
}

// print writes the program's output as it comes: stdout to stdout, stderr to
// stderr, byte for byte. What drover does before the program starts, and a new
// attempt, are told beside it.
func (a *app) print(ctx context.Context, j *drover.Job, since time.Time, enough <-chan struct{}) error {
	attempt := 0
	for o, err := range j.Logs(ctx, drover.LogOptions{Stdout: true, Stderr: true, Agent: true, Follow: true, Since: since, Enough: enough}) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			a.note("note: output cannot be read just now: %s", err)
			continue
		}
		var f *os.File
		switch o.Stream {
		case "stdout":
			f = os.Stdout
		case "stderr":
			f = os.Stderr
		default:
			a.agentNote(o, &attempt)
			continue
		}
		if _, err := f.Write(o.Data); errors.Is(err, syscall.EPIPE) {
			return nil // nobody reads on (drover run ... | head); the job goes on, and so do we
		} else if err != nil {
			a.note("note: output is not shown any more: %s", err)
			return nil
		}
	}
	return nil
}

// agentNote shows what drover itself does where it takes time or changes what is
// printed: building an environment, a new attempt, what it begins from.
func (a *app) agentNote(o drover.Output, attempt *int) {
	if o.Attempt > 1 && o.Attempt > *attempt {
		a.note("‖ attempt %d began", o.Attempt)
	}
	*attempt = max(*attempt, o.Attempt)
	for line := range strings.Lines(string(o.Data)) {
		line = plainText(strings.TrimSuffix(line, "\n"))
		plain := strings.HasPrefix(line, "prepared in") || strings.HasPrefix(line, "environment: ") || strings.HasPrefix(line, "leaving: ")
		if o.Attempt == 0 && !plain || strings.HasPrefix(line, "restored ") || strings.HasPrefix(line, "waiting for room: ") {
			a.note("  %s", line)
		}
	}
}

// finish says how a job has ended and where its things are, and gives the
// program's own exit status.
func (a *app) finish(ctx context.Context, j *drover.Job, st drover.Status, output string) error {
	head := fmt.Sprintf("%s %s %s/%s %s", a.paint(st.State, st.State.Symbol()), st.ID, st.Project, st.Task, strings.ToLower(string(st.State)))
	if !st.Started.IsZero() && !st.Ended.IsZero() {
		head += " in " + span(st.Ended.Sub(st.Started))
	}
	if st.Attempt > 1 {
		head += fmt.Sprintf(" (attempt %d, %s)", st.Attempt, count(st.Interruptions, "interruption"))
	}
	if st.Reason != "" && st.State != job.Cancelled {
		head += ": " + plainText(st.Reason)
	}
	a.note("%s", head)
	code := 0
	if st.Code != nil {
		code = *st.Code
	}
	if err := a.bring(ctx, j, st, output); err != nil {
		if code == 0 {
			return err
		}
		a.printError(err) // the program's own status says more
	}
	if st.State == job.Failed {
		if st.Hint != "" {
			a.note("  %s", st.Hint)
		} else if file := stayedHome(st); file != "" {
			top, _, _ := strings.Cut(filepath.ToSlash(filepath.Clean(file)), "/")
			a.note("  %s is here and did not go along: -d %s puts it beside the script, -i %s makes it an input", file, top, top)
		}
		a.note("  why: drover why %s", st.ID)
	}
	if code != 0 {
		return status(code)
	}
	return nil
}

// notFound is how Python and most programs say that a file is missing.
var notFound = regexp.MustCompile(`No such file or directory: ['"]?([^'"\n]+)['"]?`)

// stayedHome names a file that the program did not find and that is here: it
// runs in a copy of what went along.
func stayedHome(st drover.Status) string {
	for _, n := range st.Nodes {
		all := notFound.FindAllStringSubmatch(n.Trace, -1)
		if len(all) == 0 {
			continue
		}
		file := all[len(all)-1][1]
		if _, err := os.Stat(file); err == nil && filepath.IsLocal(file) {
			return file
		}
	}
	return ""
}

// bring downloads the outputs when a folder was named, and says where they are.
func (a *app) bring(ctx context.Context, j *drover.Job, st drover.Status, output string) error {
	if output == "" {
		if st.State == job.Succeeded || st.State == job.Failed {
			a.note("  model, output and logs: drover get %s -o out", st.ID)
		}
		return nil
	}
	got, err := j.Get(ctx, output)
	if err != nil {
		return err
	}
	a.printGot(got, output)
	return nil
}

func (a *app) printGot(got drover.Got, typed string) {
	for _, p := range got.Parts {
		path := filepath.Join(typed, p.Name)
		if p.Name == "logs" && p.Files == 1 {
			path = filepath.Join(path, "logs0")
		}
		a.note("  %-8s %s (%s, %s)", p.Name, path, count(p.Files, "file"), size(p.Bytes))
	}
	for _, n := range got.Notes {
		a.note("  note: %s", n)
	}
}

// printPlan says in a few lines what is about to happen.
func (a *app) printPlan(p *drover.Plan) {
	if a.quiet {
		return
	}
	s := p.Spec
	a.note("%s/%s on %s", s.Project, s.Task, orElse(p.Offer.Machine, s.On))
	for _, line := range planLines(p) {
		a.note("  %s", line)
	}
}

func planLines(p *drover.Plan) []string {
	var lines []string
	if p.CodeNote != "" {
		lines = append(lines, "code     "+p.CodeNote)
	} else if len(p.Code.Entries) > 0 {
		lines = append(lines, fmt.Sprintf("code     %s, %s from %s", count(len(p.Code.Entries), "file"), size(p.Code.Bytes), p.Code.Dir))
	}
	for i, n := range p.Code.Notes {
		if i == 3 {
			lines = append(lines, fmt.Sprintf("         and %s", count(len(p.Code.Notes)-3, "more note")))
			break
		}
		lines = append(lines, "         "+plainText(n))
	}
	for _, in := range p.Spec.Inputs {
		lines = append(lines, fmt.Sprintf("input    %s from %s", in.Name, in.Path))
	}
	if p.Environment.Interpreter != "" {
		lines = append(lines, "python   "+p.Environment.Why)
	}
	return lines
}

// showPlan is --plan: exit status 3 when there is nothing to do.
func (a *app) showPlan(p *drover.Plan) error {
	action := map[string]string{"start": "starts a new job", "attach": "attaches to the live job", "resume": "goes on with the interrupted job",
		"replace": "cancels the interrupted job and starts a new one from its checkpoints", "skip": "does nothing"}[string(p.Action)]
	if a.settings.json {
		err := json.NewEncoder(a.out).Encode(map[string]any{"v": 1, "action": p.Action, "note": p.Note, "changed": p.Changed, "spec": p.Spec,
			"code":        map[string]any{"files": len(p.Code.Entries), "bytes": p.Code.Bytes, "digest": p.Digest, "note": p.CodeNote},
			"environment": map[string]any{"source": p.Environment.Source, "why": p.Environment.Why, "build": p.Environment.Build}})
		if err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.out, "%s/%s on %s: %s\n", p.Spec.Project, p.Spec.Task, orElse(p.Offer.Machine, p.Spec.On), action)
		if p.Note != "" {
			fmt.Fprintf(a.out, "  note     %s\n", p.Note)
		}
		for _, line := range planLines(p) {
			fmt.Fprintf(a.out, "  %s\n", line)
		}
	}
	if p.Action == "skip" {
		return status(fault.ExitComplete)
	}
	return nil
}
