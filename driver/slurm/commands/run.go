// Package commands runs Slurm's own commands and reads what they print: tasks, accounts, times. It
// refuses to know placements. Proved by the tests of package slurm, with what real commands printed.
package commands

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
	"time"

	"github.com/drover-run/drover/fault"
)

func Run(ctx context.Context, path string, patience time.Duration, env []string, name string, args ...string) (string, error) {
	if path != "" {
		name = filepath.Join(path, name)
	}
	limited, done := context.WithTimeout(ctx, patience)
	defer done()
	c := exec.CommandContext(limited, name, args...)
	c.Env, c.WaitDelay = env, time.Second
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	switch {
	case err == nil:
		return out.String(), nil
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case limited.Err() != nil:
		return "", &Silent{filepath.Base(name), fmt.Sprintf("no answer within %s", patience)}
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return "", fault.New(fault.Invalid, "Run it on a machine with Slurm's commands, such as the cluster's login node.", "find %s: it is not on PATH", filepath.Base(name))
	}
	text := strings.TrimSpace(errs.String())
	if text == "" {
		text = err.Error()
	}
	if strings.Contains(text, noSource) {
		return "", &Silent{filepath.Base(name), NoConfig}
	}
	if unreachable(text) {
		return "", &Silent{filepath.Base(name), Words(text)}
	}
	return "", &Refusal{filepath.Base(name), text}
}

// noSource is how Slurm's commands report, below a message of their resolver, that they know no
// cluster. That may be temporary, where slurmctld itself hands slurm.conf out; noConfig is our text.
const (
	noSource = "Could not establish a configuration source"
	NoConfig = "its commands find no slurm.conf here, and no server that has one"
)

// Silent is the error of a call that may or may not have reached Slurm.
type Silent struct{ Command, Why string }

func (e *Silent) Error() string { return e.Command + ": " + e.Why }

// Refusal is the error of a call that Slurm refused.
type Refusal struct{ Command, Text string }

func (e *Refusal) Error() string { return e.Command + ": " + Words(e.Text) }

// unreachable says whether the output of a command means that slurmctld was not reached, or that
// its answer was lost.
func unreachable(text string) bool {
	return slices.ContainsFunc([]string{"Unable to contact slurm controller", "Socket timed out", "Zero Bytes were transmitted", "Connection refused",
		"Connection reset", "Communication connection failure", "Transport endpoint", "in standby mode"},
		func(p string) bool { return strings.Contains(text, p) })
}

// Words are the output of a command, on one line and without the common beginning of its lines.
func Words(text string) string {
	var all []string
	for line := range strings.Lines(text) {
		for _, before := range []string{"sbatch: ", "squeue: ", "scancel: ", "scontrol: ", "sinfo: ", "sacct: ", "error: ", "fatal: ",
			"Batch job submission failed: ", "allocation failure: "} {
			line = strings.TrimPrefix(line, before)
		}
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return strings.Join(all, "; ")
}

// ClientEnv are the variables of our environment that Slurm's commands get, and so all that Slurm
// stores of it: those that the commands need, and those that the user has set for sbatch. Some are
// added or left out so that answers have a form that this package reads, and a Slurm job in which
// this process itself runs has no effect.
func ClientEnv(environ []string) []string {
	own := []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "SLURM_CONF", "SLURM_CLUSTERS", "LD_LIBRARY_PATH", "SLURM_CONF_SERVER"}
	// These would change the request.
	not := []string{"SBATCH_ARRAY_INX", "SBATCH_ERROR", "SBATCH_EXPORT", "SBATCH_GET_USER_ENV", "SBATCH_JOB_NAME", "SBATCH_NO_REQUEUE", "SBATCH_OPEN_MODE", "SBATCH_WAIT", "SBATCH_SIGNAL", "SBATCH_REQUEUE"}
	var env []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if slices.Contains(own, name) || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "SBATCH_") && !slices.Contains(not, name) {
			env = append(env, kv)
		}
	}
	return append(env, "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0") // or a list of tasks is cut off
}

// Patience is more than a busy slurmctld needs to answer, and less than a user waits for a dead
// one, which Slurm's own commands would try for minutes.
const Patience = 30 * time.Second
