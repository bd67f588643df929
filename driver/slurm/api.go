package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
)

// runCommand runs one of Slurm's commands, without a shell. The error's text is what the command
// printed to its standard error. It never waits longer than the driver's patience.
func (d *Driver) runCommand(ctx context.Context, name string, args ...string) (string, error) {
	return command(ctx, d.path, d.patience, clientEnv(os.Environ()), name, args...)
}

func command(ctx context.Context, path string, patience time.Duration, env []string, name string, args ...string) (string, error) {
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
		return "", &silent{filepath.Base(name), fmt.Sprintf("no answer within %s", patience)}
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return "", fault.New(fault.Invalid, "Run it on a machine with Slurm's commands, such as the cluster's login node.", "find %s: it is not on PATH", filepath.Base(name))
	}
	text := strings.TrimSpace(errs.String())
	if text == "" {
		text = err.Error()
	}
	if strings.Contains(text, noSource) {
		return "", &silent{filepath.Base(name), noConfig}
	}
	if unreachable(text) {
		return "", &silent{filepath.Base(name), words(text)}
	}
	return "", &refusal{filepath.Base(name), text}
}

// noSource is how Slurm's commands report, below a message of their resolver, that they know no
// cluster. That may be temporary, where slurmctld itself hands slurm.conf out; noConfig is our text.
const (
	noSource = "Could not establish a configuration source"
	noConfig = "its commands find no slurm.conf here, and no server that has one"
)

// silent is the error of a call that may or may not have reached Slurm.
type silent struct{ command, why string }

func (e *silent) Error() string { return e.command + ": " + e.why }

// refusal is the error of a call that Slurm refused.
type refusal struct{ command, text string }

func (e *refusal) Error() string { return e.command + ": " + words(e.text) }

// unreachable says whether the output of a command means that slurmctld was not reached, or that
// its answer was lost.
func unreachable(text string) bool {
	return slices.ContainsFunc([]string{"Unable to contact slurm controller", "Socket timed out", "Zero Bytes were transmitted", "Connection refused",
		"Connection reset", "Communication connection failure", "Transport endpoint", "in standby mode"},
		func(p string) bool { return strings.Contains(text, p) })
}

// words are the output of a command, on one line and without the common beginning of its lines.
func words(text string) string {
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

// clientEnv are the variables of our environment that Slurm's commands get, and so all that Slurm
// stores of it: those that the commands need, and those that the user has set for sbatch. Some are
// added or left out so that answers have a form that this package reads, and a Slurm job in which
// this process itself runs has no effect.
func clientEnv(environ []string) []string {
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

// row is one task as squeue shows it.
type row struct {
	Slurm  int // the array's job id, or the job's
	Task   int // its number in the array; -1: there is no array
	Job    int // its own id
	State  string
	Starts int // how often Slurm has started it again
	Reason string
	Nodes  string
	Name   string
	End    time.Time // when it ended; zero: it has not, or that is unknown
}

// rowFields are the columns of squeue; a name may contain anything, so it comes last.
const rowFields = "ArrayJobID:|,ArrayTaskID:|,JobID:|,State:|,RestartCnt:|,Reason:|,NodeList:|,EndTime:|,Name:|"

// queryJobs asks Slurm about jobs, by their ids or their names. Jobs that it does not know are left
// out.
func (d *Driver) queryJobs(ctx context.Context, by string, of ...string) ([]row, error) {
	args := []string{"--noheader", "--array", "--all", "--states=all", "--Format=" + rowFields, by + "=" + strings.Join(of, ",")}
	out, err := d.runCommand(ctx, "squeue", args...)
	var no *refusal
	if errors.As(err, &no) && strings.Contains(no.text, "Invalid job id") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseRows(out), nil
}

// parseRows reads the output of squeue. It ignores lines that are not about a task.
func parseRows(out string) (rows []row) {
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSuffix(strings.TrimSpace(line), "|"), "|", 9)
		if len(f) < 9 {
			continue
		}
		r := row{Task: -1, State: f[3], Reason: f[5], Nodes: f[6], Name: f[8]}
		var err error
		if r.Slurm, err = strconv.Atoi(f[0]); err != nil {
			continue
		}
		if n, err := strconv.Atoi(f[1]); err == nil {
			r.Task = n
		}
		r.Job, _ = strconv.Atoi(f[2])
		r.Starts, _ = strconv.Atoi(f[4]) // an old Slurm does not say it
		if at, err := strconv.ParseInt(f[7], 10, 64); err == nil && at > 0 {
			r.End = time.Unix(at, 0)
		}
		rows = append(rows, r)
	}
	return rows
}

// accounted asks Slurm's accounting about jobs that slurmctld has forgotten; it gives none where
// accounting is off.
func (d *Driver) accounted(ctx context.Context, ids ...string) []row {
	out, err := d.runCommand(ctx, "sacct", "-X", "-P", "-n", "-j", strings.Join(ids, ","), "--format=JobID,State,ExitCode,NodeList,JobName")
	if err != nil {
		return nil
	}
	return parseAccounts(out)
}

// parseAccounts reads the output of sacct. For a task that Slurm started several times the last line
// counts. A task that runs or waits according to sacct is left out: slurmctld does not know it any
// more, and accounting is late.
func parseAccounts(out string) (rows []row) {
	at := map[[2]int]int{} // in rows
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 5)
		if len(f) < 5 {
			continue
		}
		id, tasks, array := strings.Cut(f[0], "_")
		r := row{Reason: "None", Nodes: f[3], Name: f[4]}
		var err error
		if r.Slurm, err = strconv.Atoi(id); err != nil {
			continue
		}
		r.State, _, _ = strings.Cut(f[1], " ") // CANCELLED by 1000
		if runs(r.State) || waits(r.State) {
			continue
		}
		code, signal, _ := strings.Cut(f[2], ":")
		if signal != "" && signal != "0" {
			r.Reason = "signal " + signal
		} else if code != "0" {
			r.Reason = "exit status " + code
		}
		numbers := []int{-1}
		if array {
			numbers = taskNumbers(tasks)
		}
		for _, r.Task = range numbers {
			key := [2]int{r.Slurm, r.Task}
			if i, twice := at[key]; twice {
				rows[i] = r
				continue
			}
			at[key] = len(rows)
			rows = append(rows, r)
		}
	}
	return rows
}

// mostTasks is more than an array may have.
const mostTasks = 5_000_000

// taskNumbers reads 7, and the numbers of tasks that never began: [0,2-4,9-20%5].
func taskNumbers(text string) (all []int) {
	text, _, _ = strings.Cut(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), "%")
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || first < 0 || last-first >= mostTasks-len(all) {
			continue // a part that was cut off ends with three dots
		}
		for n := first; n <= last; n++ {
			all = append(all, n)
		}
	}
	return all
}

// config is the part of slurm.conf that this driver needs.
type config struct {
	MaxArray int // the largest number of a task, and one
}

// configuration asks Slurm once; if it does not answer, Slurm's defaults are used.
func (d *Driver) configuration(ctx context.Context) (config, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conf != nil {
		return *d.conf, nil
	}
	out, err := d.runCommand(ctx, "scontrol", "show", "config")
	if err != nil {
		return config{}, err
	}
	c := config{MaxArray: 1001}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(name) == "MaxArraySize" {
			if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && n > 0 {
				c.MaxArray = n
			}
		}
	}
	d.conf = &c
	return c, nil
}
