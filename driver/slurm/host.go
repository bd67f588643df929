package slurm

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// The variables that tell a process which part it has. envFolder is the placement's;
// with envIndex it is an agent, with envStep it minds one of a job on several nodes,
// and else an array's task, or the whole of such a job. envFrom is the number of an
// array's first agent.
const (
	envFolder = "DROVER_SLURM_PLACEMENT"
	envFrom   = "DROVER_SLURM_FROM"
	envStep   = "DROVER_SLURM_STEP"
	envIndex  = "DROVER_SLURM_INDEX"
)

// Inside is what an agent that Slurm has started knows of its place.
type Inside struct {
	// CPUs, Memory (bytes) and GPUs are what Slurm has given it of its machine; 0: it
	// does not say.
	CPUs   int
	Memory int64
	GPUs   int
	Node   string // its machine, by Slurm's name
	Job    string // Slurm's own id of it, as people type it
	// Scratch is a folder for what it writes, on its machine's own disk.
	Scratch string
	// Secrets are values by variable; nil without any.
	Secrets map[string]string
	// Pass is the file with what it opens the store with, which a later Start renews;
	// "": it needs none.
	Pass string

	notice string
}

// Adopt makes this process the agent that this driver started it as. It is to be
// called before anything else is started, and after the agent has begun to listen
// for SIGTERM, which says that it has to go; Notice says why.
//
// As what Slurm itself has started it never returns: it takes its number, starts this
// program again below it, and minds it: it keeps the time of a Stop and of Slurm's
// limit, and ends as the agent did. In that agent it says what is known of the place;
// ended leaves the agent's exit status and a sentence why, and is called last: an
// agent that goes without it is lost.
//
// In a process that this driver did not start in is nil, and ended does nothing.
func Adopt() (in *Inside, ended func(code int, reason string), err error) {
	dir, ok := os.LookupEnv(envFolder)
	if !ok {
		return nil, func(int, string) {}, nil
	}
	text, agent := os.LookupEnv(envIndex)
	if !agent {
		os.Exit(attend(dir))
	}
	for _, name := range []string{envFolder, envFrom, envStep, envIndex} {
		os.Unsetenv(name) // an agent below us is not us
	}
	i, err := strconv.Atoi(text)
	if err != nil {
		return nil, nil, fault.New(fault.Invalid, "Unset "+envIndex+".", "adopt agent: %s=%q is not a number", envIndex, text)
	}
	in = allocation(os.Getenv)
	in.notice = noticeFile(dir, i)
	if folder.Exists(passFile(dir)) {
		in.Pass = passFile(dir)
	}
	if err := folder.ReadJSON(secretsFile(dir), &in.Secrets); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, fault.Wrap(err, fault.Bug, "", "adopt agent: read its secrets")
	}
	if folder.Exists(in.notice) {
		unix.Kill(os.Getpid(), unix.SIGTERM)
	}
	return in, func(code int, reason string) { say(dir, i, note{End: &end{Code: code, Reason: reason}}) }, nil
}

// allocation reads what Slurm has set for a task.
func allocation(get func(string) string) *Inside {
	number := func(names ...string) int {
		for _, name := range names {
			if n, err := strconv.Atoi(get(name)); err == nil && n > 0 {
				return n
			}
		}
		return 0
	}
	in := &Inside{CPUs: number("SLURM_CPUS_ON_NODE"), GPUs: number("SLURM_GPUS_ON_NODE"), Node: get("SLURMD_NODENAME"), Job: get("SLURM_JOB_ID")}
	if each := number("SLURM_CPUS_PER_TASK"); each > 0 {
		in.CPUs = each // a machine may give whole cores where less was asked for
	}
	if m := number("SLURM_MEM_PER_NODE"); m > 0 {
		in.Memory = int64(m) << 20
	} else if m := number("SLURM_MEM_PER_CPU"); m > 0 {
		in.Memory = int64(m) << 20 * int64(max(in.CPUs, 1))
	}
	if a := get("SLURM_ARRAY_JOB_ID"); a != "" {
		in.Job = a + "_" + get("SLURM_ARRAY_TASK_ID")
	}
	in.Scratch = Scratch(get)
	return in
}

// Scratch is a folder on this machine's own disk, by an environment's variables; "":
// there is none.
func Scratch(get func(string) string) string {
	for _, dir := range []string{get("SLURM_TMPDIR"), get("TMPDIR"), os.TempDir()} {
		if filepath.IsAbs(dir) && unix.Access(dir, unix.W_OK) == nil {
			return dir
		}
	}
	return ""
}

// noticePatience is how long an agent waits to be told why it has got SIGTERM. Slurm
// sends it to all processes at once, and the minder may have to ask Slurm first.
const noticePatience = askPatience + time.Second

// Notice says why this agent was told to go, once it has got SIGTERM: asked by a
// person, or by Slurm, which is an interruption.
func (in *Inside) Notice() (asked bool, why string) {
	look := time.NewTicker(noticePatience / 100)
	defer look.Stop()
	for range 100 {
		var n notice
		if folder.ReadJSON(in.notice, &n) == nil && n.Why != "" {
			return n.Asked, n.Why
		}
		if _, ok := word(filepath.Dir(in.notice)); ok {
			return true, askedToStop
		}
		<-look.C
	}
	return false, "Slurm has sent SIGTERM"
}

const askedToStop = "asked to stop"

// notice is the file of that name.
type notice struct {
	Asked bool   `json:"asked"`
	Why   string `json:"why"`
}
