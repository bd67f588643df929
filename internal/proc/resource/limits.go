package resource

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/drover-run/drover/fault"
)

// Limits bound a whole tree; zero fields do not. They guard against mistakes,
// not against malice: a program that is root can lift them.
//
// Where the kernel lets us, the program is started in a cgroup of its own, so
// what it forks can neither leave nor exceed it. Elsewhere memory and processes
// are watched, and the tree is ended that has gone beyond; Support says which.
// What is refused never makes a Start fail: SupportHere tells beforehand and
// Process.Limits afterwards what holds. On macOS nothing is enforced.
type Limits struct {
	CPUs      float64 // cores' worth of time, at least 0.01
	Cores     []int   // the only cores it may run on, of those the caller may; nil: all. It can be undone by the program
	Memory    int64   // bytes, at least 1 MiB, without swap: above it the tree is ended
	Processes int     // processes and threads at once
}

// supportedBy is what is held in these ways, for the limits that there are. refusals say
// by controller why the kernel does not.
func (l Limits) supportedBy(by map[string]string, refusals map[string]string) (s Support) {
	var why []string
	for _, k := range l.neededControllers() {
		if r := refusals[k]; r != "" && !slices.Contains(why, r) {
			why = append(why, r)
		}
		switch k {
		case forMemory:
			s.Memory = by[k]
		case forCPUs:
			s.CPUs = by[k]
		case forProcesses:
			s.Processes = by[k]
		}
	}
	s.Why = strings.Join(why, "; ")
	return s
}

// The controllers that hold limits.
const (
	forMemory    = "memory"
	forCPUs      = "cpu"
	forProcesses = "pids"
)

// neededControllers are the controllers that the limits need.
func (l Limits) neededControllers() (list []string) {
	if l.Memory > 0 {
		list = append(list, forMemory)
	}
	if l.CPUs > 0 {
		list = append(list, forCPUs)
	}
	if l.Processes > 0 {
		list = append(list, forProcesses)
	}
	return list
}

// hasNoLimit says that nothing is limited.
func (l Limits) hasNoLimit() bool {
	return l.CPUs == 0 && len(l.Cores) == 0 && l.Memory == 0 && l.Processes == 0
}

// Ways of holding a limit, as Support names them.
const (
	ByCgroup1  = "cgroup v1" // by the kernel
	ByCgroup2  = "cgroup v2" // by the kernel
	ByAffinity = "affinity"  // whole cores, which the program could choose anew
	ByWatching = "watched"   // measured ten times a second; above it the tree is ended
)

// Support says what holds each limit: one of the ways, or "" for nothing.
type Support struct {
	Memory, CPUs, Processes string
	Why                     string // why something is not held by the kernel; "" when all is
}

// SupportHere says what holds limits in this process's place on this machine. It
// finds out by trying, once.
func SupportHere() Support { return supportHereOnce() }

var supportHereOnce = sync.OnceValue(probeSupport)

// Least limits. The kernel's own slice of CPU time is no finer, and with less
// memory it could only end a program in the middle of its exec, where its supervisor
// would be ended with it.
const (
	leastCPUs   = 0.01
	leastMemory = 1 << 20
)

// CheckValues refuses what cannot be meant.
func (l Limits) CheckValues(program string) error {
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "", "start %s: limits: %s", program, fmt.Sprintf(format, args...))
	}
	switch {
	case l.CPUs != 0 && !(l.CPUs >= leastCPUs) || math.IsInf(l.CPUs, 0):
		return refuse("%v cores: want %v or more", l.CPUs, leastCPUs)
	case l.Memory != 0 && l.Memory < leastMemory:
		return refuse("%d bytes of memory: want %d or more", l.Memory, leastMemory)
	case l.Processes < 0:
		return refuse("%d processes: want 1 or more", l.Processes)
	}
	if len(l.Cores) == 0 {
		return nil
	}
	cores := OwnCores()
	for _, core := range l.Cores {
		if cores != nil && !slices.Contains(cores, core) {
			return refuse("core %d: this process may use %v", core, cores)
		}
	}
	return nil
}

// Bounds is limits made out for the supervisor.
type Bounds struct {
	Groups   []groupHandle // the groups to start the program in
	Cores    []int         // the only cores; nil: all
	FewCores []int         // the cores if the group that bounds time cannot be entered

	refusals map[string]string // by controller, why its group cannot be entered
}

// groupHandle leads into a group.
type groupHandle struct {
	Folder      []byte // a path, which need not be UTF-8
	Version     int
	Controllers []string
	Processes   int // how many there may be, once the program is in; 0: any number

	into, back, limit *os.File // the group, the way out, and Processes
}

// Support says what holds the limits; nil holds none.
func (h *Limiter) Support() Support {
	if h == nil {
		return Support{}
	}
	return h.support
}
