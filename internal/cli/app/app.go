// Package app is one invocation of drover, as all verbs share it: the host it runs on, its
// outputs, the flags that every verb has, the config, and the client of the store that is
// meant. It knows no verb. Proved by its tests and by every script.
package app

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
	"github.com/drover-run/drover/internal/cli/config"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/internal/cli/relay"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/internal/image/build"
	"github.com/drover-run/drover/internal/proc/stdin"
	"github.com/drover-run/drover/internal/record/screen"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Host is what only cmd knows: the concrete stores and targets, and where this
// machine keeps things.
type Host struct {
	// OpenBucket opens what --store names, at --store-endpoint if that is not "";
	// near is true for a folder here.
	OpenBucket func(ctx context.Context, url, endpoint string) (b store.Bucket, near bool, err error)
	// OpenPlace opens any bucket, whatever it holds, as OpenBucket does; say receives notes
	// for the user, such as that requests are not signed.
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
	// OpenTargets makes the targets' drivers, which may open the store that the command means.
	OpenTargets func(driver.OpenStore) map[string]driver.Opened
	// Sockets finds where agents of a job on this machine serve their output.
	Sockets func(id string) []string
	// Folders are the work folders of agents that died on this machine, and RemoveFolder
	// takes one of them away.
	Folders      func() []drover.WorkFolder
	RemoveFolder func(dir string) error
	Queues       Queues
	// Registries are where images are pulled from and pushed to.
	Registries build.Registries
	Version    string
	Dirs       config.Dirs
}

// Agents are the identity by which agents open the store; the zero value is a narrow
// session of the user that starts them.
type Agents struct {
	Profile string // of ~/.aws, or an account of Google's; "machine": the identity of their machine
	Role    string // or service account, to be taken for some hours
}

// Rights are how others than this process open a store.
type Rights struct {
	Passes drover.Passes
	// Policy is a document that grants what is asked for and nothing else, in the
	// words of the store's owner. Nil: such a store knows none.
	Policy func(store.Rights) (string, error)
}

// App is one invocation.
type App struct {
	Host
	In        *os.File
	Out, Err  io.Writer
	Colour    bool
	Quiet     bool
	Overwrite bool     // with -o: files of the user's own, too
	KeepOrder bool     // drover map prints its items' output, in their order
	Typed     []string // the command line, without the program's name
	Notify    string   // of --notify
	Settings  Settings
	Conf      *config.Config
	Joined    bool     // the job is another command's, which we only follow
	Grammar   *Grammar // of another tool, when its command line was typed; nil: drover's own
	Away      *progress.StoreWatch
	stdin     *stdin.Input // what this command of a run has; nil: it is no such command
	given     *os.File     // the same, where the program may have it
	relay     *relay.Relay // nil: stdin is no terminal, or the program may not have it
}

// Grammar is what differs for the command lines of another tool.
type Grammar struct {
	Hint       func(hint string) string                                                        // a hint in the tool's words; "": it has none
	ExitStatus func(drover.Status) Status                                                      // of a job that did not succeed
	Skipped    func(ctx context.Context, j *drover.Job, st drover.Status, output string) error // reports a task that is complete
	Bring      func(ctx context.Context, j *drover.Job, st drover.Status, output string) error // brings what was asked for
}

// Status is an exit status that needs no more words.
type Status int

func (s Status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// PrintError is the one printer: a line of what and why, and the hint. Words of
// programs, servers and records are in them.
func (a *App) PrintError(err error) {
	harmless := func(text string) []byte { return screen.Escape([]byte(text), false) }
	fmt.Fprintf(a.Err, "drover: %s\n", harmless(err.Error()))
	switch h := a.HintInGrammar(fault.Hint(err)); {
	case h == "":
	case a.Colour && a.Grammar == nil:
		fmt.Fprint(a.Err, "  ")
		for _, p := range fault.HintParts(err) {
			if text := harmless(p.Text); p.Kind == fault.Words {
				fmt.Fprintf(a.Err, "%s", text)
			} else { // what can be typed is bold
				fmt.Fprintf(a.Err, "\x1b[1m%s\x1b[0m", text)
			}
		}
		fmt.Fprintln(a.Err)
	default:
		fmt.Fprintf(a.Err, "  %s\n", harmless(h))
	}
}

// Note prints a line of ours beside the program's output. Names and texts of programs and
// other users are in it: of control sequences only colours pass.
func (a *App) Note(format string, args ...any) {
	if !a.Quiet {
		text := screen.Escape(fmt.Appendf(nil, format, args...), true)
		_, _ = a.Err.Write(append(text, '\n'))
	}
}

// PaintState colours text for stderr. State never shows by colour alone.
func (a *App) PaintState(s job.State, text string) string {
	code := map[job.State]string{job.Succeeded: "32", job.Failed: "31", job.Running: "36", job.Interrupted: "33", job.Paused: "33", job.Cancelled: "33"}[s]
	if !a.Colour || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Settings are the flags every verb has.
type Settings struct {
	Store    string
	Endpoint string
	Project  string
	On       string
	JSON     bool

	AgentProfile string
}

// AddStoreFlags adds the flags that say where to look.
func (a *App) AddStoreFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&a.Settings.Store, "store", "", "where facts are kept: a folder or s3://bucket/prefix (default: $DROVER_STORE, the config, the user's data folder)")
	f.StringVar(&a.Settings.Endpoint, "store-endpoint", "", "server that has the store's bucket: http://host:9000 (default: Amazon's)")
	f.StringVarP(&a.Settings.Project, "project", "p", "", "project (default: drover.yaml, or the folder's name)")
	f.StringVar(&a.Settings.Project, "project-name", "", "")
	_ = f.MarkHidden("project-name") // the seed's spelling
}

// AddJSONFlag adds --json.
func (a *App) AddJSONFlag(c *cobra.Command) {
	c.Flags().BoolVar(&a.Settings.JSON, "json", false, "print JSON")
}

// ReadConfig reads the layers once.
func (a *App) ReadConfig() (*config.Config, error) {
	if a.Conf == nil {
		c, err := config.ReadConfig(a.Dirs)
		if err != nil {
			return nil, err
		}
		for _, n := range c.Notes {
			a.Note("%s", terminal.PlainText(n))
		}
		a.Conf = c
	}
	return a.Conf, nil
}

// ProgressOutput is where the builder's words go.
func (a *App) ProgressOutput() io.Writer {
	if a.Quiet || a.Settings.JSON {
		return io.Discard
	}
	return a.Err
}

// AddNotifyFlag adds --notify.
func (a *App) AddNotifyFlag(f *pflag.FlagSet) {
	f.StringVar(&a.Notify, "notify", "", "command line for the shell, run here when the job has ended: it finds DROVER_JOB, DROVER_STATE ...")
}

// commandWithFlag is the command that was typed, with one flag more after its verb.
func (a *App) commandWithFlag(flag string) string {
	typed := slices.Clone(a.Typed)
	if flag != "" && !slices.Contains(typed, flag) && len(typed) > 0 {
		typed = slices.Insert(typed, 1, flag)
	}
	return terminal.Pasted(typed, false)
}

// AddOverwriteFlag adds --overwrite, which belongs to -o.
func (a *App) AddOverwriteFlag(f *pflag.FlagSet) {
	f.BoolVar(&a.Overwrite, "overwrite", false, "with -o: replace files of your own, too (default: they stay, and new files come beside them)")
}

// Queues are the lines in which jobs wait for room on this machine.
type Queues interface {
	// Lines lists every queue that is used, is paused, or has claims.
	Lines() ([]Line, error)
	Pause(queue string) error
	Resume(queue string) error
}

// Line is one queue.
type Line struct {
	Queue  string  `json:"queue"`
	Paused bool    `json:"paused,omitempty"`
	Claims []Claim `json:"claims"` // those that hold, then those that wait, in their order
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

// HintInGrammar returns a hint in the words of the tool that was typed: its own spelling
// of a flag, or "" where the tool has no such flag.
func (a *App) HintInGrammar(hint string) string {
	if a.Grammar == nil {
		return hint
	}
	return a.Grammar.Hint(hint)
}

// EscapedOutput is where text is printed that holds words of programs and is not escaped yet, such
// as CSV: standard output as it is, or on a terminal with its control sequences escaped.
func (a *App) EscapedOutput() io.Writer {
	if !terminal.IsTerminal(a.Out) {
		return a.Out
	}
	return &terminal.EscapedWriter{To: a.Out, Escaper: screen.Escaper{Colour: true}}
}
