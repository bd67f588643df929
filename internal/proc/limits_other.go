//go:build !linux

package proc

import (
	"errors"
	"syscall"
)

// No other system lets one process bound or measure a whole tree.

type hold struct{ support Support }

const whyNot = "this system cannot limit a tree of processes"

func supportHere() Support { return Support{Why: whyNot} }

func (l Limits) makeHold(string) *hold {
	if l.hasNoLimit() {
		return nil
	}
	return &hold{Support{Why: whyNot}}
}

func (h *hold) minderFence() *fence           { return nil }
func (h *hold) noteRefused(map[string]string) {}
func (h *hold) groupFolders() []string        { return nil }
func (h *hold) needsWatching() bool           { return false }
func (h *hold) readCounters(*totals)          {}
func (h *hold) removeGroups()                 {}

func (f *fence) openDoors()                      {}
func (f *fence) missedLimits() map[string]string { return nil }
func (f *fence) removeGroups()                   {}

func (f *fence) startLimited(attr *syscall.SysProcAttr, fork func(*syscall.SysProcAttr) (int, error)) (int, error) {
	return fork(attr)
}

func (m *meter) enforceLimits(<-chan struct{}, func()) {}

func (m *meter) readUsage() (Usage, error) { return Usage{}, errors.ErrUnsupported }

func ownCores() []int { return nil }

func groupsOf(string) []string      { return nil }
func members([]string) map[int]bool { return nil }
func removeGroups([]string) int     { return 0 }

// SweepGroups removes what only Linux has.
func SweepGroups() (removed int, err error) { return 0, nil }
