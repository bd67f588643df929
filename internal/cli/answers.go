package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/drover-run/drover/fault"
)

// confirmRemoval asks before something is taken away for good. Who cannot be asked has to
// say so beforehand.
func (a *app) confirmRemoval(yes bool, what string) error {
	if yes {
		return nil
	}
	if !a.onTerminal() {
		return fault.New(fault.Invalid, "Add -y to go on without a question.", "ask before removing: there is no terminal to ask at")
	}
	fmt.Fprintf(a.err, "%s Go on? [y/N] ", what)
	if answer(a.in) {
		return nil
	}
	return fault.New(fault.Invalid, "", "ask before removing: not confirmed, nothing was changed")
}

// onTerminal says whether a person is there to answer.
func (a *app) onTerminal() bool {
	err, ok := a.err.(*os.File)
	return ok && term.IsTerminal(int(a.in.Fd())) && term.IsTerminal(int(err.Fd()))
}

// answerStreams finds a person to ask. Where standard input holds the items there may still
// be a terminal.
func (a *app) answerStreams(piped bool) (from io.ReadCloser, to io.Writer, ok bool) {
	said, is := a.err.(*os.File)
	switch {
	case !is || !term.IsTerminal(int(said.Fd())):
		return nil, nil, false
	case !piped && a.in != nil && term.IsTerminal(int(a.in.Fd())):
		return io.NopCloser(a.in), said, true
	case !piped:
		return nil, nil, false
	}
	tty, err := os.Open("/dev/tty")
	return tty, said, err == nil
}

func answer(from io.Reader) bool {
	line, _ := bufio.NewReader(from).ReadString('\n') // nothing is no
	word := strings.ToLower(strings.TrimSpace(line))
	return word == "y" || word == "yes"
}
