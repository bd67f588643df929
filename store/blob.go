package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/drover-run/drover/fault"
)

// Digest names a blob by its content: SHA-256 in 64 lower-case hex digits.
type Digest string

// ParseDigest checks that s is a digest in its one spelling.
func ParseDigest(s string) (Digest, error) {
	ok := len(s) == 2*sha256.Size
	for i := 0; ok && i < len(s); i++ {
		ok = s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'f'
	}
	if !ok {
		return "", fault.New(fault.Invalid, "", "parse digest: %.80q: not 64 lower-case hex digits", s)
	}
	return Digest(s), nil
}

func (d Digest) objectKey() (string, error) {
	_, err := ParseDigest(string(d))
	return "blobs/" + string(d), err
}

// PutBlob stores the whole of body under its digest, and returns the digest and the size in
// bytes. It reads body once for the digest and, if it is not stored yet, once more to send
// it (again after an unclear answer), in constant memory. If body changes in between, that
// is an error and nothing is stored.
func (s *Store) PutBlob(ctx context.Context, body io.ReadSeeker) (Digest, int64, error) {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", 0, fmt.Errorf("read blob: %w", err)
	}
	h := sha256.New()
	size, err := io.Copy(h, while(ctx, body))
	if err != nil {
		return "", 0, fmt.Errorf("read blob: %w", err)
	}
	d := Digest(hex.EncodeToString(h.Sum(nil)))
	if held, err := s.HasBlob(ctx, d); held || err != nil {
		return d, size, err
	}
	same := &unchanged{body: body, want: d, size: size, hash: h, pos: size, skip: true}
	err = s.retryWithBody(ctx, "store blob", string(d), true, func() error {
		err := s.bucket.Create(ctx, "blobs/"+string(d), same)
		if same.err != nil {
			// The body's own error, which the client library may not have passed on.
			return same.err
		}
		return err
	})
	// The first writer sent the same bytes, or could not have finished.
	if err != nil && !errors.Is(err, ErrExists) {
		return "", 0, err
	}
	return d, size, nil
}

// HasBlob says whether the store holds d. It does not read the content.
func (s *Store) HasBlob(ctx context.Context, d Digest) (bool, error) {
	key, err := d.objectKey()
	if err != nil {
		return false, err
	}
	r, err := s.Open(ctx, key, 0, 1)
	if errors.Is(err, ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.Close()
}

// OpenBlob reads d and checks it on the way: where the content does not match,
// the last Read gives ErrCorrupt instead of io.EOF, so a reader that reaches
// io.EOF has read d. ErrNotExist if it is absent. The caller closes.
func (s *Store) OpenBlob(ctx context.Context, d Digest) (io.ReadCloser, error) {
	key, err := d.objectKey()
	if err != nil {
		return nil, err
	}
	r, err := s.Open(ctx, key, 0, -1)
	if err != nil {
		return nil, err
	}
	return &verified{ReadCloser: r, want: d, where: s.String(), hash: sha256.New()}, nil
}

// verified turns io.EOF into ErrCorrupt when the bytes read do not have the digest.
type verified struct {
	io.ReadCloser
	want  Digest
	where string
	hash  hash.Hash
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.hash.Write(p[:n])
	if err == io.EOF && hex.EncodeToString(v.hash.Sum(nil)) != string(v.want) {
		err = fmt.Errorf("read blob %s in %s: %w", v.want, v.where, ErrCorrupt)
	}
	return n, err
}

// unchanged is a body that is sent under a digest. A sender may stop at the last byte
// without asking for io.EOF, so unchanged gives the last bytes only after it has checked
// that they complete the digest: if body has changed, no sender can send size bytes.
type unchanged struct {
	body io.ReadSeeker
	want Digest
	size int64
	hash hash.Hash
	pos  int64 // of the next byte; the bytes before it are in hash, unless skipped
	skip bool  // a Seek left the bytes before pos unread
	err  error
}

func (u *unchanged) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		offset, whence = u.size+offset, io.SeekStart
	}
	pos, err := u.body.Seek(offset, whence)
	if err != nil {
		return pos, err
	}
	if pos == 0 {
		u.hash.Reset()
		u.skip = false
	} else if pos != u.pos {
		u.skip = true
	}
	u.pos = pos
	return pos, nil
}

func (u *unchanged) Read(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	n, err := u.body.Read(p)
	u.hash.Write(p[:n])
	u.pos += int64(n)
	ended := n > 0 && u.pos == u.size
	switch {
	case u.skip && (ended || n == 0 && err == io.EOF):
		// No sender sends a body from its middle to its end. Reading its size is fine.
		u.err = errors.New("store blob: sent out of order")
	case u.pos > u.size, err == io.EOF && u.pos < u.size,
		ended && hex.EncodeToString(u.hash.Sum(nil)) != string(u.want):
		u.err = fault.New(fault.Invalid, "Run it again when nothing writes to the file.",
			"store blob %s: its content changed while it was being stored", u.want)
	}
	if u.err != nil {
		return 0, u.err
	}
	return n, err
}

// while stops a long read when ctx is done.
func while(ctx context.Context, r io.Reader) io.Reader {
	return readFunc(func(p []byte) (int, error) {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
