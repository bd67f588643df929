package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/bench/bucket"
	"github.com/drover-run/drover/bench/process"
)

// The C programs are compiled where they run; the scripts are the peers'.
//
//go:embed vfork/*.c peers/*.py
var hallFiles embed.FS

// hall is where the map sections run, below the place:
//
//	bin/       on PATH: drover (a copy, so that its processes are known by their program), tiny, silent, vfork
//	here/      empty, where commands run: what is in it would come along as code
//	scripts/   the peers'
//	squares/   the program that map-stream's drover is given
//	stores/N   a new one for each run of drover
//	items-N    N lines
//	written    what the items of a peer wrote
type hall struct {
	place   *place
	options mapOptions
	dir     string
	peers   string // options.peers, absolute
	stores  int
	env     []string
	far     *bucket.Gateway // where stores are; nil: in folders
	goPeers *string         // why there is no program stream in bin; "": it is there; nil: not asked yet
}

// freestanding is how tiny.c is compiled where it brings its own way into the kernel.
var freestanding = []string{"-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector"}

// patience is how long drover's processes may stay after a job: above the 30 s that
// a cancelled one may take, and its programs' grace.
const patience = 90 * time.Second

// leftoversEvery is how often it is seen whether they have gone.
const leftoversEvery = 200 * time.Millisecond

// newHall builds it; the place takes it away.
func newHall(ctx context.Context, p *place) (*hall, error) {
	peers, err := filepath.Abs(p.maps.peers)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(p.dir) // as /proc will name the programs in it
	if err != nil {
		return nil, err
	}
	h := &hall{place: p, options: p.maps, dir: filepath.Join(dir, "maps"), peers: peers}
	for _, folder := range []string{"bin", "here", "scripts", "squares", "stores", "tmp"} {
		if err := os.MkdirAll(filepath.Join(h.dir, folder), 0o700); err != nil {
			return nil, err
		}
	}
	// TMPDIR is theirs too: some leave folders there
	h.env = slices.Concat(p.env, []string{"PATH=" + filepath.Join(h.dir, "bin") + ":" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(h.dir, "tmp"),
		"peers=" + peers, "python=" + p.python, "RAY_USAGE_STATS_ENABLED=0", "RAY_AUTH_MODE=disabled"})
	if err := copyFile(filepath.Join(h.dir, "bin", "drover"), p.drover); err != nil {
		return nil, err
	}
	scripts, err := hallFiles.ReadDir("peers")
	if err != nil {
		return nil, err
	}
	for _, s := range scripts {
		if err := h.putFile("peers/"+s.Name(), "scripts/"+s.Name()); err != nil {
			return nil, err
		}
	}
	if err := h.putFile("peers/square.py", "squares/square.py"); err != nil {
		return nil, err
	}
	return h, errors.Join(
		h.compileProgram(ctx, "tiny", "tiny.c", how()...),
		h.compileProgram(ctx, "silent", "tiny.c", append([]string{"-DSILENT"}, how()...)...),
		h.compileProgram(ctx, "vfork", "vfork.c"),
	)
}

// program is the hall's copy of drover.
func (h *hall) program() process.Program {
	return process.Program(filepath.Join(h.dir, "bin", "drover"))
}

// how is the way in which tiny.c is compiled here.
func how() []string {
	if runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") {
		return freestanding
	}
	return nil
}

func (h *hall) putFile(from, to string) error {
	text, err := hallFiles.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(h.dir, to), text, 0o600)
}

func (h *hall) compileProgram(ctx context.Context, program, source string, how ...string) error {
	if err := h.putFile("vfork/"+source, source); err != nil {
		return err
	}
	args := append([]string{"-O2", "-o", filepath.Join(h.dir, "bin", program)}, append(how, filepath.Join(h.dir, source))...)
	if out, err := exec.CommandContext(ctx, "cc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s: %w: %s", source, err, bytes.TrimSpace(out))
	}
	return nil
}

func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// cutItems is how many of the items a section wants are run.
func (h *hall) cutItems(items int) int {
	if h.options.items > 0 {
		return min(items, h.options.items)
	}
	return items
}

// itemText is item n's line: no two alike, and none can be told from its number alone.
func itemText(n int) string {
	sum := fnv.New32a()
	fmt.Fprintf(sum, "item %d", n)
	return fmt.Sprintf("%d-%08x", n, sum.Sum32())
}

// writeItems makes the file of so many items, once.
func (h *hall) writeItems(items int) error {
	name := filepath.Join(h.dir, fmt.Sprintf("items-%d", items))
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	var text bytes.Buffer
	for n := 1; n <= items; n++ {
		text.WriteString(itemText(n))
		text.WriteByte('\n')
	}
	return os.WriteFile(name, text.Bytes(), 0o600)
}

// useNewStore gives drover's next commands an unused store. The old ones
// stay until sweep: on some file systems what follows a great deletion is slow.
func (h *hall) useNewStore() { h.stores++ }

func (h *hall) storePath() string {
	if h.far != nil {
		return filepath.Join(h.far.Dir, "facts", fmt.Sprint(h.stores))
	}
	return filepath.Join(h.dir, "stores", fmt.Sprint(h.stores))
}

// removeLeftovers takes away what a section left, when drover has left it too: agents of a
// job that was cancelled are given a while.
func (h *hall) removeLeftovers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(leftoversEvery)
	defer tick.Stop()
	for live := h.program().Living(); len(live) > 0; live = h.program().Living() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("look for what still runs after the section: drover left %d processes: %s", len(live), strings.Join(live, ", "))
		}
	}
	err := os.RemoveAll(filepath.Join(h.dir, "stores"))
	return errors.Join(err, os.Mkdir(filepath.Join(h.dir, "stores"), 0o700), ctx.Err())
}

// timeCommand runs a line in a shell to its end and gives what it printed and its time.
// It must succeed, or its time means nothing.
func (h *hall) timeCommand(ctx context.Context, line string, items int) (string, time.Duration, error) {
	// 10 ms for each item is more than the slowest peer takes: what reaches it hangs
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute+time.Duration(items)*10*time.Millisecond)
	defer cancel()
	cmd := h.shellCommand(ctx, line)
	var said, complained bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &complained
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return "", 0, fmt.Errorf("run %s: %w: %s", line, err, lastLines(complained.String()))
	}
	return said.String(), time.Since(began), nil
}

// shellCommand is a command that is ended with all it started. It has a session of its
// own, as drover's agent has: Linux shares a busy machine out by sessions.
func (h *hall) shellCommand(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir = filepath.Join(h.dir, "here")
	cmd.Env = slices.Concat(h.env, []string{"DROVER_STORE=" + h.storePath()})
	if h.far != nil {
		cmd.Env = slices.Concat(h.env, h.far.Environment(h.stores))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// lastLines is the end of what a command complained of: progress can be long.
func lastLines(text string) string {
	const most = 2000
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-most):]
}

// checkItemsFile says whether the items' file holds so many bytes.
func (h *hall) checkItemsFile(want int) error {
	if want == 0 {
		return nil
	}
	info, err := os.Stat(filepath.Join(h.dir, "written"))
	if err != nil {
		return err
	}
	if info.Size() != int64(want) {
		return fmt.Errorf("its items wrote %d bytes, and not %d", info.Size(), want)
	}
	return nil
}
