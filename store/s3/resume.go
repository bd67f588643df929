package s3

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drover-run/drover/store"
)

var _ store.Resumer = (*Bucket)(nil)

// PutOn implements store.Resumer: at is the name of a multipart upload. Each part that it holds
// is compared with the body's by its checksum, and sent again if it differs. A caller without
// the right to list parts begins anew.
func (b *Bucket) PutOn(ctx context.Context, key string, body io.ReadSeeker, at string, begun func(at string) error) (there int64, err error) {
	if err := b.checkKey(key); err != nil {
		return 0, err
	}
	doing := "put " + key + " in " + b.text
	size, err := sized(body)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	if size <= partSize {
		return 0, b.writeObject(ctx, "put", key, body, "")
	}
	u := &upload{conn: b.conn, buffers: b.buffers, doing: doing, key: b.objectName(key), size: size, begun: begun}
	if at != "" {
		u.id = &at
		if err := u.listParts(ctx); err != nil {
			if errors.Is(err, store.ErrBusy) || context.Cause(ctx) != nil {
				return 0, err
			}
			_ = u.abortUpload(ctx) // most likely it is not there any more
			u.id = nil
		}
	}
	err = u.runUpload(ctx, body)
	return u.there, err
}

// Drop implements store.Resumer.
func (b *Bucket) Drop(ctx context.Context, key, at string) error {
	if err := b.checkKey(key); err != nil {
		return err
	}
	u := &upload{conn: b.conn, buffers: b.buffers, doing: "drop what was sent of " + key + " to " + b.text, key: b.objectName(key), id: &at}
	return u.abortUpload(ctx)
}

// listParts asks which parts an upload holds.
func (u *upload) listParts(ctx context.Context) error {
	u.held = map[int32]types.Part{}
	in := &s3.ListPartsInput{Bucket: &u.conn.bucket, Key: u.key, UploadId: u.id, ExpectedBucketOwner: u.conn.expectedOwner()}
	for {
		var out *s3.ListPartsOutput
		err := u.conn.retryUnclear(ctx, partTries, func() error {
			return u.conn.sendRequest(ctx, u.doing, false, func(ctx context.Context, c *client) (err error) {
				if out, err = c.ListParts(ctx, in); hear(err).Code == "NoSuchUpload" {
					out, err = nil, nil // it does not come back
				}
				return err
			})
		})
		if err != nil {
			return err
		}
		if out == nil {
			return fmt.Errorf("%s: %w", u.doing, store.ErrNotExist)
		}
		for _, p := range out.Parts {
			u.held[aws.ToInt32(p.PartNumber)] = p
		}
		if !aws.ToBool(out.IsTruncated) || aws.ToString(out.NextPartNumberMarker) == aws.ToString(in.PartNumberMarker) {
			return nil
		}
		in.PartNumberMarker = out.NextPartNumberMarker
	}
}

// hasPart says whether the server holds a part of this content. Its tag is the MD5 where
// the server tells no checksum of parts.
func (u *upload) hasPart(number int32, body []byte) bool {
	p, ok := u.held[number]
	if !ok || aws.ToInt64(p.Size) != int64(len(body)) || p.ETag == nil {
		return false
	}
	sum := wire(crc32.Checksum(body, castagnoli()))
	if said := aws.ToString(p.ChecksumCRC32C); said != "" && said != *sum {
		return false
	} else if said == "" {
		whole := md5.Sum(body)
		if !strings.EqualFold(strings.Trim(*p.ETag, `"`), hex.EncodeToString(whole[:])) {
			return false
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.done[number-1] = types.CompletedPart{ETag: p.ETag, PartNumber: &number, ChecksumCRC32C: sum}
	u.there += int64(len(body))
	return true
}
