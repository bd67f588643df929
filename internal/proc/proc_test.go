package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/proctest"
	"github.com/drover-run/drover/internal/proc/wire"
)

func TestExitSaysHowTheProgramEnded(t *testing.T) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		for script, want := range map[string]struct {
			Code, Status int
			Signal       syscall.Signal
		}{
			"exit 0":             {0, 0, 0},
			"exit 7":             {7, 7, 0},
			"kill -TERM $$":      {-1, 143, syscall.SIGTERM},
			"kill -KILL $$":      {-1, 137, syscall.SIGKILL},
			"sleep 1000 & :":     {0, 0, 0},
			"(sleep 1000 &) ; :": {0, 0, 0},
		} {
			c := shell(script)
			c.subreaper = subreaper
			e := start(t, c).Wait()
			if e.Code != want.Code || e.Signal != want.Signal || e.Status() != want.Status || e.Lost || e.Left != 0 {
				t.Errorf("%s: got %+v, status %d, want %+v", script, e, e.Status(), want)
			}
		}
	})
}

func TestExitCountsTheWholeTreesUse(t *testing.T) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		// The work is done in a grandchild that only the supervisor waits for.
		c := shell(`r=$(mktemp -u); mkfifo "$r"; (sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo > "$0"' "$r" &); read x < "$r"; rm "$r"; exit 3`)
		c.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
		c.subreaper = subreaper
		e := start(t, c).Wait()
		if e.Code != 3 || e.User < 10*time.Millisecond || e.MaxRSS < 100_000 || e.MaxRSS > 1<<30 {
			t.Errorf("got %+v", e)
		}
	})
}

func TestFilesAreTheProgramsOwn(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, []byte("given\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdin, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stderr, err := os.Create(filepath.Join(dir, "err"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	c := shell("cat; echo out; echo err >&2")
	c.Stdin, c.Stderr = stdin, stderr
	got, _ := output(t, c)
	if diff := cmp.Diff("given\nout\n", got); diff != "" {
		t.Error(diff)
	}
	text, err := os.ReadFile(stderr.Name())
	if err != nil || string(text) != "err\n" {
		t.Errorf("stderr: %q, %v", text, err)
	}
	if got, e := output(t, shell("cat; echo end")); got != "end\n" || e.Code != 0 {
		t.Errorf("without stdin: got %q, %+v", got, e)
	}
}

func TestAPipeEndsWhenTheProgramClosesIt(t *testing.T) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		out := proctest.NewOutlet(t)
		hold, let, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Close()
		c := shell("echo hello; exec >&-; read x; exit 4")
		c.Stdin, c.Stdout, c.subreaper = hold, out.W, subreaper
		p := start(t, c)
		out.WaitForLine("hello", 1)
		out.WaitForClose() // though the program runs on
		let.Close()
		if e := p.Wait(); e.Code != 4 {
			t.Errorf("got %+v", e)
		}
	})
}

func TestArgumentsAndEnvironmentArriveByteForByte(t *testing.T) {
	raw := "caf\xe9 \"x\" <&> \n\t\u2028"
	c := Command{Path: "/bin/sh", Args: []string{"sh", "-c", `printf '%s|%s|%s' "$1" "$V" "$TWICE"`, "sh", raw},
		Env: []string{"TWICE=first", "V=" + raw, "TWICE=last"}}
	got, _ := output(t, c)
	if diff := cmp.Diff(raw+"|"+raw+"|last", got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryProcessCarriesTheMark(t *testing.T) {
	t.Setenv(process.Mark, "outer")
	c := shell(`sh -c 'echo $DROVER_TREE'`)
	c.Token = "mine-1"
	c.Env = []string{"PATH=" + os.Getenv("PATH"), process.Mark + "=stale"}
	if got, _ := output(t, c); got != "outer:mine-1\n" {
		t.Errorf("got %q", got)
	}
	a, b := start(t, Command{Path: "true"}), start(t, Command{Path: "true"})
	if a.Token() == b.Token() || !process.IsToken(a.Token()) {
		t.Errorf("made tokens %q and %q", a.Token(), b.Token())
	}
}

func TestProgramsAreFoundAsAShellFindsThem(t *testing.T) {
	dir := t.TempDir()
	proctest.WriteFile(t, filepath.Join(dir, "bin", "tool"), "#!/bin/sh\npwd -P; echo \"$0\"\n", 0o755)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Command{
		{Path: "bin/tool", Dir: dir},
		{Path: "./tool", Dir: filepath.Join(dir, "bin")},
		{Path: "tool", Dir: dir, Env: []string{"PATH=/nowhere", "PATH=/nowhere:" + dir + "/bin:/usr/bin:/bin"}},
	} {
		got, e := output(t, c)
		if e.Code != 0 || !strings.HasPrefix(got, real) {
			t.Errorf("%s in %s: got %q, %+v", c.Path, c.Dir, got, e)
		}
	}
}

func TestStartRefusesWhatCannotRun(t *testing.T) {
	dir := t.TempDir()
	proctest.WriteFile(t, filepath.Join(dir, "plain"), "echo hi\n", 0o644)
	proctest.WriteFile(t, filepath.Join(dir, "nohash"), "echo hi\n", 0o755)
	proctest.WriteFile(t, filepath.Join(dir, "badline"), "#!/no/such/python -u\n", 0o755)
	proctest.WriteFile(t, filepath.Join(dir, "windows"), "#!/bin/sh\r\necho hi\r\n", 0o755)
	proctest.WriteFile(t, filepath.Join(dir, "foreign"), "\x7fELF\x02\x01\x01"+strings.Repeat("\x00", 100), 0o755)
	inEachPen(t, func(t *testing.T, subreaper bool) {
		for _, c := range []struct {
			path, dir string
			code      int
			text      string
			hint      string
		}{
			{"/no/such/program", "", 127, "start /no/such/program: no such file or directory", "Check the path"},
			{"no-such-program", "", 127, "start no-such-program: no such program in PATH", "spelling"},
			{"nohash", dir, 127, "start nohash: no such program in PATH", "./nohash"},
			{dir, "", 126, "it is a folder", "Name a program"},
			{"./plain", dir, 126, "start ./plain: permission denied", "chmod +x ./plain"},
			{"./nohash", dir, 126, "neither a program nor a script", "#!/bin/sh"},
			{"./badline", dir, 126, `bad interpreter "/no/such/python -u"`, "#! line"},
			{"./windows", dir, 126, "carriage return", "sed -i"},
			{"./foreign", dir, 126, "another kind of machine", "this machine"},
			{"/bin/sh", dir + "/gone", 0, "enter folder", ""},
			{"", "", 0, "none is named", ""},
		} {
			p, err := Start(t.Context(), Command{Path: c.path, Dir: c.dir, subreaper: subreaper})
			if err == nil {
				p.Kill()
				t.Errorf("%s: started", c.path)
				continue
			}
			var f *fault.Fault
			if !errors.As(err, &f) || f.Kind != fault.Invalid || f.Code != c.code ||
				!strings.Contains(err.Error(), c.text) || !strings.Contains(f.Hint, c.hint) {
				t.Errorf("%s: got %v (%+v)", c.path, err, f)
			}
		}
	})
}

// Whatever a file begins with, a refusal has a shell's status and a next step.
func FuzzExplain(f *testing.F) {
	for _, head := range []string{"", "#!", "#!\r", "#!/bin/sh -e\r\n", "\x7fELF", "#!\n\x00"} {
		f.Add([]byte(head))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		path := filepath.Join(t.TempDir(), "program")
		proctest.WriteFile(t, path, string(head), 0o755)
		for _, errno := range []syscall.Errno{syscall.ENOENT, syscall.EACCES, syscall.ENOEXEC} {
			var f *fault.Fault
			err := explain(wire.Order{Path: []byte(path)}, wire.StepExec, errno)
			if !errors.As(err, &f) || f.Code != 126 && f.Code != 127 || f.Hint == "" || strings.ContainsAny(f.Text, "\r\n\x00") {
				t.Errorf("%q, %v: got %+v", head, errno, f)
			}
		}
	})
}

func TestStartRefusesWhatCannotBeSaid(t *testing.T) {
	for _, c := range []Command{
		{Path: "true", Token: "a:b"},
		{Path: "true", Token: strings.Repeat("x", 65)},
		{Path: "true", Args: []string{"true", "a\x00b"}},
		{Path: "true", Args: []string{"true", strings.Repeat("x", 4<<20)}},
	} {
		if _, err := Start(t.Context(), c); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%.40v: got %v", c.Args, err)
		}
	}
}

func TestStartRefusesAProgramThatCannotBecomeAMinder(t *testing.T) {
	mainCalled.Store(false)
	defer mainCalled.Store(true)
	if _, err := Start(t.Context(), Command{Path: "true"}); fault.KindOf(err) != fault.Bug || fault.Hint(err) == "" {
		t.Errorf("got %v", err)
	}
}

func TestStartIsBoundByItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := Start(ctx, shell("read x; exit 6"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if e := p.Wait(); e.Code != 6 && e.Code != 1 { // read meets the end of /dev/null
		t.Errorf("a started tree ended with its context: %+v", e)
	}
	if _, err := Start(ctx, Command{Path: "true"}); fault.KindOf(err) != fault.Interrupted {
		t.Errorf("got %v", err)
	}
}

func TestSignalReachesTheProgramsGroup(t *testing.T) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		out := proctest.NewOutlet(t)
		c := shell(`sh -c 'trap "echo child; exit" USR1; echo ready; while :; do sleep 0.05; done' &
			trap 'wait; exit 5' USR1; echo ready; while :; do sleep 0.05; done`)
		c.Stdout, c.subreaper = out.W, subreaper
		p := start(t, c)
		out.WaitForLine("ready", 2)
		if err := p.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		out.WaitForLine("child", 1)
		if e := p.Wait(); e.Code != 5 {
			t.Errorf("got %+v", e)
		}
		if err := p.Signal(syscall.SIGUSR1); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestStopAsksEveryProcess(t *testing.T) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		out := proctest.NewOutlet(t)
		c := shell(`(PROC_TEST_ROLE=detach "$SELF" -c 'trap "echo asked; exit" TERM; echo ready; while :; do sleep 0.05; done' &)
			trap 'read x; exit 3' TERM; echo ready; while :; do sleep 0.05; done`)
		hold, let, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Close()
		c.Stdin, c.Stdout, c.subreaper = hold, out.W, subreaper
		p := start(t, c)
		out.WaitForLine("ready", 2)
		p.Stop(time.Hour)
		p.Stop(2 * time.Hour)
		out.WaitForLine("asked", 1)
		let.Close() // only now the program ends, well within its grace
		if e := p.Wait(); e.Code != 3 {
			t.Errorf("got %+v", e)
		}
		out.RequireClosed()
		p.Stop(0)
		p.Kill()
	})
}

func TestStopKillsWhenGraceIsOver(t *testing.T) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		out := proctest.NewOutlet(t)
		c := shell(proctest.Daemon + `trap "" TERM; echo ready; while :; do sleep 1000; done`)
		c.Stdout, c.subreaper = out.W, subreaper
		p := start(t, c)
		out.WaitForLine("ready", 2)
		p.Stop(time.Hour)
		p.Stop(10 * time.Millisecond)
		if e := p.Wait(); e.Signal != syscall.SIGKILL {
			t.Errorf("got %+v", e)
		}
		out.RequireClosed()
	})
}

func TestFiftyTreesAtOnce(t *testing.T) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		out := proctest.NewOutlet(t)
		var wg sync.WaitGroup
		for i := range 50 {
			c := shell(fmt.Sprintf("(sleep 1000 &); exit %d", i))
			c.Stdout, c.subreaper = out.W, subreaper
			wg.Go(func() {
				p, err := Start(t.Context(), c)
				if err != nil {
					t.Error(err)
					return
				}
				if e := p.Wait(); e.Code != i {
					t.Errorf("tree %d: got %+v", i, e)
				}
			})
		}
		wg.Wait()
		out.RequireClosed()
	})
}
