//go:build !linux

package enter

import (
	"os/exec"

	"github.com/drover-run/drover/internal/proc/process"
)

// startInside: there are no views here.
func startInside(_ process.Identity, c *exec.Cmd) error {
	if err := resolveProgram(c); err != nil {
		return err
	}
	return c.Start()
}
