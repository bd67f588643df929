package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// bringer brings results and files here or to a bucket, shows how far a copy is, and reports what was copied.
type bringer struct{ *app }

func newBringer(a *app) bringer { return bringer{a} }

// openBucketOf opens the bucket that a URL names, whatever is kept in it.
func (a *app) openBucketOf(ctx context.Context, url string) (store.Bucket, string, error) {
	bucket, key, err := drover.SplitURL(url)
	if err != nil {
		return nil, "", err
	}
	b, err := a.OpenPlace(ctx, bucket, a.settings.endpoint, func(note string) { a.note("note: %s", note) })
	return b, key, err
}

// uploadFolder is drover put SOURCE URL.
func (a bringer) uploadFolder(ctx context.Context, source, url string, o drover.CopyOptions) error {
	b, key, err := a.openBucketOf(ctx, url)
	if err != nil {
		return err
	}
	show := a.newCopyLine()
	o.Watch, o.Away, o.Back, o.Notes = show.tell, show.away, show.back, a.uploadNotesFolder()
	ctx, over := untilTold(ctx, copyAgain)
	defer over()
	done, err := drover.Upload(ctx, source, b, key, o)
	show.end()
	return a.reportCopied(done, err, source+" -> "+url)
}

// copyAgain is why a copy ends at Ctrl-C.
var copyAgain = fault.New(fault.Interrupted, "Run it again: it continues where it stopped.", "interrupted")

// untilTold ends ctx, for why, at Ctrl-C or SIGTERM; the second time it ends drover.
func untilTold(ctx context.Context, why error) (_ context.Context, over func()) {
	ctx, end := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			signal.Stop(signals)
			end(why)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		end(nil)
	}
}

// uploadNotesFolder is where large files that are on their way are noted.
func (a *app) uploadNotesFolder() string {
	if a.Dirs.State == "" {
		return ""
	}
	return filepath.Join(a.Dirs.State, "uploads")
}

// downloadURL is drover get URL [TARGET].
func (a bringer) downloadURL(ctx context.Context, url, target string, o drover.CopyOptions) error {
	b, key, err := a.openBucketOf(ctx, url)
	if err != nil {
		return err
	}
	if target == "" {
		if target = path.Base(strings.TrimRight(key, "/")); target == "." {
			return fault.New(fault.Invalid, "Name a folder: drover get "+url+" data.", "get %q: a whole bucket has no name for its folder", url)
		}
	}
	show := a.newCopyLine()
	o.Watch, o.Away, o.Back = show.tell, show.away, show.back
	ctx, over := untilTold(ctx, copyAgain)
	defer over()
	done, err := drover.Download(ctx, b, key, target, o)
	show.end()
	return a.reportCopied(done, err, url+" -> "+target)
}

// bringInto has outputs brought into the folder that was typed; those for a place in a
// bucket come into a folder of drover's own first, and are sent from there.
func (a bringer) bringInto(ctx context.Context, output string, bring func(ctx context.Context, folder string) error) (err error) {
	if !drover.IsURL(output) {
		return bring(ctx, output)
	}
	ctx, over := untilTold(ctx, copyAgain)
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
	b, key, err := a.openBucketOf(ctx, output)
	if err != nil {
		return err
	}
	show := a.newCopyLine()
	done, err := drover.Upload(ctx, folder, b, folderKey(key), drover.CopyOptions{Watch: show.tell, Away: show.away, Back: show.back, Notes: a.uploadNotesFolder()})
	show.end()
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
func (a bringer) reportCopied(d drover.Copied, err error, what string) error {
	if err == nil || d.Files > 0 {
		text := fmt.Sprintf("%s: %s, %s in %s", plainText(what), count(int(d.Files), "file"), size(d.Bytes), span(d.Took))
		switch {
		case d.Same > 0:
			text += fmt.Sprintf("; %s (%s) there already", comma(int(d.Same)), size(d.SameBytes))
		case d.SameBytes > 0: // of files that an earlier run had begun
			text += fmt.Sprintf("; %s there already", size(d.SameBytes))
		}
		if d.LeftOut > 0 {
			text += fmt.Sprintf("; left out %s that are not files", comma(int(d.LeftOut)))
		}
		a.note("%s", text)
	}
	return err
}

// copyShow is one line that says how far a copy is, on a terminal and nowhere else.
type copyShow struct {
	a     *app
	on    bool
	begun time.Time

	mu   sync.Mutex
	last time.Time // when the line was written
}

func (a bringer) newCopyLine() *copyShow {
	f, ok := a.err.(*os.File)
	return &copyShow{a: a.app, on: ok && !a.quiet && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb", begun: time.Now()}
}

func (c *copyShow) tell(p drover.CopyProgress) {
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
	fmt.Fprintf(c.a.err, "\r%s of %s%s, %s of %s%s, %s/s\x1b[K", comma(int(p.Files+p.Same)), of, count(int(p.Found), "file"),
		size(p.Bytes+p.SameBytes), of, size(p.FoundBytes), humanize.Bytes(uint64(float64(max(p.Bytes, 0))/now.Sub(c.begun).Seconds())))
}

func (c *copyShow) away(length time.Duration, last error) {
	c.note(awayText(time.Now().Add(-length), last))
}

func (c *copyShow) back(length time.Duration) {
	c.note("the store answers again, after " + span(length))
}

// note is a line of its own, in the place of the one that says how far it is.
func (c *copyShow) note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last.IsZero() {
		fmt.Fprint(c.a.err, "\r\x1b[K")
	}
	c.a.note("note: %s", text)
}

func (c *copyShow) end() {
	if !c.last.IsZero() {
		fmt.Fprint(c.a.err, "\r\x1b[K")
	}
}
