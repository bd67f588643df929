package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// ErrChanging: files were being written, however often they were read again. Test
// with errors.Is.
var ErrChanging = errors.New("being written")

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

// CheckName says why name cannot be a place inside a folder, or nil. Names are
// bytes: newlines, invalid UTF-8, a leading "-" and spaces are all fine.
func CheckName(name string) error {
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

// Attempts is how often we look at files that change under our eyes.
const Attempts = 5

// width is how many files are read, sent or fetched at once. Small files wait
// for round trips, large ones for the disk; four serve both and stay polite.
const width = 4

// ForEach runs f for 0..n-1, at most width at once, and returns the first error;
// the others' contexts are then cancelled. It returns when all have.
func ForEach(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	return eachOf(ctx, width, n, f)
}

// eachOf is each with another width.
func eachOf(ctx context.Context, width, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var next atomic.Int64 // a channel would wake a goroutine for every small file
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

// SizeText is n bytes for people: 1.2 kB, 34 MB.
func SizeText(n int64) string {
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

// Notes gathers what was left out, by reason.
type Notes map[string][]string

// Add says that name was not shipped, because it is reason ("a link to nothing").
func (n Notes) Add(reason, name string) { n.AddNote("not shipped, because it is "+reason, name) }

func (n Notes) AddNote(what, name string) { n[what] = append(n[what], name) }

// Lines is one line a reason, with the first few names.
func (n Notes) Lines() []string {
	var lines []string
	for _, reason := range slices.Sorted(maps.Keys(n)) {
		names := slices.Compact(slices.Sorted(slices.Values(n[reason])))
		const shown = 5
		var quoted []string
		for _, name := range names[:min(shown, len(names))] {
			quoted = append(quoted, fmt.Sprintf("%q", name))
		}
		line := reason + ": " + strings.Join(quoted, ", ")
		if more := len(names) - shown; more > 0 {
			line += fmt.Sprintf(" and %d more", more)
		}
		lines = append(lines, line)
	}
	return lines
}

// ShipMode is all that an archive says of a mode: the owner's x bit, which no
// umask takes away.
func ShipMode(perm uint32) uint32 {
	if perm&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

func RefuseArchive(format string, args ...any) error {
	return fault.New(fault.Invalid, "", "refuse archive: "+format, args...)
}
