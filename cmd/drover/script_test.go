package main_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/local"
)

// built is what every test here starts: the real program, made once.
var built struct {
	dir    string // holds drover
	python string // folder of the interpreter itself: a version manager's shim takes a fifth of a second
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	syscall.Umask(0o022) // drover takes no project file that others may write
	dir, err := os.MkdirTemp("", "drover-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build makes drover as the Makefile does, with its symbols.
func build(dir string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace",
		"-ldflags", "-X main.version=v0-scripts", "-o", filepath.Join(dir, "drover"), ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build drover: %w\n%s", err, out)
	}
	python := os.Getenv("PYTHON")
	if python == "" {
		python = "python3"
	}
	out, err := exec.Command(python, "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return fmt.Errorf("find python: %w", err)
	}
	if err := os.Symlink("drover", filepath.Join(dir, "ssm")); err != nil { // its other name
		return err
	}
	built.dir, built.python = dir, filepath.Dir(strings.TrimSpace(string(out)))
	return nil
}

// Each script is one promise, kept by the real program: CLI, agent and minder.
// What a script finds beside testscript's own commands is in commands_test.go.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"), Setup: setUp, Cmds: commands, RequireExplicitExec: true, RequireUniqueNames: true,
	})
}

// What takes long, or needs the network or a mount, are scripts of the same kind.
func TestRealTwoShellsOneJob200(t *testing.T)     { real(t, "run_two_at_once_200_times") }
func TestRealFullDisk(t *testing.T)               { real(t, "run_full_disk") }
func TestRealDiskFillsWhileAJobRuns(t *testing.T) { real(t, "run_disk_that_fills") }
func TestRealTheDigitsExample(t *testing.T)       { real(t, "run_digits_example") }
func TestRealTheExamplesOfMaps(t *testing.T)      { real(t, "map_examples") }
func TestRealTheExampleOfSSM(t *testing.T)        { real(t, "ssm_example") }
func TestRealSSMsOwnExamples(t *testing.T)        { real(t, "ssm_the_tools_own_examples") }
func TestRealAsNobody(t *testing.T)               { real(t, "shell_as_a_plain_user") }

func TestRealAPausedAgentComesBack(t *testing.T) {
	t.Parallel() // it waits, for the end of a lease
	real(t, "run_paused_agent_comes_back")
}

func real(t *testing.T, name string, vars ...string) {
	t.Helper()
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it")
	}
	testscript.Run(t, testscript.Params{
		Files: []string{filepath.Join("testdata", "real", name+".txt")},
		Setup: func(env *testscript.Env) error {
			if err := setUp(env); err != nil {
				return err
			}
			env.Vars = append(env.Vars, vars...)
			return online(env)
		},
		Cmds: commands, RequireExplicitExec: true, RequireUniqueNames: true,
	})
}

// online lets a script reach the package index as this machine's own settings
// name it.
func online(env *testscript.Env) error {
	env.Vars = slices.DeleteFunc(env.Vars, func(kv string) bool {
		return strings.HasPrefix(kv, "PIP_") || strings.HasPrefix(kv, "UV_")
	})
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(strings.ToUpper(kv), "=")
		if strings.HasPrefix(name, "PIP_") || strings.HasPrefix(name, "UV_") || strings.HasPrefix(name, "SSL_CERT_") || strings.HasSuffix(name, "_PROXY") {
			env.Vars = append(env.Vars, kv)
		}
	}
	// pip looks for the rest below HOME, which is the script's own here.
	for _, dir := range []string{".config/pip", ".pip"} {
		text, err := os.ReadFile(filepath.Join(os.Getenv("HOME"), dir, "pip.conf"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.MkdirAll(filepath.Join(env.Getenv("HOME"), dir), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(env.Getenv("HOME"), dir, "pip.conf"), text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("copy pip.conf: %w", err)
		}
	}
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	env.Setenv("EXAMPLES", examples)
	env.Setenv("DIGITS", filepath.Join(examples, "digits"))
	return err
}

// setUp gives a script a HOME of its own, so that stores, caches and agents are
// apart from each other's and from the developer's. It lies beside the script's folder:
// below it, all of it would be code. At the end nothing that was started may be alive.
func setUp(env *testscript.Env) error {
	beside := filepath.Join(filepath.Dir(env.WorkDir), "beside-"+filepath.Base(env.WorkDir))
	home := filepath.Join(beside, "home")
	trainer, err := filepath.Abs(filepath.Join("testdata", "train.py"))
	if err != nil {
		return err
	}
	machine, err := local.New("").Offer(context.Background(), driver.Needs{})
	if err != nil {
		return err
	}
	for key, value := range map[string]string{
		"HOME": home, "USER": "tester",
		"PATH":    strings.Join([]string{built.dir, built.python, env.Getenv("PATH")}, string(os.PathListSeparator)),
		"GATES":   filepath.Join(beside, "gates"), // command open
		"LOCKS":   filepath.Join(beside, "locks"), // command unheld
		"TRAINER": trainer, "CORES": strconv.Itoa(machine.Cores),
		"DROVER": filepath.Join(built.dir, "drover"), "PYTHON3": filepath.Join(built.python, "python3"),
		// A script that asks for a package must not reach an index.
		"PIP_NO_INDEX": "1", "UV_OFFLINE": "1",
	} {
		env.Setenv(key, value)
	}
	for _, dir := range []string{"HOME", "GATES", "LOCKS"} {
		if err := os.MkdirAll(env.Getenv(dir), 0o755); err != nil {
			return err
		}
	}
	b := &backgrounds{env: env}
	env.Values[backgroundsKey{}] = b
	env.Defer(func() { b.leaveNothing(env.T(), env.WorkDir, beside) })
	return nil
}
