package local

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

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/beside"
)

// request is the file of that name: what List and Status cannot learn from the
// agents.
type request struct {
	Agents  int       `json:"agents"`
	Machine string    `json:"machine"` // machineID: whose locks and pids these are
	Host    string    `json:"host"`    // for people
	Started time.Time `json:"started"`
	Binary  string    `json:"binary,omitempty"` // the agents' program
}

// Start makes the placement durable and then starts its processes, in
// milliseconds. An agent's environment is this process's and Boot.Env, its
// standard input is Boot.Stdin, its folder is the placement's.
//
// A process that the machine will not start is a member that has ended, with the
// reason. If the starter dies in between, the rest is Lost: "never started".
func (d *Driver) Start(ctx context.Context, r driver.Request) (driver.Handle, error) {
	h, folder, err := beside.Begin(ctx, d.dir, Target, r)
	if err != nil {
		return driver.Handle{}, err
	}
	if beside.Exists(folder) {
		return h, d.durable()
	}
	if err := beside.Runnable(r.Run.Binary); err != nil {
		return driver.Handle{}, err
	}
	locks, err := d.publish(folder, r)
	if errors.Is(err, fs.ErrExist) {
		return h, d.durable() // somebody was quicker
	}
	if err != nil {
		return driver.Handle{}, d.refused("start agents", err)
	}
	for i, lock := range locks {
		if err := spawnAgent(r, folder, i, lock); err != nil {
			beside.Say(lock, note{End: &end{Code: -1, Reason: "its agent never started: " + err.Error()}})
		}
		lock.Close() // the agent has it now
	}
	return h, nil
}

// durable is what a Start that found the placement owes its caller: its maker
// may not have come so far.
func (d *Driver) durable() error {
	return d.refused("start agents", beside.SyncFolder(d.dir))
}

// publish makes the placement's folder with every agent's lock taken by us. So nobody
// ever finds an agent's file that is not locked and not at its end. fs.ErrExist says
// that another starter was quicker.
func (d *Driver) publish(folder string, r driver.Request) (locks []*os.File, err error) {
	host, _ := os.Hostname() // empty where the machine has no name
	facts := request{Agents: r.Agents, Machine: d.machine, Host: host, Started: time.Now().UTC(), Binary: r.Run.Binary}
	err = beside.Publish(folder, facts, func(folder string) error {
		for i := range r.Agents {
			f, err := os.OpenFile(agentFile(folder, i), os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			locks = append(locks, f)
			if err := beside.Flock(f, unix.LOCK_EX); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		return locks, nil
	}
	for _, l := range locks {
		// If it has its name, to withdraw that would race with whoever has seen it:
		// the agents stay unstarted, which Status tells.
		beside.Say(l, note{End: &end{Code: -1, Reason: "its agent never started: " + err.Error()}})
		l.Close()
	}
	return nil, err
}

// inherited is the variable that tells an agent its file, less the ".agent"; the
// locked file itself is descriptor lockFD.
const (
	inherited = "DROVER_LOCAL_AGENT"
	lockFD    = 3 // the first of exec.Cmd's ExtraFiles
)

// spawnAgent starts agent number i in a session of its own, so that neither
// Ctrl-C nor a closed terminal reaches it.
func spawnAgent(r driver.Request, folder string, i int, lock *os.File) error {
	log, err := os.OpenFile(logFile(folder, i), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// Not the lock: opened anew, it holds none.
	fate, err := os.OpenFile(agentFile(folder, i), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{
		Path:        r.Run.Binary,
		Args:        r.Run.Argv(r.Placement, i),
		Env:         append(append(os.Environ(), r.Run.Env...), inherited+"="+filepath.Join(folder, strconv.Itoa(i))),
		Dir:         folder,
		Stdout:      log,
		Stderr:      log,
		ExtraFiles:  []*os.File{lock},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if r.Run.Stdin != nil {
		cmd.Stdin = r.Run.Stdin
	}
	if err := cmd.Start(); err != nil {
		fate.Close()
		return err
	}
	// While we live the agent is our child, and a zombie would look alive to
	// whoever asks for its pid. Nobody waits for this goroutine: it waits itself,
	// for a process that outlives us, and all it leaves is a word why that ended.
	go func() {
		defer fate.Close()
		cmd.Wait()
		beside.Say(fate, note{Fate: cmd.ProcessState.String()})
	}()
	return nil
}
