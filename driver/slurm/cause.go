package slurm

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver/folder"
)

// findStopCause finds out why Slurm has sent SIGTERM; known is false if nothing says that Slurm has.
// Slurm writes the reason into the output of a task first; in a job on several nodes only into that
// of the first node, so the others ask Slurm. The first asks too if it finds no reason: when a
// preempted job's grace begins, its steps get a signal that looks like that of scancel.
func (m *minder) findStopCause() (n notice, known bool) {
	out := outFile(m.folder, m.place.slurm, m.task)
	said, heard := causeOf(folder.Tail(out))
	if heard && !(said.Asked && m.step) {
		return said, true
	}
	text, err := command(context.Background(), "", askPatience, os.Environ(), "scontrol", "show", "job", "-o", m.slurmTaskID())
	if err == nil {
		n, known = causeInRecord(text, m.restart)
	}
	switch {
	case known:
		return n, true
	case heard:
		return said, true
	}
	return notice{Why: unexplained}, false
}

const unexplained = "Slurm has sent SIGTERM"

// askPatience is for requests after a SIGTERM: Slurm kills after KillWait, 30 seconds by
// default.
const askPatience = 5 * time.Second

// causeOf reads the reason from a line such as
//
//	slurmstepd: error: *** JOB 6 ON n1 CANCELLED AT 2026-11-22T15:02:23 DUE TO TIME LIMIT ***
func causeOf(out string) (n notice, ok bool) {
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
		return notice{Asked: true, Why: "cancelled in Slurm, by hand"}, true
	case strings.HasPrefix(due, "TIME LIMIT"):
		return notice{Why: "its Slurm job has reached its time limit"}, true
	case strings.HasPrefix(due, "PREEMPTION"):
		return notice{Why: "preempted in Slurm for another job"}, true
	case strings.HasPrefix(due, "NODE FAILURE"):
		return notice{Why: "Slurm has taken a node down"}, true
	case strings.HasPrefix(due, "JOB REQUEUE"):
		return notice{Why: "its Slurm job was requeued"}, true
	}
	return notice{Why: "Slurm ended it, due to " + strings.ToLower(due)}, true
}

// causeInRecord reads the reason from the output of scontrol for a job.
func causeInRecord(text string, restart int) (n notice, known bool) {
	f := fields(text)
	restarts, _ := strconv.Atoi(f["Restarts"])
	state, reason := f["JobState"], f["Reason"]
	switch {
	case restarts > restart, state == "PENDING", strings.HasPrefix(state, "REQUEUE"):
		return notice{Why: "its Slurm job was requeued"}, true
	case state == "PREEMPTED", f["PreemptTime"] != "" && f["PreemptTime"] != "None":
		return notice{Why: "preempted in Slurm for another job"}, true
	case state == "TIMEOUT", reason == "TimeLimit":
		return notice{Why: "its Slurm job has reached its time limit"}, true
	case state == "NODE_FAIL", reason == "NodeDown":
		return notice{Why: "Slurm has taken a node down"}, true
	case state == "CANCELLED", state == "COMPLETING" && f["EndTime"] != "Unknown":
		return notice{Asked: true, Why: "cancelled in Slurm, by hand"}, true
	}
	return notice{Why: unexplained}, false
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
	out, err := command(ctx, "", patience, os.Environ(), "squeue", "--noheader", "--jobs="+name, "--format=%L")
	if err != nil {
		return 0, false
	}
	return parseTime(strings.TrimSpace(out))
}

// parseTime reads [D-]HH:MM:SS, MM:SS and shorter forms, as Slurm prints and accepts times. ok is
// false for anything else, such as UNLIMITED.
func parseTime(text string) (t time.Duration, ok bool) {
	days, rest, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, rest = "0", text
	}
	d, err := strconv.Atoi(days)
	if err != nil || d < 0 || d > 100_000 {
		return 0, false
	}
	parts := strings.Split(rest, ":")
	if len(parts) > 3 {
		return 0, false
	}
	unit := time.Minute // MM or MM:SS
	if hasDays || len(parts) == 3 {
		unit = time.Hour
	}
	t = time.Duration(d) * 24 * time.Hour
	for _, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 || n > 100_000_000 || fmt.Sprint(n) != strings.TrimLeft(p, "0") && n > 0 {
			return 0, false
		}
		t += time.Duration(n) * unit
		unit /= 60
	}
	return t, true
}
