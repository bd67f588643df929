// Package terminal is how values look in a terminal and in a pipe: tables, JSON,
// harmless text, sizes, times and command lines to paste. It knows no job and no store.
// Proved by its own tests and by the screens of the packages above.
package terminal

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"
)

// WantColour follows NO_COLOR and CLICOLOR_FORCE; a pipe gets none.
func WantColour(f *os.File) bool {
	if os.Getenv("NO_COLOR") != "" {
		return false
	}
	if v := os.Getenv("CLICOLOR_FORCE"); v != "" && v != "0" {
		return true
	}
	return term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// IsTerminal reports whether what is written there is shown to a person.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Closed reports whether the reader of a pipe has left: drover run ... | head.
func Closed(err error) bool { return errors.Is(err, syscall.EPIPE) }
