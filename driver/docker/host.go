package docker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// inherited is the variable that tells an agent its folder.
const inherited = "DROVER_DOCKER_AGENT"

// Adopt makes this process the agent that this driver started it as.
//
// In process 1 of the container it never returns: it starts this program again below it, passes
// SIGTERM on, reaps orphaned processes, kills all when the grace of a Stop is over, and exits as
// the agent did. An agent that ends without its allocation's End is lost.
func Adopt(driver.AgentProcess) (*driver.Allocation, error) {
	dir, ok := os.LookupEnv(inherited)
	if !ok {
		return nil, nil
	}
	if os.Getpid() == 1 {
		os.Exit(attend(dir))
	}
	os.Unsetenv(inherited) // an agent below this process must not take it for its own
	a, err := readAllocation(dir)
	if err != nil {
		return nil, err
	}
	if err := say(dir, note{Up: true}); err != nil {
		return nil, fault.Wrap(err, fault.Full, "", "adopt agent: %s", dir)
	}
	if _, asked := folder.ReadWord(stopFile(dir)); asked {
		unix.Kill(os.Getpid(), unix.SIGTERM)
	}
	return a, nil
}

// beside is the allocation of this container's agent; nil outside of our containers.
func beside() *driver.Allocation {
	dir, in := os.LookupEnv(inherited)
	if !in {
		return nil
	}
	return &driver.Allocation{Root: filepath.Join(dir, rootDir)}
}

// readAllocation reads the files that the starting process has written. It removes the secrets as
// it reads them, so that no process below this one finds them in a file.
func readAllocation(dir string) (*driver.Allocation, error) {
	var o orders
	if err := folder.ReadJSON(ordersFile(dir), &o); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "Unset "+inherited+".", "adopt agent: %s=%q is not this process", inherited, dir)
	}
	a := &driver.Allocation{Root: filepath.Join(dir, rootDir), State: filepath.Join(dir, stateDir), Cache: o.Cache, Lost: o.Lost,
		OOMKills: func() int64 { return folder.OOMKills("/sys/fs/cgroup") },
		Notice: func() driver.Notice {
			grace, _ := folder.ReadWord(stopFile(dir)) // 0 without a file: other processes may send SIGTERM too
			return driver.Notice{Asked: true, Why: driver.AskedToStop, Left: grace}
		},
		End: func(code int, reason string) { say(dir, note{End: &end{Code: code, Reason: reason}}) }}
	if o.Claims != "" {
		a.Shared = &driver.Sharing{Folder: o.Claims, Cores: o.Cores, Memory: o.Memory}
	}
	if o.Hosts {
		a.Hosts = hostsFile(dir)
		nameSelf(a.Hosts)
	}
	if folder.Exists(passFile(dir)) {
		a.Credential = passFile(dir)
	}
	err := folder.ReadJSON(secretsFile(dir), &a.Secrets)
	if errors.Is(err, os.ErrNotExist) {
		return a, nil
	}
	if err == nil {
		err = os.Remove(secretsFile(dir))
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Bug, "", "adopt agent: read its secrets")
	}
	return a, nil
}

// nameSelf adds the line that docker would have written into /etc/hosts: many programs look up the
// address of their own host name. Where it cannot be added, they ask docker's name server.
func nameSelf(hosts string) {
	name, err := os.Hostname()
	if err != nil {
		return
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return
	}
	text, err := os.ReadFile(hosts)
	if err != nil {
		return
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			text = fmt.Appendf(text, "%s\t%s\n", n.IP, name)
		}
	}
	_ = os.WriteFile(hosts, text, 0o644)
}

// attend is process 1.
func attend(dir string) int {
	status, begun, err := folder.Supervisor{
		Begin: func() (int, error) { return begin(dir) },
		Order: func() (time.Duration, bool) { return folder.ReadWord(stopFile(dir)) },
		Up:    func() bool { return heard(dir).Up },
		Kill:  func(int) { unix.Kill(-1, unix.SIGKILL) },
	}.Attend()
	switch {
	case err != nil:
		say(dir, note{End: &end{Code: -1, Reason: "its agent never started: " + err.Error()}})
		return fault.ExitDrover
	case !begun:
		return folder.KilledStatus
	}
	say(dir, note{Outcome: folder.Outcome(status)})
	return folder.ShellStatus(status) // and the kernel kills what is left
}

// begin starts this program again, as the agent.
func begin(dir string) (pid int, err error) {
	return folder.Spawn("/proc/self/exe", os.Args, os.Environ(), logFile(dir))
}
