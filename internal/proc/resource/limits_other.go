//go:build !linux

package resource

import (
	"errors"
	"syscall"
)

// No other system lets one process bound or measure a whole tree.

type Hold struct{ support Support }

const whyNot = "this system cannot limit a tree of processes"

func supportHere() Support { return Support{Why: whyNot} }

func (l Limits) MakeHold(string) *Hold {
	if l.hasNoLimit() {
		return nil
	}
	return &Hold{Support{Why: whyNot}}
}

func (h *Hold) MinderFence() *Fence           { return nil }
func (h *Hold) NoteRefused(map[string]string) {}
func (h *Hold) GroupFolders() []string        { return nil }
func (h *Hold) NeedsWatching() bool           { return false }
func (h *Hold) readCounters(*totals)          {}
func (h *Hold) RemoveGroups()                 {}

func (f *Fence) OpenDoors()                      {}
func (f *Fence) MissedLimits() map[string]string { return nil }
func (f *Fence) RemoveGroups()                   {}

func (f *Fence) StartLimited(attr *syscall.SysProcAttr, fork func(*syscall.SysProcAttr) (int, error)) (int, error) {
	return fork(attr)
}

func (m *Meter) EnforceLimits(<-chan struct{}, func()) {}

func (m *Meter) ReadUsage() (Usage, error) { return Usage{}, errors.ErrUnsupported }

func OwnCores() []int { return nil }

func GroupsOf(string) []string      { return nil }
func Members([]string) map[int]bool { return nil }
func RemoveGroups([]string) int     { return 0 }

// SweepGroups removes what only Linux has.
func SweepGroups() (removed int, err error) { return 0, nil }
