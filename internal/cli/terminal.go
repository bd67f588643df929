package cli

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"
)

// wantColour follows NO_COLOR and CLICOLOR_FORCE; a pipe gets none.
func wantColour(f *os.File) bool {
	if os.Getenv("NO_COLOR") != "" {
		return false
	}
	if v := os.Getenv("CLICOLOR_FORCE"); v != "" && v != "0" {
		return true
	}
	return term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// isTerminal reports whether what is written there is shown to a person.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// closed says whether nobody reads on: drover run ... | head.
func closed(err error) bool { return errors.Is(err, syscall.EPIPE) }
