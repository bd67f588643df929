package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/wire"
)

// family is the children of a spawner: the programs that it runs, and the orphans
// that these have made. It is known whole by the kernel's own list of our
// children, which costs one read for all commands that end in a turn: a program's
// children become ours before its end is told. As long as the list is as long as
// what is known, nothing has happened.
type family struct {
	lists   []*os.File // of children, one for each thread that can have some; none: this kernel has no such lists
	text    []byte     // reused
	orphans map[int]*orphan

	looked time.Time // when the list was last read
	buried time.Time // when orphans were last waited for
	blind  []*item   // programs with an end that epoll cannot tell

	purging bool // nothing runs; what no command owns is being killed
	purge   kin
}

// orphan is a child that we did not start.
type orphan struct {
	of    *item     // nil: unknown, or no command's
	looks int       // for its command that are left
	next  time.Time // look
	pause time.Duration

	stale     bool // it belongs to a command that was settled
	refused   int  // times that we were not permitted to kill it
	abandoned bool // so it is left alone
}

// kin is what must be killed before a command is settled.
type kin struct {
	rounds  int
	next    time.Time // round
	pause   time.Duration
	drained int
}

const (
	// In the middle of its exec a process shows no environment, so which command's an orphan
	// is is asked again, with pauses that double: a quarter of a second in all.
	ownerLooks = 8
	// After so many rounds of killing what is seen, all of it is stopped first.
	politeRounds = 3
	// Orphans of running commands are waited for no more often.
	forgetAfter = 10 * time.Millisecond
	// An orphan that refused so often is left alone: twice, as it may just be exiting.
	refusals = 2
)

func (f *family) openLists(o wire.Order) {
	f.orphans = map[int]*orphan{}
	if o.Spawner.Old {
		return
	}
	tids := []int{os.Getpid()}
	if tid := unix.Gettid(); tid != tids[0] {
		tids = append(tids, tid)
	}
	for _, tid := range tids {
		list, err := os.Open(fmt.Sprintf("/proc/self/task/%d/children", tid))
		if err != nil {
			f.lists = nil
			return
		}
		f.lists = append(f.lists, list)
	}
}

// listChildren lists them, dead or alive, unless they are as many as known already.
func (f *family) listChildren(known int) (pids []int, err error) {
	if f.lists == nil {
		return childrenByStat()
	}
	f.text = f.text[:0]
	for _, list := range f.lists {
		if err := f.readPIDs(int(list.Fd())); err != nil {
			return nil, err
		}
	}
	if bytes.Count(f.text, []byte(" ")) == known {
		return nil, nil
	}
	for text := range bytes.FieldsSeq(f.text) {
		pid, err := strconv.Atoi(string(text))
		if err != nil {
			return nil, fmt.Errorf("list children: %w", err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// childrenByStat asks every process for its parent. Unlike a census it lists the
// dead, which tell that there was a process, and are to be buried.
func childrenByStat() (pids []int, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list children: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list children: %w", err)
	}
	self := os.Getpid()
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		if p, _, err := process.ParseStat(stat); err == nil && p.Parent == self {
			pids = append(pids, p.PID)
		}
	}
	return pids, nil
}

// readPIDs reads numbers, each with a space behind it. The kernel fills a page,
// less a part of a number, and then wants to be asked again.
func (f *family) readPIDs(list int) error {
	const page, number = 4096, 16
	for at := int64(0); ; {
		if cap(f.text)-len(f.text) < page {
			f.text = append(make([]byte, 0, 2*len(f.text)+2*page), f.text...)
		}
		n, err := unix.Pread(list, f.text[len(f.text):cap(f.text)], at)
		if err != nil {
			return fmt.Errorf("list children: %w", err)
		}
		f.text, at = f.text[:len(f.text)+n], at+int64(n)
		if n < page-number {
			return nil
		}
	}
}

// settleEnded brings to their end the commands with a program that has ended.
func (s *spawner) settleEnded() {
	for _, it := range s.blind {
		s.pollExit(it)
	}
	if len(s.ended) > 0 || s.purging || !s.now.Before(s.looked.Add(dueAnyway)) {
		s.findOrphans()
	}
	kept := s.ended[:0]
	for _, it := range s.ended {
		if !it.gone {
			it.gone = s.killLeftovers(it)
		}
		if !it.gone || !s.reportEnd(it) {
			kept = append(kept, it)
		}
	}
	clear(s.ended[len(kept):])
	s.ended = kept
	if s.purging = len(s.running) == 0 && s.hasKillableOrphans(); s.purging {
		s.cleanCommands()
	} else {
		s.purge = kin{}
	}
}

// hasKillableOrphans says whether there are orphans that can be killed.
func (s *spawner) hasKillableOrphans() bool {
	for _, o := range s.orphans {
		if !o.abandoned {
			return true
		}
	}
	return false
}

// findOrphans finds new orphans and buries dead ones, until it finds nothing new.
func (s *spawner) findOrphans() {
	s.looked = s.now
	for {
		pids, err := s.listChildren(len(s.running) + len(s.orphans))
		if err != nil {
			return // the next turn looks again
		}
		fresh := false
		for _, pid := range pids {
			if s.running[pid] == nil && s.orphans[pid] == nil {
				s.orphans[pid] = &orphan{looks: ownerLooks}
				fresh = true
			}
		}
		if len(s.orphans) == 0 {
			return
		}
		s.assignOrphans()
		mourning := len(s.ended) > 0 || s.purging
		if !fresh && !mourning && s.now.Before(s.buried.Add(forgetAfter)) {
			return
		}
		if !s.reapOrphans() {
			return
		}
	}
}

// assignOrphans finds out the commands of the orphans of which that is not known.
func (s *spawner) assignOrphans() {
	for pid, o := range s.orphans {
		if o.of != nil || o.looks == 0 || s.now.Before(o.next) {
			continue
		}
		s.findOwner(pid, o)
		o.pause = max(process.FirstPause, 2*o.pause)
		o.next = s.now.Add(o.pause)
		if o.stale {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// findOwner finds the command with the session that pid is in, or with the mark it carries. What
// shows an environment without a mark is no command's.
func (s *spawner) findOwner(pid int, o *orphan) {
	o.looks--
	if session, err := unix.Getsid(pid); err == nil {
		if o.of = s.running[session]; o.of != nil {
			return
		}
	}
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil || len(env) == 0 {
		return
	}
	o.looks = 0
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		v, ok := bytes.CutPrefix(entry, []byte(s.mark))
		if !ok {
			continue
		}
		v, _, _ = bytes.Cut(v, []byte(":")) // a tree inside the command has its own mark behind
		if id, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			o.of = s.byID[id]
			o.stale = o.of == nil
		}
	}
}

// reapOrphans waits for the orphans that have ended, and says whether there were any.
// Their children are ours by then, and on the list.
func (s *spawner) reapOrphans() (some bool) {
	s.buried = s.now
	for pid, o := range s.orphans {
		var ru syscall.Rusage
		got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, &ru)
		if got != pid && err != syscall.ECHILD {
			continue
		}
		if o.of != nil && got == pid {
			o.of.addUsage(&ru)
		}
		delete(s.orphans, pid)
		some = true
	}
	return some
}

// killLeftovers kills what a command has left, and says whether nothing is left of it.
func (s *spawner) killLeftovers(it *item) bool {
	own, asking := false, false
	for _, o := range s.orphans {
		own = own || o.of == it
		asking = asking || o.of == nil && o.looks > 0 // so it may be its
	}
	switch {
	case !own && !asking:
		return true
	case !s.roundIsDue(&it.kin) || !own:
		return false
	}
	_ = syscall.Kill(-it.pid, syscall.SIGKILL)
	if it.rounds > politeRounds {
		s.stopThenKill(it)
	} else {
		for pid, o := range s.orphans {
			if o.of == it && syscall.Kill(pid, syscall.SIGKILL) == syscall.EPERM {
				o.refused++
			}
		}
	}
	for _, o := range s.orphans {
		if o.of == it && o.refused >= refusals {
			o.of, o.looks, o.abandoned = nil, 0, true
			it.Left++
		}
	}
	return false
}

// roundIsDue says whether it is time for the next round.
func (s *spawner) roundIsDue(k *kin) bool {
	if s.now.Before(k.next) {
		s.wakeBy(k.next)
		return false
	}
	k.rounds++
	k.pause = min(max(process.FirstPause, 2*k.pause), process.LastPause)
	k.next = s.now.Add(k.pause)
	s.wakeBy(k.next)
	return true
}

// stopThenKill stops what a command has left before it kills it: a bomb, else, forks on.
func (s *spawner) stopThenKill(it *item) {
	self := os.Getpid()
	_, refused, _ := process.StopAndKill(func() ([]process.Entry, error) {
		all, err := process.List()
		return process.Descendants(all, func(p process.Entry) bool {
			if p.Parent != self || s.running[p.PID] != nil {
				return false
			}
			o := s.orphans[p.PID]
			if o == nil {
				o = &orphan{looks: ownerLooks}
				s.orphans[p.PID] = o
			}
			if o.of == nil && o.looks > 0 {
				s.findOwner(p.PID, o)
			}
			return o.of == it
		}), err
	}) // what could not be seen is looked at in the next round
	for _, o := range s.orphans {
		if o.of == it && refused > 0 {
			o.refused++
		}
	}
}

// cleanCommands kills all that is left, as nothing runs.
func (s *spawner) cleanCommands() {
	if !s.roundIsDue(&s.purge) {
		return
	}
	killed, refused := s.containment.KillFound()
	if killed == 0 && refused > 0 {
		for _, o := range s.orphans {
			o.refused++
			o.abandoned = o.refused >= refusals
		}
	}
	s.findOrphans()
	s.purging = s.hasKillableOrphans()
}

// pollExit asks for the end of a program that epoll cannot tell.
func (s *spawner) pollExit(it *item) {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, it.pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err == nil && info.Signo == 0 {
		s.wakeBy(s.now.Add(forgetAfter))
		return
	}
	s.noteExited(it)
}
