package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// commands are what scripts can say beyond testscript's own words.
var commands = map[string]func(*testscript.TestScript, bool, []string){
	"exitcode":  exitCode,  // exitcode N COMMAND...: run it, it must give N
	"bound":     bound,     // bound N COMMAND...: the same, and permission bits bind even root
	"start":     start,     // start NAME COMMAND...: run it beside the script
	"await":     await,     // await NAME REGEXP: until its output matches
	"ended":     ended,     // ended NAME [N]: until it has ended, with N (0); stdout and stderr are its own
	"signal":    signal,    // signal NAME KILL|INT|TERM...: one after the other, at once
	"killagent": killAgent, // killagent [NODE [SIGNAL]]: KILL, or another, for the agent that status names
	"open":      open,      // open GATE: let programs go on that wait for it in $GATES
	"unheld":    unheld,    // unheld LOCK: until no process holds that lock in $LOCKS
	"json":      jsonIs,    // json FILE PATH [VALUE]: path as in 0.nodes.0.state; len is a list's length
	"jsonenv":   jsonEnv,   // jsonenv NAME FILE PATH: keep a value as $NAME
	"lines":     lines,     // lines FILE MIN MAX: how many lines it has
	"together":  together,  // together ROUNDS COMMAND...: two at once, one job each time
	"serve":     serve,     // serve DIR: at $SERVED; what is called held-... once "open served" has run
}

// patience is how long anything is waited for: far more than it takes on a
// machine that does much else, so that reaching it means never.
const patience = 90 * time.Second

func need(ts *testscript.TestScript, neg bool, args []string, n int, usage string) {
	if neg || len(args) < n {
		ts.Fatalf("usage: %s", usage)
	}
}

func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 2, "exitcode N COMMAND...")
	err := ts.Exec(args[1], args[2:]...)
	gave(ts, args[0], err)
}

// gave compares the exit status in err with what was wanted.
func gave(ts *testscript.TestScript, want string, err error) {
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() < 0:
		ts.Fatalf("ended by %s, want exit status %s", exit, want)
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != want {
		ts.Fatalf("exit status %d, want %s", got, want)
	}
}

func bound(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 2, "bound N COMMAND...")
	p := of(ts).command(ts, args[1:])
	startBound(p)
	<-p.done
	fmt.Fprint(ts.Stdout(), p.text(true, false))
	fmt.Fprint(ts.Stderr(), p.text(false, true))
	gave(ts, args[0], p.ended)
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 2, "start NAME COMMAND...")
	b := of(ts)
	if _, taken := b.running[args[0]]; taken {
		ts.Fatalf("%s is running already", args[0])
	}
	p := b.command(ts, args[1:])
	p.start()
	b.keep(args[0], p)
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 2, "await NAME REGEXP")
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	ts.Check(of(ts).find(ts, args[0]).await(re))
}

func ended(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 1, "ended NAME [N]")
	p, want := of(ts).find(ts, args[0]), "0"
	if len(args) > 1 {
		want = args[1]
	}
	ts.Check(p.wait())
	delete(of(ts).running, args[0])
	fmt.Fprint(ts.Stdout(), p.text(true, false))
	fmt.Fprint(ts.Stderr(), p.text(false, true))
	gave(ts, want, p.ended)
}

func signal(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 2, "signal NAME SIGNAL...")
	var numbers []syscall.Signal
	for _, name := range args[1:] {
		number := unix.SignalNum("SIG" + name)
		if number == 0 {
			ts.Fatalf("there is no signal %s", name)
		}
		numbers = append(numbers, number)
	}
	p := of(ts).find(ts, args[0])
	for _, number := range numbers {
		ts.Check(p.cmd.Process.Signal(number))
	}
	if slices.Contains(numbers, unix.SIGKILL) {
		ts.Check(p.wait())
		delete(of(ts).running, args[0])
	}
}

func killAgent(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 0, "killagent [NODE [SIGNAL]]")
	node, sig := "0", "KILL"
	if len(args) > 0 {
		node = args[0]
	}
	if len(args) > 1 {
		sig = args[1]
	}
	ts.Check(ts.Exec("drover", "status", "--json", "last"))
	pid, err := strconv.Atoi(value(ts, "stdout", "nodes."+node+".agent_pid"))
	ts.Check(err)
	ts.Check(syscall.Kill(pid, unix.SignalNum("SIG"+sig)))
	if sig == "KILL" {
		vanished(ts, pid)
	}
}

// vanished waits until a process that is not ours to wait for has ended: its locks and
// files are free a little before.
func vanished(ts *testscript.TestScript, pid int) {
	for deadline := time.After(patience); ; {
		if syscall.Kill(pid, 0) == syscall.ESRCH {
			return
		}
		// A zombie lasts as long as its new parent pleases.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); err == nil && len(f) > 17 && f[0] == "Z" && f[17] == "1" {
			return
		}
		select {
		case <-deadline:
			ts.Fatalf("process %d has not ended", pid)
		case <-time.After(time.Millisecond): // what it was is not ours to be told of
		}
	}
}

func open(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 1, "open GATE")
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("GATES"), args[0]), nil, 0o644))
}

// unheld waits with the kernel's own means: a lock is free when the last process that has
// the file open has exited, however that process was started.
func unheld(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 1, "unheld LOCK")
	f, err := os.OpenFile(filepath.Join(ts.Getenv("LOCKS"), args[0]), os.O_RDWR, 0)
	ts.Check(err) // the lock of a file that does not exist proves nothing
	got := make(chan error, 1)
	go func() { // at worst it waits as long as the holder lives, which leaveNothing ends
		defer f.Close()
		got <- unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}()
	select {
	case err := <-got:
		ts.Check(err)
	case <-time.After(patience):
		ts.Fatalf("%s is still held", args[0])
	}
}

func jsonIs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: [!] json FILE PATH [VALUE]")
	}
	got, err := lookUp(ts.ReadFile(args[0]), args[1])
	switch {
	case len(args) == 2 && neg && err == nil:
		ts.Fatalf("%s is %q", args[1], got)
	case len(args) == 2 && neg:
	case err != nil:
		ts.Fatalf("%v", err)
	case len(args) == 3 && neg == (got == args[2]):
		ts.Fatalf("%s is %q", args[1], got)
	}
}

func jsonEnv(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 3, "jsonenv NAME FILE PATH")
	ts.Setenv(args[0], value(ts, args[1], args[2]))
}

func value(ts *testscript.TestScript, file, path string) string {
	v, err := lookUp(ts.ReadFile(file), path)
	ts.Check(err)
	return v
}

// lookUp finds a value in JSON text; lists and objects come back as JSON.
func lookUp(text, path string) (string, error) {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return "", fmt.Errorf("read JSON: %w", err)
	}
	for step := range strings.SplitSeq(path, ".") {
		list, isList := v.([]any)
		object, isObject := v.(map[string]any)
		i, err := strconv.Atoi(step)
		switch {
		case step == "len" && isList:
			v = len(list)
		case isList && err == nil && i >= 0 && i < len(list):
			v = list[i]
		case isObject && object[step] != nil:
			v = object[step]
		default:
			return "", fmt.Errorf("read JSON: there is no %q of %s in %s", step, path, text)
		}
	}
	switch v.(type) {
	case []any, map[string]any:
		b, err := json.Marshal(v)
		return string(b), err
	}
	return fmt.Sprint(v), nil
}

func lines(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 3, "lines FILE MIN MAX")
	low, err := strconv.Atoi(args[1])
	ts.Check(err)
	high, err := strconv.Atoi(args[2])
	ts.Check(err)
	if n := strings.Count(ts.ReadFile(args[0]), "\n"); n < low || n > high {
		ts.Fatalf("%s has %d lines, want %d to %d", args[0], n, low, high)
	}
}

// together starts a command twice at the same instant. Its program says "up"
// and waits for gate N in round N, so both command lines are there before it ends.
func together(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 2, "together ROUNDS COMMAND...")
	rounds, err := strconv.Atoi(args[0])
	ts.Check(err)
	b := of(ts)
	up := regexp.MustCompile(`(?m)^up$`)
	for round := 1; round <= rounds; round++ {
		ts.Setenv("GATE", filepath.Join(ts.Getenv("GATES"), strconv.Itoa(round)))
		two := []*process{b.command(ts, args[1:]), b.command(ts, args[1:])}
		now := make(chan struct{})
		for i, p := range two {
			go func() { <-now; p.start() }()
			b.keep(fmt.Sprintf("%d of round %d", i+1, round), p)
		}
		close(now)
		for _, p := range two {
			ts.Check(p.await(up))
		}
		open(ts, false, []string{strconv.Itoa(round)})
		for i, p := range two {
			ts.Check(p.wait())
			if p.ended != nil {
				ts.Fatalf("round %d: %v: %s", round, p.ended, p.text(true, true))
			}
			delete(b.running, fmt.Sprintf("%d of round %d", i+1, round))
		}
		ts.Check(ts.Exec("drover", "status", "--json", "--all"))
		if n := value(ts, "stdout", "len"); n != strconv.Itoa(round) {
			ts.Fatalf("after round %d there are %s jobs\n%s%s", round, n, two[0].text(true, true), two[1].text(true, true))
		}
	}
}
