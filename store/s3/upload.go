package s3

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// How often a part and the end of an upload are sent before the whole of it is given up: to
// send all again costs more than to wait a little.
const (
	partTries = 8
	endTries  = 5
)

// maxParts is S3's limit.
const maxParts = 10_000

// upload is one object in parts. No reader sees it until complete.
type upload struct {
	conn    *connection
	buffers *bufferPool
	doing   string
	key     *string
	unless  string
	size    int64

	id   *string
	mu   sync.Mutex
	done []types.CompletedPart // by number, from 1
	sum  uint32                // of the whole

	begun func(id string) error // nil: it is not resumed
	held  map[int32]types.Part  // what an earlier one has sent
	there int64                 // bytes of those that are the body's
}

func (u *upload) runUpload(ctx context.Context, body io.Reader) error {
	if u.id == nil {
		if err := u.beginUpload(ctx); err != nil {
			return err
		}
	}
	err := u.sendParts(ctx, body)
	if err == nil {
		err = u.completeUpload(ctx)
	}
	if err != nil && u.begun == nil {
		_ = u.abortUpload(ctx) // if that is lost, a lifecycle rule removes the parts
	}
	return err
}

// beginUpload asks for an upload's name. An upload of which the name was lost holds no bytes;
// a lifecycle rule removes it.
func (u *upload) beginUpload(ctx context.Context) error {
	err := u.conn.retryUnclear(ctx, partTries, func() error {
		return u.conn.sendRequest(ctx, u.doing, false, func(ctx context.Context, c *client) error {
			out, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
				Bucket: &u.conn.bucket, Key: u.key, ExpectedBucketOwner: u.conn.expectedOwner(),
				ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c, ChecksumType: types.ChecksumTypeFullObject,
			})
			if err == nil {
				u.id = out.UploadId
			}
			return err
		})
	})
	if err == nil && u.begun != nil {
		if err = u.begun(aws.ToString(u.id)); err != nil {
			_ = u.abortUpload(ctx) // no process would know of it
		}
	}
	return err
}

// sendParts reads body once, in order, and sends its parts side by side.
func (u *upload) sendParts(ctx context.Context, body io.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	step := int64(partSize)
	if u.size > step*maxParts {
		step = (u.size/maxParts)/(1<<20)*(1<<20) + 1<<20
	}
	count := (u.size + step - 1) / step
	u.done = make([]types.CompletedPart, count)
	var all sync.WaitGroup
	var broken error // of the body: it is said as it is
	for i := range count {
		held, err := u.buffers.holdMemory(ctx, int(min(step, u.size-i*step)))
		if err != nil {
			break // ctx was cancelled, with the reason
		}
		if broken = fill(body, held.bytes, i == count-1); broken != nil {
			held.releaseMemory(true)
			cancel(broken)
			break
		}
		u.sum = crc32.Update(u.sum, castagnoli(), held.bytes)
		if u.hasPart(int32(i+1), held.bytes) {
			held.releaseMemory(true)
			continue
		}
		all.Go(func() {
			err := u.sendPart(ctx, int32(i+1), held.bytes)
			held.releaseMemory(err == nil)
			if err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if broken != nil {
		return fmt.Errorf("%s: %w", u.doing, broken)
	}
	return context.Cause(ctx)
}

func (u *upload) sendPart(ctx context.Context, number int32, body []byte) error {
	sum := wire(crc32.Checksum(body, castagnoli()))
	return u.conn.retryUnclear(ctx, partTries, func() error {
		return u.conn.sendRequest(ctx, u.doing, false, func(ctx context.Context, c *client) error {
			out, err := c.UploadPart(ctx, &s3.UploadPartInput{
				Bucket: &u.conn.bucket, Key: u.key, UploadId: u.id, PartNumber: &number, ExpectedBucketOwner: u.conn.expectedOwner(),
				Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))), ChecksumCRC32C: sum,
			})
			if err == nil {
				u.mu.Lock()
				u.done[number-1] = types.CompletedPart{ETag: out.ETag, PartNumber: &number, ChecksumCRC32C: sum}
				u.mu.Unlock()
			}
			return err
		})
	})
}

// completeUpload makes an object of the parts, if there is none. It is sent again after an
// unclear answer; the second answer may be due to the first request: store.ErrExists, or
// store.ErrUnclear if the server does not know the upload any more.
func (u *upload) completeUpload(ctx context.Context) error {
	return u.conn.retryUnclear(ctx, endTries, func() error {
		return u.conn.nameObject(ctx, u.doing, func(ctx context.Context, c *client) error {
			_, err := c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
				Bucket: &u.conn.bucket, Key: u.key, UploadId: u.id, IfNoneMatch: some(u.unless), ExpectedBucketOwner: u.conn.expectedOwner(),
				MultipartUpload: &types.CompletedMultipartUpload{Parts: u.done},
				ChecksumCRC32C:  wire(u.sum), ChecksumType: types.ChecksumTypeFullObject, MpuObjectSize: &u.size,
			})
			return err
		})
	})
}

// abortUpload deletes the parts, which cost money until then. The caller does not wait long for it.
func (u *upload) abortUpload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := u.conn.sendRequest(ctx, u.doing, false, func(ctx context.Context, c *client) error {
		_, err := c.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
			Bucket: &u.conn.bucket, Key: u.key, UploadId: u.id, ExpectedBucketOwner: u.conn.expectedOwner(),
		})
		return err
	})
	if hear(err).Code == "NoSuchUpload" {
		return nil
	}
	return err
}

// partSize is the size up to which a body is one request. Larger ones are sent in parts of it,
// in parallel: at 8 MiB a request's latency (some 30 ms) is small beside its time (100 ms),
// and 10,000 parts, S3's limit, make 80 GB; parts of larger bodies are larger.
const partSize = 8 << 20
