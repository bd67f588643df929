//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lane is a home of its own with rounds in it, one after the other.
//
//	dir/bin    drover and the flaky one: their names are how their processes are found
//	dir/disk   HOME, TMPDIR and the stores; a small file system of its own where we may mount one
//	dir/work   the programs, which are the jobs' code
//	dir/said   what commands printed; what programs noted; never on the small disk
type lane struct {
	dir   string
	n     int
	round int
	// full fills the disk and gives what frees it; nil if there is none to fill.
	full  func() (free func(), err error)
	flaky bool
	// bucket is an S3 server of the lane's own, beside its folder; nil: there is none.
	bucket *bucket
	overS3 bool // this round's facts are there
	keep   bool // what is on the disk is evidence
	env    []string
}

// diskSize holds what the jobs of a round leave, and is filled in a moment.
const diskSize = 96 << 20

func newLane(o options, dir string, n int) (*lane, error) {
	l := &lane{dir: dir, n: n, flaky: o.flaky != ""}
	for _, sub := range []string{"bin", "disk", "work", "said"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	if err := copyFile(l.programPath(false), o.drover, 0o700); err != nil {
		return nil, err
	}
	if l.flaky {
		if err := copyFile(l.programPath(true), o.flaky, 0o700); err != nil {
			return nil, err
		}
	}
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(dir, "work", name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	disk := filepath.Join(dir, "disk")
	err := unix.Mount("drover-chaos", disk, "tmpfs", 0, fmt.Sprintf("size=%d", diskSize))
	if err == nil {
		l.full = l.fillDisk
	} else if !errors.Is(err, unix.EPERM) {
		return nil, fmt.Errorf("mount a small disk: %s: %w", disk, err)
	}
	l.env = environ(os.Environ(), disk, filepath.Dir(o.python))
	if o.s3 != "" {
		if l.bucket, err = openBucket(o.s3, dir+"-s3"); err != nil {
			return nil, err
		}
	}
	home, shared := filepath.Join(disk, "home"), filepath.Join(disk, "tmp")
	err = errors.Join(os.Mkdir(home, 0o700), os.Mkdir(shared, 0o700))
	if os.Getuid() == 0 { // tmp is as /tmp is: another user may write there
		err = errors.Join(err, os.Chmod(dir, 0o711), os.Chmod(disk, 0o711), os.Chmod(shared, 0o777|os.ModeSticky))
	}
	return l, err
}

// environ is the caller's environment without drover's settings, with all that is
// written on the disk, and with the python that was asked for in front.
func environ(caller []string, disk, python string) []string {
	env := []string{"HOME=" + filepath.Join(disk, "home"), "TMPDIR=" + filepath.Join(disk, "tmp")}
	for _, v := range caller {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case name == "HOME" || name == "TMPDIR" || strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "DROVER_") || strings.HasPrefix(name, "AWS_"):
		case name == "PATH":
			env = append(env, "PATH="+python+":"+value)
		default:
			env = append(env, v)
		}
	}
	return env
}

// removeDisk takes the disk away. What is on it and still needed is moved beside it.
func (l *lane) removeDisk() error {
	disk := filepath.Join(l.dir, "disk")
	if l.bucket != nil {
		l.bucket.closeServer()
	}
	if l.full == nil {
		return nil
	}
	var err error
	if l.keep {
		err = exec.Command("cp", "-a", disk, filepath.Join(l.dir, "kept")).Run()
	}
	return errors.Join(err, unix.Unmount(disk, unix.MNT_DETACH))
}

func (l *lane) programPath(flaky bool) string {
	if flaky {
		return filepath.Join(l.dir, "bin", "drover-flaky")
	}
	return filepath.Join(l.dir, "bin", "drover")
}

// storePath is the folder of a new one for each round: its newest job is the round's.
func (l *lane) storePath() string {
	if l.overS3 {
		return filepath.Join(l.bucket.dir, "facts", l.storePrefix())
	}
	return filepath.Join(l.dir, "disk", l.storePrefix())
}

func (l *lane) storePrefix() string { return fmt.Sprintf("store%d", l.round) }

func (l *lane) outputPath(name string) string {
	return filepath.Join(l.dir, "said", fmt.Sprintf("%d-%s", l.round, name))
}

// droverCommand is a command line of drover's, in a process group of its own: a signal to
// one is for that one alone.
func (l *lane) droverCommand(ctx context.Context, flaky bool, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, l.programPath(flaky), args...)
	c.Dir = filepath.Join(l.dir, "work")
	c.Env = append(l.env[:len(l.env):len(l.env)], "DROVER_STORE="+l.storePath(), "DROVER_PROJECT=chaos")
	if l.overS3 {
		c.Env = append(c.Env, l.bucket.environment(l.storePrefix())...)
	}
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	return c
}

// fillDisk writes into the disk until nothing more fits.
func (l *lane) fillDisk() (free func(), err error) {
	name := filepath.Join(l.dir, "disk", "ballast")
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		switch _, err := f.Write(make([]byte, size)); {
		case errors.Is(err, unix.ENOSPC):
			size /= 2
		case err != nil:
			return nil, err
		}
	}
	return func() { _ = os.Remove(name) }, nil // gone already is as good
}

// startFaults has the store misbehave for a while, in all processes of the flaky program.
// What it may do is what real ones do: it never lists too little.
func (l *lane) startFaults(r *rand.Rand, length time.Duration) error {
	some := func(most float64) float64 { return most * r.Float64() }
	return l.writeFaultPlan(r.Uint64(), length, map[string]any{
		"Delay": some(0.5), "MaxDelay": time.Duration(some(float64(300 * time.Millisecond))),
		"Busy": some(0.5), "LoseRequest": some(0.2), "LoseReply": some(0.3), "Conflict": some(0.1),
		"Late": some(0.1), "Echo": some(0.1),
	})
}

// writeFaultPlan writes what program/weather.go reads: plan is a flaky.Plan.
func (l *lane) writeFaultPlan(seed uint64, length time.Duration, plan map[string]any) error {
	text, err := json.Marshal(map[string]any{"Seed": seed, "Until": time.Now().Add(length), "Plan": plan})
	if err != nil {
		return err
	}
	file := l.programPath(true) + ".weather"
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// copyFile copies a program. No process is begun meanwhile: a child would hold the
// file open for writing until its exec, and until then the system refuses to run it.
func copyFile(to, from string, mode os.FileMode) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
