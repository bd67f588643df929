package folder

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/job/where"
)

// Attributes are what a target on this machine knows of it, for the names that an expression
// compares: reading some takes a while. dir is a folder on the disk that its programs fill.
// Only a machine's provider knows its type, zone, region and network, so these are not known
// here; the machine counts as one that is not taken away.
func (h Hardware) Attributes(ctx context.Context, dir string, names []where.Name) where.Attributes {
	own := where.Attributes{where.Arch: {runtime.GOARCH}, where.CPUs: {strconv.Itoa(h.Cores)}, where.Feature: {}, where.Purchase: {where.OnDemand}}
	if h.Memory > 0 {
		own[where.Memory] = []string{strconv.FormatInt(h.Memory, 10)}
	}
	if name, err := os.Hostname(); err == nil {
		own[where.Node] = []string{name}
	}
	if slices.ContainsFunc(names, func(n where.Name) bool { return n == where.GPUName || n == where.GPUCount || n == where.GPUMemory }) {
		models, memory := gpuModels(ctx)
		own[where.GPUName], own[where.GPUMemory] = models, memory
		own[where.GPUCount] = []string{strconv.Itoa(GPUs(ctx))}
	}
	if slices.Contains(names, where.DiskLocal) {
		if bytes, _, ok := diskSize(dir); ok {
			own[where.DiskLocal] = []string{strconv.FormatInt(bytes, 10)}
		}
	}
	return own
}

// gpuModels are the names of this machine's GPUs and the memory of the smallest, as nvidia-smi
// reports them; none where it does not answer.
func gpuModels(ctx context.Context) (models, memory []string) {
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits").Output()
	models = []string{}
	if err != nil {
		return models, []string{}
	}
	least := 0
	for line := range strings.Lines(string(out)) {
		name, size, _ := strings.Cut(strings.TrimSpace(line), ", ")
		mb, err := strconv.Atoi(size)
		if err != nil || name == "" {
			continue
		}
		if !slices.Contains(models, name) {
			models = append(models, name)
		}
		if least == 0 || mb < least {
			least = mb
		}
	}
	return models, []string{strconv.Itoa(least) + "M"}
}

// DiskRefusal says in one sentence why an agent cannot fill as much of a disk as n says: the disk
// that dir is on is smaller. "": it is not. place names in that sentence what lacks the disk.
// Bytes that are on the disk already do not count, as cores in use do not: they may be the job's
// own, which a second command finds.
func DiskRefusal(place, dir string, n driver.Needs) string {
	size, _, ok := diskSize(dir)
	if !ok || n.Disk <= size {
		return ""
	}
	return fmt.Sprintf("%s has a disk of %s, and %s is needed", place, Gigabytes(float64(size)), Gigabytes(float64(n.Disk)))
}

// DiskNote says for a plan that less of the disk is free now than n says; "": enough is free.
func DiskNote(dir string, n driver.Needs) string {
	_, free, ok := diskSize(dir)
	if !ok || n.Disk <= free {
		return ""
	}
	return ", " + Gigabytes(float64(free)) + " of disk free"
}

// diskSize is the size in bytes of the file system that a folder, or the nearest one above
// that exists, lies in, and what this user may still fill of it.
func diskSize(dir string) (size, free int64, ok bool) {
	var s unix.Statfs_t
	for {
		err := unix.Statfs(dir, &s)
		if err == nil {
			return int64(s.Blocks) * int64(s.Bsize), int64(s.Bavail) * int64(s.Bsize), true
		}
		up := dir[:max(strings.LastIndexByte(dir, '/'), 0)]
		if err != unix.ENOENT || up == "" {
			return 0, 0, false
		}
		dir = up
	}
}
