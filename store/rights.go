package store

// Rights are what somebody may do to the objects of a store, by how their keys
// begin: "" is every key. To read is to list, too. Where a bucket's owner can
// grant no less than this, it is what he grants; who has more loses nothing.
type Rights struct {
	Read   []string
	Write  []string // create and replace
	Delete []string
}
