package proc

import (
	"fmt"
	"os"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/resource"
)

// Sweep kills whatever on this machine carries token or is in a cgroup of that
// tree, and its descendants, and returns once none of them can run any more. It is for a tree with a supervisor that may
// have died too; nothing to kill is not an error. killed counts processes. It
// fails on a tree that holds the caller, and when something is left: because it
// may not be killed (a fault of kind Denied), or because it does not end.
func Sweep(token string) (killed int, err error) {
	if !process.IsToken(token) {
		return 0, fault.New(fault.Invalid, "", "sweep tree %q: not a token", token)
	}
	if process.Marked([]byte(process.Mark+"="+os.Getenv(process.Mark)), token) {
		return 0, fault.New(fault.Invalid, "", "sweep tree %s: it holds this process", token)
	}
	groups := resource.GroupsOf(token)
	killed, _, err = sweep(token, 0, groups)
	resource.RemoveGroups(groups)
	return killed, err
}

// sweep also takes what is of session, unless that is 0, and what is in groups.
func sweep(token string, session int, groups []string) (killed, refused int, err error) {
	self := os.Getpid()
	// What was seen once is waited for: a process on its way out has lost its
	// environment before it has closed its files.
	total := make(map[process.Key]bool)
	find := func() ([]process.Entry, error) {
		all, err := process.List()
		in := resource.Members(groups)
		return process.Descendants(all, func(p process.Entry) bool {
			return p.PID != self && (total[p.Key()] || in[p.PID] || session > 0 && p.Session == session || process.Carries(p.PID, token))
		}), err
	}
	end := time.Now().Add(process.SweepLimit)
	quiet := 0
	for pause := process.FirstPause; ; pause = min(2*pause, process.LastPause) {
		now, refused, err := process.StopAndKill(find)
		for b := range now {
			total[b], quiet = true, 0
		}
		switch {
		case err != nil:
			return len(total), refused, fmt.Errorf("sweep tree %s: %w", token, err)
		case len(now) == 0 && refused == 0:
			// In the middle of its exec a process shows no environment, so one
			// look at nothing is not enough.
			if quiet++; quiet == 3 {
				return len(total), 0, nil
			}
		case len(now) == 0:
			return len(total), refused, fault.New(fault.Denied, "", "sweep tree %s: %s left that another user owns", token, process.AreProcesses(refused))
		case time.Now().After(end):
			return len(total), len(now), fmt.Errorf("sweep tree %s: %d killed processes do not end", token, len(now))
		}
		time.Sleep(pause)
	}
}
