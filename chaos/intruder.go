//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The intruder is another user of the machine: this program again, under a user id
// that owns nothing here. As long as chaos plays it tries what such a user can do to
// a colleague's jobs: it reads job ids from the process list, plants folders, doors
// and sockets under every name that drover could look for in a shared folder for
// temporary files, talks to each socket, reads each process, and opens, writes and
// signals what it can find. Each thing that it achieves is a broken promise.

// intruderID is no user's.
const intruderID = 65534

// mission is what the intruder is told, on its standard input.
type mission struct {
	Dir    string   // chaos's folder, which others may pass through and must not read
	Shared []string // the lanes' folders for temporary files, which any user may write
	Victim int      // the user id of drover
}

// intruder is the running process, as chaos sees it.
type intruder struct {
	cmd  *exec.Cmd
	told chan string // what it has achieved, a line each
	sum  chan string // its last line: what it has tried
}

// startIntruder starts it; nil, without an error, where chaos may not become another user.
func startIntruder(ctx context.Context, dir string, lanes int) (*intruder, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	program := filepath.Join(dir, "intruder")
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := copyFile(program, self, 0o755); err != nil {
		return nil, err
	}
	// Others pass through these folders on their way to the shared ones.
	if err := errors.Join(os.Chmod(dir, 0o711), os.Chmod(program, 0o755)); err != nil {
		return nil, err
	}
	m := mission{Dir: dir, Victim: os.Getuid()}
	for n := range lanes {
		m.Shared = append(m.Shared, filepath.Join(dir, fmt.Sprintf("lane%d", n), "disk", "tmp"))
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	i := &intruder{told: make(chan string, 1000), sum: make(chan string, 1)}
	i.cmd = exec.CommandContext(ctx, program, "-intruder")
	i.cmd.Dir, i.cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
	i.cmd.Stdin, i.cmd.Stderr = bytes.NewReader(text), os.Stderr
	i.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: intruderID, Gid: intruderID}, Setpgid: true, Pdeathsig: unix.SIGKILL}
	i.cmd.Cancel = func() error { return i.cmd.Process.Signal(unix.SIGTERM) }
	out, err := i.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := i.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the intruder: %w", err)
	}
	go i.readOutput(out)
	return i, nil
}

// readOutput reads what the intruder says until it has ended; stop waits for that.
func (i *intruder) readOutput(out io.Reader) {
	last := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if achieved, ok := strings.CutPrefix(lines.Text(), "achieved: "); ok {
			select {
			case i.told <- achieved:
			default: // a thousand are enough
			}
			continue
		}
		last = lines.Text()
	}
	close(i.told)
	i.sum <- last
}

// stopIntruder ends it, and returns what it has achieved and the sum of what it has tried.
func (i *intruder) stopIntruder() (achieved []string, sum string, err error) {
	_ = i.cmd.Process.Signal(unix.SIGTERM) // ended already is as good
	for line := range i.told {
		achieved = append(achieved, line)
	}
	sum = <-i.sum
	if err = i.cmd.Wait(); err == nil && sum == "" {
		err = errors.New("the intruder has tried nothing")
	}
	return achieved, sum, err
}

// ranFile is where a planted program notes which user has run it.
const ranFile = "ran"

// spy is the intruder from within.
type spy struct {
	mission
	out   *bufio.Writer
	tries map[string]int
	said  map[string]bool
}

// intrude is the whole life of the other user's process: it ends when it is asked to,
// or when chaos has gone.
func intrude(ctx context.Context, in io.Reader, out io.Writer) error {
	s := &spy{out: bufio.NewWriter(out), tries: map[string]int{}, said: map[string]bool{}}
	if err := json.NewDecoder(in).Decode(&s.mission); err != nil {
		return fmt.Errorf("read the intruder's mission: %w", err)
	}
	if os.Getuid() == s.Victim {
		return errors.New("the intruder is the user that it attacks")
	}
	for ctx.Err() == nil {
		for _, p := range s.victimPids() {
			s.attackProcess(p)
		}
		s.talkToSockets()
		s.openEverything()
		s.seeWhatRan()
		if err := s.out.Flush(); err != nil {
			return err
		}
		rest(ctx, 300*time.Millisecond)
	}
	fmt.Fprintf(s.out, "%d doors, %d processes, %d sockets, %d files\n", s.tries["door"], s.tries["process"], s.tries["socket"], s.tries["file"])
	return s.out.Flush()
}

// reportBreach reports a thing once.
func (s *spy) reportBreach(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !s.said[line] {
		s.said[line] = true
		fmt.Fprintf(s.out, "achieved: %q\n", line)
	}
}

// victimPids are the pids of the processes with chaos's folder in their command line.
func (s *spy) victimPids() (pids []int) {
	folders, _ := filepath.Glob("/proc/[0-9]*") // the pattern is a good one
	for _, dir := range folders {
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // gone meanwhile is no victim
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || !bytes.Contains(command, []byte(s.Dir+"/")) || pid == os.Getpid() {
			continue
		}
		pids = append(pids, pid)
		if _, job, ok := strings.Cut(string(bytes.ReplaceAll(command, []byte{0}, []byte(" "))), " agent "); ok {
			for word := range strings.FieldsSeq(job) {
				if id := filepath.Base(word); len(id) == 16 {
					s.plantDoors(id)
				}
			}
		}
	}
	return pids
}

// plantDoors makes, in each shared folder, what drover attach could take for the
// door into an agent of this job: words that it would run as its own user.
func (s *spy) plantDoors(job string) {
	for _, shared := range s.Shared {
		folder := filepath.Join(shared, fmt.Sprintf("drover-%d", s.Victim), "work", job, "1-0-zz")
		if os.MkdirAll(folder, 0o755) != nil {
			continue // the disk is full, or drover has the name itself
		}
		s.tries["door"]++
		evil := filepath.Join(shared, "evil")
		_ = os.MkdirAll(evil, 0o755)
		for _, name := range []string{"sh", "bash", "true", "id"} {
			_ = os.WriteFile(filepath.Join(evil, name), []byte("#!/bin/sh\n/usr/bin/id -u >>"+filepath.Join(shared, ranFile)+"\n"), 0o755)
		}
		door, _ := json.Marshal(map[string]any{"agent": os.Getpid(), "pid": os.Getpid(), "dir": "/", "env": []string{"PATH=" + evil}})
		_ = os.WriteFile(filepath.Join(folder, "door"), door, 0o644)
		for _, name := range []string{"drover-build-%d-x", "drover-cache-%d", "drover-run-%d"} {
			_ = os.MkdirAll(filepath.Join(shared, fmt.Sprintf(name, s.Victim)), 0o777)
		}
	}
}

// seeWhatRan looks whether anything that was planted was run by the victim.
func (s *spy) seeWhatRan() {
	for _, shared := range s.Shared {
		text, err := os.ReadFile(filepath.Join(shared, ranFile))
		if err == nil && bytes.Contains(text, []byte(strconv.Itoa(s.Victim)+"\n")) {
			s.reportBreach("user %d has run the program that was planted in %s", s.Victim, shared)
		}
	}
}

// attackProcess tries to read, write and signal one process of the victim's.
func (s *spy) attackProcess(pid int) {
	s.tries["process"]++
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	info, err := os.Stat(dir)
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(s.Victim) {
		return // it has ended, or is another's by now
	}
	for _, name := range []string{"environ", "mem", "maps"} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if n, _ := f.Read(make([]byte, 1)); n > 0 {
			s.reportBreach("read %s of process %d", name, pid)
		}
		f.Close()
	}
	for _, name := range []string{"cwd", "root", "fd"} {
		if _, err := os.ReadDir(filepath.Join(dir, name)); err == nil {
			s.reportBreach("list %s of process %d", name, pid)
		}
	}
	if unix.Kill(pid, unix.SIGWINCH) == nil {
		s.reportBreach("signal process %d", pid)
	}
}

// talkToSockets says the beginning of each of drover's requests to each unix socket
// of the machine with a name that has to do with drover or with chaos's folder.
func (s *spy) talkToSockets() {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 8 || !strings.Contains(fields[7], s.Dir) && !strings.Contains(fields[7], "drover") {
			continue
		}
		s.tries["socket"]++
		c, err := net.DialTimeout("unix", fields[7], 100*time.Millisecond)
		if err != nil {
			continue
		}
		_ = c.SetDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = c.Write([]byte("{\"tail\":0,\"item\":1,\"stop\":true}\n"))
		answer := make([]byte, 200)
		if n, _ := c.Read(answer); n > 0 {
			s.reportBreach("socket %s answers %q", fields[7], answer[:n])
		}
		c.Close()
	}
}

// openEverything opens, for reading and writing, everything below chaos's folder that it
// can find; the shared folders and what is the intruder's own are no secret.
func (s *spy) openEverything() {
	_ = filepath.WalkDir(s.Dir, s.tryEntry) // what it may not list it passes by
	for _, shared := range s.Shared {
		for _, up := range []string{shared, filepath.Join(shared, "..", "home"), filepath.Join(shared, "..", "..", "work"), filepath.Join(shared, "..", "..", "said")} {
			_ = filepath.WalkDir(up, s.tryEntry)
		}
	}
}

func (s *spy) tryEntry(name string, d fs.DirEntry, err error) error {
	if err != nil || d == nil {
		return nil
	}
	info, err := d.Info()
	if err != nil || info.Sys().(*syscall.Stat_t).Uid == intruderID || filepath.Base(name) == ranFile {
		return nil
	}
	s.tries["file"]++
	switch {
	case d.IsDir():
		if unix.Access(name, unix.W_OK) == nil && info.Mode()&fs.ModeSticky == 0 {
			s.reportBreach("write into folder %s", name)
		}
	case info.Mode().IsRegular() && name != filepath.Join(s.Dir, "intruder"):
		if f, err := os.Open(name); err == nil {
			f.Close()
			s.reportBreach("read %s", name)
		}
		if f, err := os.OpenFile(name, os.O_WRONLY, 0); err == nil {
			f.Close()
			s.reportBreach("write %s", name)
		}
	}
	return nil
}

// attach is a hit: the user opens a command beside a program, as drover attach does.
// Whether it finds one is chance; that nothing of another user's is run is the
// intruder's to see.
func attach(r *round, _ planned) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	err := r.lane.droverCommand(ctx, false, "attach", "last", "--", "true").Run()
	if ctx.Err() != nil {
		r.noteWrong("drover attach does not end within %s", longest)
	}
	return err == nil, nil
}
