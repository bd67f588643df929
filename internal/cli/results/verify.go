package results

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// Verify is drover verify.
type Verify struct{ *app.App }

// NewVerify returns a Verify of an invocation.
func NewVerify(a *app.App) Verify { return Verify{a} }

// Command returns the verb's command, with its flags.
func (a Verify) Command() *cobra.Command {
	o := drover.VerifyOptions{}
	c := &cobra.Command{Use: "verify [JOB]", Short: "Recompute all of a job from its store, and say what disagrees", Args: app.AtMostOne, ValidArgsFunction: a.CompleteJobs}
	a.AddStoreFlags(c)
	a.AddJSONFlag(c)
	c.Flags().BoolVar(&o.LogsOnly, "logs-only", false, "do not read what outputs hold")
	c.Flags().BoolVarP(&a.Quiet, "quiet", "q", false, "print findings alone")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := a.FindJob(cmd.Context(), args)
		if err != nil {
			return err
		}
		tell := a.newVerifyLine()
		o.Told = tell.showProgress
		r, err := j.Verify(cmd.Context(), o)
		tell.clearLine()
		if err != nil {
			return err
		}
		if a.Settings.JSON {
			err = terminal.NewJSON(a.Out).Encode(r)
		} else {
			a.printVerified(r)
		}
		if err == nil && !r.Sound() {
			return app.Status(fault.ExitItems)
		}
		return err
	}
	return c
}

// notesShown is how many entries that do not count are named.
const notesShown = 5

func (a Verify) printVerified(r drover.Verified) {
	p := func(key, format string, args ...any) {
		if !a.Quiet {
			fmt.Fprintf(a.Out, "  %-9s %s\n", key, terminal.PlainText(fmt.Sprintf(format, args...)))
		}
	}
	sign, word := "✓", "verified: no problem found"
	if !r.Sound() {
		sign, word = "✗", terminal.Count(r.Doubted, "finding")
	}
	if !a.Quiet || !r.Sound() {
		fmt.Fprintf(a.Out, "%s %s %s\n", sign, r.Job, word)
	}
	if r.Open() {
		p("state", "not ended yet: verified up to now")
	} else {
		p("state", "%s", r.State)
	}
	if r.Items > 0 {
		p("items", "%s", r.Tally)
		p("logs", "%s in %s of items; agents took a chunk %s, and gave a part of one to an idle agent %s", entryCount(r.Entries), terminal.Count(r.Chunks, "chunk"),
			terminal.Count(r.Claims, "time"), terminal.Count(r.Handed, "time"))
		p("extra", "%s in addition to one for each item: %s, %s, %s by agents whose chunk had passed to another agent", terminal.Count(r.Extra.Sum(), "recorded run"),
			retryCount(r.Extra.Retries), terminal.Count(r.Extra.Interrupted, "interruption"), terminal.Comma(r.Extra.Unexplained))
		var why []string
		if r.Losses > 0 {
			why = append(why, terminal.Count(r.Losses, "chunk")+" had agents that were lost")
		}
		if r.Stopped > 0 {
			why = append(why, terminal.Count(r.Stopped, "run")+" ended when a person stopped agents")
		}
		p("unseen", "%s", strings.TrimSuffix(terminal.Count(r.Bound, "item")+" may have run again without a record: "+strings.Join(why, ", and "), ": "))
	} else {
		p("logs", "%s; %s", entryCount(r.Entries), terminal.Count(r.Attempts, "attempt"))
	}
	if r.Outputs > 0 {
		p("outputs", "%s read, %s", terminal.Count(r.Outputs, "file"), terminal.Size(r.Bytes))
	}
	key := "ignored"
	for i, n := range r.Ignored {
		if i == notesShown {
			p("", "and %s more that do not count", terminal.Comma(r.Told-i))
			break
		}
		p(key, "%s", n)
		key = ""
	}
	for _, d := range r.Findings {
		fmt.Fprintf(a.Out, "  finding   %s: %s\n", d.Rule, terminal.PlainText(d.String()))
	}
	if more := r.Doubted - len(r.Findings); more > 0 {
		fmt.Fprintf(a.Out, "  finding   and %s more\n", terminal.Comma(more))
	}
}

func entryCount(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return terminal.Comma(n) + " entries"
}

func retryCount(n int) string {
	if n == 1 {
		return "1 retry"
	}
	return terminal.Comma(n) + " retries"
}

// verifyTeller shows on a terminal how far it has come.
type verifyTeller struct {
	a     *app.App
	shown time.Time
	on    bool
}

func (a Verify) newVerifyLine() *verifyTeller {
	f, ok := a.Err.(*os.File)
	return &verifyTeller{a: a.App, on: ok && !a.Quiet && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"}
}

// showProgress may be called for every chunk: a person reads no more than some a second.
func (t *verifyTeller) showProgress(p drover.VerifyProgress) {
	if !t.on || time.Since(t.shown) < 200*time.Millisecond {
		return
	}
	t.shown = time.Now()
	fmt.Fprintf(t.a.Err, "\r  %s of %s, %s, %s\x1b[K", terminal.Comma(p.Items), terminal.Count(p.Of, "item"), terminal.Count(p.Outputs, "output"), terminal.Count(p.Findings, "finding"))
}

func (t *verifyTeller) clearLine() {
	if !t.shown.IsZero() {
		fmt.Fprint(t.a.Err, "\r\x1b[K")
	}
}
