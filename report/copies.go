package report

import "time"

// CopyProgress is how far it is. Files and bytes that are there already are in Same and
// in SameBytes, not in Files and Bytes; so are the bytes of a file that is gone on with.
type CopyProgress struct {
	Files, Same       int64
	Bytes, SameBytes  int64
	Found, FoundBytes int64 // so far, of which all the above are a part
	Counted           bool  // Found is all there is
}

// Copied is what was done.
type Copied struct {
	CopyProgress
	LeftOut int64 // links to folders, pipes, sockets and devices, which are never sent
	Took    time.Duration
}
