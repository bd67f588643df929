// Package shed is a driver outside of drover's own module: agents are processes of this
// machine, each below a supervisor that keeps its lock, its time and its last word.
//
// A placement is a folder. In it N.lock is locked while agent N's supervisor lives, N.notes is
// what both noted, N.stop the grace of a Stop, and N.log the agent's output.
package shed

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// Target is the shed as a place to run.
var Target = driver.Target{Name: "shed", Adopt: Adopt,
	New:   func(f driver.Config) driver.Driver { return New(f.State) },
	Setup: func(f driver.Config) driver.Setup { return &Setup{dir: filepath.Join(f.State, "setup")} },
	Properties: func(driver.Config) driver.Properties {
		return driver.Properties{Attached: true, InPlace: true, Shown: []string{"/"}}
	}}

// Driver runs agents in the shed.
type Driver struct{ dir string }

var _ driver.Driver = (*Driver)(nil)

// New is the driver whose placements are in dir.
func New(dir string) *Driver { return &Driver{dir: dir} }

type request struct {
	Agents int    `json:"agents"`
	Binary string `json:"binary"`
}

// note is a line of an agent's notes.
type note struct {
	Supervisor int    `json:"supervisor,omitempty"` // its pid
	Agent      int    `json:"agent,omitempty"`      // its pid, once it listens
	Ended      bool   `json:"ended,omitempty"`
	Code       int    `json:"code,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

func file(dir string, i int, kind string) string {
	return filepath.Join(dir, strconv.Itoa(i)+"."+kind)
}

// Offer fits what this machine has.
func (d *Driver) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	if ctx.Err() != nil {
		return driver.Offer{}, context.Cause(ctx)
	}
	whole := folder.Measure()
	o := driver.Offer{Machine: "the shed, on " + whole.String(), Cores: whole.Cores, Memory: whole.Memory}
	o.Reason = whole.Refusal("the shed", 0, n)
	if o.Reason == "" {
		o.Reason, o.Hint = n.MachineRefusal("the shed", whole.Attributes(ctx, d.dir, n.Where.Names()))
	}
	o.Fits = o.Reason == ""
	return o, nil
}

// Start makes the placement with every lock held, then its supervisors, which inherit them.
func (d *Driver) Start(ctx context.Context, r driver.Request) (driver.Handle, error) {
	h, dir, err := folder.Begin(ctx, d.dir, Target.Name, r)
	if err != nil || folder.Exists(dir) {
		return h, err
	}
	if err := folder.Runnable(r.Run.Binary); err != nil {
		return driver.Handle{}, err
	}
	var locks []*os.File
	err = folder.Publish(dir, request{r.Agents, r.Run.Binary}, func(dir string) error {
		for i := range r.Agents {
			f, err := os.OpenFile(file(dir, i, "lock"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			locks = append(locks, f)
			if err := folder.Flock(f, syscall.LOCK_EX); err != nil {
				return err
			}
		}
		return nil
	})
	for i, lock := range locks {
		if err == nil {
			if serr := supervise(r, dir, i, lock); serr != nil {
				folder.SayIn(file(dir, i, "notes"), note{Ended: true, Code: -1, Reason: serr.Error()})
			}
		}
		lock.Close()
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return h, folder.Refused(d.dir, "start agents", err)
}

// supervise starts the supervisor of agent number i.
func supervise(r driver.Request, dir string, i int, lock *os.File) error {
	c := exec.Command(r.Run.Binary)
	c.Args = r.Run.Argv(r.Placement, i)
	c.Env = append(append(os.Environ(), r.Run.Env...), variable+"="+dir, numberVariable+"="+strconv.Itoa(i))
	c.Dir, c.ExtraFiles, c.SysProcAttr = dir, []*os.File{lock}, &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	go c.Wait() // it outlives this process, or is reaped by it
	return nil
}

// Status looks at the supervisors' locks.
func (d *Driver) Status(ctx context.Context, h driver.Handle) ([]driver.Member, error) {
	dir, ok := folder.Folder(d.dir, Target.Name, h)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !ok {
		return nil, nil
	}
	if gone, err := d.sweep(dir); gone || err != nil {
		return nil, err
	}
	members, err := members(h, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return members, err
}

func members(h driver.Handle, dir string) ([]driver.Member, error) {
	var facts request
	if err := folder.ReadJSON(folder.RequestFile(dir), &facts); err != nil {
		return nil, err
	}
	all := make([]driver.Member, facts.Agents)
	for i := range all {
		f, err := os.Open(file(dir, i, "lock"))
		if err != nil {
			return nil, err
		}
		held := errors.Is(folder.Flock(f, syscall.LOCK_SH), folder.ErrHeld)
		f.Close()
		n := heard(dir, i)
		m := driver.Member{Index: i, Code: -1, Where: "the shed"}
		switch {
		case held && n.Agent == 0:
			m.State = driver.Waiting
		case held:
			m.State, m.PID, m.Enter = driver.Running, n.Agent, h.Enter(facts.Binary, i)
		case n.Ended:
			m.State, m.Code, m.Reason = driver.Ended, n.Code, n.Reason
		case folder.Exists(file(dir, i, "stop")):
			m.State, m.Reason = driver.Ended, "stopped"
		default:
			m.State, m.Reason = driver.Lost, "it died without reporting why"
		}
		if !m.State.Alive() && m.Code != 0 {
			m.Tail = folder.Tail(file(dir, i, "log"))
		}
		all[i] = m
	}
	return all, nil
}

func heard(dir string, i int) (all note) {
	for _, n := range folder.HearIn[note](file(dir, i, "notes")) {
		all.Supervisor, all.Agent = max(all.Supervisor, n.Supervisor), max(all.Agent, n.Agent)
		if n.Ended && !all.Ended {
			all.Ended, all.Code, all.Reason = true, n.Code, n.Reason
		}
	}
	return all
}

// Stop leaves the grace, and wakes the supervisors.
func (d *Driver) Stop(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
	dir, ok := folder.Folder(d.dir, Target.Name, h)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !ok {
		return nil
	}
	all, err := members(h, dir)
	if err == nil && remove {
		err = folder.Touch(folder.RemoveFile(dir))
	}
	for _, m := range all {
		if err == nil && m.State.Alive() {
			err = folder.LeaveWord(file(dir, m.Index, "stop"), grace)
			if pid := heard(dir, m.Index).Supervisor; pid > 0 {
				syscall.Kill(pid, syscall.SIGTERM) // it may have ended since
			}
		}
	}
	if err == nil {
		_, err = d.sweep(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return folder.Refused(d.dir, "stop agents", err)
}

func (d *Driver) sweep(dir string) (gone bool, err error) {
	return folder.Sweep(dir, folder.Hold, func() (bool, error) {
		all, err := members(driver.Handle{}, dir)
		return folder.AnyAlive(all), err
	}, func() error { return folder.TakeAway(dir) })
}

// List names the placements in the folder.
func (d *Driver) List(ctx context.Context) ([]driver.Handle, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return folder.List(d.dir, Target.Name, func(_ driver.Handle, dir string) (bool, error) { return d.sweep(dir) })
}

// refusedAdoption is of a process that has a variable of another one.
func refusedAdoption(err error) error {
	return fault.Wrap(err, fault.Invalid, "Unset "+variable+".", "adopt agent")
}
