//go:build !linux

package mount

// Supported: no other system lets one process see its own files at a path.
const Supported = false

func DropMountRights() error { return nil }
