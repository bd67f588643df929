package process

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/proc/proctest"
)

func TestMarkedKnowsTheTokenAndNoOther(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]bool{
		"":                             false,
		"DROVER_TREE=tok":              true,
		"A=1\x00DROVER_TREE=tok\x00":   true,
		"DROVER_TREE=out:tok\x00B=":    true,
		"DROVER_TREE=tok:in\x00":       true,
		"DROVER_TREE=token\x00":        false,
		"DROVER_TREE=to\x00":           false,
		"XDROVER_TREE=tok\x00":         false,
		"A=DROVER_TREE=tok\x00":        false,
		"DROVER_TREE=\x00DROVER=tok\n": false,
	} {
		if got := Marked([]byte(env), "tok"); got != want {
			t.Errorf("%q: got %v", env, got)
		}
	}
}

func FuzzMarked(f *testing.F) {
	f.Add([]byte("A=1\x00"), "tok")
	f.Add([]byte("DROVER_TREE=a:b"), "b")
	f.Fuzz(func(t *testing.T, env []byte, token string) {
		if !IsToken(token) {
			return
		}
		if Marked(env, token) && !strings.Contains(string(env), token) {
			t.Errorf("%q is marked %q", env, token)
		}
		if !Marked(append(env, "\x00DROVER_TREE=x:"+token+"\x00"...), token) {
			t.Errorf("the mark is not seen after %q", env)
		}
	})
}

func TestUnderTakesAllDescendantsOnce(t *testing.T) {
	t.Parallel()
	all := []Entry{{PID: 1}, {PID: 9, Parent: 5}, {PID: 5, Parent: 2}, {PID: 2, Parent: 1}, {PID: 3, Parent: 1}, {PID: 7, Parent: 9}}
	var got []int
	for _, p := range Descendants(all, func(p Entry) bool { return p.PID == 2 || p.PID == 9 }) {
		got = append(got, p.PID)
	}
	if diff := cmp.Diff([]int{9, 2, 7, 5}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCullStopsEverythingBeforeItKills(t *testing.T) {
	out := proctest.NewOutlet(t)
	var tree []Entry
	for range 2 {
		p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "sleep 1000 & echo ready; wait"}, &os.ProcAttr{
			Files: []*os.File{nil, out.W, nil}, Sys: &syscall.SysProcAttr{Setpgid: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(-p.Pid, syscall.SIGKILL); _ = p.Release() })
		tree = append(tree, Entry{PID: p.Pid, Group: p.Pid})
	}
	out.WaitForLine("ready", 2)
	end := func(pid int) (ws syscall.WaitStatus) {
		if _, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil); err != nil {
			t.Error(err)
		}
		return ws
	}
	looks := 0
	killed, refused, err := StopAndKill(func() ([]Entry, error) {
		looks++
		if looks < 3 { // the second appears while the first is being stopped
			if looks == 2 && !end(tree[0].PID).Stopped() {
				t.Error("the first was not stopped")
			}
			return tree[:looks], nil
		}
		if looks == 3 && !end(tree[1].PID).Stopped() {
			t.Error("the second was not stopped")
		}
		return tree, nil
	})
	if len(killed) != 2 || refused != 0 || err != nil || looks != 3 {
		t.Errorf("killed %v, refused %d, %v, in %d looks", killed, refused, err, looks)
	}
	for _, p := range tree {
		if ws := end(p.PID); ws.Signal() != syscall.SIGKILL {
			t.Errorf("ended as %v", ws)
		}
	}
	out.WaitForClose() // their groups died with them
}
