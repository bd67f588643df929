// Package bundle is what drover ships: code as one deterministic archive, and
// folders as lists of files whose contents are blobs.
//
// Code is found by Scan, as git sees it, and sent by Put; Unpack lays it out
// again. Both ends keep to the same Caps. A folder that changes while drover
// looks at it (checkpoints, outputs, state) is a Tree: Save never offers a file
// that was being written, Restore shows a file only when it is whole.
//
// It refuses to know what the files mean, what they are asked for, and where blobs are
// kept: a store is three methods here. Everything read from a store is taken for
// hostile until checked. Proved by its tests: git itself is the oracle for
// ignore files, writers race with Save, and fuzzed archives and trees meet a
// canary outside the folder.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/drover-run/drover/store"
)

// Blobs is where contents are kept, by digest. *store.Store is one.
type Blobs interface {
	// PutBlob stores the whole of body. What was hashed is what is stored: a
	// body that changes meanwhile is an error.
	PutBlob(ctx context.Context, body io.ReadSeeker) (store.Digest, int64, error)
	// OpenBlob reads a blob. Contents that do not match d are an error from
	// Read before io.EOF. The caller closes.
	OpenBlob(ctx context.Context, d store.Digest) (io.ReadCloser, error)
	// HasBlob tells whether d is there; absence is not an error.
	HasBlob(ctx context.Context, d store.Digest) (bool, error)
}

var _ Blobs = (*store.Store)(nil)

// What Scan, Put and Save answer, beside success. Test with errors.Is.
var (
	// ErrHome: the folder is the home folder or /, where nobody keeps one program.
	ErrHome = errors.New("it is the home folder or the root of the file system")
	// ErrTooBig: above Caps.
	ErrTooBig = errors.New("too big to ship as code")
	// ErrChanging: files were being written, however often we looked.
	ErrChanging = errors.New("being written")
)

// Caps bound one code bundle, where it is made and where it is laid out. A zero
// field takes its default.
type Caps struct {
	Bytes int64 // of the files, uncompressed; 100,000,000
	Files int   // files and folders named in the archive; 10,000
	Depth int   // folders above a file; 64
	// Ratio is uncompressed bytes to compressed ones; 1,000. It counts only
	// beyond the first 192 MiB: below, an honest run of zeros may be as dense
	// as it likes. Who raises Bytes and ships such runs raises Ratio too.
	Ratio int64
}

// ratioFree must exceed the defaults of Caps.Bytes and Caps.Files times headers
// together, or Unpack would refuse what Pack may make.
const ratioFree = 192 << 20

func (c Caps) filled() Caps {
	if c.Bytes == 0 {
		c.Bytes = 100_000_000
	}
	if c.Files == 0 {
		c.Files = 10_000
	}
	if c.Depth == 0 {
		c.Depth = 64
	}
	if c.Ratio == 0 {
		c.Ratio = 1000
	}
	return c
}

// checkName says why name cannot be a place inside a folder, or nil. Names are
// bytes: newlines, invalid UTF-8, a leading "-" and spaces are all fine.
func checkName(name string) error {
	switch {
	case name == "" || name == ".":
		return errors.New("an empty name")
	case strings.HasPrefix(name, "/"):
		return errors.New("an absolute name")
	case name == ".." || strings.HasPrefix(name, "../"):
		return errors.New("a name that leads outside")
	case path.Clean(name) != name:
		return errors.New("a name that is not in its plain form")
	case strings.IndexByte(name, 0) >= 0:
		return errors.New("a name with a NUL byte")
	}
	return checkLength(name)
}

// tries is how often we look at files that change under our eyes.
const tries = 5

// width is how many files are read, sent or fetched at once. Small files wait
// for round trips, large ones for the disk; four serve both and stay polite.
const width = 4

// each runs f for 0..n-1, at most width at once, and returns the first error;
// the others' contexts are then cancelled. It returns when all have.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	return eachOf(ctx, width, n, f)
}

// eachOf is each with another width.
func eachOf(ctx context.Context, width, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var next atomic.Int64 // a channel would wake somebody up for every small file
	for range min(width, n) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// sizeText is n bytes for people: 1.2 kB, 34 MB.
func sizeText(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f, u := float64(n)/1000, 0
	for f >= 999.5 && u < len(units)-1 {
		f, u = f/1000, u+1
	}
	if f < 9.95 {
		return fmt.Sprintf("%.1f %cB", f, units[u])
	}
	return fmt.Sprintf("%.0f %cB", f, units[u])
}
