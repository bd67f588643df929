package manifest

// What the tests outside of this package see of a manifest's blocks.
const (
	TestBlockSize = blockSize
	TestPartSize  = partSize
)

func BlocksOf(r *Reader) []placed { return r.blocks }
