package slurm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/slurm/commands"
	"github.com/drover-run/drover/driver/slurm/records"
	"github.com/drover-run/drover/fault"
)

// look is an answer of Status that may be used again.
type look struct {
	at      time.Time
	members []driver.Member
	ended   map[int]records.Note // agents that have noted their end: it does not change
	asked   time.Time            // when Slurm was asked
	rows    []commands.Row
}

// How long an answer may be used: a command line that waits asks four times a second, and a
// cluster's controller and file server have other users. To look at more agents takes longer.
func goodFor(agents int) (notes, slurm time.Duration) {
	return 500*time.Millisecond + time.Duration(agents)*2*time.Millisecond, 3*time.Second + time.Duration(agents)*10*time.Millisecond
}

// forgetStatus makes the next Status look again.
func (d *Driver) forgetStatus(h driver.Handle) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.seen, h)
}

// Status reads the notes of agents, and asks Slurm about agents without a note of their end. An
// answer may be some seconds old. While Slurm does not answer, its last answer about an agent counts.
func (d *Driver) Status(ctx context.Context, h driver.Handle) ([]driver.Member, error) {
	dir, ok := d.placementFolder(h)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !ok {
		return nil, nil
	}
	facts, err := records.ReadRequest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, d.wrapFileError("look at agents", err)
	}
	d.mu.Lock()
	was := d.seen[h]
	d.mu.Unlock()
	notes, _ := goodFor(facts.Agents)
	if was != nil && time.Since(was.at) < notes {
		return was.members, nil
	}
	s, err := d.readPlacement(ctx, h, dir, facts, was)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, d.wrapFileError("look at agents", err)
	}
	if folder.Exists(folder.RemoveFile(dir)) && !folder.AnyAlive(s.members) {
		if gone, err := d.sweepPlacement(ctx, h, dir); gone || err != nil {
			return nil, d.wrapFileError("look at agents", err)
		}
	}
	if !folder.Exists(dir) {
		return nil, nil // removed meanwhile
	}
	d.mu.Lock()
	d.seen[h] = s
	d.mu.Unlock()
	return s.members, nil
}

// view is what is known of one placement.
type view struct {
	handle  driver.Handle
	folder  string
	binary  string // what its agents are; "": not laid out yet
	facts   records.Request
	of      []int // see again
	notes   []records.Note
	rows    map[int]commands.Row // by the number that an agent had at first
	silent  error                // Slurm did not answer
	jobs    []records.Submitted  // by array; nil for those that are not submitted
	asked   bool                 // all were told to stop
	askedAt time.Time
	busy    bool // a command submits
}

// readPlacement looks at a placement.
func (d *Driver) readPlacement(ctx context.Context, h driver.Handle, dir string, facts records.Request, was *look) (*look, error) {
	busy := folder.IsHeld(dir)
	v := &view{handle: h, folder: dir, facts: facts, rows: map[int]commands.Row{}, busy: busy}
	var o records.Orders
	if err := folder.ReadJSON(records.OrdersFile(dir), &o); err == nil { // else there is no agent to run beside
		v.binary = o.Binary
	}
	s := &look{at: time.Now(), ended: map[int]records.Note{}}
	if was != nil {
		s.ended, s.asked, s.rows = was.ended, was.asked, was.rows
	}
	_, v.asked = folder.ReadWord(records.StopFile(dir))
	if info, err := os.Stat(records.StopFile(dir)); err == nil {
		v.askedAt = info.ModTime().Truncate(time.Second) // as Slurm counts
	}
	var err error
	if v.of, err = records.Again(dir, facts.Agents); err != nil {
		return nil, err
	}
	open := false
	for i := range facts.Agents + len(v.of) {
		n, known := s.ended[i]
		if !known {
			if n = records.Heard(dir, i); n.Outcome != nil {
				s.ended[i] = n
			}
		}
		v.notes = append(v.notes, n)
		open = open || n.Outcome == nil || returns(n)
	}
	if v.jobs, err = readJobs(dir, facts); err != nil {
		return nil, err
	}
	if open {
		if err := d.querySlurm(ctx, v, s); err != nil {
			return nil, err
		}
	}
	for i := range v.notes {
		s.members = append(s.members, v.agentMember(i))
	}
	return s, nil
}

// readJobs reads what sbatch has answered so far.
func readJobs(dir string, facts records.Request) (jobs []records.Submitted, err error) {
	for k := range facts.Arrays {
		var s records.Submitted
		if err := folder.ReadJSON(records.JobFile(dir, k), &s); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		jobs = append(jobs, s)
	}
	return jobs, nil
}

// querySlurm asks Slurm, unless it was asked lately, and gives agents that it starts again
// their new numbers.
func (d *Driver) querySlurm(ctx context.Context, v *view, s *look) error {
	var ids []string
	for _, j := range v.jobs {
		if j.ID > 0 {
			ids = append(ids, records.Itoa(j.ID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, fresh := goodFor(v.facts.Agents)
	now := time.Since(s.asked) >= fresh
	if now {
		all, err := d.queryJobs(ctx, "--jobs", ids...)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			v.silent = err
		default:
			s.asked, s.rows = time.Now(), all
			if lost := missing(v, all); lost {
				s.rows = append(d.accounted(ctx, ids...), all...)
			}
		}
	}
	v.assignTasks(s.rows)
	if !now || v.silent != nil {
		return nil // a row from before the agent came up is not about it
	}
	v.hearAgain()
	for base := range v.facts.Agents {
		i := records.Newest(v.of, v.facts.Agents, base)
		r, ok := v.rows[base]
		if !ok || v.notes[i].Up == nil || !commands.Waits(r.State) && !(returns(v.notes[i]) && commands.Runs(r.State)) {
			continue
		}
		if _, err := records.Succeed(v.folder, v.facts.Agents, base, i); err != nil {
			return err
		}
	}
	of, err := records.Again(v.folder, v.facts.Agents)
	for i := len(v.notes); err == nil && i < v.facts.Agents+len(of); i++ {
		v.notes = append(v.notes, records.Heard(v.folder, i))
	}
	v.of = of
	return err
}

// hearAgain reads the notes of those agents again that are not alive according to Slurm: they may
// have ended between the two reads.
func (v *view) hearAgain() {
	for base := range v.facts.Agents {
		i := records.Newest(v.of, v.facts.Agents, base)
		r, ok := v.rows[base]
		if n := v.notes[i]; n.Outcome == nil && (!ok || !commands.Runs(r.State) && !commands.Waits(r.State)) {
			v.notes[i] = records.Heard(v.folder, i)
		}
	}
}

// returns says whether an agent has ended in a way after which Slurm starts its task again.
func returns(n records.Note) bool {
	return n.Outcome != nil && !n.Stopped && !n.Asked && (n.Taken || n.Outcome.Code == fault.ExitLater)
}

// missing says whether an agent that has noted no end is in a job that Slurm does not
// list any more.
func missing(v *view, all []commands.Row) bool {
	listed := map[[2]int]bool{}
	for _, r := range all {
		listed[[2]int{r.Slurm, max(r.Task, 0)}] = true
	}
	for k, j := range v.jobs {
		for t := range v.facts.Arrays[k] {
			task := t
			if v.facts.Gang {
				task = 0
			}
			i := records.Newest(v.of, v.facts.Agents, v.facts.FirstAgentOf(k)+t)
			if j.ID > 0 && v.notes[i].Outcome == nil && v.notes[i].End == nil && !listed[[2]int{j.ID, task}] {
				return true
			}
		}
	}
	return false
}

// assignTasks gives each agent the task that it is in.
func (v *view) assignTasks(all []commands.Row) {
	for k, j := range v.jobs {
		if j.ID == 0 {
			continue
		}
		for _, r := range all {
			switch {
			case r.Slurm != j.ID:
			case v.facts.Gang:
				for i := range v.facts.Agents {
					v.rows[i] = r
				}
			case r.Task < 0 && v.facts.Arrays[k] > 1: // sacct knows of no array yet when a task has just begun
			case max(r.Task, 0) < v.facts.Arrays[k]:
				v.rows[v.facts.FirstAgentOf(k)+max(r.Task, 0)] = r
			}
		}
	}
}

// arrayOfAgent is the array that an agent is in.
func (v *view) arrayOfAgent(base int) (k int) {
	for k = range v.facts.Arrays {
		if base < v.facts.FirstAgentOf(k)+v.facts.Arrays[k] {
			return k
		}
	}
	return k
}

// agentMember is the member for one agent.
func (v *view) agentMember(i int) driver.Member {
	base := i
	if i >= v.facts.Agents {
		base = v.of[i-v.facts.Agents]
	}
	m := driver.Member{Index: i, Code: -1}
	n := v.notes[i]
	r, listed := v.rows[base]
	if records.Newest(v.of, v.facts.Agents, base) != i {
		listed = false // Slurm's row is about another agent
		m = judgeFormer(m, n)
	} else {
		m = v.judgeAgent(m, base, n, r, listed)
	}
	k := v.arrayOfAgent(base)
	v.whereabouts(&m, n, r, listed)
	if m.State == driver.Lost || m.State == driver.Ended && m.Code != 0 {
		m.Tail = folder.Tail(records.LogFile(v.folder, i))
		if id := v.jobs[k].ID; m.Tail == "" && n.Up == nil && id > 0 {
			m.Tail = v.slurmsWords(id, base-v.facts.FirstAgentOf(k))
		}
	}
	return m
}

// slurmsWords is the end of Slurm's own output for a task.
func (v *view) slurmsWords(id, task int) string {
	if !v.facts.Gang {
		return folder.Tail(records.OutFile(v.folder, id, task))
	}
	var all strings.Builder
	for _, name := range []string{"batch", "srun", records.Itoa(task)} {
		all.WriteString(folder.Tail(filepath.Join(v.folder, "out-"+records.Itoa(id)+"-"+name)))
	}
	return all.String()
}

// whereabouts fills in the machine, and the command that opens a shell there.
func (v *view) whereabouts(m *driver.Member, n records.Note, r commands.Row, listed bool) {
	if n.Up != nil {
		m.Where = n.Up.Node
		if host, err := os.Hostname(); err == nil && host == n.Up.Host {
			m.PID = n.Up.PID
		}
		if m.State == driver.Running && v.binary != "" {
			m.Enter = []string{"srun", "--jobid=" + records.Itoa(n.Up.Job), "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=" + n.Up.Node}
			if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) {
				m.Enter = append(m.Enter, "--pty")
			}
			m.Enter = append(m.Enter, v.handle.Enter(v.binary, m.Index)...)
		}
	} else if listed && r.Nodes != "" {
		m.Where = r.Nodes
	}
}

// judgeFormer is for an agent that another one has replaced: Slurm has started its task again.
func judgeFormer(m driver.Member, n records.Note) driver.Member {
	switch {
	case n.End != nil && n.Outcome != nil && !n.Taken:
		m.State, m.Code, m.Reason = driver.Ended, n.Outcome.Code, n.End.Reason
	default:
		m.State, m.Reason = driver.Taken, "Slurm took its machine, and starts it again"
		if n.Why != "" {
			m.Reason = n.Why
		}
		if n.Outcome != nil {
			m.Code = n.Outcome.Code
		}
	}
	return m
}

// judgeAgent gives the state of an agent: from its notes, its supervisor's, and what Slurm says.
func (v *view) judgeAgent(m driver.Member, base int, n records.Note, r commands.Row, listed bool) driver.Member {
	switch {
	case n.End != nil && n.Taken && n.Outcome != nil:
		m.State, m.Code, m.Reason = driver.Taken, n.End.Code, n.Why // it ended in good order because it had to
		return m
	case n.End != nil && (n.Outcome != nil || n.Up == nil):
		m.State, m.Code, m.Reason = driver.Ended, n.End.Code, n.End.Reason
		return m
	case n.Outcome != nil:
		return judgeSilent(m, n)
	case n.Up == nil:
		return v.judgeUnborn(m, base, r, listed)
	case !listed && v.silent != nil, listed && (commands.Runs(r.State) || commands.Waits(r.State)):
		m.State = driver.Running
		if v.silent != nil {
			m.Reason = "Slurm does not answer: " + v.silent.Error()
		} else if r.State == "SUSPENDED" || r.State == "STOPPED" {
			m.Reason = "Slurm has suspended it"
		}
		return m
	case v.asked && (r.End.IsZero() || !r.End.Before(v.askedAt)):
		m.State, m.Reason = driver.Ended, "stopped"
		return m
	}
	return judgeGone(m, n, r, listed)
}

// judgeSilent is for an agent that ended without a note of its own, while its supervisor watched.
func judgeSilent(m driver.Member, n records.Note) driver.Member {
	m.Reason = n.Outcome.Reason
	switch {
	case n.Stopped || n.Asked:
		m.State, m.Reason = driver.Ended, "stopped: "+n.Outcome.Reason
		if n.Asked {
			m.Reason = n.Why + ": " + n.Outcome.Reason
		}
	case n.Taken:
		m.State, m.Reason = driver.Taken, n.Why
	case n.Outcome.Code < 128:
		m.State, m.Code = driver.Ended, n.Outcome.Code
	default:
		m.State, m.Reason = driver.Lost, "it died without reporting why, or was killed: "+n.Outcome.Reason
	}
	return m
}

// judgeGone is for an agent that was up: its supervisor has written no further note, and Slurm has
// ended its task.
func judgeGone(m driver.Member, n records.Note, r commands.Row, listed bool) driver.Member {
	switch {
	case !listed:
		m.State, m.Reason = driver.Lost, "it died without reporting why, and Slurm no longer knows its job"
	case tookAway(r.State):
		m.State, m.Reason = driver.Taken, "Slurm calls it "+r.State
		if r.State == "TIMEOUT" {
			m.Reason, m.Hint = "its Slurm job has reached its time limit", "Ask for more with --timeout; drover resume goes on."
		}
	case r.State == "CANCELLED":
		m.State, m.Reason = driver.Ended, "cancelled in Slurm, by hand"
	case r.State == "OUT_OF_MEMORY":
		m.State, m.Code, m.Reason = driver.Ended, 137, "Slurm ended it: it needed more memory than its limit"
		m.Hint = "Ask for more with --memory."
	default:
		m.State, m.Reason = driver.Lost, "it died without reporting why, or was killed: Slurm calls it "+r.State
	}
	if n.Why != "" {
		m.Reason = n.Why
		if n.Taken {
			m.State = driver.Taken
		} else if n.Asked {
			m.State = driver.Ended // its supervisor lived until it had noted that, and no longer
		}
	}
	return m
}

// judgeUnborn is for an agent that has not come up.
func (v *view) judgeUnborn(m driver.Member, base int, r commands.Row, listed bool) driver.Member {
	j := v.jobs[v.arrayOfAgent(base)]
	switch {
	case j.Refused != "":
		m.State, m.Reason, m.Hint = driver.Ended, "never started: Slurm says: "+j.Refused, j.Hint
		if j.Refused == "stopped" {
			m.Reason, m.Hint = "stopped", ""
		}
	case j.ID == 0 && !v.busy && v.asked:
		m.State, m.Reason = driver.Ended, "stopped"
	case j.ID == 0, v.silent != nil && !listed:
		m.State, m.Reason = driver.Waiting, "not submitted yet"
		if v.silent != nil {
			m.Reason = "Slurm does not answer: " + v.silent.Error()
		}
	case listed && commands.Waits(r.State):
		m.State = driver.Waiting
		m.Reason, m.Hint = why(r.Reason)
	case listed && commands.Runs(r.State):
		m.State, m.Reason = driver.Waiting, "its Slurm job begins"
	case v.asked:
		m.State, m.Reason = driver.Ended, "stopped"
	case !listed:
		m.State, m.Reason = driver.Lost, "its agent never started, and Slurm no longer knows its job"
	case r.State == "CANCELLED":
		m.State, m.Reason = driver.Ended, "cancelled in Slurm, before it began"
	case tookAway(r.State):
		m.State, m.Reason = driver.Taken, "its agent never started: Slurm calls it "+r.State
	case failedToLaunch(r, v.slurmsWords(j.ID, base-v.facts.FirstAgentOf(v.arrayOfAgent(base)))):
		m.State, m.Reason = driver.Taken, fmt.Sprintf("its agent never started: Slurm did not launch it on %s (%s)", r.Nodes, r.Reason)
	default:
		m.State, m.Reason = driver.Ended, fmt.Sprintf("its agent never started on %s: Slurm calls it %s (%s)", r.Nodes, r.State, r.Reason)
		m.Hint = "Do the nodes see " + filepath.Dir(v.folder) + "? srun ls " + filepath.Dir(v.folder) + " says; XDG_STATE_HOME names another folder."
	}
	return m
}

// launchTroubles are the causes with which Slurm's own daemons report a launch that
// failed on their side. Others, such as a script that is not there, are of the job, and
// would meet the next launch too.
var launchTroubles = []string{"Job credential revoked", "Job credential expired", "Communication connection failure", "Socket timed out", "Zero Bytes were transmitted or received"}

// failedToLaunch says whether Slurm itself failed to start a task that it had given a
// machine: the program has not begun, and another try may succeed, so it is an
// interruption. words is what Slurm wrote into the task's files: where srun could not
// launch a step, the script ends with an exit status, and squeue tells no more.
func failedToLaunch(r commands.Row, words string) bool {
	switch {
	case r.State == "LAUNCH_FAILED", r.Reason == "JobLaunchFailure", r.Reason == "NodeDown", r.Reason == "SystemFailure":
		return true
	}
	for line := range strings.Lines(words) {
		if !strings.Contains(line, "error: ") {
			continue
		}
		for _, why := range launchTroubles {
			if strings.Contains(line, why) {
				return true
			}
		}
	}
	return false
}

func tookAway(state string) bool {
	switch state {
	case "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "TIMEOUT", "DEADLINE", "REVOKED":
		return true
	}
	return false
}
