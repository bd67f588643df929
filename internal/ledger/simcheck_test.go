package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// The checks share nothing with the code under test but the entries' decoding:
// they look at the raw objects, at when each came to be, and at the truth.

func blob(text string) io.ReadSeeker { return strings.NewReader(text) }

// checkPlaced: J1, placed stands before the engine is asked.
func (s *scene) checkPlaced(id string, placed Placed) {
	if len(s.placedIn(id, placed.Placement)) == 0 {
		s.violate("J1: placement %d of %s was started and is not in the log", placed.Placement, id)
	}
}

func (s *scene) placedIn(id string, r int) (found []int) {
	for n := 0; ; n++ {
		key := fmt.Sprintf("p/t/%s/log/%08d", id, n)
		if _, ok := s.made[key]; !ok {
			return found
		}
		var e Entry
		s.peek(key, &e)
		if e.Placed != nil && e.Placed.Placement == r {
			found = append(found, n)
		}
	}
}

// peek reads an object past the faults.
func (s *scene) peek(key string, into any) {
	r, err := s.under.Get(ctx, key, 0, -1)
	must(err)
	defer r.Close()
	must(json.NewDecoder(r).Decode(into))
}

// checkStart: R1 and R2, a program starts only with all ranks of its own
// attempt, and all see the same tokens.
func (s *scene) checkStart(run *start, o Order) {
	if len(o.Joins) != s.nodes {
		s.violate("R1: started with %d of %d ranks", len(o.Joins), s.nodes)
	}
	seen := map[string]bool{}
	for _, j := range o.Joins {
		where := fmt.Sprintf("%s/%d", run.job, run.attempt)
		if was, ok := s.tokens[j.Token]; ok && was != where || seen[j.Token] {
			s.violate("R2: token of %s is used again in %s", was, where)
		}
		s.tokens[j.Token], seen[j.Token] = where, true
	}
	for _, other := range s.starts {
		if other.job == run.job && other.attempt == run.attempt {
			if other.joins != run.joins {
				s.violate("R1: two ranks of attempt %d have met different peers", run.attempt)
			}
			if other != run && other.rank == run.rank {
				s.violate("R1: rank %d of attempt %d was started twice", run.rank, run.attempt)
			}
		}
	}
	for _, c := range s.cancels {
		p := s.current.p
		awake := p.paused[1] < c.at // it was not paused since the cancel
		if c.stands && c.job == run.job && awake && s.now > c.at+30*time.Second {
			s.violate("E1: a program of a cancelled job was started %s after cancel returned", s.now-c.at)
		}
	}
}

// checkRestored: R6, what is offered is the newest that was acknowledged before.
func (s *scene) checkRestored(p job.Path, o Order, m *machine, progress int, saved *Saved) {
	entries, at := s.rawUnder(stateDir(p, o.Rank))
	var mine time.Duration = -1
	for n, e := range entries {
		if e.Restored != nil && e.Restored.Agent == m.agent && e.Restored.Attempt == o.Attempt {
			mine = at[n]
		}
	}
	if mine < 0 {
		s.violate("R6: attempt %d began rank %d without restored", o.Attempt, o.Rank)
		return
	}
	for _, a := range s.saves {
		if a.job == m.job && a.rank == o.Rank && s.made[a.key] < mine && a.progress > progress && !s.torn[a.blob] {
			s.violate("R6: rank %d attempt %d begins at %d, %d was saved", o.Rank, o.Attempt, progress, a.progress)
		}
	}
}

// checkSaved: R6, nobody's save is acknowledged after a newer attempt took over.
func (s *scene) checkSaved(a ack) {
	s.saves = append(s.saves, a)
	entries, at := s.rawUnder(stateDir(job.Path{Project: "p", Task: "t"}, a.rank))
	place, _ := s.placeOf(a.job)
	for n, e := range entries {
		if e.Restored == nil || at[n] > s.made[a.key] {
			continue
		}
		if e.Restored.Place > place || e.Restored.Place == place && e.Restored.Attempt > a.attempt {
			if at[n] < s.made[a.key] {
				s.violate("R6: attempt %d saved rank %d after attempt %d took over", a.attempt, a.rank, e.Restored.Attempt)
			}
		}
	}
}

func (s *scene) rawUnder(dir string) (entries []Entry, at []time.Duration) {
	for n := 0; ; n++ {
		key := fmt.Sprintf("%s/%08d", dir, n)
		when, ok := s.made[key]
		if !ok {
			return entries, at
		}
		var e Entry
		s.peek(key, &e)
		entries, at = append(entries, e), append(at, when)
	}
}

// placeOf counts T1 independently: a submitted counts when the one before it
// was closed.
func (s *scene) placeOf(id string) (place int, live string) {
	entries, _ := s.rawUnder("p/t/log")
	place = -1
	for n, e := range entries {
		if e.Submitted != nil && live == "" {
			live = e.Submitted.Job
			if live == id {
				place = n
			}
		}
		if e.Closed != nil && e.Closed.Job == live {
			live = ""
		}
	}
	return place, live
}

// settledOf finds the settlement that counts, by its own reading of L3 and E1.
func (s *scene) settledOf(id string) (settled *Settled, when time.Duration, stop *Entry, stopAt time.Duration, attempts []Entry, opened []time.Duration) {
	entries, at := s.rawUnder("p/t/" + id + "/log")
	for n, e := range entries {
		switch {
		case settled != nil:
		case e.Attempt != nil && stop == nil && e.Attempt.K == len(attempts)+1:
			attempts, opened = append(attempts, e), append(opened, at[n])
		case (e.Cancelled != nil || e.Failing != nil) && stop == nil:
			stop, stopAt = &entries[n], at[n]
		case e.Settled != nil:
			settled, when = e.Settled, at[n]
		}
	}
	return settled, when, stop, stopAt, attempts, opened
}

// checkEnd looks at the whole history once everything has come to rest.
func (s *scene) checkEnd() {
	s.checkTask()
	for id := range s.jobs {
		settled, when, stop, stopAt, attempts, opened := s.settledOf(id)
		if settled == nil {
			s.violate("I6: job %s was accepted and has not settled", id)
			continue
		}
		s.checkVerdict(id, settled, when, stop, attempts)
		s.checkAttempts(id, attempts, opened)
		s.checkStop(id, settled, when, stop, stopAt)
		if stop != nil {
			s.checkHalted(id, 0, -1, stopAt, "R7: the job was stopped")
		}
		s.checkPeers(id, len(attempts))
	}
	for _, c := range s.cancels {
		settled, _, stop, _, _, _ := s.settledOf(c.job)
		if c.stands && (stop == nil || stop.Cancelled == nil || settled != nil && settled.State != job.Cancelled) {
			s.violate("E1: cancel of %s stood and the job is %v", c.job, settled)
		}
	}
	for _, d := range s.left {
		_, when, _, _, _, _ := s.settledOf(d.m.job)
		if !d.m.told && (when == 0 || when > d.at) && d.m.member != nil {
			s.violate("R1: agent %s left at %s, before the job settled", d.m.agent, d.at)
		}
	}
}

// checkTask: T1, a job is submitted only after the one before it had settled.
func (s *scene) checkTask() {
	entries, at := s.rawUnder("p/t/log")
	last := ""
	for n, e := range entries {
		if e.Submitted == nil {
			continue
		}
		if last != "" && s.jobs[e.Submitted.Job] {
			if _, when, _, _, _, _ := s.settledOf(last); when == 0 || when > at[n] {
				s.violate("T1: %s was submitted before %s had settled", e.Submitted.Job, last)
			}
		}
		if s.jobs[e.Submitted.Job] || last == "" {
			last = e.Submitted.Job
		}
	}
}

func (s *scene) checkVerdict(id string, settled *Settled, when time.Duration, stop *Entry, attempts []Entry) {
	switch settled.State {
	case job.Succeeded:
		if stop != nil {
			s.violate("E1: %s succeeded after a stop", id)
		}
		for rank := range s.nodes {
			if !s.ranTo(id, settled.Attempt, rank, when) {
				s.violate("R5: %s succeeded and rank %d of attempt %d has not ended with 0 before", id, rank, settled.Attempt)
			}
		}
	case job.Failed:
		if stop != nil {
			return // interrupted too often: counted in checkAttempts
		}
		spent := 0
		for _, a := range attempts {
			if a.Attempt.Cause == Failure {
				spent++
			}
		}
		if spent != s.retries || !s.truly(id, settled.Attempt) {
			s.violate("R4: %s failed in attempt %d with %d of %d retries spent, program failed there: %v", id, settled.Attempt, spent, s.retries, s.truly(id, settled.Attempt))
		}
	case job.Cancelled:
		if stop == nil || stop.Cancelled == nil {
			s.violate("E1: %s is cancelled and nobody cancelled it", id)
		}
	}
}

// truly says whether the program of that attempt failed by itself.
func (s *scene) truly(id string, attempt int) bool {
	return slices.ContainsFunc(s.starts, func(r *start) bool {
		return r.job == id && r.attempt == attempt && r.ended && r.code != 0
	})
}

// ranTo says whether the program of that rank truly ended with 0 and its
// outputs were stored before t.
func (s *scene) ranTo(id string, attempt, rank int, t time.Duration) bool {
	for _, r := range s.starts {
		if r.job == id && r.attempt == attempt && r.rank == rank && r.ended && r.code == 0 && r.to == s.work && r.end <= t {
			var e Exit
			key := fmt.Sprintf("p/t/%s/attempts/%d/exit/%d", id, attempt, rank)
			if when, ok := s.made[key]; !ok || when > t {
				return false
			}
			s.peek(key, &e)
			blobAt, ok := s.made["blobs/"+string(e.Outputs["model"])]
			return ok && blobAt <= s.made[key]
		}
	}
	return false
}

// checkAttempts: R3 and R4, each attempt has a true cause.
func (s *scene) checkAttempts(id string, attempts []Entry, opened []time.Duration) {
	interrupted, failed := 0, 0
	for i, e := range attempts {
		a, t := e.Attempt, opened[i]
		switch a.Cause {
		case Lost, Notice:
			interrupted++
		case Failure:
			failed++
		}
		if i == 0 {
			continue
		}
		s.checkCause(id, i, *a, t, e)
	}
	if failed > s.retries {
		s.violate("R3: %d attempts for failures, %d retries", failed, s.retries)
	}
	if interrupted > MaxInterruptions {
		s.violate("R5: %d interruptions", interrupted)
	}
}

func (s *scene) checkCause(id string, before int, a Attempt, t time.Duration, e Entry) {
	if len(a.Ranks) == 0 {
		s.violate("R3: attempt %d was opened without a cause", a.K)
	}
	exits := 0
	for rank := range s.nodes {
		if when, ok := s.made[fmt.Sprintf("p/t/%s/attempts/%d/exit/%d", id, before, rank)]; ok && when <= t {
			exits++
		}
	}
	if a.Cause == Failure && exits < s.nodes {
		s.violate("R4: attempt %d blames the program with %d of %d exits", a.K, exits, s.nodes)
	}
	if a.Cause != Lost {
		return
	}
	for _, rank := range a.Ranks {
		var j Join
		key := fmt.Sprintf("p/t/%s/attempts/%d/join/%d", id, before, rank)
		if when, ok := s.made[key]; !ok || when > t {
			s.violate("R3: attempt %d mourns rank %d, which never joined", a.K, rank)
			continue
		}
		s.peek(key, &j)
		s.checkDeath(j.Agent, t, e)
	}
}

// checkDeath: D1 and D2, nobody is called dead who lives and was heard of. What
// counts is when the observer decided, not when its entry landed; what came in
// the last seconds before that may have crossed its look.
func (s *scene) checkDeath(agent string, t time.Duration, e Entry) {
	observer := s.processOf(e.By)
	decided := min(e.At.Sub(epoch)-observer.skew, t) - 10*time.Second
	for _, m := range s.machines {
		if m.agent != agent {
			continue
		}
		if m.p.dead && m.died <= t {
			return
		}
		if quiet := decided - m.lastBeat(decided); quiet < Lease-Heartbeat-10*time.Second {
			s.violate("D1: agent %s was called dead and had a heartbeat %s before", agent, quiet)
		}
		slept := observer.paused[1] - observer.paused[0]
		if observer.paused[1] <= t && t-observer.paused[1] < Lease-readGap && slept > Lease {
			s.violate("D2: agent %s was called dead by %s, who had just slept for %s", agent, e.By, slept)
		}
	}
}

func (m *machine) lastBeat(t time.Duration) time.Duration {
	last := time.Duration(-time.Hour)
	for _, b := range m.beats {
		if b <= t {
			last = b
		}
	}
	return last
}

// processOf finds who signed an entry: an agent's id, or a command line's name.
func (s *scene) processOf(by string) *process {
	for _, m := range s.machines {
		if m.agent == by {
			return m.p
		}
	}
	for _, p := range s.procs {
		if p.name == by {
			return p
		}
	}
	return &process{}
}

// checkPeers: R4, when a rank ends badly the others end too.
func (s *scene) checkPeers(id string, attempts int) {
	for k := 1; k <= attempts; k++ {
		for rank := range s.nodes {
			key := fmt.Sprintf("p/t/%s/attempts/%d/exit/%d", id, k, rank)
			if when, ok := s.made[key]; ok {
				var e Exit
				if s.peek(key, &e); e.Verdict == Broke {
					s.checkHalted(id, k, rank, when, fmt.Sprintf("R4: rank %d of attempt %d failed", rank, k))
				}
			}
		}
	}
}

// checkHalted: programs that ran when something happened at t are gone soon
// after, unless their agent was paused. Attempt 0 means any.
func (s *scene) checkHalted(id string, attempt, but int, t time.Duration, what string) {
	const soon = Poll + 15*time.Second // a poll, and requests that are tried again
	for _, r := range s.starts {
		if r.job != id || attempt != 0 && r.attempt != attempt || r.rank == but || r.at > t {
			continue
		}
		p := s.processOf(r.agent)
		end := r.end
		if end == 0 {
			end = s.now
		}
		if end > t+soon && p.paused[1] < t && p.died > t+soon {
			s.violate("%s, and rank %d ran on for %s", what, r.rank, end-t)
		}
	}
}

// checkStop: R8, a stopped run is settled only when its programs have ended or
// the time for that is over.
func (s *scene) checkStop(id string, settled *Settled, when time.Duration, stop *Entry, stopAt time.Duration) {
	if stop == nil || when-stopAt >= 40*time.Second {
		return
	}
	for _, r := range s.starts {
		if r.job == id && r.at < when && (r.end == 0 || r.end > when) && !s.agentDeadAt(r.agent, when) && r.attempt == settled.Attempt {
			s.violate("R8: %s was settled %s after its stop while rank %d ran", id, when-stopAt, r.rank)
		}
	}
}

func (s *scene) agentDeadAt(agent string, t time.Duration) bool {
	for _, m := range s.machines {
		if m.agent == agent {
			// Called dead by a lease counts too: it was silent long enough.
			return m.p.dead && m.died <= t || t-m.lastBeat(t) > Lease-Heartbeat
		}
	}
	return true
}

// reader looks at every job again and again: what it has seen never becomes untrue.
func (s *scene) reader(p *process) {
	w := s.ledgerOf(p)
	last := map[string]job.State{}
	ended := map[string]Settled{}
	for {
		for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
			rep, err := w.Look(ctx, job.Path{Project: "p", Task: "t", Job: id})
			if errors.Is(err, store.ErrNotExist) {
				continue
			}
			must(err)
			if was, ok := last[id]; ok && !was.CanBecome(rep.State) {
				s.violate("V1: a reader saw %s become %s", was, rep.State)
			}
			last[id] = rep.State
			if rep.Run.Settled != nil {
				if was, ok := ended[id]; ok && was != *rep.Run.Settled {
					s.violate("V1: a settled job changed from %v to %v", was, *rep.Run.Settled)
				}
				ended[id] = *rep.Run.Settled
			}
		}
		p.sleep(s.between(5*time.Second, 40*time.Second))
	}
}
