package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
)

// verifyVerb is drover verify.
type verifyVerb struct{ *app }

func newVerifyVerb(a *app) verifyVerb { return verifyVerb{a} }

func (a verifyVerb) command() *cobra.Command {
	o := drover.VerifyOptions{}
	c := &cobra.Command{Use: "verify [JOB]", Short: "Recompute all of a job from its store, and say what disagrees", Args: atMostOne, ValidArgsFunction: a.completeJobs}
	a.addStoreFlags(c)
	a.addJSONFlag(c)
	c.Flags().BoolVar(&o.LogsOnly, "logs-only", false, "do not read what outputs hold")
	c.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "print findings alone")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		j, err := a.findJob(cmd.Context(), args)
		if err != nil {
			return err
		}
		tell := a.newVerifyLine()
		o.Told = tell.told
		r, err := j.Verify(cmd.Context(), o)
		tell.clear()
		if err != nil {
			return err
		}
		if a.settings.json {
			err = newJSON(a.out).Encode(r)
		} else {
			a.printVerified(r)
		}
		if err == nil && !r.Sound() {
			return status(fault.ExitItems)
		}
		return err
	}
	return c
}

// notesShown is how many entries that do not count are named.
const notesShown = 5

func (a verifyVerb) printVerified(r drover.Verified) {
	p := func(key, format string, args ...any) {
		if !a.quiet {
			fmt.Fprintf(a.out, "  %-9s %s\n", key, plainText(fmt.Sprintf(format, args...)))
		}
	}
	sign, word := "✓", "verified: no problem found"
	if !r.Sound() {
		sign, word = "✗", count(r.Doubted, "finding")
	}
	if !a.quiet || !r.Sound() {
		fmt.Fprintf(a.out, "%s %s %s\n", sign, r.Job, word)
	}
	if r.Open() {
		p("state", "not ended yet: verified up to now")
	} else {
		p("state", "%s", r.State)
	}
	if r.Items > 0 {
		p("items", "%s", r.Tally)
		p("logs", "%s in %s; %s, %s handed over", entryCount(r.Entries), count(r.Chunks, "chunk"), count(r.Claims, "claim"), comma(r.Handed))
		p("extra", "%s in addition to one for each item: %s, %s, %s by agents whose chunk had passed to another agent", count(r.Extra.Sum(), "recorded run"),
			retryCount(r.Extra.Retries), count(r.Extra.Interrupted, "interruption"), comma(r.Extra.Unexplained))
		stopped := ""
		if r.Stopped > 0 {
			stopped = fmt.Sprintf(", and %s that ended when a person stopped agents", count(r.Stopped, "run"))
		}
		p("unseen", "%s may have run again without a record, because of %s of lost agents%s", count(r.Bound, "item"), count(r.Losses, "claim"), stopped)
	} else {
		p("logs", "%s; %s", entryCount(r.Entries), count(r.Attempts, "attempt"))
	}
	if r.Outputs > 0 {
		p("outputs", "%s read, %s", count(r.Outputs, "file"), size(r.Bytes))
	}
	key := "ignored"
	for i, n := range r.Ignored {
		if i == notesShown {
			p("", "and %s more that do not count", comma(r.Told-i))
			break
		}
		p(key, "%s", n)
		key = ""
	}
	for _, d := range r.Doubts {
		fmt.Fprintf(a.out, "  finding   %s: %s\n", d.Rule, plainText(d.String()))
	}
	if more := r.Doubted - len(r.Doubts); more > 0 {
		fmt.Fprintf(a.out, "  finding   and %s more\n", comma(more))
	}
}

func entryCount(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return comma(n) + " entries"
}

func retryCount(n int) string {
	if n == 1 {
		return "1 retry"
	}
	return comma(n) + " retries"
}

// verifyTeller shows on a terminal how far it has come.
type verifyTeller struct {
	a     *app
	shown time.Time
	on    bool
}

func (a verifyVerb) newVerifyLine() *verifyTeller {
	f, ok := a.err.(*os.File)
	return &verifyTeller{a: a.app, on: ok && !a.quiet && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"}
}

// told may be called for every chunk: a person reads no more than some a second.
func (t *verifyTeller) told(p drover.VerifyProgress) {
	if !t.on || time.Since(t.shown) < 200*time.Millisecond {
		return
	}
	t.shown = time.Now()
	fmt.Fprintf(t.a.err, "\r  %s of %s, %s, %s\x1b[K", comma(p.Items), count(p.Of, "item"), count(p.Outputs, "output"), count(p.Doubts, "finding"))
}

func (t *verifyTeller) clear() {
	if !t.shown.IsZero() {
		fmt.Fprint(t.a.err, "\r\x1b[K")
	}
}
