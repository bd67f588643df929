package docker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
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
		OOMKills: func() int64 { return readOOMKills("/sys/fs/cgroup") },
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

// readOOMKills reads the count for the container's own group, which is at root in both versions of
// cgroups; 0 where the kernel does not show it.
func readOOMKills(root string) int64 {
	for _, file := range []string{"memory.events", "memory/memory.oom_control"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if number, ok := strings.CutPrefix(line, "oom_kill "); ok {
				n, _ := strconv.ParseInt(strings.TrimSpace(number), 10, 64) // anything else counts as 0
				return n
			}
		}
	}
	return 0
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

// killed is the exit status of a container that process 1 has ended.
const killed = 128 + int(unix.SIGKILL)

// attend is process 1. A signal without a handler does not reach a process 1, so it listens before
// it reads the stop file: a file that was written before is read, and one that is written later
// comes with a signal.
func attend(dir string) (status int) {
	terms, deaths := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(terms, unix.SIGTERM, unix.SIGINT)
	signal.Notify(deaths, unix.SIGCHLD)
	grace, asked := folder.ReadWord(stopFile(dir))
	if asked && grace == 0 {
		return killed
	}
	agent, err := begin(dir)
	if err != nil {
		say(dir, note{End: &end{Code: -1, Reason: "its agent never started: " + err.Error()}})
		return fault.ExitDrover
	}
	var until time.Time
	var over <-chan time.Time
	for {
		if asked {
			if at := time.Now().Add(grace); over == nil || at.Before(until) {
				until, over = at, time.After(grace)
			}
		}
		select {
		case <-terms:
			grace, asked = folder.ReadWord(stopFile(dir))
			// An agent that is just coming up reads the stop file itself, once it listens.
			if heard(dir).Up {
				unix.Kill(agent, unix.SIGTERM)
			}
		case <-over:
			unix.Kill(-1, unix.SIGKILL) // all but this process
			over, asked = nil, false
		case <-deaths:
			asked = false
			if status, gone := folder.Reap(agent); gone {
				say(dir, note{Outcome: folder.Outcome(status)})
				return folder.ShellStatus(status) // and the kernel kills what is left
			}
		}
	}
}

// begin starts this program again, as the agent.
func begin(dir string) (pid int, err error) {
	return folder.Spawn("/proc/self/exe", os.Args, os.Environ(), logFile(dir))
}
