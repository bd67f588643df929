//go:build !chaos

package program

import "github.com/drover-run/drover/store"

// weather is what make chaos puts between a store and its bucket, in a program of
// its own (weather.go). Here there is none.
func weather(b store.Bucket) store.Bucket { return b }
