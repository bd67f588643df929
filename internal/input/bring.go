package input

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// Bringer brings single files to this machine, each for one caller that needs it once:
// nothing is kept to be compared with later, and nothing is shared.
type Bringer struct {
	// Client is as Fetch has it; nil: a new one. Where others have chosen the addresses
	// it is one that is Guarded.
	Client *http.Client
	Dir    string // relative paths begin here
	// Open opens the bucket of s3://bucket or gs://bucket, and is called for each
	// object of it. Nil: objects are refused.
	Open func(ctx context.Context, bucket string) (*store.Store, error)
	// Pause waits between two requests for what did not come; nil: by the clock.
	Pause func(context.Context, time.Duration) error
}

// IsAddress says whether a text says itself where it is to be found, as https://,
// http:// and file:// do: also by a scheme that drover does not know. Any other is a
// path, or no place at all.
func IsAddress(text string) bool {
	scheme := schemeOf(text)
	return scheme != "" && scheme != "task"
}

// Bring makes what a text names a file of this machine, and says where it is. A path,
// and what file:// names, is used where it is. What comes from the web, or from a
// bucket, lies in the folder into, which is made, under the last name of its address;
// ours is true then: the caller removes it, and has to also after an error.
//
// room is asked before more bytes than it was asked for are written, and may wait, or
// refuse; n counts from the first byte. It may be nil. A text that names nothing that
// can be here is fault.Invalid, what is not there fault.Missing, and the rest as Fetch
// has it.
func (b Bringer) Bring(ctx context.Context, text, into string, room func(ctx context.Context, n int64) error) (file string, ours bool, err error) {
	switch scheme := schemeOf(text); scheme {
	case "", "task":
		file = text
	case "file":
		if file, err = fromFileURI(text); err != nil {
			return "", false, err
		}
	case "https", "http":
		file, err = b.fetchFromWeb(ctx, text, into, room)
		return file, true, err
	case "s3", "gs":
		file, err = b.fromBucket(ctx, text, into, room)
		return file, true, err
	default:
		_, err := KindOf(text)
		return "", false, err
	}
	there := file
	if !filepath.IsAbs(there) {
		there = filepath.Join(b.Dir, there)
	}
	switch _, err := os.Stat(there); {
	case text == "" || errors.Is(err, fs.ErrNotExist):
		return "", false, fault.New(fault.Missing, "Name files and addresses: https://, http:// or file://.", "find %q: it is not there", text)
	case err != nil:
		return "", false, fault.Wrap(plain(err), fault.Denied, "Check the permissions of the folders above it.", "find %q", text)
	}
	return file, false, nil
}

func (b Bringer) fetchFromWeb(ctx context.Context, uri, into string, room func(context.Context, int64) error) (string, error) {
	f := &fetcher{pause: b.Pause, silence: time.AfterFunc, bring: true, room: room}
	if f.pause == nil {
		f.pause = store.System.Sleep
	}
	if b.Client != nil {
		f.client = *b.Client
	}
	return f.fetchFile(ctx, uri, into)
}

// rationed is a body of unknown length, for which room is asked step by step.
type rationed struct {
	body     io.Reader
	at, have int64
	ask      func(int64) error
}

// rationStep is little of any disk, and some hundred reads.
const rationStep = 4 << 20

func (r *rationed) Read(p []byte) (int, error) {
	if r.at >= r.have {
		if err := r.ask(r.at + rationStep); err != nil {
			return 0, err
		}
		r.have = r.at + rationStep
	}
	n, err := r.body.Read(p[:min(int64(len(p)), r.have-r.at)])
	r.at += int64(n)
	return n, err
}

// errNoRoom is not retried: the owner of the room has refused it.
type errNoRoom struct{ error }

func (e errNoRoom) Unwrap() error { return e.error }
