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
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// commandTree is the root of all verbs: it lists them, prints their help, and corrects what was mistyped.
type commandTree struct{ *app }

func newCommandTree(a *app) commandTree { return commandTree{a} }

// Host is what only cmd knows: the concrete stores and targets, and where this
// machine keeps things.
type Host struct {
	// OpenBucket opens what --store names, at --store-endpoint if that is not "";
	// near is true for a folder here.
	OpenBucket func(ctx context.Context, url, endpoint string) (b store.Bucket, near bool, err error)
	// OpenPlace opens a bucket of anybody's, for whatever is kept in it, as OpenBucket
	// does; say is told what a person should know, such as that it is asked unsigned.
	OpenPlace func(ctx context.Context, url, endpoint string, say func(note string)) (store.Bucket, error)
	// Rights say what agents open such a store with, and what to grant them; those
	// of a folder are empty. Nil: there are only folders.
	Rights func(ctx context.Context, url, endpoint string, agents Agents) (Rights, error)
	// Owner returns the account that a store's bucket belongs to, for init to write
	// down, and refuses a bucket of another account than the caller's; "" where there
	// is nothing to write, and say is told why it could not be found out. Nil: no store
	// has an owner.
	Owner func(ctx context.Context, url, endpoint string, say func(note string)) (account string, err error)
	// Found says in a line each what else this machine could keep a store in.
	Found func() []string
	// Drivers makes the targets' drivers.
	Drivers func() map[string]driver.Driver
	// Scripts read scripts' heads, for the targets with something to read there.
	Scripts map[string]driver.Script
	// Sockets finds where agents of a job on this machine serve their output.
	Sockets func(id string) []string
	// Folders are the work folders of agents that died on this machine, and RemoveFolder
	// takes one of them away.
	Folders      func() []drover.WorkFolder
	RemoveFolder func(dir string) error
	Queues       Queues
	Version      string
	Dirs         Dirs
}

// Agents are as whom agents open the store; the zero value is a narrow session of
// whoever runs them.
type Agents struct {
	Profile string // of ~/.aws, or an account of Google's; "machine": whoever their machine is
	Role    string // or service account, to be taken for some hours
}

// Rights are how others than this process open a store.
type Rights struct {
	Passes drover.Passes
	// Policy is a document that grants what is asked for and nothing else, in the
	// words of the store's owner. Nil: such a store knows none.
	Policy func(store.Rights) (string, error)
}

// Dirs are drover's own folders on this machine.
type Dirs struct {
	Data   string // the default store
	State  string // placements and work folders
	Cache  string
	Config string
}

// app is one invocation.
type app struct {
	Host
	in        *os.File
	out, err  io.Writer
	colour    bool
	quiet     bool
	overwrite bool     // with -o: files of the user's own, too
	keepOrder bool     // drover map prints its items' output, in their order
	typed     []string // the command line, without the program's name
	notify    string   // of --notify
	settings  settings
	conf      *config
	joined    bool     // the job is another command's, which we only follow
	grammar   *grammar // of another tool whose command line was typed; nil: drover's own
	away      *minding
	stdin     *proc.Stdin // what this command of a run has; nil: it is no such command
	given     *os.File    // the same, where the program may have it
	relay     *relay      // nil: stdin is no terminal, or the program may not have it
}

// grammar is what differs for the command lines of another tool.
type grammar struct {
	hint       func(hint string) string                                                        // a hint in the tool's words; "": it has none
	exitStatus func(drover.Status) status                                                      // of a job that did not succeed
	skipped    func(ctx context.Context, j *drover.Job, st drover.Status, output string) error // reports a task that is complete
	bring      func(ctx context.Context, j *drover.Job, st drover.Status, output string) error // brings what was asked for
}

// Main runs one command line and returns its exit status.
func Main(ctx context.Context, h Host, args []string) int {
	a := &app{Host: h, in: os.Stdin, out: os.Stdout, err: os.Stderr, colour: wantColour(os.Stderr), typed: args, away: &minding{}}
	root := newCommandTree(a).newRoot()
	root.SetArgs(args)
	rememberOutputs(h.Dirs)
	err := root.ExecuteContext(ctx)
	a.endStdin()
	a.away.end()
	rememberOutputs(h.Dirs) // by now the other end of a pipe has opened its files
	var s status
	if errors.As(err, &s) {
		return int(s)
	}
	if err != nil {
		a.printError(err)
	}
	return fault.Exit(err)
}

// status is an exit status that needs no more words.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// printError is the one printer: a line of what and why, and the hint. Words of
// programs, servers and records are in them.
func (a *app) printError(err error) {
	harmless := func(text string) []byte { return record.Escape([]byte(text), false) }
	fmt.Fprintf(a.err, "drover: %s\n", harmless(err.Error()))
	if h := a.hintInGrammar(fault.Hint(err)); h != "" {
		fmt.Fprintf(a.err, "  %s\n", harmless(h))
	}
}

// note prints a line of ours beside the program's output. Names and texts of programs and
// other users are in it: of control sequences only colours pass.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		text := record.Escape(fmt.Appendf(nil, format, args...), true)
		_, _ = a.err.Write(append(text, '\n'))
	}
}

// wantColour follows NO_COLOR and CLICOLOR_FORCE; a pipe gets none.
func wantColour(f *os.File) bool {
	if os.Getenv("NO_COLOR") != "" {
		return false
	}
	if v := os.Getenv("CLICOLOR_FORCE"); v != "" && v != "0" {
		return true
	}
	return term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// paintState colours text for stderr. State never shows by colour alone.
func (a *app) paintState(s job.State, text string) string {
	code := map[job.State]string{job.Succeeded: "32", job.Failed: "31", job.Running: "36", job.Interrupted: "33", job.Paused: "33", job.Cancelled: "33"}[s]
	if !a.colour || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// settings are the flags every verb has.
type settings struct {
	store    string
	endpoint string
	project  string
	on       string
	json     bool

	agentProfile string
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
		if native, ok := aliases[name]; ok {
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
		newRunVerb(a.app).command(), newShellVerb(a.app).command(), newProcessVerb(a.app).command(), newMapVerb(a.app).command(), newStatusVerb(a.app).command(), newTopVerb(a.app).command(), newLogsVerb(a.app).command(), newMetricsVerb(a.app).command(), newWhyVerb(a.app).command(), newEventsVerb(a.app).command(),
		newItemsVerb(a.app).command(), newResultsVerb(a.app).command(), newVerifyVerb(a.app).command(),
		newGetVerb(a.app).command(), newPutVerb(a.app).command(), newDataVerb(a.app).command(), newAttachVerb(a.app).command(), newTargetVerb(a.app).command(), newOffersVerb(a.app).command(), newWorkerVerb(a.app).command(), newQueueVerb(a.app).command(), newImageVerb(a.app).command(), newGcVerb(a.app).command(), newWaitVerb(a.app).command(), newRetryVerb(a.app).command(), newPauseVerb(a.app).command(), newResumeVerb(a.app).command(), newCancelVerb(a.app).command(),
		newInitVerb(a.app).command(), newDoctorVerb(a.app).command(), newConfigVerb(a.app).command(), newVersionVerb(a.app).command(), newSsmVerb(a.app).command(),
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
	hint := "drover help lists the verbs."
	if meant := otherVerbs[args[0]]; meant != "" {
		hint = meant
	} else if near := fault.Nearest(args[0], verbs); near != "" {
		hint = "Did you mean drover " + near + "?"
	} else if _, err := os.Stat(args[0]); err == nil {
		hint = "Try drover run " + args[0] + "."
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
	verb, hint := strings.TrimPrefix(cmd.CommandPath(), "drover "), "drover help lists the verbs."
	if cmd.HasParent() {
		hint = "drover help " + verb + " lists the flags."
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
			hint = "Items are for drover map: drover map --from items.txt -- ./work.sh {}."
		case near != "" && script:
			hint = "Did you mean " + near + "? Flags of your script come after the script."
		case near != "":
			hint = "Did you mean " + near + "?"
		case script:
			hint = "Flags of your script come after the script: drover run train.py " + typed + "."
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
	if fault.Hint(cause) != "" {
		hint = fault.Hint(cause)
	}
	return fault.New(fault.Invalid, hint, "read --%s: %s", flag.Name, cause)
}

// addStoreFlags adds the flags that say where to look.
func (a *app) addStoreFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&a.settings.store, "store", "", "where facts are kept: a folder or s3://bucket/prefix (default: $DROVER_STORE, the config, the user's data folder)")
	f.StringVar(&a.settings.endpoint, "store-endpoint", "", "server that has the store's bucket: http://host:9000 (default: Amazon's)")
	f.StringVarP(&a.settings.project, "project", "p", "", "project (default: drover.yaml, or the folder's name)")
	f.StringVar(&a.settings.project, "project-name", "", "")
	_ = f.MarkHidden("project-name") // the seed's spelling
}

func (a *app) addJSONFlag(c *cobra.Command) {
	c.Flags().BoolVar(&a.settings.json, "json", false, "print JSON")
}

// readConfig reads the layers once.
func (a *app) readConfig() (*config, error) {
	if a.conf == nil {
		c, err := readConfig(a.Dirs)
		if err != nil {
			return nil, err
		}
		for _, n := range c.notes {
			a.note("%s", plainText(n))
		}
		a.conf = c
	}
	return a.conf, nil
}

// projectName is the one that is meant when none is typed.
func (a *app) projectName() (string, error) {
	name, _, err := a.projectAndFolder()
	return name, err
}

// projectAndFolder is the project, and the folder whose name it has if nobody has named it.
func (a *app) projectAndFolder() (name, folder string, err error) {
	if a.settings.project != "" {
		return a.settings.project, "", job.ValidName("project", a.settings.project)
	}
	c, err := a.readConfig()
	if err != nil {
		return "", "", err
	}
	p, err := c.use("project")
	if err != nil {
		return "", "", err
	}
	if p != "" {
		return p, "", job.ValidName("project", p)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", "", fault.Wrap(err, fault.Invalid, "Change to a folder that is there.", "find the working folder")
	}
	if name := job.Label(lastElement(dir)); name != "" && name != "ids" && name != "blobs" {
		return name, dir, nil
	}
	return "default", dir, nil
}

// storeURL is the store that is meant.
func (a *app) storeURL() (url, endpoint string, err error) {
	c, err := a.readConfig()
	if err != nil {
		return "", "", err
	}
	targets, err := a.namedTargets(c)
	if err != nil {
		return "", "", err
	}
	if url, err = a.configuredStoreURL(c, targets); err != nil {
		return "", "", err
	}
	if url = orElse(url, a.Dirs.Data); url == "" {
		return "", "", fault.New(fault.Invalid, "Set HOME, or name a folder with --store.", "choose store: neither HOME nor XDG_DATA_HOME is set")
	}
	endpoint, err = a.storeEndpoint(c, url)
	return url, endpoint, err
}

// storeRights are those of the store that is meant.
func (a *app) storeRights(ctx context.Context, url, endpoint string) (Rights, error) {
	c, err := a.readConfig()
	if err != nil || a.Rights == nil {
		return Rights{}, err
	}
	who, refused := a.agentIdentity(c)
	r, err := a.Rights(ctx, url, endpoint, who)
	if refused != nil && r.Passes.Make != nil { // a store in a folder needs neither
		r.Passes.Make = func(context.Context, store.Rights, bool) (drover.Pass, error) { return drover.Pass{}, refused }
	}
	return r, err
}

// agentIdentity are as whom agents are to open the store: the zero value with an error, where
// that stands in a file that was not confirmed.
func (a *app) agentIdentity(c *config) (who Agents, err error) {
	who.Profile = a.settings.agentProfile
	if err = c.fill(&who.Profile, "agent_profile"); err == nil {
		err = c.fill(&who.Role, "agent_role")
	}
	if err != nil {
		return Agents{}, err
	}
	return who, nil
}

// checkMayStart refuses a command that starts agents which a setting that was not confirmed
// would have act as somebody.
func (a *app) checkMayStart() error {
	c, err := a.readConfig()
	if err != nil {
		return err
	}
	url, _, err := a.storeURL()
	if err == nil && isBucket(url) {
		_, err = a.agentIdentity(c)
	}
	return err
}

// isBucket says whether a store is none in a folder.
func isBucket(url string) bool {
	return strings.Contains(url, "://") && !strings.HasPrefix(url, "file://")
}

// openClient opens the store that is meant.
func (a *app) openClient(ctx context.Context) (*drover.Client, error) {
	url, endpoint, err := a.storeURL()
	if err != nil {
		return nil, err
	}
	if a.Dirs.State == "" || a.Dirs.Cache == "" {
		return nil, fault.New(fault.Invalid, "Set HOME.", "find a folder for running jobs: HOME is not set, and the one in the temporary folder belongs to another user")
	}
	b, near, err := a.OpenBucket(ctx, url, endpoint)
	if err != nil {
		return nil, err
	}
	r, err := a.storeRights(ctx, url, endpoint)
	if err != nil {
		return nil, err
	}
	c, err := a.readConfig()
	if err != nil {
		return nil, err
	}
	drivers := a.Drivers()
	targets, err := a.namedTargets(c)
	if err != nil {
		return nil, err
	}
	c.withhold(targets)
	region, err := c.use("region")
	if err != nil {
		return nil, err
	}
	mirror := c.get("image_mirror")
	if c.refuses("image_mirror", mirror) { // jobs with a framework were refused: mayUse
		mirror.value = ""
	}
	client, err := drover.Open(ctx, drover.Options{Bucket: b, Drivers: drivers, Targets: targets, Scripts: a.Scripts, Cache: a.Dirs.Cache, Version: a.Version, State: a.Dirs.State, Again: a.commandWithFlag, Near: near, Stdin: a.given, Terminal: a.relay.open, Passes: r.Passes, Sockets: a.Sockets, Folders: a.Folders, RemoveFolder: a.RemoveFolder,
		OpenPlace: func(ctx context.Context, url string) (store.Bucket, error) {
			b, _, err := a.openBucketOf(ctx, url)
			return b, err
		},
		Images: drover.Images{Region: image.Region(os.Getenv, region), Mirror: mirror.value, Pin: a.pinImage, Build: a.buildJobImage}})
	if err == nil {
		a.watchStore(ctx, client)
	}
	return client, err
}

// namedTargets are the config's named ones.
func (a *app) namedTargets(c *config) (map[string]job.Target, error) {
	drivers := a.Drivers()
	return c.targets(func(name string) bool { return drivers[name] != nil })
}

// configuredStoreURL is what was typed or is in the environment, else what the target that is
// meant says, else the config.
func (a *app) configuredStoreURL(c *config, targets map[string]job.Target) (string, error) {
	if a.settings.store != "" {
		return a.settings.store, nil
	}
	on := a.settings.on
	if err := c.fill(&on, "on"); err != nil {
		return "", err
	}
	if targets[on].Store != "" && c.get("store").from != "DROVER_STORE" {
		return c.use("targets." + on + ".store")
	}
	return c.use("store")
}

// storeEndpoint is the server that has the store, where it is none of a folder: then
// only what was typed is wrong, and a setting is for other stores.
func (a *app) storeEndpoint(c *config, url string) (string, error) {
	typed := a.settings.endpoint
	switch {
	case isBucket(url):
		err := c.fill(&typed, "store_endpoint")
		return typed, err
	case typed != "":
		return "", fault.New(fault.Invalid, "Name a bucket too: --store s3://bucket/prefix.", "choose store: %s is a folder, and --store-endpoint is where a server has buckets", url)
	}
	return "", nil
}

// findJob resolves the job that an argument names; "last" when there is none.
func (a *app) findJob(ctx context.Context, args []string) (*drover.Job, error) {
	c, err := a.openClient(ctx)
	if err != nil {
		return nil, err
	}
	ref := "last"
	if len(args) > 0 {
		ref = args[0]
	}
	project, err := a.projectName()
	if err != nil {
		return nil, err
	}
	return c.Find(ctx, ref, project)
}

// jobAndStatus resolves the job that an argument names, and its status.
func (a *app) jobAndStatus(ctx context.Context, args []string) (*drover.Job, drover.Status, error) {
	j, err := a.findJob(ctx, args)
	if err != nil {
		return nil, drover.Status{}, err
	}
	s, err := j.Status(ctx)
	return j, s, err
}

// completeJobs offers the ids of jobs.
func (a *app) completeJobs(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := a.openClient(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	jobs, err := c.Jobs(cmd.Context(), a.settings.project)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	words := []string{"last"}
	slices.Reverse(jobs)
	for i, j := range jobs {
		if i == 20 {
			break
		}
		if s, err := j.Status(cmd.Context()); err == nil {
			words = append(words, fmt.Sprintf("%s\t%s %s", s.ID, s.Task, strings.ToLower(string(s.State))))
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

func lastElement(path string) string {
	return path[strings.LastIndexByte(path, '/')+1:]
}

// exactly is the arguments of verbs that take n words.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return fault.New(fault.Invalid, "Write it as "+cmd.UseLine()+".", "read command line: %s takes %s, not %d", cmd.CommandPath(), count(n, "argument"), len(args))
	}
}

// between is the arguments of verbs that take some words more or less.
func between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		return fault.New(fault.Invalid, "Write it as "+cmd.UseLine()+".", "read command line: %s takes %d to %d words, not %d", cmd.CommandPath(), least, most, len(args))
	}
}

// atMostOne is the arguments of verbs that take a job.
func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fault.New(fault.Invalid, "Name one job: drover "+cmd.Name()+" "+args[0]+".", "read command line: %d jobs named, drover %s takes one", len(args), cmd.Name())
	}
	return nil
}
