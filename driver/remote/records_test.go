package remote

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

var handle = driver.Handle{Target: "far", Job: "abcd2345abcd2345", Placement: 1}

func newRecords() Records { return NewRecords(store.New(mem.New(), store.Options{}), "far") }

func created(t *testing.T, r Records, agents int) *Placement {
	t.Helper()
	p, _, err := r.Create(t.Context(), driver.Request{Job: handle.Job, Placement: 1, Agents: agents, Run: driver.Boot{Job: "p/t/" + handle.Job}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Another writer of the store may have left anything under these keys.
func TestWhatOthersWroteIsRefusedInOneSentence(t *testing.T) {
	for text, want := range map[string]string{
		`{"v":1,"agents":`:         "read placement: _placements/requests/far/abcd2345abcd2345-1 is damaged",
		`{"v":1,"agents":0}`:       "read placement: _placements/requests/far/abcd2345abcd2345-1 is damaged",
		`{"v":1,"agents":9e9}`:     "read placement: _placements/requests/far/abcd2345abcd2345-1 is damaged",
		`{"v":1,"agents":2000000}`: "read placement: _placements/requests/far/abcd2345abcd2345-1 is damaged",
		`{"v":7,"agents":1}`:       "read placement: _placements/requests/far/abcd2345abcd2345-1 has format 7, and this drover reads 1",
	} {
		r := newRecords()
		if _, _, err := r.store.CreateOnce(t.Context(), r.requestKey(handle), []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Open(t.Context(), handle); err == nil || err.Error() != want || fault.Hint(err) == "" {
			t.Errorf("%s: %v with the hint %q, want %s", text, err, fault.Hint(err), want)
		}
	}
}

func TestNumbersThatAreNoneAreNotOurs(t *testing.T) {
	r := newRecords()
	p := created(t, r, 2)
	for _, key := range []string{"up/-1", "up/x", "up/007", "end/99999999999999999999", "asked/4000000000", "other/1"} {
		if _, _, err := r.store.CreateOnce(t.Context(), p.prefix+key, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := r.store.CreateOnce(t.Context(), "_placements/requests/far/..-1x", []byte("{}")); err != nil {
		t.Log(err)
	}
	s, err := p.read(t.Context())
	if err != nil || s.asked != 0 || len(s.agents) != 0 || len(s.ends) != 0 {
		t.Errorf("read gives %+v, %v; want nothing", s, err)
	}
	if all, err := r.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("List gives %v, %v; want one", all, err)
	}
}

func TestClaimsThatCannotBe(t *testing.T) {
	r := newRecords()
	p := created(t, r, 2)
	for _, c := range []Claimant{{"s-1", 2, 1}, {"s-1", -1, 1}, {"", 0, 1}, {"s-1", 0, 0}} {
		if _, _, err := p.Claim(t.Context(), c); err == nil || !strings.HasPrefix(err.Error(), "claim agent: far:v1:abcd2345abcd2345:1 has no agent ") {
			t.Errorf("Claim(%+v) gives %v", c, err)
		}
	}
}

func TestARecordThatNoProcessWouldReadIsNotMade(t *testing.T) {
	r := newRecords()
	q := driver.Request{Job: handle.Job, Placement: 1, Agents: 1, Run: driver.Boot{Job: "p/t/" + handle.Job, Env: []string{"X=" + strings.Repeat("x", maxObject)}}}
	if _, _, err := r.Create(t.Context(), q); fault.KindOf(err) != fault.Invalid || !regexp.MustCompile(`^record placement: _placements/requests/far/abcd2345abcd2345-1 would have 26\d{4} bytes, and the most is 262144$`).MatchString(err.Error()) {
		t.Errorf("Create gives %v", err)
	}
	if all, err := r.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("List gives %v, %v", all, err)
	}
}

// The records of a task are below the one prefix that its agents may write to.
func TestRecordsOfATaskAreWhereItsAgentsMayWrite(t *testing.T) {
	r := newRecords()
	p := created(t, r, 1)
	if err := p.order(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Claim(t.Context(), Claimant{"a", 0, 1}); err != nil {
		t.Fatal(err)
	}
	if err := p.Ended(t.Context(), 0, End{}); err != nil {
		t.Fatal(err)
	}
	rights := AgentRights(job.Path{Project: "p", Task: "t"})
	for o, err := range r.store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if o.Key != r.requestKey(handle) && !strings.HasPrefix(o.Key, rights.Write[0]) {
			t.Errorf("%s is not below %s", o.Key, rights.Write[0])
		}
		if !slices.ContainsFunc(rights.Read, func(prefix string) bool { return strings.HasPrefix(o.Key, prefix) }) {
			t.Errorf("an agent cannot read %s", o.Key)
		}
	}
}

// A request names the job, and so the task that has the records: another one's would be written to.
func TestARequestIsOfItsOwnJob(t *testing.T) {
	for _, path := range []string{"", "p/t", "p/t/bcde3456bcde3456", "../t/" + handle.Job, "p/t/x/" + handle.Job} {
		q := driver.Request{Job: handle.Job, Placement: 1, Agents: 1, Run: driver.Boot{Job: path}}
		_, _, err := newRecords().Create(t.Context(), q)
		if want := fmt.Sprintf("start agents: far:v1:abcd2345abcd2345:1: %q is not the path of its job", path); err == nil || err.Error() != want {
			t.Errorf("Create gives %v, want %s", err, want)
		}
	}
}

// A claimant gets the number that it has when its answer was lost and it asks again.
func TestAClaimIsTheSameEachTime(t *testing.T) {
	p := created(t, newRecords(), 3)
	for i, step := range []struct {
		c    Claimant
		n    int
		mine bool
	}{
		{Claimant{"a", 1, 1}, 1, true},
		{Claimant{"a", 1, 1}, 1, true},
		{Claimant{"b", 1, 1}, 0, false},
		{Claimant{"a", 1, 3}, 4, true},
		{Claimant{"a", 1, 2}, 0, false}, // the attempt before the one that works
		{Claimant{"a", 1, 3}, 4, true},
		{Claimant{"b", 2, 2}, 2, true},
		{Claimant{"a", 2, 5}, 0, false},
	} {
		if n, mine, err := p.Claim(t.Context(), step.c); err != nil || mine != step.mine || mine && n != step.n {
			t.Errorf("step %d: Claim(%+v) gives %d, %v, %v; want %d, %v", i, step.c, n, mine, err, step.n, step.mine)
		}
	}
}

// Each row of the table of members.
func TestMembersOfRecordAndEngine(t *testing.T) {
	c := Claimant{"s-1", 0, 1}
	process := func(s driver.State, change ...func(*Process)) []Process {
		p := Process{Claimant: c, State: s, Code: -1, Reason: "the engine's words"}
		for _, f := range change {
			f(&p)
		}
		return []Process{p}
	}
	exit := func(p *Process) { p.Code, p.Tail = 7, "no such image" }
	terminated := func(p *Process) { p.Terminated, p.Reason = true, "" }
	up := map[int]Claimant{0: c}
	ends := func(e End) map[int]End { return map[int]End{0: e} }
	answers := map[int]answered{1: {IDs: []string{"s-1"}}}
	for name, row := range map[string]struct {
		s    state
		p    []Process
		want driver.Member
	}{
		"ended as recorded":       {state{agents: up, ends: ends(End{Code: 3, Reason: "no", Tail: "x"})}, process(driver.Running), driver.Member{State: driver.Ended, Code: 3, Reason: "no", Tail: "x"}},
		"ended well shows no log": {state{agents: up, ends: ends(End{Reason: "done", Tail: "x"})}, nil, driver.Member{State: driver.Ended, Reason: "done"}},
		"lost as recorded":        {state{agents: up, ends: ends(End{Code: -1, Lost: true, Reason: "it was killed by signal 9"})}, process(driver.Ended), driver.Member{State: driver.Lost, Code: -1, Reason: "it was killed by signal 9"}},
		"up and seen late":        {state{agents: up}, process(driver.Waiting), driver.Member{State: driver.Running, Code: -1, Reason: "the engine's words"}},
		"up and taken":            {state{agents: up}, process(driver.Taken), driver.Member{State: driver.Taken, Code: -1, Reason: "the engine's words"}},
		"up and killed by Stop":   {state{agents: up}, process(driver.Ended, terminated), driver.Member{State: driver.Ended, Code: -1, Reason: "stopped: killed at once"}},
		"up and forgotten":        {state{agents: up}, nil, driver.Member{State: driver.Lost, Code: -1, Reason: "the engine no longer knows it"}},
		"comes up":                {state{}, process(driver.Running), driver.Member{State: driver.Waiting, Code: -1, Reason: "the engine's words"}},
		"never came up":           {state{}, process(driver.Ended, exit), driver.Member{State: driver.Ended, Code: 7, Reason: "it never came up: the engine's words", Tail: "no such image"}},
		"never began":             {state{}, process(driver.Ended, terminated), driver.Member{State: driver.Ended, Code: -1, Reason: "stopped before it began"}},
		"not answered":            {state{}, nil, driver.Member{State: driver.Waiting, Code: -1, Reason: "the engine has not answered yet"}},
		"not answered, stopped":   {state{orders: 1}, nil, driver.Member{State: driver.Ended, Code: -1, Reason: "stopped before it began"}},
		"answered and forgotten":  {state{answers: answers}, nil, driver.Member{State: driver.Lost, Code: -1, Reason: "the engine no longer knows it"}},
	} {
		row.s.asked = 1
		v := view{handle: handle, request: Request{Agents: 1}, state: row.s, processes: row.p}
		v.found = v.known()
		v.index()
		got := v.members()
		if len(got) != 1 || !same(got[0], row.want) {
			t.Errorf("%s: %+v, want %+v", name, got, row.want)
		}
	}
}

func same(a, b driver.Member) bool {
	a.Enter = nil
	return a.State == b.State && a.Code == b.Code && a.Reason == b.Reason && a.Tail == b.Tail && a.Index == b.Index
}
