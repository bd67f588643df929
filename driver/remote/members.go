package remote

import (
	"cmp"
	"slices"
	"time"

	"github.com/drover-run/drover/driver"
)

// view is everything that is known of a placement at one moment.
type view struct {
	state
	handle    driver.Handle
	request   Request
	found     []string // the engine's ids
	processes []Process
	process   map[Claimant]int // index into processes
	number    map[Claimant]int // the agent's number, for those that have come up
}

// index fills the maps that find processes and agents by their claimants.
func (v *view) index() {
	v.process, v.number = map[Claimant]int{}, map[Claimant]int{}
	for i, p := range v.processes {
		v.process[p.Claimant] = i
	}
	for n, c := range v.agents {
		v.number[c] = n
	}
}

// members tells, from the record and the engine's processes, how each agent stands. If the
// record has an agent's end, that counts; else what the engine says.
//
//	recorded             the engine says            member
//	end                  anything                   Ended or Lost, as recorded
//	up                   waiting or running         Running
//	up                   ended, taken, lost         so, or Ended by Terminate
//	up                   nothing                    Lost
//	not up               waiting or running         Waiting
//	not up               ended                      Ended, it never came up
//	answered             nothing                    Lost
//	asked                nothing                    Waiting, or Ended by a Stop
func (v view) members() (all []driver.Member) {
	if v.refusedAlways() && len(v.processes) == 0 {
		return nil
	}
	seen := map[int]bool{}
	for _, n := range v.numbers() {
		all = append(all, v.claimed(n, v.agents[n]))
		seen[n] = true
	}
	for _, p := range v.newestFirst() {
		if n, mine := v.next(p, seen); mine && !seen[n] {
			seen[n] = true
			all = append(all, v.unclaimed(n, p))
		}
	}
	for _, p := range v.processes {
		seen[p.Index] = true // it is anywhere, or it is a member under another number, or another process is the agent
	}
	for n := range v.request.Agents {
		if !seen[n] {
			all = append(all, v.unseen(n))
		}
	}
	slices.SortFunc(all, func(a, b driver.Member) int { return cmp.Compare(a.Index, b.Index) })
	return all
}

// newestFirst gives the processes: those that live before those that do not, and later
// attempts before earlier ones. If several would claim one number, the first is the member: an
// engine that starts a process again has not lost the agent.
func (v view) newestFirst() []Process {
	all := slices.Clone(v.processes)
	slices.SortStableFunc(all, func(a, b Process) int {
		if a.State.Alive() != b.State.Alive() {
			if a.State.Alive() {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.Attempt, a.Attempt)
	})
	return all
}

// claimed is an agent that has come up.
func (v view) claimed(n int, c Claimant) driver.Member {
	m := driver.Member{Index: n, State: driver.Lost, Code: -1, Reason: "the engine no longer knows it"}
	if i, known := v.process[c]; known {
		m = v.asEngineSays(n, v.processes[i])
		if m.State == driver.Waiting {
			m.State = driver.Running // the engine says so later
		}
	}
	if e, ended := v.ends[n]; ended {
		m.State, m.Code, m.Reason, m.Enter = driver.Ended, e.Code, e.Reason, nil
		if e.Lost {
			m.State = driver.Lost
		}
		if e.Code != 0 {
			m.Tail = e.Tail
		}
	}
	return m
}

// unclaimed is a process that has not come up as an agent.
func (v view) unclaimed(n int, p Process) driver.Member {
	m := v.asEngineSays(n, p)
	switch {
	case p.State == driver.Running:
		m.State, m.Enter = driver.Waiting, nil
	case p.Terminated:
		m.Reason = "stopped before it began"
	case p.State == driver.Ended:
		m.Reason = "it never came up: " + cmp.Or(p.Reason, "its process has ended")
	}
	return m
}

func (v view) asEngineSays(n int, p Process) driver.Member {
	m := driver.Member{Index: n, State: p.State, Code: -1, Reason: p.Reason, Hint: p.Hint, Where: p.Where}
	switch {
	case p.State == driver.Running && p.Enter != nil:
		m.Enter = append(slices.Clone(p.Enter), v.handle.Enter(p.Program, n)...)
	case p.Terminated:
		m.State, m.Reason = driver.Ended, cmp.Or(p.Reason, "stopped: killed at once")
	case p.State == driver.Ended:
		m.Code = p.Code
	}
	if !m.State.Alive() && m.Code != 0 {
		m.Tail = p.Tail
	}
	return m
}

// next is the number that a process without a number would claim, by the rule of Claim. mine
// is false for a process that must exit, and for one that has a number. Of processes without places, those that have
// ended are no members where others have come in their place: seen are the numbers of members.
func (v view) next(p Process, seen map[int]bool) (n int, mine bool) {
	if _, has := v.number[p.Claimant]; p.Index == Anywhere {
		for seen[n] {
			n++
		}
		return n, !has && (p.State.Alive() || n < v.request.Agents)
	}
	for n = p.Index; n <= maxNumber; n += v.request.Agents {
		c, taken := v.agents[n]
		switch {
		case !taken:
			return n, p.Index >= 0 && p.Index < v.request.Agents
		case c == p.Claimant, c.ID != p.ID, c.Index != p.Index, c.Attempt > p.Attempt:
			return 0, false
		}
	}
	return 0, false
}

// unseen is an agent without a process in the record or at the engine.
func (v view) unseen(index int) driver.Member {
	m := driver.Member{Index: index, State: driver.Waiting, Code: -1, Reason: "the engine has not answered yet"}
	switch {
	case v.accepted():
		m.State, m.Reason = driver.Lost, "the engine no longer knows it"
	case v.orders > 0:
		m.State, m.Reason = driver.Ended, "stopped before it began"
	}
	return m
}

// alive says whether an agent may be working, or may come up.
func (v view) alive() bool {
	return v.inFlight() && v.orders == 0 ||
		slices.ContainsFunc(v.members(), func(m driver.Member) bool { return m.State.Alive() }) ||
		slices.ContainsFunc(v.processes, func(p Process) bool { return p.State.Alive() && !v.through(p) })
}

// through says whether a process belongs to an agent that has recorded its end.
func (v view) through(p Process) bool {
	n, up := v.number[p.Claimant]
	_, ended := v.ends[n]
	return up && ended
}

// leaves says whether the placement is to be taken away now: it is to be removed, none of its
// processes runs, not even one of an agent that has recorded its end, and no call of the
// engine is under way.
func (v view) leaves() bool {
	return v.removing && !v.inFlight() && !v.alive() && !slices.ContainsFunc(v.processes, func(p Process) bool { return p.State.Alive() })
}

// terminable are the processes that a Stop with this grace ends itself: all without grace,
// else those that have not come up.
func (v view) terminable(grace time.Duration) []Process {
	return slices.DeleteFunc(slices.Clone(v.processes), func(p Process) bool {
		_, up := v.number[p.Claimant]
		return !p.State.Alive() || grace > 0 && up
	})
}
