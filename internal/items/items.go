// Package items knows where the items of a map come from: it reads them from a
// file, a pipe, a folder, a glob or a range, numbers them, keeps them as a
// manifest of compressed parts with an index, finds which are new against an
// older manifest, and fills them into a command.
//
// Whatever their number, memory is constant: a block of the manifest, a line,
// and 40 bytes of index for each block. It refuses to know jobs, ledgers,
// agents and processes. Proved by its tests: random lists there and back, a
// naive multiset, damaged objects, hostile lines and names, /bin/sh as oracle
// for quoting, fuzz, and millions of lines under a bound of memory.
package items

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"path/filepath"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Item is one line of a manifest.
type Item struct {
	N    int    // 1, 2, ...: its number in the job
	Text string // the line without its end; of CSV and JSON lines the record as it stands there
	// Fields are its values in the order of the manifest's field names; nil of a
	// plain line, and of a JSON line that is no object. A string of JSON is what it
	// says, any other value is compact JSON with numbers as written.
	Fields []string
	// Files are those that it names and that are stored, in the order of their fields;
	// of a Reader from OpenStored alone.
	Files []File
}

// Absent is the value of a field that a JSON line does not have. No value that
// fills a command is like it: an argument cannot hold a NUL byte.
const Absent = "\x00"

// Formats of a source.
const (
	Lines = "lines" // an item a line
	CSV   = "csv"   // RFC 4180: commas, double quotes, a header
	JSONL = "jsonl" // a JSON value a line
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

const (
	// maxLine bounds what a line takes in memory, several times over.
	maxLine = 16 << 20
	// maxItems is far above what a store holds results of; it ends a pipe that
	// never does.
	maxItems = 1_000_000_000
	// maxNames and maxNameBytes bound the fields' names, which stand in the job's
	// record: of JSON lines further ones are no placeholders, a wider CSV is refused.
	maxNames     = 1_000
	maxNameBytes = 64 << 10
)

// Manifest says where a list of items lies in the store. It stands in a job's
// record, so it is one of job's nouns.
type Manifest = job.Manifest

// ID names an item by its text and by which of the items with that text it is: 1
// for the first. So it stays when lines are added, removed or moved (rule M14 of
// docs/protocol.md). It is 16 hex digits, the beginning of a SHA-256: of 10 million items two
// share one with a chance of 1 in 370,000, so it is to show and to search by, and
// nothing is decided by it.
func ID(text string, occurrence int) string {
	h := sha256.New()
	var b [binary.MaxVarintLen64]byte
	h.Write(b[:binary.PutUvarint(b[:], uint64(occurrence))])
	io.WriteString(h, text)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// title is how a refusal names the source.
func (s Source) title() string {
	if s.From == "-" {
		return "standard input"
	}
	return s.From
}

// refuse says what is wrong with a source.
func (s Source) refuse(hint, format string, args ...any) error {
	return fault.New(fault.Invalid, hint, "read items from %q: "+format, append([]any{s.title()}, args...)...)
}

// below is name as seen from the source's folder, absolute. A name with ".." in
// it keeps them: a/../b is not b where a is a link.
func (s Source) below(name string) (string, error) {
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
