package remote

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	for _, c := range []Claimant{{ID: "s-1", Index: 2, Attempt: 1}, {ID: "s-1", Index: Anywhere, Attempt: 1}, {ID: "s-1", Index: Anywhere, Attempt: 2, Process: "i-1"}, {Attempt: 1}, {ID: "s-1"}} {
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
	if _, _, err := p.Claim(t.Context(), Claimant{ID: "a", Index: 0, Attempt: 1}); err != nil {
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
		{Claimant{ID: "a", Index: 1, Attempt: 1}, 1, true},
		{Claimant{ID: "a", Index: 1, Attempt: 1}, 1, true},
		{Claimant{ID: "b", Index: 1, Attempt: 1}, 0, false},
		{Claimant{ID: "a", Index: 1, Attempt: 3}, 4, true},
		{Claimant{ID: "a", Index: 1, Attempt: 2}, 0, false}, // the attempt before the one that works
		{Claimant{ID: "a", Index: 1, Attempt: 3}, 4, true},
		{Claimant{ID: "b", Index: 2, Attempt: 2}, 2, true},
		{Claimant{ID: "a", Index: 2, Attempt: 5}, 0, false},
	} {
		if n, mine, err := p.Claim(t.Context(), step.c); err != nil || mine != step.mine || mine && n != step.n {
			t.Errorf("step %d: Claim(%+v) gives %d, %v, %v; want %d, %v", i, step.c, n, mine, err, step.n, step.mine)
		}
	}
}

// Each row of the table of members.
func TestMembersOfRecordAndEngine(t *testing.T) {
	c := Claimant{ID: "s-1", Index: 0, Attempt: 1}
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

func TestProcessesWithoutPlacesClaimNumbersThatNoneHas(t *testing.T) {
	p := created(t, newRecords(), 3)
	claim := func(name string) int {
		t.Helper()
		n, ok, err := p.Claim(t.Context(), Claimant{ID: "group", Index: Anywhere, Attempt: 1, Process: name})
		if err != nil || !ok {
			t.Fatalf("%s: %v, %v", name, ok, err)
		}
		return n
	}
	var first []int
	for _, name := range []string{"i-1", "i-2", "i-3"} {
		first = append(first, claim(name))
	}
	slices.Sort(first)
	if !slices.Equal(first, []int{0, 1, 2}) {
		t.Errorf("three processes are the agents %v", first)
	}
	if n, m := claim("i-4"), claim("i-5"); n != 3 || m != 4 {
		t.Errorf("those in the place of others are %d and %d, want 3 and 4", n, m)
	}
}

func TestManyProcessesWithoutPlacesClaimAtOnce(t *testing.T) {
	const agents = 40
	p := created(t, newRecords(), agents)
	var numbers [agents]int
	var all sync.WaitGroup
	for i := range agents {
		all.Go(func() {
			n, ok, err := p.Claim(t.Context(), Claimant{ID: "group", Index: Anywhere, Attempt: 1, Process: fmt.Sprint("i-", i)})
			if err != nil || !ok {
				t.Error(ok, err)
			}
			numbers[i] = n
		})
	}
	all.Wait()
	slices.Sort(numbers[:])
	for i, n := range numbers {
		if i != n {
			t.Fatalf("the agents are %v", numbers)
		}
	}
}

func TestATurnIsOneAgents(t *testing.T) {
	p := created(t, newRecords(), 3)
	for _, want := range []bool{true, false} {
		if mine, err := p.Turn(t.Context(), 7); mine != want || err != nil {
			t.Errorf("%v, %v; want %v", mine, err, want)
		}
	}
}

func TestMembersOfAnEngineThatReplaces(t *testing.T) {
	process := func(name string, s driver.State) Process {
		return Process{Claimant: Claimant{ID: "group", Index: Anywhere, Attempt: 1, Process: name}, State: s, Code: -1}
	}
	v := view{request: Request{Agents: 3}, state: state{asked: 1, answers: map[int]answered{1: {IDs: []string{"group"}}},
		agents: map[int]Claimant{1: process("i-2", "").Claimant}, ends: map[int]End{}}, found: []string{"group"},
		processes: []Process{process("i-1", driver.Ended), process("i-2", driver.Taken), process("i-3", driver.Running), process("i-4", driver.Waiting), process("", driver.Waiting)}}
	v.index()
	var got []string
	for _, m := range v.members() {
		got = append(got, fmt.Sprint(m.Index, " ", m.State))
	}
	want := []string{"0 waiting", "1 taken", "2 waiting", "3 waiting"} // i-1 never came up, and another has come in its place
	if !slices.Equal(got, want) {
		t.Errorf("members are %q, want %q", got, want)
	}
	v.processes = v.processes[:1]
	v.index()
	got = nil
	for _, m := range v.members() {
		got = append(got, fmt.Sprint(m.Index, " ", m.State))
	}
	if want := []string{"0 ended", "1 lost", "2 lost"}; !slices.Equal(got, want) {
		t.Errorf("members are %q, want %q", got, want)
	}
}
