package ledger

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// A user mends the script of a map while it runs, or for another round of it: that
// is a digest here, and agents have the one that the job had when they began.

// codeTale is one code of a job, and since when items run with it.
type codeTale struct {
	digest string
	at     time.Duration
}

// ownCode is what every job is submitted with.
const ownCode = "code0"

// setCodes draws whether this world has new code. It has randomness of its own:
// worlds without stay what they were.
func (s *yard) setCodes() {
	rng := rand.New(rand.NewPCG(s.seed, 19))
	if s.recodes = rng.IntN(6) == 0; !s.recodes {
		return
	}
	for range 1 + rng.IntN(3) {
		s.at(time.Duration(rng.Int64N(int64(s.troubledFor()))), func() { s.somebody("mender", s.mender) })
	}
}

// newCode draws what the script is next: mostly a new one, sometimes as it was before.
func (s *yard) newCode() *protocol.Code {
	n := s.codes + 1
	if s.codes > 0 && s.chance(25) {
		n = s.rng.IntN(s.codes)
	}
	s.codes = max(s.codes, n)
	return &protocol.Code{Code: job.Code{Digest: fmt.Sprintf("code%d", n), Blob: "b"}}
}

// mender gives a live job new code.
func (s *yard) mender(p *process) {
	code := s.newCode()
	s.say(p, "new code", func(w protocol.World, id string) (bool, error) {
		return control.AmendMap(ctx, w, pathOf(id), p.name, protocol.Amended{Code: code})
	})
	p.end()
}

// recode has a round begin with new code, now and then.
func (s *yard) recode(r *control.Round) {
	if s.recodes && s.chance(50) {
		r.Amend = &protocol.Amended{Code: s.newCode()}
	}
}

// amended takes in what an entry that counts binds from now on.
func (t *mapTale) amended(e protocol.JobEntry) {
	if e.Amended == nil {
		return
	}
	r := e.Amended.Retries
	if e.Amended.Settings != nil {
		r = &e.Amended.Settings.Retries
	}
	if r != nil {
		t.retries = [2]int{min(t.retries[0], *r), max(t.retries[1], *r)}
		t.allowed = append(t.allowed, retriesTale{*r, t.s.now})
	}
	t.rebound(*e.Amended)
	if c := e.Amended.Code; c != nil {
		if slices.ContainsFunc(t.codes, func(o codeTale) bool { return o.digest == c.Digest }) {
			t.s.seen["code as it once was"]++
		}
		t.codes = append(t.codes, codeTale{c.Digest, t.s.now})
		if t.s.seen["new code"]++; e.Reopened != nil || e.Extended != nil {
			t.s.seen["new code with a round"]++
		}
	}
}

// retriesTale is how often an item may be tried again, since some time.
type retriesTale struct {
	n  int
	at time.Duration
}

// retriesSince is the least and the most that was allowed at some moment after one.
func (t *mapTale) retriesSince(at time.Duration) [2]int {
	least, most := math.MaxInt, 0
	for i, r := range t.allowed {
		if i+1 == len(t.allowed) || t.allowed[i+1].at > at {
			least, most = min(least, r.n), max(most, r.n)
		}
	}
	return [2]int{least, most}
}

// code is what items run with now.
func (t *mapTale) code() string { return t.codes[len(t.codes)-1].digest }

// since are the codes that items may have run with at some moment after one.
func (t *mapTale) since(at time.Duration) (some []string) {
	for i, c := range t.codes {
		if i+1 == len(t.codes) || t.codes[i+1].at > at {
			some = append(some, c.digest)
		}
	}
	return some
}

// bind is what an agent does first: it takes the job as it binds what begins now.
func (a *mapAgent) bind(j job.Job) job.Job {
	if a.s.recodes { // else it is as it was submitted, and a read less
		from := a.s.now
		m, err := chunks.ReadMap(ctx, a.w, j)
		must(err)
		a.heard, j = from, m.Bind(j)
	}
	a.code = j.Code.Digest
	if t := a.s.tales[a.job]; !slices.Contains(t.since(a.heard), a.code) {
		a.s.violate("J2: %s comes with %s, and %s runs with %v", a.agent, a.code, a.job, t.since(a.heard))
	}
	return j
}

// outdated says that its items are to be run with other code than it has: it lets
// what runs end, and gives back what it holds.
func (a *mapAgent) outdated() bool {
	return a.order.Do == mapagent.Work && a.order.Code != "" && a.order.Code != a.code
}

// yield is the map runner's way out for an agent that has old code or was drained; gone when nothing
// runs any more.
func (a *mapAgent) yield() (gone bool) {
	a.takeBack()
	if a.reap(); len(a.running)+len(a.ended) > 0 {
		if a.order.Do == mapagent.Work {
			a.order.Do = mapagent.Rest
		}
		return false
	}
	if a.yields = true; a.order.Do == mapagent.Quit {
		a.checkQuit()
	} else {
		a.checkRecoded()
	}
	a.leave()
	return true
}

// checkRecoded is J2: an agent that leaves for new code has another one.
func (a *mapAgent) checkRecoded() {
	s := a.s
	if since := s.tales[a.job].since(a.heard); !slices.ContainsFunc(since, func(c string) bool { return c != a.code }) {
		s.violate("J2: %s, which has %s, leaves for the sake of %s, and %s runs with %v", a.agent, a.code, a.order.Code, a.job, since)
	}
	s.logf("%s leaves: the job has %s", a.p.name, a.order.Code)
	s.seen["left for new code"]++
}

// checkCode is J2: what begins once its agent has read of new code runs with that, and
// an agent that is awake reads of it in time.
func (s *yard) checkCode(try *mapTry) {
	t, a := s.tales[try.job], try.agent
	if known := t.since(a.heard); !slices.Contains(known, a.code) {
		s.violate("J2: item %d begins with %s, and %s has read that it is %v", try.item, a.code, a.agent, known)
	}
	s.checkOutdated(a, "J2: item %d begins with %s on %s, and it is %s for long", try.item, a.code, a.agent, t.code())
	if t.won[try.item] != "" {
		s.violate("M1: item %d begins with %s, and had succeeded by %s", try.item, a.code, t.won[try.item])
	}
	if a.code != ownCode {
		s.seen["began with new code"]++
	}
}

// checkOutdated is a violation if an agent was awake since its code was replaced, and
// should know it by now.
func (s *yard) checkOutdated(a *mapAgent, format string, args ...any) {
	since := s.now - s.prompt()
	if since > 0 && a.awake(since, s.now) && a.joined < since && !slices.Contains(s.tales[a.job].since(since), a.code) {
		s.violate(format, args...)
	}
}
