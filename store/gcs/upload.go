package gcs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// inOne is the largest body that is sent in one request, from memory. A larger one is sent in a
// session: one request more, constant memory, and bytes that the server has kept are not sent
// again.
const inOne = 8 << 20

// maxFutile is how often in a row a server may answer that it has no more bytes than before:
// each time a body is sent for nothing, which may be a large one.
const maxFutile = 12

// description is what the server is told of an object before its bytes. It checks the checksum
// before the object appears.
type description struct {
	Name         string `json:"name"`
	ContentType  string `json:"contentType"`
	CacheControl string `json:"cacheControl"`
	CRC32C       string `json:"crc32c"`
}

// kept is what the server says it has stored.
type kept struct {
	Size   string `json:"size"`
	CRC32C string `json:"crc32c"`
}

// checksum is a CRC32C as Google writes it.
func checksum(sum uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// castagnoli is made when it is first wanted, and then the same one.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// writeObject sends body under key. It reads a large body twice: the checksum has to be known
// first.
func (b *Bucket) writeObject(ctx context.Context, verb, key string, body io.ReadSeeker, q url.Values) error {
	_, err := b.writeOrResume(ctx, verb, key, body, q, "", nil)
	return err
}

// writeOrResume is writeObject that goes on with an earlier one, if begun is not nil (resume.go).
func (b *Bucket) writeOrResume(ctx context.Context, verb, key string, body io.ReadSeeker, q url.Values, at string, begun func(at string) error) (there int64, err error) {
	if err := b.checkKey(key); err != nil {
		return 0, err
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	doing := b.describeRequest(verb, key)
	_, err = body.Seek(0, io.SeekStart)
	var head []byte
	if err == nil {
		head, err = io.ReadAll(io.LimitReader(body, inOne+1))
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	sum, size := crc32.Checksum(head, castagnoli()), int64(len(head))
	large := len(head) > inOne
	for large {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		n, err := body.Read(head)
		sum, size = crc32.Update(sum, castagnoli(), head[:n]), size+int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", doing, err)
		}
	}
	meta, err := json.Marshal(description{Name: b.prefix + key, ContentType: "application/octet-stream",
		// a public object would be shown from caches for an hour
		CacheControl: "no-store", CRC32C: checksum(sum)})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	q.Set("fields", "crc32c,size")
	want := kept{Size: strconv.FormatInt(size, 10), CRC32C: checksum(sum)}
	if !large {
		return 0, b.writeInOne(ctx, doing, q, meta, head, want)
	}
	u := &upload{conn: b.conn, doing: doing, query: q, meta: meta, body: body, size: size, want: want, begun: begun}
	if at != "" {
		u.adoptSession(ctx, at)
	}
	err = u.runUpload(ctx, want)
	return u.there, err
}

// writeInOne sends description and content as the two parts of one body.
func (b *Bucket) writeInOne(ctx context.Context, doing string, q url.Values, meta, content []byte, want kept) error {
	q.Set("uploadType", "multipart")
	between := rand.Text() // 128 bits, which content does not hold
	before := fmt.Sprintf("--%s\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n%s\r\n--%s\r\nContent-Type: application/octet-stream\r\n\r\n", between, meta, between)
	after := "\r\n--" + between + "--\r\n"
	resp, err := b.conn.sendRequest(ctx, &call{doing: doing, landed: always, method: http.MethodPost, url: b.uploadURL(q),
		header: http.Header{"Content-Type": {"multipart/related; boundary=" + between}},
		open: func() (io.Reader, error) {
			return io.MultiReader(strings.NewReader(before), bytes.NewReader(content), strings.NewReader(after)), nil
		},
		size: int64(len(before) + len(content) + len(after))})
	if err != nil {
		return err
	}
	return b.conn.confirmStored(doing, resp, want)
}

// confirmStored compares what the server says it has stored with what was sent.
func (conn *connection) confirmStored(doing string, resp *http.Response, want kept) error {
	defer resp.Body.Close()
	var got kept
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&got); err != nil {
		return fmt.Errorf("%s: read the answer: %w: %w", doing, err, store.ErrUnclear)
	}
	if got != want {
		return fault.Wrap(store.ErrCorrupt, fault.Lost, "Look at what stands between here and "+conn.endpoint+", or name another store with `--store`.",
			"%s: the server has %s bytes with CRC32C %s, and %s with %s were sent", doing, google.Line(got.Size), google.Line(got.CRC32C), want.Size, want.CRC32C)
	}
	return nil
}

// upload is one large body on its way.
type upload struct {
	conn  *connection
	doing string
	query url.Values
	meta  []byte
	body  io.ReadSeeker
	size  int64

	want    kept
	begun   func(at string) error // nil: it is not resumed
	adopted bool                  // the session is of an earlier process, and has not answered yet
	there   int64                 // bytes that were in it
	late    int                   // how often what the earlier one had sent may still come in between

	session string // its address; empty: none
	kept    int64  // bytes the server has said it has
	ask     bool   // how many it has is not known
	unclear bool   // all was sent, and no clear answer came
}

// runUpload begins a session, sends the body, and after every unclear answer asks how much the
// server has. It goes on while that grows, and for a while after.
func (u *upload) runUpload(ctx context.Context, want kept) error {
	begun, futile, moved := 0, 0, u.conn.clock.Boot()
	for try := 0; ; try++ {
		before := u.kept
		resp, asked, err := u.sendStep(ctx)
		if u.adopted && err == nil {
			// One that is over says nothing of what the key holds now.
			if resp != nil {
				resp.Body.Close()
				resp, err = nil, errNoSession
				begun-- // it was not ours
			}
			u.adopted, u.there = false, u.kept
		}
		if resp != nil {
			return u.conn.confirmStored(u.doing, resp, want)
		}
		if errors.Is(err, errNoSession) || errors.Is(err, errDamaged) {
			u.session, u.kept, u.ask, u.adopted, u.there = "", 0, false, false, 0
			begun++
			err = fmt.Errorf("%w: %w", err, store.ErrBusy)
		}
		if u.kept > before {
			try, futile, moved = 0, 0, u.conn.clock.Boot()
		} else if err == nil {
			futile++ // it answers, and takes nothing
		}
		if err != nil && !again(err) || begun == tries || futile == maxFutile || u.conn.clock.Boot()-moved > giveUp {
			if context.Cause(ctx) == nil && u.begun == nil {
				u.abandonSession(ctx)
			}
			if err == nil {
				err = fmt.Errorf("%s: the server takes no more than %d of %d bytes: %w", u.doing, u.kept, u.size, store.ErrBusy)
			}
			return muddied(u.unclear, err)
		}
		if err == nil && (u.kept > before || u.kept == 0 && try == 0) {
			continue // it goes well
		}
		if stop := u.conn.pauseBeforeTry(ctx, try, asked); stop != nil {
			return muddied(u.unclear, fmt.Errorf("%s: %w", u.doing, stop))
		}
	}
}

// sendStep is one request. With an answer the upload has ended; without an answer or an error
// the server has kept bytes, and wants more.
func (u *upload) sendStep(ctx context.Context) (resp *http.Response, asked time.Duration, err error) {
	if u.session == "" {
		return nil, 0, u.beginSession(ctx)
	}
	c := &call{doing: u.doing, free: true, method: http.MethodPut, url: u.session, header: http.Header{},
		landed: func() bool { return u.unclear }}
	var rest *counted
	if u.ask || u.kept == u.size {
		c.header.Set("Content-Range", fmt.Sprintf("bytes */%d", u.size))
	} else {
		c.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", u.kept, u.size-1, u.size))
		rest = &counted{r: u.body}
		c.size = u.size - u.kept
		c.open = func() (io.Reader, error) { return rest, u.rewindBody() }
		// Without its last byte no object appears.
		c.landed = func() bool { return rest.n == c.size }
	}
	resp, asked, err = u.conn.sendOnce(ctx, c)
	if err != nil && rest != nil && u.late > 0 && !again(err) {
		// The end of the earlier process may reach the server after our question: then it
		// has more than it said, and refuses what begins before.
		u.late--
		u.ask, err = true, fmt.Errorf("%w: %w", err, store.ErrBusy)
	}
	if err != nil {
		u.unclear = u.unclear || errors.Is(err, store.ErrUnclear)
		u.ask = u.ask || rest != nil && rest.n > 0
		return nil, asked, err
	}
	if resp.StatusCode != statusIncomplete {
		return resp, 0, nil
	}
	resp.Body.Close()
	u.ask = false
	u.kept, err = u.parseKept(resp.Header.Get("Range"))
	return nil, 0, err
}

// beginSession asks for a session. That changes nothing yet, so a lost answer is no harm.
func (u *upload) beginSession(ctx context.Context) error {
	u.query.Set("uploadType", "resumable")
	resp, err := u.conn.sendRequest(ctx, &call{doing: u.doing, method: http.MethodPost, url: u.conn.uploadURL(u.query),
		header: http.Header{"Content-Type": {"application/json; charset=UTF-8"}, "X-Upload-Content-Length": {strconv.FormatInt(u.size, 10)}},
		open:   func() (io.Reader, error) { return bytes.NewReader(u.meta), nil },
		size:   int64(len(u.meta))})
	if err != nil {
		return err
	}
	resp.Body.Close()
	at, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || at.RawQuery == "" {
		return fault.New(fault.Invalid, "Name another store with `--store`.", "%s: %s began no upload", u.doing, u.conn.endpoint)
	}
	// The host is the one we were told of, whatever the server takes itself for.
	u.session = u.conn.endpoint + at.RequestURI()
	if u.begun != nil {
		return u.begun(u.sessionMark(at.RequestURI()))
	}
	return nil
}

// rewindBody goes to the first byte that the server lacks, by reading from the beginning: the
// body may be one that is checked while it is read.
func (u *upload) rewindBody() error {
	if _, err := u.body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, u.body, u.kept)
	return err
}

// parseKept reads "bytes=0-99": a hundred bytes. Nothing is none.
func (u *upload) parseKept(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	last, err := strconv.ParseInt(strings.TrimPrefix(s, "bytes=0-"), 10, 64)
	if err != nil || last < 0 || last >= u.size {
		return 0, fault.New(fault.Lost, "", "%s: the server says it has %q of %d bytes", u.doing, google.Line(s), u.size)
	}
	return last + 1, nil
}

// abandonSession tells the server that nothing more comes; otherwise it would wait a week.
func (u *upload) abandonSession(ctx context.Context) {
	if u.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if resp, _, err := u.conn.sendOnce(ctx, &call{doing: u.doing, free: true, method: http.MethodDelete, url: u.session}); err == nil {
		resp.Body.Close()
	}
}

// counted says how much of a body was taken.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
