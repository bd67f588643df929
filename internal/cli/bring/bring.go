// Package bring copies results and files here or to a bucket, shows how far that is, and
// says what was copied. How files are copied is package drover's.
// Proved by the scripts get_*, put_* and run_*.
package bring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// Bringer brings results and files here or to a bucket, shows how far a copy is, and reports what was copied.
type Bringer struct{ *app.App }

// NewBringer returns a Bringer of an invocation.
func NewBringer(a *app.App) Bringer { return Bringer{a} }

// UploadFolder is drover put SOURCE URL.
func (a Bringer) UploadFolder(ctx context.Context, source, url string, o drover.CopyOptions) error {
	b, key, err := a.OpenBucketOf(ctx, url)
	if err != nil {
		return err
	}
	show := a.NewCopyLine()
	o.Watch, o.Away, o.Back, o.Notes = show.Tell, show.noteAway, show.noteBack, a.UploadNotesFolder()
	ctx, over := app.UntilTold(ctx, app.CopyAgain)
	defer over()
	done, err := drover.Upload(ctx, source, b, key, o)
	show.End()
	return a.reportCopied(done, err, source+" -> "+url)
}

// DownloadURL is drover get URL [TARGET].
func (a Bringer) DownloadURL(ctx context.Context, url, target string, o drover.CopyOptions) error {
	b, key, err := a.OpenBucketOf(ctx, url)
	if err != nil {
		return err
	}
	if target == "" {
		if target = path.Base(strings.TrimRight(key, "/")); target == "." {
			return fault.New(fault.Invalid, "Name a folder: `drover get "+url+" data`.", "get %q: a whole bucket has no name for its folder", url)
		}
	}
	show := a.NewCopyLine()
	o.Watch, o.Away, o.Back = show.Tell, show.noteAway, show.noteBack
	ctx, over := app.UntilTold(ctx, app.CopyAgain)
	defer over()
	done, err := drover.Download(ctx, b, key, target, o)
	show.End()
	return a.reportCopied(done, err, url+" -> "+target)
}

// BringInto has outputs brought into the folder that was typed; those for a place in a
// bucket come into a folder of drover's own first, and are sent from there.
func (a Bringer) BringInto(ctx context.Context, output string, bring func(ctx context.Context, folder string) error) (err error) {
	if !drover.IsURL(output) {
		return bring(ctx, output)
	}
	ctx, over := app.UntilTold(ctx, app.CopyAgain)
	defer over()
	if err := os.MkdirAll(a.Dirs.Cache, 0o700); err != nil {
		return fault.Wrap(err, fault.Full, "Set XDG_CACHE_HOME to a folder that can be written.", "make drover's cache")
	}
	folder, err := os.MkdirTemp(a.Dirs.Cache, "outputs-")
	if err != nil {
		return fault.Wrap(err, fault.Full, "Free space, or set XDG_CACHE_HOME to another disk.", "make a folder for outputs")
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := bring(ctx, folder); err != nil {
		return err
	}
	// What a folder's next get goes by says nothing in a bucket.
	if err := os.Remove(filepath.Join(folder, ".drover.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b, key, err := a.OpenBucketOf(ctx, output)
	if err != nil {
		return err
	}
	show := a.NewCopyLine()
	done, err := drover.Upload(ctx, folder, b, folderKey(key), drover.CopyOptions{Watch: show.Tell, Away: show.noteAway, Back: show.noteBack, Notes: a.UploadNotesFolder()})
	show.End()
	return a.reportCopied(done, err, "outputs -> "+output)
}

// folderKey is a key as that of a folder; all of a bucket is one.
func folderKey(key string) string {
	if key = strings.TrimRight(key, "/"); key != "" {
		key += "/"
	}
	return key
}

// reportCopied says in one line what was done, also before an error: what was copied stays.
func (a Bringer) reportCopied(d drover.Copied, err error, what string) error {
	if err == nil || d.Files > 0 {
		text := fmt.Sprintf("%s: %s, %s in %s", terminal.PlainText(what), terminal.Count(int(d.Files), "file"), terminal.Size(d.Bytes), terminal.Span(d.Took))
		switch {
		case d.Same > 0:
			text += fmt.Sprintf("; %s (%s) there already", terminal.Comma(int(d.Same)), terminal.Size(d.SameBytes))
		case d.SameBytes > 0: // of files that an earlier run had begun
			text += fmt.Sprintf("; %s there already", terminal.Size(d.SameBytes))
		}
		if d.LeftOut > 0 {
			text += fmt.Sprintf("; left out %s that are not files", terminal.Comma(int(d.LeftOut)))
		}
		a.Note("%s", text)
	}
	return err
}

// CopyLine is one line that says how far a copy is, on a terminal and nowhere else.
type CopyLine struct {
	a     *app.App
	on    bool
	begun time.Time

	mu   sync.Mutex
	last time.Time // when the line was written
}

// NewCopyLine begins to show a copy.
func (a Bringer) NewCopyLine() *CopyLine {
	f, ok := a.Err.(*os.File)
	return &CopyLine{a: a.App, on: ok && !a.Quiet && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb", begun: time.Now()}
}

// Tell shows how far the copy is, a few times a second.
func (c *CopyLine) Tell(p drover.CopyProgress) {
	now := time.Now()
	if !c.on || now.Sub(c.last) < 200*time.Millisecond || now.Sub(c.begun) < 500*time.Millisecond {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = now
	of := "at least "
	if p.Counted {
		of = ""
	}
	fmt.Fprintf(c.a.Err, "\r%s of %s%s, %s of %s%s, %s/s\x1b[K", terminal.Comma(int(p.Files+p.Same)), of, terminal.Count(int(p.Found), "file"),
		terminal.Size(p.Bytes+p.SameBytes), of, terminal.Size(p.FoundBytes), humanize.Bytes(uint64(float64(max(p.Bytes, 0))/now.Sub(c.begun).Seconds())))
}

func (c *CopyLine) noteAway(length time.Duration, last error) {
	c.printNote(progress.AwayText(time.Now().Add(-length), last))
}

func (c *CopyLine) noteBack(length time.Duration) {
	c.printNote("the store answers again, after " + terminal.Span(length))
}

// printNote is a line of its own, in the place of the one that says how far it is.
func (c *CopyLine) printNote(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last.IsZero() {
		fmt.Fprint(c.a.Err, "\r\x1b[K")
	}
	c.a.Note("note: %s", text)
}

// End clears the line.
func (c *CopyLine) End() {
	if !c.last.IsZero() {
		fmt.Fprint(c.a.Err, "\r\x1b[K")
	}
}

// BringRunOutputs is bring for what a run has left, also when it has not settled.
func (a Bringer) BringRunOutputs(ctx context.Context, j *drover.Job, st drover.Status, output string) error {
	if output == "" {
		switch st.State {
		case job.Succeeded, job.Failed, job.Interrupted:
			return a.noteRunOutputs(ctx, j, st)
		}
		return nil
	}
	return a.BringInto(ctx, output, func(ctx context.Context, folder string) error {
		got, err := j.Get(ctx, folder, drover.GetOptions{Overwrite: a.Overwrite})
		if err == nil {
			a.PrintGot(got, output)
		}
		return err
	})
}

// noteRunOutputs says what there is to fetch, and how.
func (a Bringer) noteRunOutputs(ctx context.Context, j *drover.Job, st drover.Status) error {
	if a.Quiet {
		return nil
	}
	made, err := j.Made(ctx)
	if err != nil {
		return err
	}
	var what []string
	if made.Model {
		what = append(what, "model")
	}
	if made.Output {
		what = append(what, "output")
	}
	switch {
	case made.Files == 1:
		what = append(what, "1 file beside the script ("+terminal.PlainText(made.First)+")")
	case made.Files > 1:
		what = append(what, fmt.Sprintf("%s beside the script (%s, ...)", terminal.Count(made.Files, "file"), terminal.PlainText(made.First)))
	}
	if len(what) == 0 {
		a.Note("  logs: drover logs %s", st.ID)
		return nil
	}
	a.Note("  %s and logs: drover get %s -o out", strings.Join(what, ", "), st.ID)
	if made.Files > 0 && made.InPlace {
		a.Note("  to their places here: drover get %s -o .", st.ID)
	}
	return nil
}

// PrintGot says what was brought, and to where.
func (a Bringer) PrintGot(got drover.Got, typed string) {
	for _, p := range got.Parts {
		name := p.Name
		if rel, err := filepath.Rel(got.Dir, p.Path); err == nil { // state, of ssm, has no path
			name = filepath.ToSlash(rel)
		}
		path := strings.TrimRight(typed, "/") + "/" + name
		if !drover.IsURL(typed) {
			path = filepath.Clean(path)
		}
		if p.Name == "logs" && p.Files == 1 {
			path += "/logs0"
		}
		a.Note("  %-8s %s (%s, %s)", p.Name, path, terminal.Count(p.Files, "file"), terminal.Size(p.Bytes))
	}
	for _, n := range got.Notes {
		a.Note("  note: %s", n)
	}
	a.PrintChanges(got.Changes)
}

// BringItems downloads the outputs of items when a folder was named, and says
// where they are.
func (a Bringer) BringItems(ctx context.Context, j *drover.Job, output string) error {
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	if output == "" {
		a.Note("  results: drover results %s", rec.Short)
		if len(rec.Spec.Out) > 0 {
			a.Note("  outputs: drover get %s -o out", rec.Short)
		}
		return nil
	}
	if len(rec.Spec.Out) == 0 {
		a.Note("  results: drover results %s   (no --out said what items leave, so %s stays empty)", rec.Short, output)
		return nil
	}
	return a.BringInto(ctx, output, func(ctx context.Context, folder string) error {
		got, err := j.Get(ctx, folder, drover.GetOptions{Overwrite: a.Overwrite})
		if err == nil {
			a.printGotItems(got, output)
			err = leftOutputs(got.Items)
		}
		return err
	})
}

func (a Bringer) printGotItems(got drover.Got, typed string) {
	n := got.Items
	text := fmt.Sprintf("%s of %s, %s", terminal.Count(n.Files, "file"), terminal.Count(n.Items, "item"), terminal.Size(n.Bytes))
	if n.There > 0 {
		text += fmt.Sprintf("; %s there before", terminal.Comma(n.There))
	}
	a.Note("  outputs  %s (%s)", typed, text)
	for _, n := range got.Notes {
		a.Note("  note: %s", terminal.PlainText(n))
	}
	a.PrintChanges(got.Changes)
}

// BringItemsOf is drover get of a map.
func (a Bringer) BringItemsOf(ctx context.Context, j *drover.Job, s drover.Status, output string) error {
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	if len(rec.Spec.Out) == 0 {
		return fault.New(fault.Invalid, "`drover results "+s.ID+"` shows what items printed.", "get outputs of job %s: no --out said what its items leave", s.ID)
	}
	return a.BringInto(ctx, output, func(ctx context.Context, folder string) error {
		got, err := j.Get(ctx, folder, drover.GetOptions{Overwrite: a.Overwrite})
		if err == nil {
			a.Note("%s %s/%s %s", s.ID, s.Project, s.Task, strings.ToLower(string(s.State)))
			a.printGotItems(got, output)
			err = leftOutputs(got.Items)
		}
		return err
	})
}

// PrintChanges says which files of the user's stay, and what was removed, a line each.
func (a Bringer) PrintChanges(c drover.Changes) {
	if c.Kept > 0 {
		names := make([]string, len(c.Beside))
		for i, b := range c.Beside {
			names[i] = b.Path
		}
		remedy := " (--overwrite replaces yours)"
		if a.Grammar != nil { // which has no such flag
			remedy = ""
		}
		if c.Kept == 1 {
			a.Note("  kept your %s: the new file is %s%s", terminal.PlainText(c.Beside[0].Name), terminal.PlainText(names[0]), remedy)
		} else {
			a.Note("  kept %s of yours: the new ones are %s%s", terminal.Count(c.Kept, "file"), firstOf(names, c.Kept), remedy)
		}
	}
	if c.Removed > 0 {
		a.Note("  removed %s that this result does not have: %s", terminal.Count(c.Removed, "earlier output"), firstOf(c.Gone, c.Removed))
	}
}

// leftOutputs is the failure of a command that could not bring all: two items have an
// output of one name.
func leftOutputs(got *drover.GotItems) error {
	if got.Left == 0 {
		return nil
	}
	return fault.New(fault.Failed, "Put the item's number into the name, such as `--out '{.stem}-{n}.txt'`.", "get outputs: %s not brought, as another item has an output of the same name", terminal.Count(got.Left, "file"))
}
