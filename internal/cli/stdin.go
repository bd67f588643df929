package cli

import (
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc"
)

// giveStdin has the program of a run read what this command has on its standard input, as
// far as it can: docs/design/015-standard-input.md. It is called before the client is made.
func (a *app) giveStdin(detach bool) error {
	in := proc.LookStdin(a.in)
	a.stdin = in
	if detach {
		if in.Held() {
			return fault.New(fault.Invalid, "Leave out --detach; or give the data with -i; or type < /dev/null behind the command if the program reads none.",
				"give %s to the program: with --detach it goes on without this command line", in.Words())
		}
		return nil
	}
	a.given = a.in
	if in.Kind == proc.TerminalStdin {
		a.relay = &relay{real: a.in}
	}
	return nil
}

// endStdin gives the terminal back, and says what was not read.
func (a *app) endStdin() {
	if a.relay.end() > 0 {
		a.note("note: the program did not read the last line that was typed")
	}
}

// noteUnread says of a standard input that the program was not given, and that held nothing
// when the command began, that something has come since.
func (a *app) noteUnread(given bool) {
	if a.stdin != nil && a.stdin.Kind == proc.PipeStdin && !given && !a.stdin.Held() && a.stdin.Holds() {
		a.note("note: the pipe on standard input holds data by now, which the program did not get")
	}
}
