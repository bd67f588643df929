package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

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

// progressOutput is where the builder's words go.
func (a *app) progressOutput() io.Writer {
	if a.quiet || a.settings.json {
		return io.Discard
	}
	return a.err
}

func (a *app) addNotifyFlag(f *pflag.FlagSet) {
	f.StringVar(&a.notify, "notify", "", "command line for the shell, run here when the job has ended: it finds DROVER_JOB, DROVER_STATE ...")
}

// commandWithFlag is the command that was typed, with one flag more after its verb.
func (a *app) commandWithFlag(flag string) string {
	typed := slices.Clone(a.typed)
	if flag != "" && !slices.Contains(typed, flag) && len(typed) > 0 {
		typed = slices.Insert(typed, 1, flag)
	}
	return pasted(typed, false)
}

// addOverwriteFlag adds --overwrite, which belongs to -o.
func (a *app) addOverwriteFlag(f *pflag.FlagSet) {
	f.BoolVar(&a.overwrite, "overwrite", false, "with -o: replace files of your own, too (default: they stay, and new files come beside them)")
}

// Queues are the lines in which jobs wait for room on this machine.
type Queues interface {
	// Lines tells of every queue that is used, paused, or has somebody in it.
	Lines() ([]Line, error)
	Pause(queue string) error
	Resume(queue string) error
}

// Line is one queue.
type Line struct {
	Queue  string  `json:"queue"`
	Paused bool    `json:"paused,omitempty"`
	Claims []Claim `json:"claims"` // who holds, then who waits, in their order
}

// Claim is one job's nodes in a queue.
type Claim struct {
	Who      string  `json:"who"` // "job 7fk2"
	Waits    bool    `json:"waits,omitempty"`
	Nodes    int     `json:"nodes"`
	CPUs     float64 `json:"cpus,omitempty"` // of all its nodes, as the rest
	Memory   int64   `json:"memory_bytes,omitempty"`
	GPUs     int     `json:"gpus,omitempty"`
	Priority int     `json:"priority,omitempty"`
	Why      string  `json:"why,omitempty"` // what it waits for
}

// hintInGrammar gives a hint to who typed ssm in words that ssm has: its own spelling of
// a flag, or nothing where it has no such flag.
func (a *app) hintInGrammar(hint string) string {
	if a.grammar == nil {
		return hint
	}
	return a.grammar.hint(hint)
}

// escapedOutput is where text is printed that holds words of programs and is not escaped yet, such
// as CSV: standard output as it is, or on a terminal with its control sequences escaped.
func (a *app) escapedOutput() io.Writer {
	if !isTerminal(a.out) {
		return a.out
	}
	return &escapedWriter{to: a.out, escaper: record.Escaper{Colour: true}}
}
