//go:build !linux

// Package cloudtest proves that code sends nothing: tests of the rooms of package cloud, and of
// drivers, use it.
package cloudtest

import (
	"context"
	"testing"
)

// Silent skips the test: networks of a process's own are Linux's.
func Silent(t *testing.T, _ func(ctx context.Context)) {
	t.Helper()
	t.Skip("a process can have a network of its own on Linux alone")
}
