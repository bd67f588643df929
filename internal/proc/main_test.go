package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary plays every part: minder, agent, and the daemon's parent.
func TestMain(m *testing.M) {
	Main()
	role := os.Getenv("PROC_TEST_ROLE")
	os.Unsetenv("PROC_TEST_ROLE")
	if v := os.Getenv("PROC_TEST_VIEW"); v != "" {
		os.Unsetenv("PROC_TEST_VIEW")
		if err := json.Unmarshal([]byte(v), &worn); err != nil {
			panic(err)
		}
	}
	switch role {
	case "agent":
		playAgent()
	case "detach":
		playDetach()
	default:
		if !playMore(role) {
			os.Exit(m.Run())
		}
	}
}

// playAgent starts the tree it is told to and waits for it, as an agent does.
func playAgent() {
	var a agentPart
	if err := json.Unmarshal([]byte(os.Getenv("PROC_TEST_PART")), &a); err != nil {
		panic(err)
	}
	c := Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", a.Script}, Token: a.Token, herded: a.Herded,
		Dir: a.Dir, View: a.View, Limits: a.Limits,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}
	if a.Out != "" {
		out, err := os.Create(a.Out)
		if err != nil {
			panic(err)
		}
		c.Stdout = out
	}
	if a.Path != "" {
		c.Path, c.Args, c.Env = a.Path, nil, a.Env
	}
	p, err := Start(context.Background(), c)
	switch {
	case errors.Is(err, ErrNoOverlay):
		fmt.Println("no overlay:", err)
		syscall.Exit(noView)
	case errors.Is(err, ErrNoView):
		fmt.Println("refused:", err)
		syscall.Exit(noView)
	case err != nil && a.Path != "":
		fmt.Fprint(c.Stdout, err)
		syscall.Exit(0)
	case err != nil:
		panic(err)
	}
	fmt.Printf("namespace %v\n", spaced(a.View) && !a.Herded)
	if a.SayPid {
		fmt.Println("pid", p.Pid())
	}
	os.Stdout.Close()
	syscall.Exit(p.Wait().Status())
}

type agentPart struct {
	Script, Token, Dir string
	Herded, SayPid     bool
	View               *View
	Limits             Limits

	Path string   // instead of Script
	Env  []string // with Path
	Out  string   // where the program writes; "": where the agent does
}

// noView is the exit status of an agent that can have none.
const noView = 77

// worn is the view that start gives every program, in the tests' second run.
var worn *View

// spaced says whether a program with that view gets a PID namespace.
func spaced(v *View) bool {
	if v != nil && !canNamespace() {
		return userNamespaces.Load()
	}
	return namespaces.Load()
}

// command is a copy of this test as that agent, not started yet.
func (a agentPart) command(t *testing.T, stdout *os.File) *exec.Cmd {
	t.Helper()
	part, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "PROC_TEST_ROLE=agent", "PROC_TEST_PART="+string(part), "SELF="+self)
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	return cmd
}

// playDetach starts its arguments in a session of their own and leaves them.
func playDetach() {
	_, err := os.StartProcess("/bin/sh", append([]string{"sh"}, os.Args[1:]...), &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Env: os.Environ(), Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		panic(err)
	}
	syscall.Exit(0)
}

// daemon is shell text that leaves one process behind: orphaned twice, in a
// session of its own, deaf to every polite signal. It says "ready" first.
const daemon = `(PROC_TEST_ROLE=detach "$SELF" -c 'trap "" TERM HUP INT QUIT USR1; echo ready; sleep 1000; sleep 1000' &)` + "\n"

// crowd is an outlet that every process of a tree holds open.
type crowd struct {
	t    *testing.T
	r, w *os.File
	in   *bufio.Reader

	namespace bool // the agent said that it has one
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return crowdOf(t, r, w)
}

func crowdOf(t *testing.T, r, w *os.File) *crowd {
	t.Helper()
	t.Cleanup(func() { r.Close(); w.Close() })
	// Not a timing assertion: a broken promise fails here instead of hanging.
	if err := r.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &crowd{t: t, r: r, w: w, in: bufio.NewReader(r)}
}

// hears waits for a line of that text, once per count.
func (c *crowd) hears(want string, count int) {
	c.t.Helper()
	for range count {
		for {
			line, err := c.in.ReadString('\n')
			if err != nil {
				c.t.Fatalf("waiting for %q: %v", want, err)
			}
			line = strings.TrimSpace(line)
			if line == want {
				break
			}
			if strings.HasPrefix(line, "refused: ") && want == "ready" {
				c.t.Skip(line)
			}
			c.namespace = c.namespace || line == "namespace true"
		}
	}
}

// gone fails unless no process holds the outlet at this very moment. It is exact
// because tests that start processes are not parallel: a child forked elsewhere
// would hold all our files until its exec.
func (c *crowd) gone() {
	c.t.Helper()
	c.w.Close()
	raw, err := c.r.SyscallConn()
	if err != nil {
		c.t.Fatal(err)
	}
	var events int16
	if err := raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, 0); err != nil {
			c.t.Error(err)
		}
		events = poll[0].Revents
	}); err != nil {
		c.t.Fatal(err)
	}
	if events&unix.POLLHUP == 0 {
		c.t.Error("a process of the tree is still alive")
	}
}

// empties waits until no process holds the outlet.
func (c *crowd) empties() {
	c.t.Helper()
	c.w.Close()
	if _, err := io.Copy(io.Discard, c.in); err != nil {
		c.t.Errorf("a process of the tree is still alive: %v", err)
	}
}

// inEachPen runs f with the namespace, where there is one, and with the herd.
func inEachPen(t *testing.T, f func(t *testing.T, herded bool)) {
	t.Run("namespace", func(t *testing.T) {
		if start(t, Command{Path: "true"}).Wait(); !spaced(worn) {
			t.Skip("no PID namespace for this user here")
		}
		f(t, false)
	})
	t.Run("herd", func(t *testing.T) { f(t, true) })
}

// start starts c and sees that nothing of it outlives the test.
func start(t *testing.T, c Command) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if c.Env == nil {
		c.Env = os.Environ()
	}
	c.Env = append(c.Env, "SELF="+self)
	if c.View == nil {
		c.View = worn
	}
	p, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill(); p.Wait() })
	return p
}

func shell(script string) Command {
	return Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}}
}

// output runs c to its end and gives what it wrote.
func output(t *testing.T, c Command) (string, Exit) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c.Stdout = out
	exit := start(t, c).Wait()
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), exit
}
