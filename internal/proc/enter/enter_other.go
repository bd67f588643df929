//go:build !linux

package enter

import (
	"os/exec"

	"github.com/drover-run/drover/internal/proc/process"
)

// stepIn: there are no views here.
func stepIn(_ process.Identity, c *exec.Cmd) error {
	if err := find(c); err != nil {
		return err
	}
	return c.Start()
}
