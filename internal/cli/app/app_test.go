package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

func TestOnlyAYesIsAYes(t *testing.T) {
	for typed, want := range map[string]bool{"y\n": true, "Y\n": true, " yes \n": true, "y": true, "\n": false, "": false, "n\n": false, "yesterday\n": false, "no\ny\n": false} {
		if got := Answer(strings.NewReader(typed)); got != want {
			t.Errorf("%q: %v", typed, got)
		}
	}
}

func TestOneAsksWhereSomebodyCanAnswer(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	a := &App{In: tty, Err: tty}
	from, to, ok := a.AnswerStreams(false)
	if !ok || to != io.Writer(tty) {
		t.Fatalf("nobody is asked at a terminal: %v", ok)
	}
	if _, err := master.WriteString("yes\n"); err != nil {
		t.Fatal(err)
	}
	if !Answer(from) {
		t.Error("the answer was not heard")
	}
	a.Err = io.Discard
	if _, _, ok := a.AnswerStreams(false); ok {
		t.Error("one is asked who does not see the question")
	}
	a.Err, a.In = tty, nil
	if _, _, ok := a.AnswerStreams(false); ok {
		t.Error("nobody is asked")
	}
}

func TestErrorsArePrintedInOneShape(t *testing.T) {
	for _, row := range []struct {
		err  error
		want string
	}{
		{errors.New("read x: gone"), "drover: read x: gone\n"},
		{fmt.Errorf("run: %w", fault.New(fault.Full, "Wait.", "place job: no room")), "drover: run: place job: no room\n  Wait.\n"},
		{errors.Join(errors.New("one"), errors.New("two")), "drover: one\ntwo\n"},
		// Engines, servers and records have their words in them.
		{fault.New(fault.Full, "Change to /tmp/\x1b[2Jx.", "place job: \x1b]0;mine\a"), "drover: place job: \\x1b]0;mine\\x07\n  Change to /tmp/\\x1b[2Jx.\n"},
	} {
		var said bytes.Buffer
		(&App{Err: &said}).PrintError(row.err)
		if said.String() != row.want {
			t.Errorf("%q, want %q", said.String(), row.want)
		}
	}
	var s Status
	if err := error(Status(3)); !errors.As(err, &s) || int(s) != 3 || err.Error() != "exit status 3" {
		t.Error(err)
	}
}

func TestWhatCanBeTypedIsBold(t *testing.T) {
	var said bytes.Buffer
	(&App{Err: &said, Colour: true}).PrintError(fault.New(fault.Full, "Go on: `drover resume \x1b[2Jab12`, \x1b[31mor wait.", "place job: no room"))
	if want := "drover: place job: no room\n  Go on: \x1b[1mdrover resume \\x1b[2Jab12\x1b[0m, \\x1b[31mor wait.\n"; said.String() != want {
		t.Errorf("%q, want %q", said.String(), want)
	}
}

func TestQuietIsQuietAndColourIsAsked(t *testing.T) {
	var said bytes.Buffer
	a := &App{Err: &said, Quiet: true}
	a.Note("something")
	if said.Len() > 0 {
		t.Errorf("it said %q", said.String())
	}
	if got := a.PaintState(job.Failed, "x"); got != "x" {
		t.Errorf("painted without being asked: %q", got)
	}
	a.Colour = true
	if got := a.PaintState(job.Failed, "x"); got != "\x1b[31mx\x1b[0m" || a.PaintState(job.Pending, "x") != "x" {
		t.Errorf("painted %q", got)
	}
	for _, row := range []struct {
		never, always string
		want          bool
	}{{"1", "1", false}, {"", "1", true}, {"", "0", false}, {"", "", false}} {
		t.Setenv("NO_COLOR", row.never)
		t.Setenv("CLICOLOR_FORCE", row.always)
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		if got := terminal.WantColour(f); got != row.want {
			t.Errorf("NO_COLOR=%s CLICOLOR_FORCE=%s: %t", row.never, row.always, got)
		}
		f.Close()
	}
}
