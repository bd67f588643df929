package proc

import (
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/fault"
)

// reads checks what a user reads of an error: the whole text, and the whole hint.
func reads(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || err.Error() != text || fault.Hint(err) != hint || fault.KindOf(err) != kind {
		t.Errorf("kind %v: %v\n%s\nwant %v: %s\n%s", fault.KindOf(err), err, fault.Hint(err), kind, text, hint)
	}
}

func TestAStartThatCannotBeSaysWhatIsWrong(t *testing.T) {
	for _, row := range []struct {
		c    Command
		text string
	}{
		{Command{}, "start a program: none is named"},
		{Command{Path: "/bin/sh", Token: "a:b"}, `start /bin/sh: token "a:b": want 1 to 64 of A-Z a-z 0-9 _ -`},
		{Command{Path: "/bin/sh", Args: []string{"sh", "a\x00b"}}, `start /bin/sh: argument "a\x00b": holds a zero byte`},
		{Command{Path: "/bin/sh", Dir: "/no/such/folder"}, `start /bin/sh: enter folder "/no/such/folder": no such file or directory`},
	} {
		p, err := Start(t.Context(), row.c)
		if err == nil {
			p.Kill()
		}
		reads(t, err, fault.Invalid, row.text, "")
	}
}

func TestAProgramWithoutMainIsToldToCallIt(t *testing.T) {
	mainCalled.Store(false)
	defer mainCalled.Store(true)
	hint := "Call proc.Main first in main, or in TestMain."
	_, err := Start(t.Context(), Command{Path: "true"})
	reads(t, err, fault.Bug, "start true: proc.Main was not called", hint)
	_, err = OpenSpawner(t.Context(), SpawnerConfig{Slots: 1})
	reads(t, err, fault.Bug, "start a spawner: proc.Main was not called", hint)
}

func TestASpawnerThatCannotBeSaysWhatIsWrong(t *testing.T) {
	_, err := OpenSpawner(t.Context(), SpawnerConfig{})
	reads(t, err, fault.Invalid, "start a spawner: 0 slots: want 1 or more", "")
	_, err = OpenSpawner(t.Context(), SpawnerConfig{Slots: 1, Token: "a:b"})
	reads(t, err, fault.Invalid, `start a spawner: token "a:b": want 1 to 64 of A-Z a-z 0-9 _ -`, "")
	reads(t, (&Errand{Path: "true"}).check(), fault.Invalid, `start "true": want a path with a slash`, "")
}

func TestWhatTheKernelRefusesHasItsNextStep(t *testing.T) {
	o := order{Path: []byte("/bin/sh")}
	reads(t, explain(o, stepExec, syscall.E2BIG), fault.Invalid, "start /bin/sh: its arguments and environment: argument list too long", "Put the list in a file and name the file.")
	reads(t, explain(o, stepExec, syscall.EAGAIN), fault.Full, "start /bin/sh: no room for another process: resource temporarily unavailable",
		"Raise the limit on processes (ulimit -u), or use fewer slots.")
}

func TestASupervisorThatEndedIsLost(t *testing.T) {
	ours, theirs := net.Pipe()
	theirs.Close()
	p := &Process{name: "/bin/sh", wire: newWire(ours)}
	if err := p.first(order{}, nil); err == nil || !strings.HasPrefix(err.Error(), "start /bin/sh: its supervisor ended: ") || fault.KindOf(err) != fault.Lost {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
}

func TestASweepOfWhatIsNoOtherTreeIsRefused(t *testing.T) {
	_, err := Sweep("a:b")
	reads(t, err, fault.Invalid, `sweep tree "a:b": not a token`, "")
	t.Setenv(Mark, "itself")
	_, err = Sweep("itself")
	reads(t, err, fault.Invalid, "sweep tree itself: it holds this process", "")
}

func TestOnlyASocketHasAUser(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	_, err := SocketUser(ours)
	reads(t, err, fault.Bug, "ask who is at the other end: *net.pipe is not a socket", "")
}
