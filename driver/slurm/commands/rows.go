package commands

import (
	"strconv"
	"strings"
	"time"
)

// Row is one task as squeue shows it.
type Row struct {
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

// RowFields are the columns of squeue; a name may contain anything, so it comes last.
const RowFields = "ArrayJobID:|,ArrayTaskID:|,JobID:|,State:|,RestartCnt:|,Reason:|,NodeList:|,EndTime:|,Name:|"

// ParseRows reads the output of squeue. It ignores lines that are not about a task.
func ParseRows(out string) (rows []Row) {
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSuffix(strings.TrimSpace(line), "|"), "|", 9)
		if len(f) < 9 {
			continue
		}
		r := Row{Task: -1, State: f[3], Reason: f[5], Nodes: f[6], Name: f[8]}
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

// ParseAccounts reads the output of sacct. For a task that Slurm started several times the last line
// counts. A task that runs or waits according to sacct is left out: slurmctld does not know it any
// more, and accounting is late.
func ParseAccounts(out string) (rows []Row) {
	at := map[[2]int]int{} // in rows
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 5)
		if len(f) < 5 {
			continue
		}
		id, tasks, array := strings.Cut(f[0], "_")
		r := Row{Reason: "None", Nodes: f[3], Name: f[4]}
		var err error
		if r.Slurm, err = strconv.Atoi(id); err != nil {
			continue
		}
		r.State, _, _ = strings.Cut(f[1], " ") // CANCELLED by 1000
		if Runs(r.State) || Waits(r.State) {
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

// The states of a task, by their meaning for its agent. A task in any other state has ended.
func Waits(state string) bool {
	switch state {
	case "PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT":
		return true
	}
	return false
}

func Runs(state string) bool {
	switch state {
	case "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT":
		return true
	}
	return false
}
