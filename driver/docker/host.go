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

	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// inherited is the variable that tells an agent its folder.
const inherited = "DROVER_DOCKER_AGENT"

// Inside is what an agent in one of our containers knows of its place.
type Inside struct {
	// Root is the agent's own folder. Its opt/ml and state are what the program
	// sees as /opt/ml and /state.
	Root string
	// Hosts is what everybody in the container sees as /etc/hosts, to be rewritten
	// in place; "": it is docker's.
	Hosts string
	State string // for what an agent keeps; the container's alone
	Cache string // for environments; all containers of one image share it
	// Secrets are values by variable; empty without any.
	Secrets map[string]string
	// Pass is the file with what the store is opened with; its starter replaces it
	// before it ends. "": none is needed.
	Pass string
	// Claims is the folder in which the machine's agents agree on who has what of
	// it: Cores and Memory (bytes) in all. "": none.
	Claims string
	Cores  float64
	Memory int64
	// Left is the grace of the Stop that asks for the soonest end; 0 when none has
	// asked, as SIGTERM may come from others too.
	Left func() time.Duration
}

// Adopt makes this process the agent that this driver started it as. It is to be
// called before anything else is started, and after the agent has begun to listen
// for SIGTERM: it is how Stop asks, also when it asked before the agent had started.
//
// As process 1 of the container it never returns: it starts this program again
// below it, passes SIGTERM on, reaps what others leave, kills all when the grace
// of a Stop is over, and ends as the agent did. In that agent it says what is
// known of the place; ended leaves the agent's exit status and a sentence why,
// and is called last: an agent that goes without it, by a signal, is lost.
//
// In a process that this driver did not start in is nil, and ended does nothing.
func Adopt() (in *Inside, ended func(code int, reason string), err error) {
	dir, ok := os.LookupEnv(inherited)
	if !ok {
		return nil, func(int, string) {}, nil
	}
	if os.Getpid() == 1 {
		os.Exit(attend(dir))
	}
	os.Unsetenv(inherited) // an agent below us is not us
	if in, err = look(dir); err != nil {
		return nil, nil, err
	}
	if err := say(dir, note{Up: true}); err != nil {
		return nil, nil, fault.Wrap(err, fault.Full, "", "adopt agent: %s", dir)
	}
	if _, asked := folder.ReadWord(stopFile(dir)); asked {
		unix.Kill(os.Getpid(), unix.SIGTERM)
	}
	return in, func(code int, reason string) {
		say(dir, note{End: &end{Code: code, Reason: reason}})
	}, nil
}

// Root is the folder of this container's agent, as in Inside; in is false outside of
// our containers.
func Root() (root string, in bool) {
	dir, in := os.LookupEnv(inherited)
	return filepath.Join(dir, rootDir), in
}

// look reads what the starter left. The secrets go while they are read: nobody
// below this process finds them in a file.
func look(dir string) (*Inside, error) {
	var o orders
	if err := folder.ReadJSON(ordersFile(dir), &o); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "Unset "+inherited+".", "adopt agent: %s=%q is not this process", inherited, dir)
	}
	in := &Inside{Root: filepath.Join(dir, rootDir), State: filepath.Join(dir, stateDir), Cache: o.Cache,
		Claims: o.Claims, Cores: o.Cores, Memory: o.Memory, Left: func() time.Duration {
			grace, _ := folder.ReadWord(stopFile(dir))
			return grace
		}}
	if o.Hosts {
		in.Hosts = hostsFile(dir)
		nameSelf(in.Hosts)
	}
	if folder.Exists(passFile(dir)) {
		in.Pass = passFile(dir)
	}
	err := folder.ReadJSON(secretsFile(dir), &in.Secrets)
	if errors.Is(err, os.ErrNotExist) {
		return in, nil
	}
	if err == nil {
		err = os.Remove(secretsFile(dir))
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Bug, "", "adopt agent: read its secrets")
	}
	return in, nil
}

// Starved counts the processes of this container that the kernel has ended for
// want of memory, since it began; 0 where the kernel does not show it.
func (in *Inside) Starved() int64 { return starved("/sys/fs/cgroup") }

// starved reads it where a container sees its own group at root, in both versions.
func starved(root string) int64 {
	for _, file := range []string{"memory.events", "memory/memory.oom_control"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if number, ok := strings.CutPrefix(line, "oom_kill "); ok {
				n, _ := strconv.ParseInt(strings.TrimSpace(number), 10, 64) // what is no number counts nothing
				return n
			}
		}
	}
	return 0
}

// nameSelf adds what docker would have written into /etc/hosts: many programs ask
// for the address of their own host name. Where it cannot be, they ask docker's
// name server.
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

// attend is process 1. A signal that nobody listens for does not reach a process
// 1, so it listens before it looks for a word: one that was left before is read,
// one that is left later comes with a signal.
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
			// One that is just coming up looks for the word itself, once it listens.
			if heard(dir).Up {
				unix.Kill(agent, unix.SIGTERM)
			}
		case <-over:
			unix.Kill(-1, unix.SIGKILL) // all but us
			over, asked = nil, false
		case <-deaths:
			asked = false
			if status, gone := folder.Reap(agent); gone {
				say(dir, note{Fate: folder.Fate(status)})
				return folder.ShellStatus(status) // and the kernel kills what is left
			}
		}
	}
}

// begin starts this program again, as the agent.
func begin(dir string) (pid int, err error) {
	return folder.Spawn("/proc/self/exe", os.Args, os.Environ(), logFile(dir))
}
