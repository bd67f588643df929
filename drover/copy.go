package drover

import (
	"context"
	"time"

	"github.com/drover-run/drover/internal/transfer"
	"github.com/drover-run/drover/store"
)

// CopyOptions say how Upload and Download work. The zero value is right for most.
type CopyOptions struct {
	// Checksum compares contents also where size and time say that nothing changed.
	Checksum bool
	// Notes is a folder of this machine's, where Upload notes how far it is with large
	// files: an upload that was ended goes on inside them, if it finds its notes. A reader of
	// the notes can go on with the upload, too. "": large files begin anew.
	Notes string
	// Away is called once the bucket has done nothing for a few seconds of what it is asked
	// for, with what came back last, and Back when it answers again, with how long
	// that was. They may be nil.
	Away func(length time.Duration, last error)
	Back func(length time.Duration)
	// Watch is called about ten times a second while the copy goes on, and once at the end,
	// from one goroutine. It may be nil.
	Watch func(CopyProgress)
}

func (o CopyOptions) transferOptions() transfer.Options {
	return transfer.Options{Checksum: o.Checksum, Notes: o.Notes, Away: o.Away, Back: o.Back, Watch: o.Watch}
}

// Upload copies source, a file or a folder of this machine, into a bucket: what is
// below a folder goes below key. It sends what is missing there or has changed, so an
// upload that was ended goes on where it was; nothing is deleted.
//
// The bucket may be any, opened for names that no store has (s3.Options.Foreign).
func Upload(ctx context.Context, source string, to store.Bucket, key string, o CopyOptions) (Copied, error) {
	return transfer.Put(ctx, source, transfer.Place{Store: store.New(to, store.Options{}), Key: key}, o.transferOptions())
}

// Download copies what is at key in a bucket, one object or all that is below it, to
// target. It brings what is missing there or has changed; nothing is deleted.
func Download(ctx context.Context, from store.Bucket, key, target string, o CopyOptions) (Copied, error) {
	return transfer.Get(ctx, transfer.Place{Store: store.New(from, store.Options{}), Key: key}, target, o.transferOptions())
}

// IsURL says whether a text names a place in a bucket: s3://, gs:// or file://.
func IsURL(text string) bool { return transfer.IsURL(text) }

// SplitURL parts such a text into what opens the bucket, and the key in it.
func SplitURL(text string) (bucket, key string, err error) { return transfer.Split(text) }
