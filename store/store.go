// Package store keeps drover's facts as objects under one prefix.
//
// Bucket is the small contract that a place to keep objects must honour: a folder, memory,
// S3, GCS. Store is the one concrete type over it: it tells the caller's own object from
// another writer's after an unclear answer, retries what may be retried, checks digests, and
// names blobs by their content.
//
// It refuses to know what the objects mean: logs, jobs and leases belong to package ledger.
// Every bucket is proved by one suite, storetest.
package store

import (
	"context"
	"errors"
	"io"
	"time"
)

// Bucket is a flat space of objects. CheckKey says which keys are valid; every bucket refuses
// the others. A key is never also the folder of another key ("a" beside "a/b"): a bucket may
// refuse the second as fault.Invalid. All methods may be called from many goroutines and
// processes at once. If ctx is done before the work begins, a method returns its cause.
type Bucket interface {
	// Create writes key if it is absent, reading body from its beginning, more than once if
	// need be. Its size is what Seek(0, io.SeekEnd) says: a body that gives fewer or more bytes
	// may be refused, with nothing written. Once Create has returned nil, the object is durable
	// and every reader can read the whole of it. Errors: ErrExists, if the key holds an object
	// (which may be the caller's own, from an earlier request with a lost answer), as durably
	// as if this call had written it; ErrUnclear, if the write may or may not have happened or
	// may still happen; anything else: not written, and it will not be. An error from body is
	// passed on, and nothing is written.
	Create(ctx context.Context, key string, body io.ReadSeeker) error

	// Put writes key and replaces what was there: only for heartbeats and other hints.
	// Readers see the old object or the new one, never a mixture. The object need not survive
	// a power cut, and after one the key may hold anything, an empty object too. Errors as for
	// Create, without ErrExists.
	Put(ctx context.Context, key string, body io.ReadSeeker) error

	// Get reads n bytes of key from off >= 0; n < 0 reads to the end, a range past the end is
	// cut short. The caller closes. ErrNotExist if it is absent. What Get has shown stays: it
	// first makes an object durable that a power cut could still take back (objects of Put
	// excepted).
	Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)

	// List gives up to limit (1 or more) objects with keys that begin with prefix and are
	// greater than after, in byte order of their keys. The listing may be incomplete (rule L6
	// of docs/protocol.md): it only says where to look. more is true when objects were left
	// out because of limit, or because the bucket's own pages are shorter; then there is at
	// least one object.
	List(ctx context.Context, prefix, after string, limit int) (objects []Object, more bool, err error)

	// Delete removes key. An absent key is not an error. A power cut may bring the object
	// back.
	Delete(ctx context.Context, key string) error

	// String names the bucket as a user would type it after --store, without secrets.
	String() string
}

// Object is one line of a listing.
type Object struct {
	Key  string
	Size int64     // bytes
	Time time.Time // when it was written, by the bucket's clock; a hint
	// Tag is the bucket's own name for this content, such as an S3 ETag or a generation:
	// another content under the same key has another tag. "" where the bucket has none.
	Tag string
}

// The errors of a Bucket. Test with errors.Is.
var (
	ErrExists   = errors.New("object exists")
	ErrNotExist = errors.New("object does not exist")
	// ErrUnclear marks a write with an unknown outcome: a time-out, a lost reply, 409, 5xx.
	// Only a read of the object tells (rule L1 of docs/protocol.md).
	ErrUnclear = errors.New("outcome unknown")
	// ErrBusy marks a request that certainly did nothing and may be sent again: throttling, a
	// refused connection.
	ErrBusy = errors.New("store busy")
)

// ErrCorrupt marks a blob with content that does not match its digest.
var ErrCorrupt = errors.New("content does not match its digest")

// ErrMalformed marks content that drover did not write: it is larger than MaxWhole where it
// is read whole, or, in a folder, is no regular file. A retry does not help, and other keys
// are not affected.
var ErrMalformed = errors.New("no object that drover wrote")

// MaxWhole is the most bytes of an object that Store reads into memory at once: Get, Fixed
// and CreateOnce refuse a larger one. The largest objects that drover reads in this way are
// entries of a log (32 MiB in package ledger), indexes of a billion items (half of it), and
// log objects (5 MiB). Objects that may be larger are read as a stream: Open, OpenBlob.
const MaxWhole = 64 << 20
