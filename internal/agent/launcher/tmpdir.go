package launcher

import (
	"os"
	"path/filepath"

	"github.com/drover-run/drover/fault"
)

// userTmpdir keeps TMPDIR, which MPI's daemons have of their own, for the program.
const userTmpdir = "DROVER_LAUNCH_TMPDIR"

// settle gives the daemons that are started from here a temporary folder of their
// own, beside the desk. Open MPI names its files there by process id: nodes of one
// machine, which each count from 1, would take each other's, and those that were
// left behind. Remove it in the end; of a process that is killed, the agent does.
func settle() (temp string, err error) {
	desk := os.Getenv(CallsVariable)
	if desk == "" {
		return "", errNoCalls()
	}
	if temp, err = os.MkdirTemp(filepath.Dir(desk), "mpi"); err != nil {
		return "", fault.Wrap(err, fault.Full, "Free some space, or set TMPDIR to a folder with room.", "start mpiexec")
	}
	if err := os.Setenv(userTmpdir, os.Getenv("TMPDIR")); err != nil {
		return temp, err
	}
	return temp, os.Setenv("TMPDIR", temp)
}

// home undoes settle for the program.
func home() {
	tmpdir, ok := os.LookupEnv(userTmpdir)
	if !ok {
		return
	}
	os.Unsetenv(userTmpdir)
	os.Unsetenv("TMPDIR")
	if tmpdir != "" {
		os.Setenv("TMPDIR", tmpdir)
	}
}
