package store

import (
	"slices"
	"time"
)

// Rights are what a caller may do to the objects of a store, by prefixes of their keys: ""
// is every key. To read is to list, too. Where a bucket cannot grant rights so narrow, its
// owner grants more; a caller with more rights loses nothing.
type Rights struct {
	Read   []string
	Create []string // and never replace, where the server can tell create from replace
	Write  []string // create and replace
	Delete []string
}

// With are these rights and more.
func (r Rights) With(more Rights) Rights {
	return Rights{Read: slices.Concat(r.Read, more.Read), Create: slices.Concat(r.Create, more.Create),
		Write: slices.Concat(r.Write, more.Write), Delete: slices.Concat(r.Delete, more.Delete)}
}

// A Pass is the credential with which another process opens a bucket: a secret, to be kept
// in a file of mode 0600 and nowhere else. Each kind of bucket has a form of its own.
type Pass struct {
	File  []byte    // nil: the bucket asks for no credentials
	Until time.Time // zero: it does not end
	// Wide is true when it is the caller's own credential, because no narrower one could be
	// made, or a session with all the caller's rights. Why says what refused the narrower one,
	// and Fix what to do, with something to paste.
	Wide     bool
	Why, Fix string
}
