package app

import (
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/relay"
	"github.com/drover-run/drover/internal/proc/stdin"
)

// GiveStdin has the program of a run read what this command has on its standard input, as
// far as it can: docs/design/015-standard-input.md. It is called before the client is made.
func (a *App) GiveStdin(detach bool) error {
	in := stdin.Inspect(a.In)
	a.stdin = in
	if detach {
		if in.Held() {
			return fault.New(fault.Invalid, "Leave out `--detach`; or give the data with `-i`; or type `< /dev/null` behind the command if the program reads none.",
				"give %s to the program: with --detach it goes on without this command line", in.Words())
		}
		return nil
	}
	a.given = a.In
	if in.Kind == stdin.Terminal {
		a.relay = &relay.Relay{Real: a.In}
	}
	return nil
}

// EndStdin gives the terminal back, and says what was not read.
func (a *App) EndStdin() {
	if a.relay.End() > 0 {
		a.Note("note: the program did not read the last line that was typed")
	}
}

// NoteUnread says of a standard input that the program was not given, and that held nothing
// when the command began, that something has come since.
func (a *App) NoteUnread(given bool) {
	if a.stdin != nil && a.stdin.Kind == stdin.Pipe && !given && !a.stdin.Held() && a.stdin.Holds() {
		a.Note("note: the pipe on standard input holds data by now, which the program did not get")
	}
}
