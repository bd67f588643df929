package proc

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/drover-run/drover/internal/proc/process"
)

// HoldsSocket says whether a process of the tree has the socket of that inode open. It
// is false where that cannot be seen.
func (p *Process) HoldsSocket(inode uint64) bool {
	tree, err := process.Below(p.supervisor.Pid)
	if err != nil {
		return false
	}
	want := fmt.Sprintf("socket:[%d]", inode)
	for _, t := range tree {
		dir := fmt.Sprintf("/proc/%d/fd", t.PID)
		files, _ := os.ReadDir(dir) // it has just ended, or is hidden
		for _, f := range files {
			if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && to == want {
				return true
			}
		}
	}
	return false
}
