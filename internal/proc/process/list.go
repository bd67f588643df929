package process

import (
	"fmt"
	"syscall"
)

// Entry is one line of the machine's list. The dead are not on it.
type Entry struct {
	PID, Parent, Group, Session int

	Start uint64 // tells two bearers of one pid apart; the unit is the system's
}

// Key is the process with a pid, and not the next one with it.
type Key struct {
	PID   int
	Start uint64
}

// Key is what tells p from every other process.
func (p Entry) Key() Key { return Key{p.PID, p.Start} }

// Descendants is every process for which root holds, then all their descendants.
func Descendants(all []Entry, root func(Entry) bool) []Entry {
	children := make(map[int][]Entry, len(all))
	seen := make(map[int]bool)
	var tree []Entry
	for _, p := range all {
		if root(p) {
			tree = append(tree, p)
			seen[p.PID] = true
		} else {
			children[p.Parent] = append(children[p.Parent], p)
		}
	}
	for i := 0; i < len(tree); i++ {
		for _, c := range children[tree[i].PID] {
			if !seen[c.PID] {
				seen[c.PID] = true
				tree = append(tree, c)
			}
		}
	}
	return tree
}

// StopAndKill stops everything that find finds, until it finds nothing new, then kills
// it all: what is stopped cannot fork, so even a fork bomb is caught whole. It
// returns what it killed, and how many it was not permitted to.
func StopAndKill(find func() ([]Entry, error)) (killed map[Key]Entry, refused int, err error) {
	own := syscall.Getpgrp()
	hit := func(p Entry, sig syscall.Signal) error {
		if p.Group > 1 && p.Group != own {
			// The whole group in one step: one that forks and exits faster
			// than we can look is still of that group.
			_ = syscall.Kill(-p.Group, sig)
		}
		return syscall.Kill(p.PID, sig)
	}
	killed = make(map[Key]Entry)
	for fresh := true; fresh; {
		fresh = false
		var tree []Entry
		tree, err = find()
		for _, p := range tree {
			if _, known := killed[p.Key()]; !known {
				killed[p.Key()], fresh = p, true
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

// AreProcesses is "1 process is", "3 processes are".
func AreProcesses(n int) string {
	if n == 1 {
		return "1 process is"
	}
	return fmt.Sprintf("%d processes are", n)
}
