package cli

import (
	"os"
	"path/filepath"

	"github.com/drover-run/drover/internal/cli/config"
	"github.com/drover-run/drover/internal/proc/written"
)

// rememberOutputs notes in drover's state folder which files this command prints into,
// so that no later command takes them for code. What goes wrong is no reason to refuse
// a command: a later one may then ship a log.
func rememberOutputs(dirs config.Dirs) {
	folder, err := os.Getwd()
	if err != nil || dirs.State == "" {
		return
	}
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real
	}
	_ = written.Memory{Path: filepath.Join(dirs.State, written.MemoryName)}.AddStreams(written.Outputs(os.Stdout, os.Stderr), folder)
}
