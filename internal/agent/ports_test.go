package agent

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

// portBook gives attempts their ports and answers which user listens on them.
type portBook struct {
	mu     sync.Mutex
	given  []int
	answer func(port int, nth int) []node.Listener // nth: of the ports given, from 0
}

func (b *portBook) Port() (int, func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.given = append(b.given, 20001+len(b.given))
	return b.given[len(b.given)-1], func() {}, nil
}

func (b *portBook) Listeners(port int) ([]node.Listener, error) {
	return b.answer(port, port-20001), nil
}

func foreign(nth, below int) []node.Listener {
	if nth < below {
		return []node.Listener{{UID: os.Geteuid() + 1, Socket: 1 << 62}}
	}
	return nil
}

// onNetwork starts as many agents as the job has nodes, on one network of one machine.
func (p *place) onNetwork(j job.Job, b *portBook) {
	p.t.Helper()
	var all []*worker
	for range j.Spec.Nodes {
		all = append(all, p.start(j, func(c *node.Config) {
			c.Machine.Stack, c.Machine.Loopback, c.Machine.Port, c.Machine.Listeners = "one", "lo", b.Port, b.Listeners
		}))
	}
	for _, w := range all {
		w.leave(0)
	}
}

// wasInterrupted says that attempt 1 ended without a fault, and the next did the work.
func (p *place) wasInterrupted(j job.Job) {
	p.t.Helper()
	rep := p.look(j)
	if rep.State != job.Succeeded || rep.Run.Attempt() != 2 || rep.Run.Attempts[1].Cause != protocol.Notice || rep.Run.Failures() != 0 {
		p.t.Errorf("%s after attempts %+v", rep.State, rep.Run.Attempts)
	}
	if said := p.said(j, record.Agent); !strings.Contains(said, "\ninterrupted: user ") || !strings.Contains(said, "where the nodes were to meet") {
		p.t.Errorf("it is not said why:\n%s", said)
	}
}

func TestAPortThatAnotherUserTookEndsTheAttemptForAll(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	spec := job.Spec{Verb: job.Shell, Nodes: 2, Program: `test $DROVER_ATTEMPT = 2 || exec sleep 1000`}
	b := &portBook{answer: func(_, nth int) []node.Listener { return foreign(nth, 2) }}
	j := p.submit(spec, nil)
	p.onNetwork(j, b)
	p.wasInterrupted(j)
}

// A program that meets a stranger at its port may fail before the agent has looked.
func TestAProgramIsNotBlamedForAPortThatAnotherUserTook(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ending := newGate(t)
	spec := job.Spec{Program: "/bin/sh", Launcher: job.TF, Env: map[string]string{"GATE": ending.Path},
		Args: []string{"-c", `test $DROVER_ATTEMPT = 2 || { echo >$GATE; exit 1; }`}}
	var once sync.Once
	b := &portBook{answer: func(_, nth int) []node.Listener {
		once.Do(ending.wait)
		return foreign(nth, 1)
	}}
	j := p.submit(spec, nil)
	p.onNetwork(j, b)
	p.wasInterrupted(j)
}

// Once the program listens, the port is its own; and what a program of root's does as
// another user is its own, too.
func TestAPortThatTheProgramTookIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]node.Listener{"this user": {UID: os.Geteuid(), Socket: 1 << 62}, "the program's socket": {UID: os.Geteuid() + 1, Socket: 7}} {
		looks := 0
		w := &portWatch{ports: []int{20001}, holds: func(socket uint64) bool { return socket == 7 }, listeners: func(int) ([]node.Listener, error) {
			if looks++; looks == 1 {
				return nil, nil
			}
			if looks == 2 {
				return []node.Listener{first}, nil
			}
			return foreign(0, 1), nil
		}}
		for range 3 {
			if why := w.checkPorts(); why != "" {
				t.Errorf("%s: %s", name, why)
			}
		}
		if looks != 2 || !w.programListens() {
			t.Errorf("%s: it has looked %d times", name, looks)
		}
	}
}

func TestWhereListenersAreNotKnownNothingEnds(t *testing.T) {
	t.Parallel()
	w := &portWatch{ports: []int{20001}, listeners: func(int) ([]node.Listener, error) { return nil, errors.ErrUnsupported }}
	if why := w.checkPorts(); why != "" || !w.programListens() {
		t.Errorf("it goes on looking, or ends: %q", why)
	}
	var none *portWatch
	if none.checkPorts() != "" {
		t.Error("no watch ends a program")
	}
	none.stopWatching()
}

func TestPortsThatProgramsMeetAt(t *testing.T) {
	t.Parallel()
	at := func(port int, stack string) protocol.Join { return protocol.Join{Port: port, Stack: stack} }
	for name, row := range map[string]struct {
		launcher job.Launcher
		rank     int
		joins    []protocol.Join
		want     []int
	}{
		"node 0":                        {job.Torch, 0, []protocol.Join{at(1, "a"), at(2, "b")}, []int{1}},
		"another of the machine":        {job.Torch, 1, []protocol.Join{at(1, "a"), at(2, "a")}, []int{1}},
		"one of another machine":        {job.Torch, 1, []protocol.Join{at(1, "a"), at(2, "b")}, nil},
		"where no network is known":     {job.Torch, 1, []protocol.Join{at(1, ""), at(2, "")}, nil},
		"each of TensorFlow's":          {job.TF, 1, []protocol.Join{at(1, "a"), at(2, "b")}, []int{2}},
		"one that makes its own way":    {job.Alone, 1, []protocol.Join{at(1, "a"), at(2, "a")}, []int{1, 2}},
		"one node with a launcher":      {job.TorchRun, 0, []protocol.Join{at(1, "a")}, []int{1}},
		"one node that is told of none": {job.Alone, 0, []protocol.Join{at(1, "a")}, nil},
		"where there are no ports":      {job.Torch, 0, []protocol.Join{at(0, "a"), at(0, "a")}, nil},
	} {
		a := newAgent(node.Config{})
		a.Job.Spec.Launcher = row.launcher
		got := a.meeting.meetingPorts(runagent.Order{Rank: row.rank, Joins: row.joins})
		if len(got) != len(row.want) || len(got) > 0 && (got[0] != row.want[0] || got[len(got)-1] != row.want[len(got)-1]) {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}
