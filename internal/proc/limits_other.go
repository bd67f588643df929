//go:build !linux

package proc

import (
	"errors"
	"fmt"
	"syscall"
)

// No other system lets one process bound or measure a whole tree.

type hold struct{ support Support }

const whyNot = "this system cannot limit a tree of processes"

func supportHere() Support { return Support{Why: whyNot} }

func (l Limits) raise(string) *hold {
	if l.isZero() {
		return nil
	}
	return &hold{Support{Why: whyNot}}
}

func (h *hold) fence() *fence          { return nil }
func (h *hold) miss(map[string]string) {}
func (h *hold) folders() []string      { return nil }
func (h *hold) watches() bool          { return false }
func (h *hold) settle(*Exit)           {}
func (h *hold) remove()                {}

func (f *fence) open()                     {}
func (f *fence) missed() map[string]string { return nil }
func (f *fence) remove()                   {}

func (f *fence) start(attr *syscall.SysProcAttr, fork func(*syscall.SysProcAttr) (int, error)) (int, error) {
	return fork(attr)
}

func (p *Process) watch(<-chan struct{}) {}

func (p *Process) usage() (Usage, error) {
	return Usage{}, fmt.Errorf("measure %s: %w", p.name, errors.ErrUnsupported)
}

func ownCores() []int { return nil }

func groupsOf(string) []string      { return nil }
func members([]string) map[int]bool { return nil }
func removeGroups([]string) int     { return 0 }

// SweepGroups removes what only Linux has.
func SweepGroups() (removed int, err error) { return 0, nil }
