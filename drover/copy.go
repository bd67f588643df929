package drover

import (
	"context"

	"github.com/drover-run/drover/internal/engine"
	"github.com/drover-run/drover/internal/transfer"
	"github.com/drover-run/drover/store"
)

// CopyOptions say how Upload and Download work. The zero value is right for most.
type CopyOptions = transfer.Options

// CopyProgress is how far they are: what was copied, and what was there already.
type CopyProgress = transfer.Progress

// Sending is what a Plan's Watch hears of while it submits.
type Sending = engine.Sending

// The files that items name, and those of one input after the other.
const (
	SendingItems  = engine.OfItems
	SendingInputs = engine.OfInputs
)

// Copied is what they did.
type Copied = transfer.Done

// Upload copies source, a file or a folder of this machine, into a bucket: what is
// below a folder goes below key. It sends what is missing there or has changed, so an
// upload that was ended goes on where it was; nothing is deleted.
//
// The bucket is anybody's, opened for names that no store has (s3.Options.Foreign).
func Upload(ctx context.Context, source string, to store.Bucket, key string, o CopyOptions) (Copied, error) {
	return transfer.Put(ctx, source, transfer.Place{Store: store.New(to, store.Options{}), Key: key}, o)
}

// Download copies what is at key in a bucket, one object or all that is below it, to
// target. It brings what is missing there or has changed; nothing is deleted.
func Download(ctx context.Context, from store.Bucket, key, target string, o CopyOptions) (Copied, error) {
	return transfer.Get(ctx, transfer.Place{Store: store.New(from, store.Options{}), Key: key}, target, o)
}

// IsURL says whether a text names a place in a bucket: s3://, gs:// or file://.
func IsURL(text string) bool { return transfer.IsURL(text) }

// SplitURL parts such a text into what opens the bucket, and the key in it.
func SplitURL(text string) (bucket, key string, err error) { return transfer.Split(text) }
