// Package apptest runs code that prints through package app, for tests.
package apptest

import (
	"bytes"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
)

// ExitOf is the exit status of a command with this error.
func ExitOf(err error) int {
	if s, ok := err.(app.Status); ok {
		return int(s)
	}
	return fault.Exit(err)
}

// OnScreen is what a command line prints on both of its outputs, a screen of its own
// each time.
func OnScreen(print func(a *app.App)) []string {
	var out bytes.Buffer
	print(&app.App{Out: &out, Err: &out})
	return append(strings.Split(strings.TrimRight(out.String(), "\n"), "\n"), "")
}
