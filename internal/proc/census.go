package proc

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
)

// process is one line of the machine's list. The dead are not on it.
type process struct {
	pid, parent, group, session int

	start uint64 // tells two bearers of one pid apart; the unit is the system's
}

// bearer is the process with a pid, and not the next one with it.
type bearer struct {
	pid   int
	start uint64
}

// under is every process for which root holds, then all their descendants.
func under(all []process, root func(process) bool) []process {
	children := make(map[int][]process, len(all))
	seen := make(map[int]bool)
	var tree []process
	for _, p := range all {
		if root(p) {
			tree = append(tree, p)
			seen[p.pid] = true
		} else {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	for i := 0; i < len(tree); i++ {
		for _, c := range children[tree[i].pid] {
			if !seen[c.pid] {
				seen[c.pid] = true
				tree = append(tree, c)
			}
		}
	}
	return tree
}

// cull stops everything that find finds, until it finds nothing new, then kills
// it all: what is stopped cannot fork, so even a fork bomb is caught whole. It
// returns what it killed, and how many it was not permitted to.
func cull(find func() ([]process, error)) (killed map[bearer]process, refused int, err error) {
	own := syscall.Getpgrp()
	hit := func(p process, sig syscall.Signal) error {
		if p.group > 1 && p.group != own {
			// The whole group in one step: one that forks and exits faster
			// than we can look is still of that group.
			_ = syscall.Kill(-p.group, sig)
		}
		return syscall.Kill(p.pid, sig)
	}
	killed = make(map[bearer]process)
	for fresh := true; fresh; {
		fresh = false
		var tree []process
		tree, err = find()
		for _, p := range tree {
			if _, known := killed[bearer{p.pid, p.start}]; !known {
				killed[bearer{p.pid, p.start}], fresh = p, true
				_ = hit(p, syscall.SIGSTOP)
			}
		}
	}
	for b, p := range killed {
		if hit(p, syscall.SIGKILL) == syscall.EPERM {
			refused++
			delete(killed, b)
		}
	}
	return killed, refused, err
}

// sweepLimit bounds a sweep: longer than the kernel takes to free the memory of
// the largest program, or than a network folder takes to let one go.
const sweepLimit = 30 * time.Second

// Sweep kills whatever on this machine carries token or is in a cgroup of that
// tree, and its descendants, and returns once none of them can run any more. It is for a tree with a minder that may
// have died too; nothing to kill is not an error. killed counts processes. It
// fails on a tree that holds the caller, and when something is left: because it
// may not be killed (a fault of kind Denied), or because it does not end.
func Sweep(token string) (killed int, err error) {
	if !isToken(token) {
		return 0, fault.New(fault.Invalid, "", "sweep tree %q: not a token", token)
	}
	if marked([]byte(Mark+"="+os.Getenv(Mark)), token) {
		return 0, fault.New(fault.Invalid, "", "sweep tree %s: it holds this process", token)
	}
	groups := groupsOf(token)
	killed, _, err = sweep(token, 0, groups)
	removeGroups(groups)
	return killed, err
}

// sweep also takes what is of session, unless that is 0, and what is in groups.
func sweep(token string, session int, groups []string) (killed, refused int, err error) {
	self := os.Getpid()
	// What was seen once is waited for: a process on its way out has lost its
	// environment before it has closed its files.
	total := make(map[bearer]bool)
	find := func() ([]process, error) {
		all, err := census()
		in := members(groups)
		return under(all, func(p process) bool {
			return p.pid != self && (total[bearer{p.pid, p.start}] || in[p.pid] || session > 0 && p.session == session || carries(p.pid, token))
		}), err
	}
	end := time.Now().Add(sweepLimit)
	quiet := 0
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		now, refused, err := cull(find)
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
			return len(total), refused, fault.New(fault.Denied, "", "sweep tree %s: %s left that another user owns", token, areProcesses(refused))
		case time.Now().After(end):
			return len(total), len(now), fmt.Errorf("sweep tree %s: %d killed processes do not end", token, len(now))
		}
		time.Sleep(pause)
	}
}

// marked says whether an environment (entries end in a zero byte) carries token.
func marked(env []byte, token string) bool {
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		v, ok := bytes.CutPrefix(entry, []byte(Mark+"="))
		if !ok {
			continue
		}
		for t := range bytes.SplitSeq(v, []byte(":")) {
			if string(t) == token {
				return true
			}
		}
	}
	return false
}

// areProcesses is "1 process is", "3 processes are".
func areProcesses(n int) string {
	if n == 1 {
		return "1 process is"
	}
	return fmt.Sprintf("%d processes are", n)
}
