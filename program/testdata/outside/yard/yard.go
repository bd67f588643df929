// Package yard is a target outside of drover's own module. Its machines see nothing of the
// submitting one, as those of a cloud: its placements are objects in the store (driver/remote),
// and its machines fetch their program from there.
//
// A machine is a process group here, with a folder: ENGINE/ID/I. In it are status (how it ended),
// log (its output), terminated (the engine has ended it), and the secrets and the credential.
package yard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// Name is the target's name.
const Name = "yard"

// system is that of its machines.
var system = runtime.GOOS + "/" + runtime.GOARCH

// Target is the yard as a place to run.
var Target = driver.Target{Name: Name, Adopt: Adopt,
	New: func(f driver.Config) driver.Driver { return New(f.State, f.Store, remote.Options{}) },
	Properties: func(driver.Config) driver.Properties {
		return driver.Properties{Apart: true, Identity: "the user of the yard"}
	}}

// Driver runs agents in the yard.
type Driver struct {
	*remote.Driver
	engine *engine
}

// New is the driver of the yard; its engine keeps its machines in dir.
func New(dir string, open driver.OpenStore, o remote.Options) *Driver {
	e := &engine{dir: dir}
	return &Driver{remote.New(Name, e, open, o), e}
}

// Offer fits what this machine has.
func (d *Driver) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	if ctx.Err() != nil {
		return driver.Offer{}, context.Cause(ctx)
	}
	whole := folder.Measure()
	o := driver.Offer{Machine: "the yard, on " + whole.String(), System: system, Cores: whole.Cores, Memory: whole.Memory}
	o.Reason = whole.Refusal("the yard", 0, n)
	if o.Reason == "" {
		o.Reason, o.Hint = n.MachineRefusal("the yard", whole.Attributes(ctx, "/", n.Where.Names()))
	}
	o.Fits = o.Reason == ""
	return o, nil
}

// The variables that tell a machine what it is.
const (
	variableID    = "YARD_ID"
	variableIndex = "YARD_INDEX"
	variableDir   = "YARD_MACHINE"
)

// Adopt makes this process an agent's supervisor, or the agent.
func Adopt(p driver.AgentProcess) (*driver.Allocation, error) {
	id, ok := os.LookupEnv(variableID)
	if !ok {
		return nil, nil
	}
	index, err := strconv.Atoi(os.Getenv(variableIndex))
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "Unset "+variableID+".", "adopt agent")
	}
	dir := os.Getenv(variableDir)
	m := remote.Machine{Claimant: remote.Claimant{ID: id, Index: index, Attempt: 1}, Look: 20 * time.Millisecond,
		Given: driver.Allocation{Name: "yard"}}
	if err := folder.ReadJSON(filepath.Join(dir, "secrets"), &m.Given.Secrets); err != nil {
		return nil, err
	}
	return remote.Adopt(Name, p, m)
}

// engine is the yard's control plane.
type engine struct {
	dir        string
	loseAnswer bool // the next Submit's
}

var _ remote.Engine = (*engine)(nil)

func (e *engine) machine(id string, i int) string {
	return filepath.Join(e.dir, id, strconv.Itoa(i))
}

// begin is what a machine does first: it fetches the program, and notes how that ended.
const begin = `trap : TERM
{ ( %s ) && %s; } >%s 2>&1
status=$?
echo $status >status.new && mv status.new status
`

// Submit starts a machine for each agent.
func (e *engine) Submit(ctx context.Context, s remote.Submission) ([]string, error) {
	script, err := s.FetchScript(ctx, system, filepath.Join(e.dir, "program", "drover"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return nil, fault.Wrap(err, fault.Denied, "", "make the yard")
	}
	dir, err := os.MkdirTemp(e.dir, fmt.Sprintf("%s-%d.", s.Handle.Job, s.Handle.Placement))
	if err != nil {
		return nil, fault.Wrap(err, fault.Denied, "", "make a submission")
	}
	id := filepath.Base(dir)
	for i := range s.Request.Agents {
		if err := e.start(s, id, i, script); err != nil {
			return nil, err
		}
	}
	if e.loseAnswer {
		e.loseAnswer = false
		return nil, errors.New("the answer was lost")
	}
	return []string{id}, nil
}

// start starts machine i of a submission.
func (e *engine) start(s remote.Submission, id string, i int, script string) error {
	dir := e.machine(id, i)
	secrets, err := json.Marshal(s.Secrets)
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "home"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "secrets"), secrets, 0o600)
	}
	if err != nil {
		return err
	}
	var words []string
	boot := s.Request.Run
	boot.Binary = filepath.Join(e.dir, "program", "drover")
	for _, w := range boot.Argv(s.Handle.Placement, i) {
		words = append(words, store.Quote(w))
	}
	c := exec.Command("/bin/sh", "-c", fmt.Sprintf(begin, script, strings.Join(words, " "), "log"))
	c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Setsid: true}
	c.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + filepath.Join(dir, "home"), "TMPDIR=" + dir, variableID + "=" + id, variableIndex + "=" + strconv.Itoa(i), variableDir + "=" + dir}, boot.Env...)
	if err := c.Start(); err != nil {
		return err
	}
	go c.Wait() // it outlives this process, or is reaped by it
	return os.WriteFile(filepath.Join(dir, "pid"), []byte(identity(c.Process.Pid)), 0o600)
}

// identity is a process's number and when it began; "" once it is gone.
func identity(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, ok := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if err != nil || !ok || len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fmt.Sprintf("%d %s", pid, fields[19])
}

// Find gives the submissions of a handle.
func (e *engine) Find(ctx context.Context, h driver.Handle) (ids []string, err error) {
	all, err := filepath.Glob(filepath.Join(e.dir, fmt.Sprintf("%s-%d.*", h.Job, h.Placement)))
	for _, dir := range all {
		ids = append(ids, filepath.Base(dir))
	}
	return ids, errors.Join(err, context.Cause(ctx))
}

// Processes gives the machines of submissions.
func (e *engine) Processes(ctx context.Context, _ driver.Handle, ids []string, _ remote.Known) (all []remote.Process, err error) {
	for _, id := range ids {
		for i := 0; folder.Exists(e.machine(id, i)); i++ {
			all = append(all, e.process(id, i))
		}
	}
	return all, context.Cause(ctx)
}

func (e *engine) process(id string, i int) remote.Process {
	dir := e.machine(id, i)
	p := remote.Process{Claimant: remote.Claimant{ID: id, Index: i, Attempt: 1}, State: driver.Running, Code: -1, Where: "the yard", Tail: folder.Tail(filepath.Join(dir, "log"))}
	alive := e.group(id, i) > 0
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	switch code, cerr := strconv.Atoi(strings.TrimSpace(string(status))); {
	case folder.Exists(filepath.Join(dir, "terminated")):
		p.State, p.Terminated = driver.Ended, true
	case err == nil && cerr == nil:
		p.State, p.Code, p.Reason = driver.Ended, code, fmt.Sprintf("exit status %d", code)
	case !alive:
		p.State, p.Reason = driver.Lost, "its machine is gone without a word"
	}
	return p
}

// group is a machine's process group; 0: it has ended.
func (e *engine) group(id string, i int) int {
	text, err := os.ReadFile(filepath.Join(e.machine(id, i), "pid"))
	if os.IsNotExist(err) { // it is being started
		return -1
	}
	number, _, _ := strings.Cut(string(text), " ")
	pid, err := strconv.Atoi(number)
	if err != nil || identity(pid) != string(text) {
		return 0
	}
	return pid
}

// signal sends a signal to a machine.
func (e *engine) signal(c remote.Claimant, s syscall.Signal) {
	if pid := e.group(c.ID, c.Index); pid > 0 {
		syscall.Kill(-pid, s)
	}
}

// Terminate ends machines at once.
func (e *engine) Terminate(ctx context.Context, _ driver.Handle, all []remote.Process) error {
	for _, p := range all {
		if !e.process(p.ID, p.Index).State.Alive() {
			continue
		}
		if err := os.WriteFile(filepath.Join(e.machine(p.ID, p.Index), "terminated"), nil, 0o600); err != nil {
			return err
		}
		e.signal(p.Claimant, syscall.SIGKILL)
	}
	return context.Cause(ctx)
}

// Remove removes the folders of submissions.
func (e *engine) Remove(ctx context.Context, h driver.Handle, _ []string) error {
	ids, err := e.Find(ctx, h)
	for _, id := range ids {
		err = errors.Join(err, os.RemoveAll(filepath.Join(e.dir, id)))
	}
	return err
}

// Held names what there is.
func (e *engine) Held(ctx context.Context) (all []driver.Handle, err error) {
	found, err := filepath.Glob(filepath.Join(e.dir, "*-*.*"))
	for _, dir := range found {
		name, _, _ := strings.Cut(filepath.Base(dir), ".")
		id, number, _ := strings.Cut(name, "-")
		if n, err := strconv.Atoi(number); err == nil {
			all = append(all, driver.Handle{Target: Name, Job: id, Placement: n})
		}
	}
	return all, errors.Join(err, context.Cause(ctx))
}
