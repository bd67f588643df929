package node

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/slurm/commands"
	"github.com/drover-run/drover/driver/slurm/records"
)

// findStopCause finds out why Slurm has sent SIGTERM; known is false if nothing says that Slurm has.
// Slurm writes the reason into the output of a task first; in a job on several nodes only into that
// of the first node, so the others ask Slurm. The first asks too if it finds no reason: when a
// preempted job's grace begins, its steps get a signal that looks like that of scancel.
func (m *supervisor) findStopCause() (n Notice, known bool) {
	out := records.OutFile(m.folder, m.place.slurm, m.task)
	said, heard := CauseOf(folder.Tail(out))
	if heard && !(said.Asked && m.step) {
		return said, true
	}
	text, err := commands.Run(context.Background(), "", askPatience, os.Environ(), "scontrol", "show", "job", "-o", m.slurmTaskID())
	if err == nil {
		n, known = CauseInRecord(text, m.restart)
	}
	switch {
	case known:
		return n, true
	case heard:
		return said, true
	}
	return Notice{Why: unexplained}, false
}

const unexplained = "Slurm has sent SIGTERM"

// askPatience is for requests after a SIGTERM: Slurm kills after KillWait, 30 seconds by
// default.
const askPatience = 5 * time.Second

// CauseOf reads the reason from a line such as
//
//	slurmstepd: error: *** JOB 6 ON n1 CANCELLED AT 2026-11-22T15:02:23 DUE TO TIME LIMIT ***
func CauseOf(out string) (n Notice, ok bool) {
	i := strings.LastIndex(out, " CANCELLED AT ")
	if i < 0 {
		return n, false
	}
	line, _, whole := strings.Cut(out[i:], " ***")
	if !whole {
		return n, false
	}
	_, due, _ := strings.Cut(line, " DUE TO ")
	switch {
	case due == "":
		return Notice{Asked: true, Why: "cancelled in Slurm, by hand"}, true
	case strings.HasPrefix(due, "TIME LIMIT"):
		return Notice{Why: "its Slurm job has reached its time limit"}, true
	case strings.HasPrefix(due, "PREEMPTION"):
		return Notice{Why: "preempted in Slurm for another job"}, true
	case strings.HasPrefix(due, "NODE FAILURE"):
		return Notice{Why: "Slurm has taken a node down"}, true
	case strings.HasPrefix(due, "JOB REQUEUE"):
		return Notice{Why: "its Slurm job was requeued"}, true
	}
	return Notice{Why: "Slurm ended it, due to " + strings.ToLower(due)}, true
}

// CauseInRecord reads the reason from the output of scontrol for a job.
func CauseInRecord(text string, restart int) (n Notice, known bool) {
	f := fields(text)
	restarts, _ := strconv.Atoi(f["Restarts"])
	state, reason := f["JobState"], f["Reason"]
	switch {
	case restarts > restart, state == "PENDING", strings.HasPrefix(state, "REQUEUE"):
		return Notice{Why: "its Slurm job was requeued"}, true
	case state == "PREEMPTED", f["PreemptTime"] != "" && f["PreemptTime"] != "None":
		return Notice{Why: "preempted in Slurm for another job"}, true
	case state == "TIMEOUT", reason == "TimeLimit":
		return Notice{Why: "its Slurm job has reached its time limit"}, true
	case state == "NODE_FAIL", reason == "NodeDown":
		return Notice{Why: "Slurm has taken a node down"}, true
	case state == "CANCELLED", state == "COMPLETING" && f["EndTime"] != "Unknown":
		return Notice{Asked: true, Why: "cancelled in Slurm, by hand"}, true
	}
	return Notice{Why: unexplained}, false
}

// fields reads a line of scontrol's: NAME=VALUE NAME=VALUE. A value with spaces ends at the first
// space; no value that is needed has any.
func fields(text string) map[string]string {
	all := map[string]string{}
	for _, word := range strings.Fields(text) {
		if name, value, ok := strings.Cut(word, "="); ok {
			if _, twice := all[name]; !twice {
				all[name] = value
			}
		}
	}
	return all
}

// timeLeft asks how long a job may still run; ok is false where Slurm does not say, or where there
// is no limit.
func timeLeft(ctx context.Context, name string) (left time.Duration, ok bool) {
	out, err := commands.Run(ctx, "", commands.Patience, os.Environ(), "squeue", "--noheader", "--jobs="+name, "--format=%L")
	if err != nil {
		return 0, false
	}
	return commands.ParseTime(strings.TrimSpace(out))
}
