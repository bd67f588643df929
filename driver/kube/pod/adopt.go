package pod

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// Adopt makes this process what its role in a pod is. In the init container and as process 1 it
// never returns; outside of our pods the allocation is nil.
func Adopt(driver.AgentProcess) (*driver.Allocation, error) {
	switch os.Getenv(Role) {
	case Prepare:
		if err := prepare(inPod(), os.Getenv(Digest)); err != nil {
			fmt.Fprintln(os.Stderr, "drover:", err)
			os.Exit(fault.ExitDrover)
		}
		os.Exit(0)
	case Supervise:
		grace, _ := time.ParseDuration(os.Getenv(Grace)) // 0: it is not known
		os.Exit(supervise(inPod(), grace))
	case Agent:
		os.Unsetenv(Role) // an agent below this process must not take it for its own
		return adopt(inPod())
	}
	return nil, nil
}

// Beside is the allocation of the agent in this pod; nil outside of our pods.
func Beside() *driver.Allocation {
	if _, err := os.Stat(inPod().order()); err != nil {
		return nil
	}
	return &driver.Allocation{Root: inPod().root()}
}

// adopt is the agent's side.
func adopt(p paths) (*driver.Allocation, error) {
	var o Order
	if err := folder.ReadJSON(p.order(), &o); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "Unset "+Role+".", "adopt agent: this process is in no pod of drover's")
	}
	a := &driver.Allocation{Root: p.root(), State: p.state(), Cache: p.cache(), Hosts: p.hosts(),
		Cores: int(math.Ceil(o.Cores)), Memory: o.Memory, Shared: &driver.Sharing{},
		OOMKills: func() int64 { return folder.OOMKills("/sys/fs/cgroup") },
		Notice:   p.notice,
		End: func(code int, reason string) {
			_ = folder.SayIn(p.notes(), note{End: &end{code, reason}}) // without it process 1 goes by the exit status
		}}
	if folder.Exists(p.credential()) {
		a.Credential = p.credential()
	}
	if err := folder.ReadJSON(p.secretFile(), &a.Secrets); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(err, fault.Bug, "", "adopt agent: read its secrets")
	}
	if err := folder.SayIn(p.notes(), note{Up: true}); err != nil {
		return nil, fault.Wrap(err, fault.Full, "", "adopt agent")
	}
	if _, asked := folder.ReadWord(p.stop()); asked || folder.Exists(p.warning()) {
		unix.Kill(os.Getpid(), unix.SIGTERM)
	}
	return a, nil
}

// notice says why the agent has got SIGTERM: a Stop, or its pod is to go.
func (p paths) notice() driver.Notice {
	if grace, asked := folder.ReadWord(p.stop()); asked {
		return driver.Notice{Asked: true, Why: driver.AskedToStop, Left: grace}
	}
	var until time.Time
	n := driver.Notice{Why: "Kubernetes ends the pod: its node goes, or it was evicted or deleted"}
	if folder.ReadJSON(p.warning(), &until) == nil {
		n.Left = max(0, time.Until(until))
	}
	return n
}

// GraceText is a value for the variable Grace.
func GraceText(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s" }
