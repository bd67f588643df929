//go:build !chaos

package program

import "github.com/drover-run/drover/store"

// weather adds the faults that make chaos asks for, in a program of its own (weather.go). In
// this program it adds none.
func injectFaults(b store.Bucket) store.Bucket { return b }
