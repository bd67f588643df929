package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/transfer"
	"github.com/drover-run/drover/store"
)

// PlaceOf is the URL by which a bucket is opened: the one of places that names it, with its
// options, else the bucket's name alone.
func PlaceOf(places []string, bucket string) string {
	for _, p := range places {
		if name, _, _ := strings.Cut(p, "?"); name == bucket {
			return p
		}
	}
	return bucket
}

const unsigned = "anonymous=true"

// fromBucket brings one object. An address says which one; that it is public too, and
// nothing else of how it is had: the items' writer would choose the server that
// is asked in the machine's name, and the profile.
func (b Bringer) fromBucket(ctx context.Context, text, into string, room func(context.Context, int64) error) (string, error) {
	if err := checkBucket(text); err != nil {
		return "", err
	}
	bucket, key, err := transfer.Split(text)
	if err != nil {
		return "", err
	}
	_, query, _ := strings.Cut(bucket, "?")
	switch {
	case key == "" || strings.HasSuffix(key, "/"):
		return "", refuse(text, "Name one object, or the folder with --from.", "it is not one object")
	case query != "" && query != unsigned:
		return "", refuse(text, "Write it once, in --from or in what the machine is set up with (AWS_ENDPOINT_URL, AWS_PROFILE).", "an item chooses no server and no profile")
	case b.Open == nil:
		return "", refuse(text, "Give the folder to -i, and name its files in items.", "this agent opens no buckets")
	}
	s, err := b.Open(ctx, bucket)
	if err != nil {
		return "", fmt.Errorf("fetch %s: %w", text, err)
	}
	o := &objectCopy{store: s, key: key, name: fileName(&url.URL{Path: "/" + key}), into: into, room: room}
	pause := b.Pause
	if pause == nil {
		pause = store.System.Sleep
	}
	wait := firstPause
	for try := 1; ; try++ {
		torn, err := o.copyOnce(ctx)
		if err == nil {
			return filepath.Join(into, o.name), nil
		}
		if !torn || try >= maxTries || ctx.Err() != nil {
			return "", o.copyError(text, err)
		}
		if err := pause(ctx, wait); err != nil {
			return "", fmt.Errorf("fetch %s: %w", text, err)
		}
		wait *= 2
	}
}

// objectCopy is one object on its way.
type objectCopy struct {
	store           *store.Store
	key, name, into string
	room            func(context.Context, int64) error
}

// copyOnce reads all of it. The bucket compares its length, and its checksum where it has
// one, on the way. torn: it may be had by asking again, which the store has not done.
func (o *objectCopy) copyOnce(ctx context.Context) (torn bool, err error) {
	body, err := o.store.Open(ctx, o.key, 0, -1)
	if err != nil {
		return false, err
	}
	defer body.Close()
	if err := os.MkdirAll(o.into, 0o700); err != nil {
		return false, err
	}
	f, err := os.OpenFile(filepath.Join(o.into, o.name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return false, err
	}
	r := &rationed{body: body, ask: func(n int64) error {
		if o.room == nil {
			return nil
		}
		if err := o.room(ctx, n); err != nil {
			return errNoRoom{err}
		}
		return nil
	}}
	_, err = io.Copy(f, r)
	return errors.Is(err, store.ErrBusy), errors.Join(err, f.Close())
}

// copyError makes a fault of what went wrong in the end.
func (o *objectCopy) copyError(text string, err error) error {
	var room errNoRoom
	switch {
	case errors.As(err, &room):
		return fmt.Errorf("fetch %s: %w", text, room.error)
	case errors.Is(err, store.ErrNotExist):
		return fault.New(fault.Missing, "Check the name.", "fetch %s: the bucket has no such object", text)
	case errors.Is(err, store.ErrBusy) && fault.KindOf(err) == fault.Bug: // read, not asked for
		return fault.Wrap(err, fault.Lost, "Run it again.", "fetch %s", text)
	case isFull(err):
		return fault.Wrap(err, fault.Full, "Free some space and run it again.", "fetch %s", text)
	}
	return fmt.Errorf("fetch %s: %w", text, err)
}
