// Package manifest keeps a map's items as a numbered list: compressed parts with an
// index, in a folder (a List) or in a store (a Manifest, read by a Reader), together
// with the files that the items name. It finds which items are new against an older
// manifest, and samples a list.
//
// Whatever the number of items, memory is constant: a block, a line, and 40 bytes
// of index for each block. It refuses to know where items come from and what is
// done with them. Proved by its tests: random lists there and back, a naive
// multiset, damaged objects, fuzz.
package manifest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"

	"github.com/drover-run/drover/job"
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

// Formats of a source.
const (
	Lines = "lines" // an item a line
	CSV   = "csv"   // RFC 4180: commas, double quotes, a header
	JSONL = "jsonl" // a JSON value a line
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

const (
	// MaxLine bounds what a line takes in memory, several times over.
	MaxLine = 16 << 20
	// MaxItems is far above what a store holds results of; it ends a pipe that
	// never does.
	MaxItems = 1_000_000_000
)
