package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// atOnce: Get reads an object up to this size before it returns. So a slow reader holds no
// connection, and a broken connection is met by code that retries.
const atOnce = 1 << 20

// giveUp is how long a read goes on without a byte: longer than networks usually fail, as a
// read that begins again may be the end of a job.
const giveUp = 10 * time.Minute

// Get implements store.Bucket. Where a connection breaks, it goes on from there, as long as the
// object is the same one.
func (b *Bucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	return b.getTagged(ctx, key, off, n, "")
}

// getTagged is Get; with a tag it reads only that very object.
func (b *Bucket) getTagged(ctx context.Context, key string, off, n int64, tag string) (io.ReadCloser, error) {
	if err := b.checkKey(key); err != nil {
		return nil, err
	}
	doing := "get " + key + " from " + b.text
	wanted := n
	if n == 0 {
		n = 1 // it is asked for all the same: it may be absent
	}
	if n < 0 || n > math.MaxInt64-off {
		n = math.MaxInt64 - off
	}
	out, err := b.openRange(ctx, doing, key, off, n, tag)
	if err != nil {
		return nil, err
	}
	if out == nil || wanted == 0 {
		if out != nil {
			out.Close()
		}
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	o := &object{conn: b.conn, doing: doing, body: out, pos: off, end: off + out.size, want: out.sum}
	o.pause = func(try int) error { return b.conn.pauseBeforeTry(ctx, try) }
	same := cmp.Or(tag, out.tag)
	o.open = func(from int64) (io.ReadCloser, error) {
		if same == "" && from > off && out.sum == "" {
			return nil, &replaced{doing} // it may be another one by now, and nothing would tell
		}
		out, err := b.openRange(ctx, doing, key, from, o.end-from, same)
		if err != nil || out == nil {
			return nil, err
		}
		return out, nil
	}
	if o.end-off > atOnce {
		return o, nil
	}
	defer o.Close()
	body := make([]byte, 0, o.end-off+bytes.MinRead)
	buffer := bytes.NewBuffer(body)
	if _, err := buffer.ReadFrom(o); err != nil {
		return nil, err
	}
	return io.NopCloser(buffer), nil
}

// openRange asks for n bytes from off, or for the whole object if that is the same. It gives
// nil where the object ends before off. With a tag it opens only that very object.
//
// To a caller that may list only some of the bucket's names, Amazon answers "forbidden" for an
// absent object: then a listing decides.
func (b *Bucket) openRange(ctx context.Context, doing, key string, off, n int64, tag string) (*opened, error) {
	for try := 0; ; try++ {
		out, err := b.requestOnce(ctx, doing, key, off, n, tag)
		var a answer
		if !errors.As(err, &a) || a.Status != http.StatusForbidden || a.Code != "AccessDenied" || try > 0 {
			return out, err
		}
		listed, _, not := b.List(ctx, key, "", 1)
		if not != nil {
			return nil, err
		}
		if len(listed) == 0 || listed[0].Key != key {
			return nil, fmt.Errorf("%s: %w", doing, store.ErrNotExist)
		}
		// It may have come between the two.
	}
}

// opened is the answer to a get.
type opened struct {
	io.ReadCloser
	size int64  // -1: not said
	part string // the range in it, as the server says; "": all
	tag  string // "": the object has none that tells it from another
	sum  string // the CRC32C of all of the object; "": the body checks itself
}

// requestOnce is open, once.
func (b *Bucket) requestOnce(ctx context.Context, doing, key string, off, n int64, tag string) (out *opened, err error) {
	part := ""
	if n != math.MaxInt64-off {
		part = fmt.Sprintf("bytes=%d-%d", off, off+n-1)
	} else if off > 0 { // the rest
		part = fmt.Sprintf("bytes=%d-", off)
	}
	err = b.conn.sendRequest(ctx, doing, false, func(ctx context.Context, c *client) error {
		out, err = c.getObject(ctx, b.prefix+key, part, tag)
		if a := hear(err); a.Status == http.StatusRequestedRangeNotSatisfiable {
			out = nil
			return nil
		} else if a.Status == http.StatusPreconditionFailed {
			// Replaced while it was read: a hint, and to be read anew.
			return &replaced{doing}
		}
		return err
	})
	var r *replaced
	if errors.As(err, &r) {
		return nil, r
	}
	switch {
	case err != nil || out == nil:
		return nil, err
	case part != "" && out.part == "":
		err = errNoRanges
	case out.size < 0:
		err = errNoLength
	case part != "" && !out.holdsRange(off, n):
		err = fmt.Errorf("the server has sent %q instead of %q", out.part, part)
	default:
		return out, nil
	}
	out.Close()
	return nil, fmt.Errorf("%s: %w", doing, err)
}

// holdsRange says whether it is the n bytes from off, or as many of them as there are.
func (o *opened) holdsRange(off, n int64) bool {
	var first, last, all int64
	if _, err := fmt.Sscanf(o.part, "bytes %d-%d/%d", &first, &last, &all); err != nil {
		if _, err := fmt.Sscanf(o.part, "bytes %d-%d/*", &first, &last); err != nil {
			return false
		}
		all = last + 1 // the server does not say the size
	}
	return first == off && last-first == o.size-1 && last < off+n && (last == off+n-1 || last == all-1)
}

// strong is a tag that names these very bytes; "": it is none.
func strong(tag string) string {
	if strings.HasPrefix(tag, "W/") {
		return ""
	}
	return tag
}

// strongTag is strong without its quotes: what an object's Tag is.
func strongTag(tag *string) string { return strings.Trim(strong(aws.ToString(tag)), `"`) }

// getObject asks for an object, or the part of it that a Range header names, once.
func (c *client) getObject(ctx context.Context, name, part, tag string) (*opened, error) {
	p, err := c.get()
	if err != nil {
		return nil, err
	}
	resp, err := c.sendPattern(ctx, p, name, nil, "Range", part, "If-Match", tag)
	if err != nil {
		return nil, err
	}
	out := &opened{ReadCloser: resp.Body, size: resp.ContentLength, part: resp.Header.Get("Content-Range"), tag: strong(resp.Header.Get("Etag"))}
	switch sum, kind := sumOf(resp.Header); {
	case sum == "":
	case kind == 0 && out.part == "":
		out.sum = sum
	default:
		out.ReadCloser = &compared{resp.Body, kinds[kind].make(), sum}
	}
	return out, nil
}

var (
	errNoRanges = errors.New("the server sent the whole object instead of a range: it does not support ranges")
	errNoLength = errors.New("the server does not say how long the object is")
)

// replaced is the error of an object that is another one than a moment ago.
type replaced struct{ doing string }

func (r *replaced) Error() string   { return r.doing + ": it was replaced while it was read" }
func (r *replaced) Unwrap() []error { return []error{store.ErrBusy, store.ErrReplaced} }

// object is one that is being read.
type object struct {
	conn  *connection
	doing string
	body  io.ReadCloser
	pos   int64 // of the next byte
	end   int64
	tries int           // since the last byte
	broke time.Duration // when the first of them was, by the bucket's clock
	sum   uint32
	want  string // the checksum of all of it; "": not known
	open  func(from int64) (io.ReadCloser, error)
	pause func(try int) error
}

func (o *object) Read(p []byte) (int, error) {
	for {
		n, err := o.body.Read(p)
		n = int(min(int64(n), o.end-o.pos))
		o.pos += int64(n)
		o.sum = crc32.Update(o.sum, castagnoli(), p[:n])
		switch {
		case err == io.EOF && o.pos == o.end && o.sumMatches():
			o.conn.damaged.Store(0)
			return n, io.EOF
		case err == io.EOF && o.pos == o.end:
			return n, o.conn.wrapSpoilt(o.doing, errOtherSum, store.ErrBusy)
		case n > 0:
			o.tries = 0
			return n, nil // a connection that broke says so again
		case err == nil:
		case o.pos == o.end: // a checksum of another kind is wrong
			return 0, o.conn.wrapSpoilt(o.doing, err, store.ErrBusy)
		default:
			if err := o.resumeRead(err); err != nil {
				return 0, err
			}
		}
	}
}

// sumMatches says whether what went by is what the server said it holds.
func (o *object) sumMatches() bool { return o.want == "" || o.want == *wire(o.sum) }

// resumeRead opens the rest.
func (o *object) resumeRead(broke error) error {
	now := o.conn.clock.Boot()
	if o.tries++; o.tries == 1 {
		o.broke = now
	} else if now-o.broke > giveUp {
		return fmt.Errorf("%s: %w: %w", o.doing, answer{Err: broke}, store.ErrBusy)
	}
	o.body.Close()
	if err := o.pause(o.tries - 1); err != nil {
		return err
	}
	body, err := o.open(o.pos)
	if err == nil && body == nil {
		err = &replaced{o.doing}
	}
	if err != nil && errors.Is(err, store.ErrBusy) && !errors.As(err, new(*replaced)) {
		o.body = http.NoBody // the next Read tries again
		return nil
	}
	if err != nil {
		o.body = http.NoBody
		return err
	}
	o.body = body
	return nil
}

func (o *object) Close() error { return o.body.Close() }

// List implements store.Bucket. It leaves out keys that drover cannot have written: a console's
// markers for folders, other files.
func (b *Bucket) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	if err := b.checkPrefix(prefix); err != nil {
		return nil, false, err
	}
	if after > prefix && !strings.HasPrefix(after, prefix) {
		return nil, false, context.Cause(ctx) // all that begins with prefix came before
	}
	in := &s3.ListObjectsV2Input{
		Bucket: &b.bucket, Prefix: aws.String(b.prefix + prefix), ExpectedBucketOwner: b.conn.expectedOwner(),
		MaxKeys: aws.Int32(int32(min(limit, 1000))), EncodingType: types.EncodingTypeUrl,
	}
	switch {
	case after == "":
	case b.given.Foreign:
		in.StartAfter = aws.String(b.prefix + after)
	default:
		in.StartAfter = aws.String(b.prefix + printable(after))
	}
	doing := strings.TrimSuffix("list "+prefix, " ") + " in " + b.text
	var objects []store.Object
	for {
		var out *s3.ListObjectsV2Output
		err := b.conn.sendRequest(ctx, doing, false, func(ctx context.Context, c *client) (err error) {
			out, err = c.ListObjectsV2(ctx, in)
			return err
		})
		if err != nil && len(objects) > 0 && errors.Is(err, store.ErrBusy) {
			return objects, true, nil // the next request need not ask for these again
		}
		if errors.Is(err, store.ErrNotExist) {
			// A list is never absent: with the bucket in the endpoint's path, too, this asked for an object.
			return nil, false, fault.New(fault.Invalid, "Leave the bucket's name out of the endpoint. "+b.conn.reachHint(), "%s: the server takes it for an object's name", doing)
		}
		if err != nil {
			return nil, false, err
		}
		if objects, err = b.appendFound(objects, out, prefix, after); err != nil {
			return nil, false, fmt.Errorf("%s: %w", doing, err)
		}
		more := aws.ToBool(out.IsTruncated)
		if !more || len(objects) >= limit {
			return objects[:min(limit, len(objects))], more || len(objects) > limit, nil
		}
		if aws.ToString(out.NextContinuationToken) == "" {
			return nil, false, fmt.Errorf("%s: a page that is not the last names no next one: %w", doing, store.ErrBusy)
		}
		in.ContinuationToken = out.NextContinuationToken
		in.MaxKeys = aws.Int32(int32(min(limit-len(objects), 1000)))
	}
}

func (b *Bucket) checkPrefix(prefix string) error {
	if b.given.Foreign && prefix != "" {
		return store.CheckName(prefix)
	}
	return store.CheckPrefix(prefix)
}

// appendFound adds our objects of a page, which are in order.
func (b *Bucket) appendFound(objects []store.Object, out *s3.ListObjectsV2Output, prefix, after string) ([]store.Object, error) {
	for _, c := range out.Contents {
		name := aws.ToString(c.Key)
		if out.EncodingType == types.EncodingTypeUrl && strings.ContainsAny(name, "%+") {
			var err error
			if name, err = url.QueryUnescape(name); err != nil {
				return nil, err
			}
		}
		key, ours := strings.CutPrefix(name, b.prefix)
		if !ours || !strings.HasPrefix(key, prefix) || key <= after || b.checkKey(key) != nil {
			continue
		}
		if last := len(objects) - 1; last >= 0 && objects[last].Key >= key {
			return nil, fmt.Errorf("%s comes after %s: the server's listing is not sorted", key, objects[last].Key)
		}
		objects = append(objects, store.Object{Key: key, Size: aws.ToInt64(c.Size), Time: aws.ToTime(c.LastModified), Tag: strongTag(c.ETag)})
	}
	return objects, nil
}

// printable is a place in the order of keys that may be sent: keys hold nothing
// below "-" and nothing above "z".
func printable(after string) string {
	for i := range len(after) {
		switch c := after[i]; {
		case c <= ' ':
			return after[:i]
		case c >= 0x7f:
			return after[:i] + "~"
		}
	}
	return after
}

// Delete implements store.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := b.checkKey(key); err != nil {
		return err
	}
	return b.conn.sendRequest(ctx, "delete "+key+" in "+b.text, true, func(ctx context.Context, c *client) error {
		_, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.bucket, Key: b.objectName(key), ExpectedBucketOwner: b.conn.expectedOwner()})
		if hear(err).Code == "NoSuchKey" {
			return nil
		}
		return err
	})
}
