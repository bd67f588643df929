package app

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/drover-run/drover/fault"
)

// ConfirmRemoval asks before something is taken away for good. A command without a
// terminal needs --yes.
func (a *App) ConfirmRemoval(yes bool, what string) error { return a.Confirm(yes, "removing", what) }

// Confirm asks before something is done that costs or cannot be taken back. A command
// without a terminal needs --yes.
func (a *App) Confirm(yes bool, doing, what string) error {
	if yes {
		return nil
	}
	if !a.onTerminal() {
		return fault.New(fault.Invalid, "Add `-y` to go on without a question.", "ask before %s: there is no terminal to ask at", doing)
	}
	fmt.Fprint(a.Err, strings.TrimLeft(what+" Go on? [y/N] ", " "))
	if Answer(a.In) {
		return nil
	}
	return fault.New(fault.Invalid, "", "ask before %s: not confirmed, nothing was changed", doing)
}

// onTerminal says whether a person is there to answer.
func (a *App) onTerminal() bool {
	err, ok := a.Err.(*os.File)
	return ok && term.IsTerminal(int(a.In.Fd())) && term.IsTerminal(int(err.Fd()))
}

// AnswerStreams finds a person to ask. Where standard input holds the items there may still
// be a terminal.
func (a *App) AnswerStreams(piped bool) (from io.ReadCloser, to io.Writer, ok bool) {
	said, is := a.Err.(*os.File)
	switch {
	case !is || !term.IsTerminal(int(said.Fd())):
		return nil, nil, false
	case !piped && a.In != nil && term.IsTerminal(int(a.In.Fd())):
		return io.NopCloser(a.In), said, true
	case !piped:
		return nil, nil, false
	}
	tty, err := os.Open("/dev/tty")
	return tty, said, err == nil
}

// Answer reads a line and reports whether it is a yes.
func Answer(from io.Reader) bool {
	line, _ := bufio.NewReader(from).ReadString('\n') // nothing is no
	word := strings.ToLower(strings.TrimSpace(line))
	return word == "y" || word == "yes"
}
