package s3

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// castagnoli is the checksum for which processors have an instruction, and the one that servers
// have supported longest. It is sent with each body, in addition to the SHA-256 in the
// signature.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// wire is a checksum as S3 writes it.
func wire(sum uint32) *string {
	return aws.String(base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum)))
}

// Create implements store.Bucket.
func (b *Bucket) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	return b.writeObject(ctx, "create", key, body, "*")
}

// Put implements store.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return b.writeObject(ctx, "put", key, body, "")
}

// sized is the size of body, which is then at its beginning.
func sized(body io.Seeker) (size int64, err error) {
	if size, err = body.Seek(0, io.SeekEnd); err == nil {
		_, err = body.Seek(0, io.SeekStart)
	}
	return size, err
}

// writeObject sends body under key; unless is the If-None-Match of it, or "".
func (b *Bucket) writeObject(ctx context.Context, verb, key string, body io.ReadSeeker, unless string) error {
	if err := b.checkKey(key); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	doing := verb + " " + key + " in " + b.text
	size, err := sized(body)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if size > partSize {
		u := &upload{conn: b.conn, buffers: b.buffers, doing: doing, key: b.objectName(key), unless: unless, size: size}
		return u.runUpload(ctx, body)
	}
	held, err := b.buffers.holdMemory(ctx, int(size))
	if err != nil {
		return err
	}
	err = fill(body, held.bytes, true)
	if err != nil {
		held.releaseMemory(true)
		return fmt.Errorf("%s: %w", doing, err)
	}
	sum := *wire(crc32.Checksum(held.bytes, castagnoli()))
	err = b.conn.nameObject(ctx, doing, func(ctx context.Context, c *client) error {
		return c.putObject(ctx, b.prefix+key, held.bytes, sum, unless)
	})
	held.releaseMemory(err == nil)
	return err
}

// putObject sends a body with the CRC32C sum, once.
func (c *client) putObject(ctx context.Context, name string, body []byte, sum, unless string) error {
	p, err := c.put()
	if err != nil {
		return err
	}
	resp, err := c.sendPattern(ctx, p, name, body, "X-Amz-Checksum-Crc32c", sum, "If-None-Match", unless)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return refusal(resp)
}

// nameObject sends the request that gives an object its name. A server that keeps objects as
// files refuses an object with the name of a folder. versitygw refuses for a moment too when
// another client has just deleted the last other object in the folder.
func (c *connection) nameObject(ctx context.Context, doing string, send func(context.Context, *client) error) error {
	for try := 0; ; try++ {
		err := c.sendRequest(ctx, doing, true, send)
		var a answer
		if !errors.As(err, &a) || a.Code != "ExistingObjectIsDirectory" || try == 6 {
			return err
		}
		if stop := c.pauseBeforeTry(ctx, try); stop != nil {
			return stop
		}
	}
}

// fill reads exactly len(to) bytes; last says that the body ends there.
func fill(body io.Reader, to []byte, last bool) error {
	if n, err := io.ReadFull(body, to); err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the body is %d bytes shorter than it was", len(to)-n)
	} else if err != nil {
		return err
	}
	if !last {
		return nil
	}
	var more [1]byte
	switch n, err := body.Read(more[:]); {
	case n > 0:
		return errors.New("the body has grown since its size was asked for")
	case err != nil && err != io.EOF:
		return err
	}
	return nil
}
