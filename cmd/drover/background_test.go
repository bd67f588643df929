package main_test

import (
	"bytes"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// backgrounds are the processes that run beside a script.
type backgrounds struct {
	env     *testscript.Env
	running map[string]*process
}

type backgroundsKey struct{}

func of(ts *testscript.TestScript) *backgrounds {
	return ts.Value(backgroundsKey{}).(*backgrounds)
}

func (b *backgrounds) keep(name string, p *process) {
	if b.running == nil {
		b.running = map[string]*process{}
	}
	b.running[name] = p
}

func (b *backgrounds) find(ts *testscript.TestScript, name string) *process {
	p, ok := b.running[name]
	if !ok {
		ts.Fatalf("nothing named %s runs: %v", name, slices.Sorted(maps.Keys(b.running)))
	}
	return p
}

// command makes a process with the script's folder and environment. testscript
// shows no list of variables, only their values: what scripts set themselves and
// such a process shall have stands here.
func (b *backgrounds) command(ts *testscript.TestScript, args []string) *process {
	var names []string
	for _, kv := range b.env.Vars {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	names = append(names, "GATE", "DROVER_STORE", "DROVER_PROJECT", "SEED", "SHLVL", "A")
	var environ []string
	for _, name := range names {
		if v := ts.Getenv(name); v != "" || name == "exe" { // which exec hands on, too, empty
			environ = append(environ, name+"="+v)
		}
	}
	path := args[0]
	if !strings.Contains(path, "/") {
		for dir := range strings.SplitSeq(ts.Getenv("PATH"), ":") {
			if found, err := exec.LookPath(filepath.Join(dir, path)); err == nil {
				path = found
				break
			}
		}
	}
	p := &process{cmd: exec.Command(path, args[1:]...), done: make(chan struct{}), said: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = ts.MkAbs("."), append(environ, "PWD="+ts.MkAbs("."))
	p.cmd.Stdout, p.cmd.Stderr = stream{p, &p.out}, stream{p, &p.err}
	return p
}

// leaveNothing is the end of every script: what it started beside itself has
// ended, and so has everything that drover started for it. What has not fails the
// script, and is ended.
func (b *backgrounds) leaveNothing(t testscript.T, folders ...string) {
	var left []string
	for name, p := range b.running {
		_ = p.cmd.Process.Kill()
		<-p.done
		left = append(left, fmt.Sprintf("%s: %s", name, p.text(true, true)))
	}
	limit := patience
	if len(left) > 0 {
		limit = 0 // it has failed anyway
	}
	for _, folder := range folders {
		left = append(left, leftovers(folder, limit)...)
	}
	if len(left) > 0 {
		t.Log("left running:\n" + strings.Join(left, "\n"))
		t.FailNow()
	}
}

// process is a command that runs beside the script.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	// ended is how, once done is closed.
	ended error

	mu       sync.Mutex
	out, err bytes.Buffer
	said     chan struct{} // closed at every write, and made anew
}

// stream is one of a process's outputs.
type stream struct {
	p   *process
	buf *bytes.Buffer
}

func (s stream) Write(b []byte) (int, error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	close(s.p.said)
	s.p.said = make(chan struct{})
	return s.buf.Write(b)
}

func (p *process) start() {
	if p.ended = p.cmd.Start(); p.ended != nil {
		close(p.done)
		return
	}
	go func() { // until it has ended, which leaveNothing waits for
		p.ended = p.cmd.Wait()
		close(p.done)
	}()
}

// text is what it has said so far.
func (p *process) text(out, err bool) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := ""
	if out {
		text += p.out.String()
	}
	if err {
		text += p.err.String()
	}
	return text
}

// await blocks until one of its outputs matches.
func (p *process) await(re *regexp.Regexp) error {
	never := time.After(patience)
	for over := false; ; {
		p.mu.Lock()
		said := p.said
		found := re.Match(p.out.Bytes()) || re.Match(p.err.Bytes())
		p.mu.Unlock()
		switch {
		case found:
			return nil
		case over:
			return fmt.Errorf("it ended (%v) and never said %q\n%s", p.ended, re, p.text(true, true))
		}
		select {
		case <-said:
		case <-p.done:
			over = true
		case <-never:
			return fmt.Errorf("it never said %q\n%s", re, p.text(true, true))
		}
	}
}

func (p *process) wait() error {
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("it does not end\n%s", p.text(true, true))
	}
}
