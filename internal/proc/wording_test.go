package proc

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/wire"
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
	reads(t, (&SpawnCommand{Path: "true"}).checkCommand(), fault.Invalid, `start "true": want a path with a slash`, "")
}

func TestWhatTheKernelRefusesHasItsNextStep(t *testing.T) {
	o := wire.Order{Path: []byte("/bin/sh")}
	reads(t, explain(o, wire.StepExec, syscall.E2BIG), fault.Invalid, "start /bin/sh: its arguments and environment: argument list too long", "Put the list in a file and name the file.")
	reads(t, explain(o, wire.StepExec, syscall.EAGAIN), fault.Full, "start /bin/sh: no room for another process: resource temporarily unavailable",
		"Raise the limit on processes (ulimit -u), or use fewer slots.")
}

// What stands at the beginning of a file tells why the kernel does not run it.
func TestAFileThatTheKernelDoesNotRunHasItsNextStep(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	windows, absent := file("windows", "#!/bin/sh\r\n"), file("absent", "#!/no/such/interpreter\n")
	elf, text := file("elf", "\x7fELF"), file("text", "echo\n")
	for _, row := range []struct {
		path      string
		errno     syscall.Errno
		why, hint string
	}{
		{windows, syscall.ENOENT, `bad interpreter "/bin/sh": the line ends in a carriage return`, "Give it Unix line endings: sed -i 's/\\r$//' " + windows},
		{absent, syscall.ENOENT, `bad interpreter "/no/such/interpreter": no such file`, "Correct the #! line, or install that interpreter."},
		{elf, syscall.ENOENT, "the loader it was built for is not here", "Build it on a system like this one, or link it statically."},
		{dir + "/gone", syscall.ENOENT, "no such file or directory", "Check the path and the folder it is run in."},
		{text, syscall.EACCES, "permission denied", "Make it executable: chmod +x " + text + "."},
		{absent, syscall.EACCES, "permission denied", "Make it executable: chmod +x " + absent + ", and see that its interpreter is, too."},
		{elf, syscall.ENOEXEC, "it was built for another kind of machine", "Build it for this machine."},
		{text, syscall.ENOEXEC, "neither a program nor a script with a #! line", "Begin it with a line that names its interpreter, such as #!/bin/sh."},
	} {
		reads(t, explain(wire.Order{Path: []byte(row.path)}, wire.StepExec, row.errno), fault.Invalid, "start "+row.path+": "+row.why, row.hint)
	}
}

func TestAProgramThatIsNotFoundIsLookedForInTheFolderToo(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "here"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, hint := range map[string]string{"here": "Type ./here to run the one in the working folder.", "nowhere": "Check the spelling, or name the program by its whole path."} {
		_, err := Start(t.Context(), Command{Path: path, Dir: dir, Env: []string{"PATH=" + dir + "/bin"}})
		reads(t, err, fault.Invalid, "start "+path+": no such program in PATH", hint)
	}
}

func TestAnCommandThatCannotBeSaysWhatIsWrong(t *testing.T) {
	for want, e := range map[string]SpawnCommand{
		"start /a: its standard input is over 16 MiB":         {Path: "/a", Stdin: make([]byte, MaxStdin+1)},
		"start /a\x00: its path holds a zero byte":            {Path: "/a\x00"},
		"start /a: an argument or variable holds a zero byte": {Path: "/a", Env: []string{"A=\x00"}},
	} {
		reads(t, e.checkCommand(), fault.Invalid, want, "")
	}
}

func TestASignalOfNoSystemIsRefused(t *testing.T) {
	if err := (&Process{name: "sh"}).Signal(strange{}); err == nil || err.Error() != "signal sh: not a signal of this system: strange" {
		t.Error(err)
	}
}

type strange struct{}

func (strange) Signal()        {}
func (strange) String() string { return "strange" }

func TestAProcessThatHasEndedIsNotFound(t *testing.T) {
	if _, err := process.Of(1 << 30); err == nil || !strings.HasPrefix(err.Error(), "find process 1073741824: ") {
		t.Error(err)
	}
}

func TestASupervisorThatEndedIsLost(t *testing.T) {
	ours, theirs := net.Pipe()
	theirs.Close()
	p := &Process{name: "/bin/sh", wire: wire.NewConn(ours)}
	if err := p.sendOrder(wire.Order{}, nil); err == nil || !strings.HasPrefix(err.Error(), "start /bin/sh: its supervisor ended: ") || fault.KindOf(err) != fault.Lost {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
}

func TestASweepOfWhatIsNoOtherTreeIsRefused(t *testing.T) {
	_, err := Sweep("a:b")
	reads(t, err, fault.Invalid, `sweep tree "a:b": not a token`, "")
	t.Setenv(process.Mark, "itself")
	_, err = Sweep("itself")
	reads(t, err, fault.Invalid, "sweep tree itself: it holds this process", "")
}
