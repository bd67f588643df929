//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test's own binary be the other user's process, as chaos itself is.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "-intruder" {
		main()
	}
	os.Exit(m.Run())
}

// tellsOf gives what a spy says of dir after it has done what is asked.
func tellsOf(t *testing.T, dir string, do func(*spy)) string {
	t.Helper()
	var out bytes.Buffer
	s := &spy{mission: mission{Dir: dir, Shared: []string{filepath.Join(dir, "tmp")}, Victim: os.Getuid()},
		out: bufio.NewWriter(&out), tries: map[string]int{}, said: map[string]bool{}}
	do(s)
	if err := s.out.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The intruder must notice whatever it achieves: here it attacks its own user, which
// gives way to everything.
func TestWhateverTheIntruderAchievesIsNoticed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("k"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	served := make(chan error, 1)
	go func() { // ended by the intruder's one connection
		c, err := socket.Accept()
		if err == nil {
			_, err = c.Write([]byte("hello"))
			c.Close()
		}
		served <- err
	}()
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = child.Process.Kill(), child.Wait() }()
	said := tellsOf(t, dir, func(s *spy) {
		s.openEverything()
		s.talkToSockets()
		s.attackProcess(child.Process.Pid)
		s.plantDoors("0123456789abcdef")
		planted := filepath.Join(dir, "tmp", "evil", "sh")
		if out, err := exec.Command(planted).CombinedOutput(); err != nil {
			t.Errorf("run what was planted: %v: %s", err, out)
		}
		s.seeWhatRan()
	})
	if err := <-served; err != nil {
		t.Error(err)
	}
	for _, want := range []string{"read " + dir + "/key", "write " + dir + "/key", "write into folder " + dir, dir + `/s answers`,
		fmt.Sprintf("read environ of process %d", child.Process.Pid), fmt.Sprintf("signal process %d", child.Process.Pid),
		fmt.Sprintf("user %d has run the program", os.Getuid())} {
		if !strings.Contains(said, want) {
			t.Errorf("it achieved %q, and said\n%s", want, said)
		}
	}
}

// What the intruder achieves is a broken promise, and fails the whole.
func TestWhatTheIntruderAchievesIsBroken(t *testing.T) {
	total := newTally()
	if err := total.addIntruder([]string{"read the key"}, "1 doors", nil); err != nil || !total.foundWrong() || !strings.Contains(total.tallyText(0), "read the key") {
		t.Errorf("%v: %s", err, total.tallyText(0))
	}
}

// Every piece of damage can be planted beside a job, and is damage: job.json is not
// what it was, or something is there that was not.
func TestAllDamageIsPlanted(t *testing.T) {
	const jobText = `{"v":2,"id":"33q7ykvbc2nk686w","spec":{"nodes":1},"manifest":{"count":5,"to":5},"chunk_size":1,"at":"2026-11-23T15:58:11Z"}`
	for _, d := range damages {
		dir := t.TempDir()
		model := filepath.Join(dir, "chaos", "round1", "33q7ykvbc2nk686w")
		for name, text := range map[string]string{"chaos/round1/log/00000000": "{}", "chaos/round1/33q7ykvbc2nk686w/job.json": jobText, "ids/33q7": "{}"} {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.plant(dir, model); err != nil {
			t.Errorf("%s: %v", d.name, err)
		}
		jobs, _ := filepath.Glob(filepath.Join(dir, rival, "*", "*", "job.json")) // the pattern is a good one
		for _, file := range jobs {
			text, err := os.ReadFile(file)
			if err != nil || string(text) == jobText || !strings.Contains(string(text), "2020-") && json.Valid(text) && strings.Contains(string(text), `"at"`) {
				t.Errorf("%s: job.json is %.200s: %v", d.name, text, err)
			}
		}
		links, _ := filepath.Glob(filepath.Join(dir, "linked"))
		others, _ := filepath.Glob(filepath.Join(dir, rival, "*"))
		ids, _ := filepath.Glob(filepath.Join(dir, "ids", "*"))
		if len(links)+len(others)+len(ids) < 2 {
			t.Errorf("%s: nothing was planted", d.name)
		}
	}
}

func TestRawControlCharactersAreFound(t *testing.T) {
	for text, want := range map[string]string{"plain\n\ttext ✓ é": "", "a\x1b[2Jb": "\x1b", "a\u009bb": "\u009b", "a\u202eb": "\u202e", "a\rb": "\r"} {
		if got := rawControl([]byte(text)); got != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
}
