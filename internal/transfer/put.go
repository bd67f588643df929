package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// Put copies source, a file or a folder, to a place. A folder's files come below it,
// without the folder's own name; a file gets the place's name, or its own below a
// place that is a folder.
func Put(ctx context.Context, source string, to Place, o Options) (report.Copied, error) {
	defer o.reportOutages(ctx, to.Store)()
	u := &up{run: run{o: o, doing: fmt.Sprintf("put %s to %s", source, to)}, to: to, source: source}
	info, err := os.Stat(source)
	switch {
	case err != nil:
		return report.Copied{}, fault.Wrap(bare(err), fault.Missing, "Check the path.", "put %q", source)
	case info.Mode().IsRegular():
		u.dropOldUploads(ctx)
		if key := to.Key; key == "" || strings.HasSuffix(key, "/") {
			u.to.Key += filepath.Base(source)
		}
		return carry(ctx, &u.run, func(ctx context.Context, give func(sending) error) error { return u.planSingleFile(ctx, info, give) }, u.sendFile)
	case !info.IsDir():
		return report.Copied{}, fault.New(fault.Invalid, "Write what it gives into a file, and send that.", "put %q: it is neither a file nor a folder", source)
	}
	u.dropOldUploads(ctx)
	u.to.Key = to.folderPrefix()
	return carry(ctx, &u.run, u.planFolder, u.sendFile)
}

// up is a Put under way.
type up struct {
	run
	to     Place
	source string
}

// sending is a file that may have to be sent.
type sending struct {
	path, key string
	size      int64
	tag       string // of the object that is there, where only the content says whether it is this one
}

// planSingleFile plans a single file. The object of its name is the first of those that begin so.
func (u *up) planSingleFile(ctx context.Context, info fs.FileInfo, give func(sending) error) error {
	next, stop := listed(ctx, u.to.Store, u.to.Key)
	defer stop()
	there, ok, err := next()
	if err != nil {
		return err
	}
	return u.judgeFile(file{path: u.source, size: info.Size(), time: info.ModTime()}, u.to.Key, there, ok && there.Key == u.to.Key, give)
}

// planFolder goes through the folder and the listing side by side: both are in the order of
// their names.
func (u *up) planFolder(ctx context.Context, give func(sending) error) error {
	next, stop := listed(ctx, u.to.Store, u.to.Key)
	defer stop()
	there, more, err := next()
	if err != nil {
		return err
	}
	w := walker{told: func() { u.leftOut.Add(1) }}
	return w.visitFolder(ctx, u.source, "", func(f file) error {
		key := u.to.Key + f.name
		for more && there.Key < key {
			if there, more, err = next(); err != nil {
				return err
			}
		}
		return u.judgeFile(f, key, there, more && there.Key == key, give)
	})
}

// judgeFile decides what becomes of a file, by the object that is there.
func (u *up) judgeFile(f file, key string, there store.Object, held bool, give func(sending) error) error {
	u.found.Add(1)
	u.foundBytes.Add(f.size)
	if err := store.CheckName(key); err != nil {
		u.noteRefusal(f.name, "an object cannot have such a name")
		return nil
	}
	s := sending{path: f.path, key: key, size: f.size}
	if held && there.Size == f.size {
		// A bucket's time is of its own clock and cut to the second, and is that of the
		// end: a file that is not older may have been written meanwhile.
		if f.time.Before(there.Time) && !u.o.Checksum {
			u.countSame(f.size)
			return nil
		}
		if isMD5(there.Tag) {
			s.tag = there.Tag
		}
	}
	return give(s)
}

func (u *run) countSame(size int64) {
	u.same.Add(1)
	u.sameBytes.Add(size)
}

// sendFile sends one file, unless its content is there already.
func (u *up) sendFile(ctx context.Context, s sending) error {
	f, err := os.Open(s.path)
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "Make it readable, or take it away, and run it again.", "read")
	}
	defer f.Close()
	if s.tag != "" {
		same, err := holds(ctx, f, s.tag)
		if err != nil {
			return err
		}
		if same {
			u.countSame(s.size)
			return nil
		}
	}
	counted := &counting{ReadSeeker: f, bytes: &u.bytes}
	there, err := u.storeFile(ctx, s, counted)
	if fault.KindOf(err) == fault.Invalid && store.CheckKey(s.key) != nil {
		counted.undoCount()
		u.noteRefusal(s.key, "this bucket does not accept such a name")
		return nil
	}
	if err != nil {
		return err
	}
	u.bytes.Add(-there)
	u.sameBytes.Add(there)
	u.files.Add(1)
	return nil
}

// storeFile sends a file, and goes on with a large one that an earlier run had begun. there
// is how many of its bytes that one had sent.
func (u *up) storeFile(ctx context.Context, s sending, body io.ReadSeeker) (there int64, err error) {
	if s.size >= large && u.o.Notes != "" {
		if n := openNote(u.o.Notes, u.to.Store.String(), s.key); n != nil {
			there, err = u.to.Store.PutFileOn(ctx, s.key, body, n)
			n.closeNote(err == nil)
			return there, err
		}
	}
	return 0, u.to.Store.PutFile(ctx, s.key, body)
}

// counting counts what is read of a file, once, though it is read again after an
// unclear answer.
type counting struct {
	io.ReadSeeker
	bytes   interface{ Add(int64) int64 }
	at, top int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.ReadSeeker.Read(p)
	c.at += int64(n)
	if c.at > c.top {
		c.bytes.Add(c.at - c.top)
		c.top = c.at
	}
	return n, err
}

func (c *counting) Seek(offset int64, whence int) (int64, error) {
	at, err := c.ReadSeeker.Seek(offset, whence)
	c.at = at
	return at, err
}

func (c *counting) undoCount() { c.bytes.Add(-c.top) }

// bare is an error of the file system without the name, which its reader has.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
