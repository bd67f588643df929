package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver/slurm/commands"
	"github.com/drover-run/drover/driver/slurm/records"
	"github.com/drover-run/drover/fault"
)

// A job on several nodes has one script, on its first node, which starts a supervisor on each node
// with srun. While srun runs, it turns every SIGTERM that Slurm sends into a SIGKILL for all its
// tasks: nothing could be saved. So once the tasks are up, srun is ended with SIGKILL, after the
// process that watches over it (its shepherd), and the script stays until Slurm says that the step
// has ended. Then the tasks get Slurm's signals unchanged, and its thirty seconds.

const (
	leadPause  = time.Second      // between two looks at what the tasks have noted
	stepsEvery = 20 * time.Second // between two questions to Slurm
	upPatience = 10 * time.Minute // until all tasks are up
)

// lead is the script of a job on several nodes.
func lead(p place, o records.Orders, terms <-chan os.Signal) int {
	if _, asked := records.Word(p.folder); asked {
		return 0
	}
	log, err := os.OpenFile(filepath.Join(p.folder, "out-"+records.Itoa(p.job)+"-srun"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "drover:", err)
		return fault.ExitDrover
	}
	defer log.Close()
	srun := exec.Command("srun", srunArgs(p, o, os.Getenv)...)
	srun.Env = append(os.Environ(), envStep+"=1")
	srun.Stdout, srun.Stderr = log, log
	srun.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := srun.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "drover: start agents on all nodes:", err)
		return fault.ExitDrover
	}
	gone := make(chan error, 1)
	go func() { gone <- srun.Wait() }() // ends with srun, which we end
	if !allUp(p, o, gone, terms) {
		return exitStatus(srun)
	}
	release(srun.Process.Pid)
	<-gone
	code, asked := outlast(p, o, terms)
	if _, stop := records.Word(p.folder); code == fault.ExitLater && !asked && !stop {
		requeue(p.slurmTaskID(), p.restart)
	}
	return code
}

func srunArgs(p place, o records.Orders, get func(string) string) []string {
	n := records.Itoa(o.Agents)
	args := []string{"--nodes=" + n, "--ntasks=" + n, "--ntasks-per-node=1", "--mpi=none", "--overlap", "--kill-on-bad-exit=0", "--wait=0", "--cpu-bind=none",
		"--input=none", "--open-mode=append", "--job-name=drover", "--output=" + filepath.Join(p.folder, "out-"+records.Itoa(p.job)+"-%t")}
	if c := get("SLURM_CPUS_PER_TASK"); c != "" {
		args = append(args, "--cpus-per-task="+c) // from 22.05 on, srun does not take it over
	}
	return append(args, o.Binary, "agent")
}

// rows are the numbers of the agents that this job has started.
func rows(p place, o records.Orders) (mine []int) {
	of, err := records.Again(p.folder, o.Agents)
	if err != nil {
		return nil
	}
	for base := range o.Agents {
		i := records.Newest(of, o.Agents, base)
		if n := records.Heard(p.folder, i); n.Up != nil && n.Up.Slurm == p.slurm && n.Up.Restart == p.restart || n.End != nil {
			mine = append(mine, i)
		}
	}
	return mine
}

// allUp waits until all tasks are up; false says that srun has ended before, or that
// they take too long.
func allUp(p place, o records.Orders, gone <-chan error, terms <-chan os.Signal) bool {
	look := time.NewTicker(leadPause / 5)
	defer look.Stop()
	late := time.NewTimer(upPatience)
	defer late.Stop()
	for {
		select {
		case <-gone:
			return false
		case <-terms: // srun has heard it too
		case <-late.C:
			return false
		case <-look.C:
			if len(rows(p, o)) == o.Agents {
				return true
			}
		}
	}
}

// release ends srun in such a way that its tasks go on.
func release(srun int) {
	unix.Kill(srun, unix.SIGSTOP)
	for _, child := range children(srun) {
		unix.Kill(child, unix.SIGKILL)
	}
	unix.Kill(srun, unix.SIGKILL)
}

// children finds a process's children in /proc.
func children(pid int) (all []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ") // a name may hold anything
		f := strings.Fields(rest)
		if len(f) < 2 || f[1] != records.Itoa(pid) {
			continue
		}
		if n, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// outlast waits until all tasks have ended. It returns the worst of their statuses, and whether
// Slurm has told the job to stop.
func outlast(p place, o records.Orders, terms <-chan os.Signal) (code int, asked bool) {
	look, ask := time.NewTicker(leadPause), time.NewTicker(stepsEvery)
	defer look.Stop()
	defer ask.Stop()
	for {
		select {
		case <-terms:
			asked = true
		case <-look.C:
			ended := 0
			code = 0
			for _, i := range rows(p, o) {
				n := records.Heard(p.folder, i)
				if n.Outcome != nil || n.Up == nil {
					ended++
				}
				if n.Outcome != nil {
					code = max(code, n.Outcome.Code)
				}
			}
			if ended == o.Agents {
				return code, asked
			}
		case <-ask.C:
			if !hasSteps(p) {
				return max(code, 1), asked
			}
		}
	}
}

// hasSteps asks whether Slurm still has a step of this job beside its script. Without an answer of
// Slurm it returns true.
func hasSteps(p place) bool {
	out, err := commands.Run(context.Background(), "", commands.Patience, os.Environ(), "squeue", "--noheader", "--steps", "--jobs="+records.Itoa(p.job), "--format=%i")
	if err != nil {
		return true
	}
	for line := range bytes.Lines([]byte(out)) {
		_, step, _ := strings.Cut(strings.TrimSpace(string(line)), ".")
		if _, err := strconv.Atoi(step); err == nil {
			return true
		}
	}
	return false
}

// exitStatus is srun's own, once it has ended.
func exitStatus(c *exec.Cmd) int {
	if c.ProcessState == nil {
		release(c.Process.Pid)
		return fault.ExitDrover
	}
	return max(c.ProcessState.ExitCode(), 1)
}
