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
	"github.com/drover-run/drover/driver/folder"
)

// request is the content of the file of that name: what List and Status cannot learn from the
// agents.
type request struct {
	Agents  int       `json:"agents"`
	Machine string    `json:"machine"` // machineID: the machine of these locks and pids
	Host    string    `json:"host"`    // for people
	Started time.Time `json:"started"`
	Binary  string    `json:"binary,omitempty"` // the agents' program
}

// Start makes the placement durable and then starts its processes, in
// milliseconds. An agent's environment is this process's and Boot.Env, its
// standard input is Boot.Stdin, its folder is the placement's.
//
// If the machine cannot start a process, that agent is a member that has ended, with the reason.
// If the starting process dies in between, the agents that are missing are Lost: "never started".
func (d *Driver) Start(ctx context.Context, r driver.Request) (driver.Handle, error) {
	h, dir, err := folder.Begin(ctx, d.dir, Name, r)
	if err != nil {
		return driver.Handle{}, err
	}
	if folder.Exists(dir) {
		return h, d.syncPlacements()
	}
	if err := folder.Runnable(r.Run.Binary); err != nil {
		return driver.Handle{}, err
	}
	locks, err := d.publishFolder(dir, r)
	if errors.Is(err, fs.ErrExist) {
		return h, d.syncPlacements() // another Start was faster
	}
	if err != nil {
		return driver.Handle{}, d.wrapFileError("start agents", err)
	}
	for i, lock := range locks {
		if err := spawnAgent(r, dir, i, lock); err != nil {
			folder.Say(lock, note{End: &end{Code: -1, Reason: "its agent never started: " + err.Error()}})
		}
		lock.Close() // the agent has it now
	}
	return h, nil
}

// syncPlacements makes a placement durable that Start has found: the process that made it may not
// have done so yet.
func (d *Driver) syncPlacements() error {
	return d.wrapFileError("start agents", folder.SyncFolder(d.dir))
}

// publishFolder makes the placement's folder, with every agent's lock taken by this process. So an
// agent's file that is not locked always belongs to an agent that has ended. fs.ErrExist says that
// another process was faster.
func (d *Driver) publishFolder(dir string, r driver.Request) (locks []*os.File, err error) {
	host, _ := os.Hostname() // empty where the machine has no name
	facts := request{Agents: r.Agents, Machine: d.machine, Host: host, Started: time.Now().UTC(), Binary: r.Run.Binary}
	err = folder.Publish(dir, facts, func(dir string) error {
		for i := range r.Agents {
			f, err := os.OpenFile(agentFile(dir, i), os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			locks = append(locks, f)
			if err := folder.Flock(f, unix.LOCK_EX); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		return locks, nil
	}
	for _, l := range locks {
		// Once the folder has its name, removing it could race with a command that has seen it: the
		// agents stay unstarted, and Status says so.
		folder.Say(l, note{End: &end{Code: -1, Reason: "its agent never started: " + err.Error()}})
		l.Close()
	}
	return nil, err
}

// inherited is the variable that holds the path of an agent's file, without ".agent"; the locked
// file itself is descriptor lockFD.
const (
	inherited = "DROVER_LOCAL_AGENT"
	lockFD    = 3 // the first of exec.Cmd's ExtraFiles
)

// spawnAgent starts agent number i in a session of its own, so that neither
// Ctrl-C nor a closed terminal reaches it.
func spawnAgent(r driver.Request, dir string, i int, lock *os.File) error {
	log, err := os.OpenFile(logFile(dir, i), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// Another descriptor than the lock's: a file that is opened again has no lock.
	file, err := os.OpenFile(agentFile(dir, i), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{
		Path:        r.Run.Binary,
		Args:        r.Run.Argv(r.Placement, i),
		Env:         append(append(os.Environ(), r.Run.Env...), inherited+"="+filepath.Join(dir, strconv.Itoa(i))),
		Dir:         dir,
		Stdout:      log,
		Stderr:      log,
		ExtraFiles:  []*os.File{lock},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if r.Run.Stdin != nil {
		cmd.Stdin = r.Run.Stdin
	}
	if err := cmd.Start(); err != nil {
		file.Close()
		return err
	}
	// While this process lives the agent is its child, and as a zombie it would look alive to a
	// process that checks its pid. So a goroutine waits for the agent and notes how it ended.
	// Nothing waits for the goroutine, as the agent may outlive this process.
	go func() {
		defer file.Close()
		cmd.Wait()
		folder.Say(file, note{Outcome: cmd.ProcessState.String()})
	}()
	return nil
}
