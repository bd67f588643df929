package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
)

// GPU is one that nvidia-smi lists. Of a GPU cut into MIG devices the devices
// are listed in its place, each a GPU of its own; CUDA shows a process one of
// them, whatever it is given.
type GPU struct {
	Index  int    // nvidia-smi's, from 0, by PCI address; of a MIG device that of the GPU it is part of
	UUID   string // "GPU-..." or "MIG-...": what CUDA_VISIBLE_DEVICES takes on every machine; "" where there is none
	Name   string // "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB MIG 1g.10gb"
	Memory int64  // bytes, of a MIG device as its name says; 0: unknown, as where it is the machine's own
}

// gpuPatience is how long nvidia-smi may take. Where no program holds the driver
// awake it wakes each GPU, a second each; with a broken GPU it may hang for ever.
const gpuPatience = 10 * time.Second

// GPUs asks nvidia-smi, found in environ's PATH, for this machine's GPUs, in the
// order of their indices. There are none when there is no nvidia-smi, or it
// knows no driver. Where environ has CUDA_VISIBLE_DEVICES, it is only those which
// that lets CUDA see; indices are read as nvidia-smi's (CUDA's own order differs
// on a machine with GPUs of several models, unless CUDA_DEVICE_ORDER is
// PCI_BUS_ID). An nvidia-smi that fails, hangs or says what cannot be read is a
// fault, and so is a GPU among these that has failed.
func GPUs(ctx context.Context, environ []string) ([]GPU, error) {
	return listGPUs(ctx, environ, gpuPatience)
}

func listGPUs(ctx context.Context, environ []string, patience time.Duration) ([]GPU, error) {
	named, limited := getenv(environ, "CUDA_VISIBLE_DEVICES")
	if limited && len(visibleNames(named)) == 0 {
		return nil, nil // also the way to run on a machine with a broken nvidia-smi
	}
	path := find("nvidia-smi", environ)
	if path == "" {
		return nil, nil
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// Both at once: each may take seconds. The table does not have MIG devices.
	list := make(chan answer, 1)
	go func() { list <- ask(within, path, environ, "--list-gpus") }()
	table := ask(within, path, environ, "--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader,nounits")
	devices := <-list
	if ctx.Err() != nil {
		return nil, fmt.Errorf("find GPUs: %w", context.Cause(ctx))
	}
	for _, a := range []answer{table, devices} {
		if a.hasNoGPU() {
			return nil, nil
		}
		if err := a.whyUseless(patience); err != nil {
			return nil, err
		}
	}
	cards, err := parseTable(table.out)
	if err == nil {
		err = addDevices(cards, devices.out)
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Full, gpuHint, "find GPUs: %s", path)
	}
	if limited {
		cards = visible(cards, named)
	}
	return healthy(cards)
}

const gpuHint = "Run nvidia-smi to see for yourself and mend it, or run without GPUs: CUDA_VISIBLE_DEVICES= drover ..."

// healthy gives the GPUs of the cards, or says which card has failed.
func healthy(cards []card) (all []GPU, err error) {
	for _, c := range cards {
		if c.trouble != "" {
			return nil, fault.New(fault.Full,
				fmt.Sprintf("Try `nvidia-smi --gpu-reset -i %d`, or leave it out: say the others in CUDA_VISIBLE_DEVICES.", c.Index),
				"find GPUs: nvidia-smi says %q of GPU %d", c.trouble, c.Index)
		}
		if len(c.devices) == 0 {
			all = append(all, c.GPU)
		}
		all = append(all, c.devices...)
	}
	slices.SortStableFunc(all, func(a, b GPU) int { return a.Index - b.Index })
	return all, nil
}

// answer is what one call of nvidia-smi gave.
type answer struct {
	out    []byte // its standard output
	said   string // the first line of either output, when it failed
	status int
	err    error // it could not be asked, or did not answer
}

// ask calls nvidia-smi and waits for its end or ctx's. An nvidia-smi that waits
// for a broken driver cannot be killed: it is left behind, and dies when it may.
func ask(ctx context.Context, path string, environ []string, args ...string) answer {
	cmd := exec.CommandContext(ctx, path, args...)
	var out, complaint bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, &out, &complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it may be a script
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for what has left its group and holds its output
	ended := make(chan answer, 1)
	go func() {
		a := answer{err: cmd.Run()}
		a.out = out.Bytes()
		if exit := (*exec.ExitError)(nil); errors.As(a.err, &exit) && exit.Exited() {
			a.status, a.err = exit.ExitCode(), nil
			a.said = firstLine(out.String() + "\n" + complaint.String())
		}
		ended <- a
	}()
	select {
	case a := <-ended:
		if a.err == nil || ctx.Err() == nil {
			return a
		}
	case <-ctx.Done():
	}
	return answer{err: ctx.Err()}
}

// What nvidia-smi exits with: the numbers of NVML's errors.
const (
	notPermitted    = 4
	notFound        = 6 // "No devices were found", with some drivers; with others it is 0
	noDriver        = 9
	noLibrary       = 12 // it is the driver's
	lostGPU         = 15
	resetNeeded     = 16
	blockedBySystem = 17
	mismatch        = 18
	noGPU           = 28
)

// hasNoGPU says that the machine has no GPU that works for any user.
func (a answer) hasNoGPU() bool {
	return a.err == nil && slices.Contains([]int{notFound, noDriver, noLibrary, noGPU}, a.status)
}

// whyUseless is why the answer is of no use, or nil.
func (a answer) whyUseless(patience time.Duration) error {
	hint := gpuHint
	switch {
	case errors.Is(a.err, context.DeadlineExceeded):
		return fault.New(fault.Full, hint, "find GPUs: nvidia-smi: no answer in %v", patience)
	case a.err != nil:
		return fault.Wrap(a.err, fault.Full, hint, "find GPUs")
	case a.status == 0:
		return nil
	case a.status == mismatch || strings.Contains(a.said, "version mismatch"):
		hint = "Restart this machine: its driver was replaced while it ran."
	case a.status == lostGPU || a.status == resetNeeded:
		hint = "Try nvidia-smi --gpu-reset, or restart this machine."
	case a.status == notPermitted || a.status == blockedBySystem:
		hint = "Get access to /dev/nvidia*, in a container with its --gpus flag, or run without GPUs: CUDA_VISIBLE_DEVICES= drover ..."
	}
	return fault.New(fault.Full, hint, "find GPUs: nvidia-smi exits with %d: %q", a.status, a.said)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}

// getenv finds a variable as a program finds it that is started with environ: the last one counts.
func getenv(environ []string, name string) (value string, set bool) {
	for _, e := range slices.Backward(environ) {
		if n, v, ok := strings.Cut(e, "="); ok && n == name {
			return v, true
		}
	}
	return "", false
}

// find looks a program up in environ's PATH, or gives "". Folders that are not
// absolute do not count: they would be another one for each caller.
func find(name string, environ []string) string {
	path, _ := getenv(environ, "PATH")
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		if i, err := os.Stat(file); filepath.IsAbs(dir) && err == nil && i.Mode().IsRegular() && i.Mode()&0o111 != 0 {
			return file
		}
	}
	return ""
}
