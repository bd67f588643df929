//go:build !linux

package resource

import (
	"errors"
	"syscall"
)

// No other system lets one process bound or measure a whole tree.

// Limiter has nothing to limit with.
type Limiter struct{ support Support }

const whyNot = "this system cannot limit a tree of processes"

func probeSupport() Support { return Support{Why: whyNot} }

func (l Limits) NewLimiter(string) *Limiter {
	if l.hasNoLimit() {
		return nil
	}
	return &Limiter{Support{Why: whyNot}}
}

func (h *Limiter) Bounds() *Bounds               { return nil }
func (h *Limiter) NoteRefused(map[string]string) {}
func (h *Limiter) GroupFolders() []string        { return nil }
func (h *Limiter) NeedsWatching() bool           { return false }
func (h *Limiter) readCounters(*Totals)          {}
func (h *Limiter) RemoveGroups()                 {}

func (f *Bounds) OpenGroups()                     {}
func (f *Bounds) MissedLimits() map[string]string { return nil }
func (f *Bounds) RemoveGroups()                   {}

func (f *Bounds) StartLimited(attr *syscall.SysProcAttr, fork func(*syscall.SysProcAttr) (int, error)) (int, error) {
	return fork(attr)
}

func (m *Meter) Enforce(<-chan struct{}, func()) {}

// ReadUsage measures nothing here.
func (m *Meter) ReadUsage() (Usage, error) { return Usage{}, errors.ErrUnsupported }

// OwnCores are not told.
func OwnCores() []int { return nil }

func GroupsOf(string) []string      { return nil }
func Members([]string) map[int]bool { return nil }
func RemoveGroups([]string) int     { return 0 }

// RemoveStaleGroups removes what only Linux has.
func RemoveStaleGroups() (removed int, err error) { return 0, nil }
