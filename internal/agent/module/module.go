// Package module is what Python programs import as drover: one file, drover.py, that
// agents lay out. It knows the protocol of package stream and nothing else. Proved by
// package agent's tests, on its own, and by package crew's, with drover.
package module

import _ "embed"

// Python is the text of drover.py.
//
//go:embed drover.py
var Python []byte
