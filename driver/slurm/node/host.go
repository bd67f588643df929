// Package node is what runs on a node of a Slurm cluster: the process that Slurm starts, which
// supervises an agent, keeps the time of a Stop and of Slurm's limit, and finds out why the agent has
// to go. Proved by the tests of package slurm, over a real cluster too.
package node

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/slurm/records"
	"github.com/drover-run/drover/fault"
)

// The variables that tell a process what it is. envFolder is the placement's folder; with envIndex
// the process is an agent, with envStep it supervises one agent of a job on several nodes, and
// else it is an array's task, or the whole of such a job. envFrom is the number of an array's
// first agent.
const (
	EnvFolder = "DROVER_SLURM_PLACEMENT"
	EnvFrom   = "DROVER_SLURM_FROM"
	envStep   = "DROVER_SLURM_STEP"
	EnvIndex  = "DROVER_SLURM_INDEX"
)

// Adopt makes this process the agent that this driver started it as.
//
// In a process that Slurm itself has started it never returns: the process takes its number, starts
// this program again below it, and supervises that: it keeps the time of a Stop and of Slurm's
// limit, and exits as the agent did. An agent that ends without its allocation's End is lost.
func Adopt(driver.AgentProcess) (*driver.Allocation, error) {
	dir, ok := os.LookupEnv(EnvFolder)
	if !ok {
		return nil, nil
	}
	text, agent := os.LookupEnv(EnvIndex)
	if !agent {
		os.Exit(attend(dir))
	}
	for _, name := range []string{EnvFolder, EnvFrom, envStep, EnvIndex} {
		os.Unsetenv(name) // an agent below this process must not take it for its own
	}
	i, err := strconv.Atoi(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "Unset "+EnvIndex+".", "adopt agent: %s=%q is not a number", EnvIndex, text)
	}
	a, file := allocation(os.Getenv), records.NoticeFile(dir, i)
	a.Notice = func() driver.Notice { return awaitNotice(file) }
	a.End = func(code int, reason string) {
		records.Say(dir, i, records.Note{End: &records.End{Code: code, Reason: reason}})
	}
	if folder.Exists(records.PassFile(dir)) {
		a.Credential = records.PassFile(dir)
	}
	if err := folder.ReadJSON(records.SecretsFile(dir), &a.Secrets); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fault.Wrap(err, fault.Bug, "", "adopt agent: read its secrets")
	}
	if folder.Exists(file) {
		unix.Kill(os.Getpid(), unix.SIGTERM)
	}
	return a, nil
}

// Beside says where agents on this machine work, for a process of their Slurm job.
func Beside() *driver.Allocation {
	return &driver.Allocation{Scratch: scratch(os.Getenv)}
}

// allocation reads the variables that Slurm has set for a task.
func allocation(get func(string) string) *driver.Allocation {
	number := func(names ...string) int {
		for _, name := range names {
			if n, err := strconv.Atoi(get(name)); err == nil && n > 0 {
				return n
			}
		}
		return 0
	}
	a := &driver.Allocation{Name: get("SLURMD_NODENAME"), Scratch: scratch(get), Signalled: true,
		Cores: number("SLURM_CPUS_ON_NODE"), GPUs: number("SLURM_GPUS_ON_NODE"), Shared: &driver.Sharing{}}
	if each := number("SLURM_CPUS_PER_TASK"); each > 0 {
		a.Cores = each // a machine may give whole cores where less was asked for
	}
	if m := number("SLURM_MEM_PER_NODE"); m > 0 {
		a.Memory = int64(m) << 20
	} else if m := number("SLURM_MEM_PER_CPU"); m > 0 {
		a.Memory = int64(m) << 20 * int64(max(a.Cores, 1))
	}
	return a
}

// scratch is a folder on this machine's own disk, by an environment's variables; "":
// there is none.
func scratch(get func(string) string) string {
	for _, dir := range []string{get("SLURM_TMPDIR"), get("TMPDIR"), os.TempDir()} {
		if filepath.IsAbs(dir) && unix.Access(dir, unix.W_OK) == nil {
			return dir
		}
	}
	return ""
}

// noticePatience is how long an agent waits for the reason of its SIGTERM. Slurm sends it
// to all processes at once, and the supervisor may have to ask Slurm first.
const noticePatience = askPatience + time.Second

// awaitNotice reads why an agent that has got SIGTERM must end: because a person has asked, or
// because Slurm takes the machine, which is an interruption.
func awaitNotice(file string) driver.Notice {
	look := time.NewTicker(noticePatience / 100)
	defer look.Stop()
	for range 100 {
		var n Notice
		if folder.ReadJSON(file, &n) == nil && n.Why != "" {
			return driver.Notice{Asked: n.Asked, Why: n.Why}
		}
		if _, ok := records.Word(filepath.Dir(file)); ok {
			return driver.Notice{Asked: true, Why: driver.AskedToStop}
		}
		<-look.C
	}
	return driver.Notice{Why: "Slurm has sent SIGTERM"}
}

// Notice is the content of the file of that name.
type Notice struct {
	Asked bool   `json:"asked"`
	Why   string `json:"why"`
}
