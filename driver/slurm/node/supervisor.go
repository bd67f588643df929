package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/slurm/commands"
	"github.com/drover-run/drover/driver/slurm/records"
	"github.com/drover-run/drover/fault"
)

// place is a task that Slurm has started, as Slurm describes it.
type place struct {
	folder  string
	slurm   int // the array's job id, or the job's
	task    int // its number in the array, or in a job on several nodes
	job     int // its own id
	restart int
	node    string
	array   bool
	step    bool
}

// FindPlace reads from Slurm's variables which task this process is.
func FindPlace(dir string, get func(string) string) (p place, err error) {
	p = place{folder: dir, node: get("SLURMD_NODENAME"), step: get(envStep) != ""}
	if p.job, err = strconv.Atoi(get("SLURM_JOB_ID")); err != nil {
		return p, fault.New(fault.Invalid, "Unset "+EnvFolder+".", "supervise agent: SLURM_JOB_ID=%q is not a job id", get("SLURM_JOB_ID"))
	}
	p.slurm = p.job
	p.restart, _ = strconv.Atoi(get("SLURM_RESTART_COUNT")) // not set in the first run
	if id, err := strconv.Atoi(get("SLURM_ARRAY_JOB_ID")); err == nil {
		p.slurm, p.array = id, true
		p.task, _ = strconv.Atoi(get("SLURM_ARRAY_TASK_ID"))
	}
	if p.step {
		p.task, _ = strconv.Atoi(get("SLURM_PROCID"))
	}
	return p, nil
}

// slurmTaskID is the task as Slurm's commands want it.
func (p place) slurmTaskID() string {
	if p.array {
		return records.Itoa(p.slurm) + "_" + records.Itoa(p.task)
	}
	return records.Itoa(p.job)
}

// attend is the process that Slurm has started. It returns the exit status.
func attend(dir string) int {
	terms := make(chan os.Signal, 4)
	signal.Notify(terms, unix.SIGTERM, unix.SIGINT, unix.SIGUSR1, unix.SIGUSR2)
	p, err := FindPlace(dir, os.Getenv)
	var o records.Orders
	if err == nil {
		err = folder.ReadJSON(records.OrdersFile(dir), &o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "drover:", err)
		return fault.ExitDrover
	}
	if o.Gang && !p.step {
		return lead(p, o, terms)
	}
	from, _ := strconv.Atoi(os.Getenv(EnvFrom))
	i, err := number(p, o.Agents, from+p.task)
	if err != nil {
		fmt.Fprintln(os.Stderr, "drover: supervise agent:", err)
		return fault.ExitDrover
	}
	if i < 0 {
		fmt.Fprintln(os.Stderr, "drover: another job of Slurm's has this agent: this one was submitted twice")
		return 0
	}
	m := &supervisor{place: p, orders: o, index: i, terms: terms}
	return m.superviseAgent()
}

// number takes the number of an agent in base's place, which only one of Slurm's jobs can: -1 when
// another job has it. A task that Slurm starts again gets another number.
func number(p place, agents, base int) (int, error) {
	of, err := records.Again(p.folder, agents)
	if err != nil {
		return 0, err
	}
	for i := records.Newest(of, agents, base); ; {
		err := folder.CreateJSON(records.ClaimFile(p.folder, i), p.slurm)
		if err == nil {
			return i, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return 0, err
		}
		var who int
		if err := folder.ReadJSON(records.ClaimFile(p.folder, i), &who); err != nil {
			return 0, err
		}
		if who != p.slurm {
			return -1, nil
		}
		if i, err = records.Succeed(p.folder, agents, base, i); err != nil {
			return 0, err
		}
	}
}

// minder supervises one agent.
type supervisor struct {
	place
	orders records.Orders
	index  int
	terms  <-chan os.Signal

	agent   int           // its pid
	stopped bool          // a Stop has asked it to stop
	told    bool          // it was told to stop
	slurm   bool          // Slurm has told it to stop
	margin  time.Duration // before the time limit; 0: not known yet
	until   time.Time     // when it is killed; zero: it has as long as Slurm gives it
}

// wordEvery is how often a supervisor reads the stop file: the signal of a Stop may be lost.
const wordEvery = 2 * time.Second

// superviseAgent starts the agent and waits until it has ended.
func (m *supervisor) superviseAgent() int {
	if _, asked := records.Word(m.folder); asked {
		records.Say(m.folder, m.index, records.Note{End: &records.End{Code: -1, Reason: "stopped before it began"}})
		return 0
	}
	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, unix.SIGCHLD)
	var err error
	if m.agent, err = m.startAgent(); err != nil {
		records.Say(m.folder, m.index, records.Note{End: &records.End{Code: -1, Reason: "its agent never started: " + err.Error()}})
		return fault.ExitDrover
	}
	host, _ := os.Hostname()
	records.Say(m.folder, m.index, records.Note{Up: &records.Up{Slurm: m.place.slurm, Job: m.job, Restart: m.restart, Node: m.node, Host: host, PID: m.agent}})
	words := time.NewTicker(wordEvery)
	defer words.Stop()
	limit := time.NewTimer(0)
	defer limit.Stop()
	m.applyStop()
	for {
		var over <-chan time.Time
		if !m.until.IsZero() {
			over = time.After(time.Until(m.until))
		}
		select {
		case s := <-m.terms:
			if !m.applyStop() {
				m.signalled(s)
			}
		case <-words.C:
			m.applyStop()
		case <-limit.C:
			if left := m.nearLimit(); left > 0 {
				limit.Reset(left)
			}
		case <-over:
			unix.Kill(-m.agent, unix.SIGKILL)
			unix.Kill(m.agent, unix.SIGKILL)
			m.until = time.Now().Add(time.Second)
		case <-deaths:
			if status, gone := folder.Reap(m.agent); gone {
				m.overtaken(status)
				return m.recordEnd(status)
			}
		}
	}
}

// applyStop does what a Stop asks for, if there is one. Of two ends the sooner counts.
func (m *supervisor) applyStop() bool {
	grace, ok := records.Word(m.folder)
	if !ok {
		return false
	}
	m.stopped = true
	if at := time.Now().Add(grace); m.until.IsZero() || at.Before(m.until) {
		m.until = at
	}
	if grace > 0 {
		m.signalAgent(Notice{Asked: true, Why: driver.AskedToStop})
	}
	return true
}

// signalled handles a signal that no Stop explains.
func (m *supervisor) signalled(s os.Signal) {
	if m.told {
		return
	}
	if s == unix.SIGUSR1 || s == unix.SIGUSR2 { // --signal=B:USR1
		m.signalAgent(Notice{Why: "Slurm has sent " + unix.SignalName(s.(syscall.Signal)) + ": its time limit is near"})
		return
	}
	n, _ := m.findStopCause()
	m.recordSlurmStop(n)
	m.signalAgent(n)
}

// recordSlurmStop notes that Slurm ends the agent. It writes the note before it signals the agent,
// as the state of an agent that has ended is taken from the notes that exist then.
func (m *supervisor) recordSlurmStop(n Notice) {
	m.slurm = true
	records.Say(m.folder, m.index, records.Note{Asked: n.Asked, Taken: !n.Asked, Why: n.Why})
}

// overtaken is for an agent that has ended before its supervisor signalled it: Slurm signals all
// processes of a task, in no order, and the agent may have been faster.
func (m *supervisor) overtaken(status unix.WaitStatus) {
	if m.told || m.stopped || folder.ShellStatus(status) != fault.ExitLater {
		return
	}
	if n, known := m.findStopCause(); known {
		m.recordSlurmStop(n)
	}
}

// signalAgent tells the agent to stop, once; the reason is written before the signal.
func (m *supervisor) signalAgent(n Notice) {
	if m.told {
		return
	}
	m.told = true
	if text, err := json.Marshal(n); err == nil {
		folder.Replace(records.NoticeFile(m.folder, m.index), text) // without it the agent takes it for an interruption
	}
	unix.Kill(m.agent, unix.SIGTERM)
}

// nearLimit tells the agent to stop when its time is nearly over, and else says when to look again.
// A limit may be changed while a job runs, so it is read each time.
func (m *supervisor) nearLimit() (again time.Duration) {
	if m.told {
		return 0
	}
	left, ok := timeLeft(context.Background(), m.slurmTaskID())
	if ok && m.margin == 0 {
		m.margin = max(min(mostMargin, left/5), time.Second)
	}
	switch {
	case !ok:
		return 10 * time.Minute
	case left <= m.margin:
		m.signalAgent(Notice{Why: "the time limit of its Slurm job is near"})
		return 0
	}
	return min(left-m.margin, time.Hour)
}

// mostMargin is how long before Slurm's time limit an agent is told to stop: enough to store a
// large checkpoint. For a short limit it is a fifth of that.
const mostMargin = 2 * time.Minute

// recordEnd notes how the agent ended, and returns the status for Slurm. If the agent left work
// behind, it asks Slurm to start the task again.
func (m *supervisor) recordEnd(status unix.WaitStatus) int {
	fate := records.End{Code: folder.ShellStatus(status), Reason: folder.Outcome(status)}
	records.Say(m.folder, m.index, records.Note{Outcome: &fate, Stopped: m.stopped})
	if fate.Code == fault.ExitLater && !m.slurm && !m.stopped && !m.step {
		requeue(m.slurmTaskID(), m.restart)
	}
	return fate.Code
}

// mostRestarts is how often the agent in one place is replaced without a command: as often as a job
// may be interrupted.
const mostRestarts = 20

// requeue makes Slurm start a job again. If Slurm refuses, the user has to resume.
func requeue(name string, restarts int) {
	if restarts >= mostRestarts {
		return
	}
	_, err := commands.Run(context.Background(), "", commands.Patience, os.Environ(), "scontrol", "requeue", name)
	if err != nil {
		fmt.Fprintln(os.Stderr, "drover: have Slurm start it again:", err)
	}
}

// startAgent starts this program again, as the agent.
func (m *supervisor) startAgent() (pid int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	argv := m.orders.BootFields().Argv(m.orders.Placement, m.index)
	return folder.Spawn(self, argv, m.agentEnviron(os.Environ()), records.LogFile(m.folder, m.index))
}

// agentEnviron is the agent's environment: the variables that Slurm has set for this task, and over
// them those from the submitting machine.
func (m *supervisor) agentEnviron(slurms []string) (env []string) {
	own := map[string]bool{EnvIndex: true}
	for _, kv := range m.orders.Env {
		name, _, _ := strings.Cut(kv, "=")
		own[name] = true
	}
	for _, kv := range slurms {
		if name, _, _ := strings.Cut(kv, "="); !own[name] {
			env = append(env, kv)
		}
	}
	return append(append(env, m.orders.Env...), EnvIndex+"="+records.Itoa(m.index))
}
