package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/drover-run/drover/store"
)

// forgotten is the age at which an upload that was not resumed is thrown away:
// its parts cost money. No lifecycle rule that people write is shorter.
const forgotten = 7 * 24 * time.Hour

// forgetting bounds how long that takes, with a bucket that is away.
const forgetting = 10 * time.Second

// note is where a large file's upload is, in a file of its own that is locked as long
// as the upload goes on. What the bucket holds of it is the bucket's to say.
type note struct {
	f *os.File
	noted
}

// noted is what a note holds.
type noted struct {
	Place string `json:"place"`
	Key   string `json:"key"`
	At    string `json:"at"` // the bucket's own word for it
}

var _ store.Bookmark = (*note)(nil)

// openNote opens the note of a key, which may say nothing yet. It gives nil where none
// is to be had, as while another process sends that key: then a file is sent without.
func openNote(folder, place, key string) *note {
	if os.MkdirAll(folder, 0o700) != nil {
		return nil
	}
	name := sha256.Sum256([]byte(place + "\n" + key))
	f, err := os.OpenFile(filepath.Join(folder, hex.EncodeToString(name[:16])), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil
	}
	n := take(f)
	if n != nil && (n.Place != place || n.Key != key) {
		n.noted = noted{Place: place, Key: key}
	}
	return n
}

// take locks a note and reads it; nil if another run has it, or has removed it.
func take(f *os.File) *note {
	n := &note{f: f}
	was, err := f.Stat()
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		now, gone := os.Stat(f.Name())
		if err = gone; err == nil && !os.SameFile(was, now) {
			err = os.ErrNotExist
		}
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(f, 64<<10))
	}
	if err != nil {
		f.Close()
		return nil
	}
	if json.Unmarshal(text, &n.noted) != nil {
		n.noted = noted{} // half a note says nothing
	}
	return n
}

// Read implements store.Bookmark.
func (n *note) Read() string { return n.At }

// Write implements store.Bookmark. Half of it, after a crash, is no note.
func (n *note) Write(at string) error {
	n.At = at
	text, err := json.Marshal(n.noted)
	if err == nil {
		err = n.f.Truncate(0)
	}
	if err == nil {
		_, err = n.f.WriteAt(text, 0)
	}
	return err
}

// closeNote leaves the note for the next run, or takes it away.
func (n *note) closeNote(over bool) {
	if over || n.At == "" {
		_ = os.Remove(n.f.Name()) // one that stays names what is not there
	}
	n.f.Close()
}

// dropOldUploads throws away what old notes tell of uploads to this bucket. What it cannot
// throw away is tried again the next time.
func (u *up) dropOldUploads(ctx context.Context) {
	entries, err := os.ReadDir(u.o.Notes)
	if u.o.Notes == "" || err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, forgetting)
	defer cancel()
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < forgotten {
			continue
		}
		f, err := os.OpenFile(filepath.Join(u.o.Notes, e.Name()), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if n := take(f); n != nil {
			over := n.Place == u.to.Store.String() && u.to.Store.Drop(ctx, n.Key, n.At) == nil
			n.closeNote(over)
		}
	}
}
