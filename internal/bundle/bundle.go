// Package bundle is what drover ships: code as one deterministic archive. Package
// tree stores folders, bucket lists those of the user's buckets, and union makes one
// of several.
//
// Code is found by Scan, as git sees it, and sent by Put; Unpack lays it out
// again. Both ends keep to the same Caps.
//
// It refuses to know what the files mean, what they are asked for, and where blobs are
// kept. Everything read from a store is taken for hostile until checked. Proved by its
// tests: git itself is the oracle for ignore files, and fuzzed archives meet a canary
// outside the folder.
package bundle

import (
	"errors"
)

// What Scan, Put and Save answer, beside success. Test with errors.Is.
var (
	// ErrHome: the folder is the home folder or /, where no user keeps one program.
	ErrHome = errors.New("it is the home folder or the root of the file system")
	// ErrTooBig: above Caps.
	ErrTooBig = errors.New("too big to ship as code")
)

// Caps bound one code bundle, where it is made and where it is laid out. A zero
// field takes its default.
type Caps struct {
	Bytes int64 // of the files, uncompressed; 100,000,000
	Files int   // files and folders named in the archive; 10,000
	Depth int   // folders above a file; 64
	// Ratio is uncompressed bytes to compressed ones; 1,000. It counts only
	// beyond the first 192 MiB: below, an honest run of zeros may be as dense
	// as it likes. A caller that raises Bytes and ships such runs raises Ratio too.
	Ratio int64
}

// ratioFree must exceed the defaults of Caps.Bytes and Caps.Files times headers
// together, or Unpack would refuse what Pack may make.
const ratioFree = 192 << 20

func (c Caps) withDefaults() Caps {
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
