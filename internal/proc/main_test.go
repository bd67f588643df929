package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/proctest"
	"github.com/drover-run/drover/internal/proc/resource"
)

// The test binary plays every part: supervisor, agent, and the daemon's parent.
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
		proctest.RunDetached()
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
		Path: "/bin/sh", Args: []string{"sh", "-c", a.Script}, Token: a.Token, subreaper: a.Herded,
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
	case errors.Is(err, mount.ErrNoOverlay):
		fmt.Println("no overlay:", err)
		syscall.Exit(noView)
	case errors.Is(err, mount.ErrNoView):
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
	View               *mount.View
	Limits             resource.Limits

	Path string   // instead of Script
	Env  []string // with Path
	Out  string   // where the program writes; "": where the agent does
}

// noView is the exit status of an agent that can have none.
const noView = 77

// worn is the view that start gives every program, in the tests' second run.
var worn *mount.View

// spaced says whether a program with that view gets a PID namespace.
func spaced(v *mount.View) bool {
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

// inEachPen runs f with the namespace, where there is one, and with the subreaper.
func inEachPen(t *testing.T, f func(t *testing.T, subreaper bool)) {
	t.Run("namespace", func(t *testing.T) {
		if start(t, Command{Path: "true"}).Wait(); !spaced(worn) {
			t.Skip("no PID namespace for this user here")
		}
		f(t, false)
	})
	t.Run("subreaper", func(t *testing.T) { f(t, true) })
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
