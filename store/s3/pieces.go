package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drover-run/drover/store"
)

var _ store.Pieces = (*Bucket)(nil)

// Look implements store.Pieces. An answer to HEAD has no body and so gives no reason: a refused
// caller gets errors.ErrUnsupported, and learns the reason when it reads.
func (b *Bucket) Look(ctx context.Context, key string) (store.Whole, error) {
	if err := b.checkKey(key); err != nil {
		return store.Whole{}, err
	}
	doing := "look at " + key + " in " + b.text
	out, err := b.headObject(ctx, doing, key, nil)
	if err != nil {
		return store.Whole{}, err
	}
	w := store.Whole{Object: store.Object{Key: key, Size: aws.ToInt64(out.ContentLength), Time: aws.ToTime(out.LastModified), Tag: strongTag(out.ETag)}}
	if w.Tag == "" {
		return store.Whole{}, fmt.Errorf("%s: it has no ETag that tells it from another: %w", doing, errors.ErrUnsupported)
	}
	w.Sum = announced(out)
	_, parts, composite := strings.Cut(w.Sum.Text, "-")
	if !composite {
		return w, nil
	}
	// Its parts are all as large as the first, or nothing is known.
	first, err := b.headObject(ctx, doing, key, aws.Int32(1))
	if err != nil {
		return store.Whole{}, err
	}
	count, err := strconv.ParseInt(parts, 10, 64)
	part := aws.ToInt64(first.ContentLength)
	if err != nil || part <= 0 || aws.ToString(first.ETag) != aws.ToString(out.ETag) || (w.Size+part-1)/part != count {
		w.Sum = store.Sum{}
	}
	if w.Sum.Of != "" {
		w.Sum.Part = part
	}
	return w, nil
}

// headObject asks for the description of an object, or of one of its parts.
func (b *Bucket) headObject(ctx context.Context, doing, key string, part *int32) (out *s3.HeadObjectOutput, err error) {
	in := &s3.HeadObjectInput{Bucket: &b.bucket, Key: b.objectName(key), PartNumber: part, ChecksumMode: types.ChecksumModeEnabled, ExpectedBucketOwner: b.conn.expectedOwner()}
	err = b.conn.sendRequest(ctx, doing, false, func(ctx context.Context, c *client) error {
		out, err = c.HeadObject(ctx, in)
		switch a := hear(err); {
		case a.Throttled() || a.Status == http.StatusMovedPermanently || a.Status == http.StatusTemporaryRedirect:
		case a.Status == http.StatusNotFound:
			return &mute{err: store.ErrNotExist}
		case a.Status >= 400 && a.Status < 500 || a.Status == http.StatusNotImplemented:
			return &mute{err: errors.ErrUnsupported}
		}
		return err
	})
	var m *mute
	if errors.As(err, &m) {
		return nil, fmt.Errorf("%s: %w", doing, m.err)
	}
	return out, err
}

// mute is a refusal without a reason.
type mute struct{ err error }

func (m *mute) Error() string { return m.err.Error() }

// announced is the object's checksum, of a kind that can be computed from pieces.
func announced(out *s3.HeadObjectOutput) store.Sum {
	for _, s := range []struct {
		of   string
		text *string
	}{{store.CRC32C, out.ChecksumCRC32C}, {store.CRC64NVME, out.ChecksumCRC64NVME}, {store.CRC32, out.ChecksumCRC32}} {
		text := aws.ToString(s.text)
		if text != "" && (out.ChecksumType != types.ChecksumTypeComposite || strings.Contains(text, "-")) {
			return store.Sum{Of: s.of, Text: text}
		}
	}
	return store.Sum{}
}

// GetOf implements store.Pieces.
func (b *Bucket) GetOf(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	r, err := b.getTagged(ctx, o.Key, off, n, `"`+o.Tag+`"`)
	if errors.Is(err, store.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", err, store.ErrReplaced)
	}
	return r, err
}
