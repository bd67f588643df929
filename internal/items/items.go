// Package items knows where the items of a map come from: Collect reads them from a
// file, a pipe, a folder, a glob, a bucket or a range into a list of package
// manifest. Package fields reads CSV and JSON lines, package template fills an item
// into a command.
//
// Whatever their number, memory is constant. It refuses to know jobs, ledgers,
// agents and processes. Proved by its tests: hostile lines and names, globs beside
// the shell's, fuzz, and millions of lines under a bound of memory.
package items

import (
	"context"
	"io"
	"path/filepath"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// Source says where items come from.
type Source struct {
	// From is what was typed: a file, "-", a folder, a glob, a range such as
	// "1-1000000" or "0-100:5", or any of the first in a bucket, as s3:// and gs://.
	// What looks like a range is one.
	From   string
	Format string    // "" goes by the file's ending: .csv; .jsonl, .ndjson and .json; else lines
	Dir    string    // relative paths begin here; "": the current folder
	Stdin  io.Reader // what "-" reads
	// Open opens the bucket that a URL without a key names. Nil: there are none.
	Open func(ctx context.Context, url string) (*store.Store, error)
}

// sourceTitle is how a refusal names the source.
func (s Source) sourceTitle() string {
	if s.From == "-" {
		return "standard input"
	}
	return s.From
}

// refuseSource says what is wrong with a source.
func (s Source) refuseSource(hint, format string, args ...any) error {
	return fault.New(fault.Invalid, hint, "read items from %q: "+format, append([]any{s.sourceTitle()}, args...)...)
}

// pathBelow is name as seen from the source's folder, absolute. A name with ".." in
// it keeps them: a/../b is not b where a is a link.
func (s Source) pathBelow(name string) (string, error) {
	dir, err := filepath.Abs(s.Dir)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(name) {
		name = dir + string(filepath.Separator) + name
	}
	if goesUp(name) {
		return name, nil
	}
	return filepath.Clean(name), nil
}
