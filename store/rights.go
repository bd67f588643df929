package store

import "time"

// Rights are what a caller may do to the objects of a store, by how their keys
// begin: "" is every key. To read is to list, too. Where a bucket's owner can
// grant no less than this, the owner grants it; a caller with more loses nothing.
type Rights struct {
	Read   []string
	Create []string // and never replace, where the server can tell the two apart
	Write  []string // create and replace
	Delete []string
}

// A Pass is what another process opens a bucket with: a secret, for a file of 0600
// and nothing else. Each kind of bucket has a form of its own.
type Pass struct {
	File  []byte    // nil: the place asks for no credentials
	Until time.Time // zero: it does not end
	// Wide is true when it is the caller's own credential, because nothing narrower
	// was to be had, or a session with all the caller's rights; Why says what
	// refused, and Fix what to do, with something to paste.
	Wide     bool
	Why, Fix string
}
