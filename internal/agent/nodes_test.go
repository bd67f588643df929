package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/agent/launcher"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

func TestWhereThereIsNoViewTheVariablesSay(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submit(shell(`echo $SM_MODEL_DIR; echo m >$SM_MODEL_DIR/m; cp $SM_INPUT_CONFIG_DIR/resourceconfig.json $SM_OUTPUT_DATA_DIR/`), nil)
	w := p.start(j, func(c *node.Config) {
		start := c.Machine.Start
		c.Machine.Start = func(ctx context.Context, cmd proc.Command) (*proc.Process, error) {
			if cmd.View != nil {
				return nil, fmt.Errorf("%w: the kernel says no", mount.ErrNoView)
			}
			return start(ctx, cmd)
		}
	})
	w.leave(0)
	rep := p.look(j)
	if out := p.said(j, record.Stdout); !strings.HasPrefix(out, p.work+"/") || !strings.HasSuffix(out, "/opt/ml/model\n") {
		t.Errorf("its model folder is %q", out)
	}
	if note := "no private /opt/ml here (the kernel says no): "; strings.Count(p.said(j, record.Agent), note) != 1 {
		t.Errorf("it does not say once %q:\n%s", note, p.said(j, record.Agent))
	}
	exit := rep.Run.Exits[0]
	if diff := cmp.Diff(map[string]string{"m": "m\n"}, p.output(exit, "model")); diff != "" {
		t.Errorf("model (-want +got):\n%s", diff)
	}
	if _, ok := p.output(exit, "output")["resourceconfig.json"]; !ok {
		t.Error("the contract's files are not where the variables say")
	}
	p.nothingLeft()
}

func TestWhatTheMachineUsesIsNotHidden(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submit(shell("echo $SM_MODEL_DIR"), nil)
	p.start(j, func(c *node.Config) { c.Machine.Drover = "/opt/ml/bin/drover" }).leave(0)
	if out := p.said(j, record.Stdout); !strings.HasPrefix(out, p.work) {
		t.Errorf("its model folder is %q", out)
	}
	if want := "/opt/ml/bin/drover is in /opt/ml, which the program would see as its own"; !strings.Contains(p.said(j, record.Agent), want) {
		t.Errorf("it does not say %q", want)
	}
}

func TestProcessingLeavesResultsAndAMessage(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	line := `cd ${DROVER_OUTPUT_DIR%/one}; echo 1 >one/a; echo 2 >two/b; printf ' all well\n' >$DROVER_MESSAGE_FILE`
	spec := job.Spec{Verb: job.Process, Program: "/bin/sh", Args: []string{"-c", line}, Results: []job.Result{
		{Name: "first", From: "/opt/ml/processing/one"}, {Name: "second", From: "/opt/ml/processing/two"}}}
	exit := p.run(p.submit(spec, nil)).Run.Exits[0]
	if exit.Verdict != protocol.Done || exit.Message != "all well" {
		t.Errorf("exit %+v", exit)
	}
	if diff := cmp.Diff(map[string]string{"first/a": "1\n", "second/b": "2\n"}, p.output(exit, "output")); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestAFailureFileIsAFailure(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	rep := p.run(p.submit(shell(`printf 'ä%.0s' $(seq 2000) >$DROVER_FAILURE_FILE`), nil))
	exit := rep.Run.Exits[0]
	if exit.Verdict != protocol.Broke || exit.Code != 1 || exit.Reason != strings.Repeat("ä", 1024) || rep.State != job.Failed {
		t.Errorf("%s: exit %+v", rep.State, exit)
	}
}

// TestWhatAProgramDoesToItsFoldersIsItsOwn: its exit stands, and what is elsewhere
// does not come along.
func TestWhatAProgramDoesToItsFoldersIsItsOwn(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		model map[string]string
		note  string
	}{
		`rm -rf $M; mkfifo $M`:                             {nil, "it is no longer a folder"},
		`rm -rf $M; echo x >$M`:                            {nil, "it is no longer a folder"},
		`rm -rf $M; ln -s model $M`:                        {nil, "it is a link to itself"},
		`rm -rf $M; ln -s /etc $M`:                         {nil, "it is a link that leads elsewhere"},
		`rm -rf $M`:                                        {nil, ""},
		`rm -rf $M; mkdir w; echo w >w/w; ln -s $PWD/w $M`: {map[string]string{"w": "w\n"}, ""},
		`rm -rf ${M%/*}/checkpoints; mkfifo ${M%/*}/checkpoints; echo m >$M/m`: {map[string]string{"m": "m\n"}, ""},
		`mkdir $M/d; echo m >$M/d/m; chmod 0 $M/d/m; chmod 555 $M/d`:           {map[string]string{"d/m": "m\n"}, ""},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			exit := p.run(p.submit(shell("M=$SM_MODEL_DIR; "+line+"; exit 3"), nil)).Run.Exits[0]
			if exit.Verdict != protocol.Broke || exit.Code != 3 || want.note == "" && len(exit.Notes) > 0 || !strings.Contains(strings.Join(exit.Notes, "\n"), want.note) {
				t.Errorf("exit %+v", exit)
			}
			if diff := cmp.Diff(want.model, p.output(exit, "model")); diff != "" {
				t.Errorf("model (-want +got):\n%s", diff)
			}
			p.nothingLeft()
		})
	}
}

func TestNodesMeetWhereTheyReachEachOther(t *testing.T) {
	t.Parallel()
	a := newAgent(node.Config{})
	a.Machine.Interface, a.Machine.Loopback = "eth7", "lo"
	joins := func(stacks ...string) (all []protocol.Join) {
		for i, s := range stacks {
			all = append(all, protocol.Join{Address: fmt.Sprintf("10.0.0.%d", i), Port: 1000 + i, Stack: s, Procs: 2})
		}
		return all
	}
	for name, row := range map[string]struct {
		joins []protocol.Join
		peers []contract.Peer
		iface string
	}{
		"on one machine":  {joins("a", "a"), []contract.Peer{{Address: "127.0.0.1", Port: 1000}, {Address: "127.0.0.1", Port: 1001}}, "lo"},
		"on two":          {joins("a", "b"), []contract.Peer{{Address: "10.0.0.0", Port: 1000}, {Address: "10.0.0.1", Port: 1001}}, "eth7"},
		"two and one":     {joins("a", "a", "b"), []contract.Peer{{Address: "10.0.0.0", Port: 1000}, {Address: "10.0.0.1", Port: 1001}, {Address: "10.0.0.2", Port: 1002}}, "eth7"},
		"none knows":      {joins("", ""), []contract.Peer{{Address: "10.0.0.0", Port: 1000}, {Address: "10.0.0.1", Port: 1001}}, "eth7"},
		"alone":           {joins("a"), []contract.Peer{{Address: "127.0.0.1", Port: 1000}}, ""},
		"alone, not told": {joins(""), []contract.Peer{{Address: "10.0.0.0", Port: 1000}}, ""},
	} {
		peers, iface, err := a.meeting.resolvePeers(runagent.Order{Joins: row.joins})
		if diff := cmp.Diff(row.peers, peers); err != nil || diff != "" || iface != row.iface {
			t.Errorf("%s: by %q, %v (-want +got):\n%s", name, iface, err, diff)
		}
	}
	uneven := joins("a", "a")
	uneven[1].Procs = 8
	if _, _, err := a.meeting.resolvePeers(runagent.Order{Joins: uneven}); err == nil || err.Error() != "start program: one process for each GPU would be 2 on node 0 and 8 on node 1" {
		t.Errorf("nodes that differ: %v", err)
	}
}

func TestEachAttemptHasAPortOfItsOwn(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	given, held := 0, map[int]bool{}
	p := newPlace(t)
	j := p.submit(job.Spec{Verb: job.Shell, Program: "exit 1", Retries: 2}, nil)
	p.start(j, func(c *node.Config) {
		c.Machine.Port = func() (int, func(), error) {
			mu.Lock()
			defer mu.Unlock()
			given++
			port := 20000 + given
			held[port] = true
			return port, func() { mu.Lock(); defer mu.Unlock(); delete(held, port) }, nil
		}
	}).leave(0)
	if given != 3 || len(held) > 0 {
		t.Errorf("three attempts took %d ports, and %v are still held", given, held)
	}
}

// TestACallIsRunOnItsNode carries a line from one node's desk to another's, by
// way of the store alone.
func TestACallIsRunOnItsNode(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submit(job.Spec{Program: "true", Nodes: 3}, nil)
	end := func(rank, attempt int) *calls {
		a := newAgent(node.Config{World: p.World, Path: j.Path()})
		a.ID, a.Poll = fmt.Sprint("agent-", rank), 10*time.Millisecond
		a.Machine.Near = true
		a.Job = j
		a.Out = quiet(t, p)
		return &calls{a: a, attempt: attempt, rank: rank, hosts: contract.Hosts(3), joins: make([]protocol.Join, 3)}
	}
	ctx, stop := context.WithCancel(t.Context())
	var served sync.WaitGroup
	heard := make(chan string, 10)
	for _, d := range []*calls{end(1, 2), end(2, 2), end(1, 1)} { // and a server of an attempt that is over
		served.Go(func() {
			_ = d.Serve(ctx, func(_ context.Context, line string) int {
				heard <- fmt.Sprintf("attempt %d node %d: %s", d.attempt, d.rank, line)
				return 40 + d.rank
			})
		})
	}
	first := end(0, 2)
	for i, host := range []string{"algo-3", "algo-2", "algo-3"} {
		line := fmt.Sprintf("line %d", i)
		status, err := first.Call(t.Context(), host, line)
		rank := int(host[5] - '1')
		if got, want := <-heard, fmt.Sprintf("attempt 2 node %d: %s", rank, line); err != nil || status != 40+rank || got != want {
			t.Errorf("%s gave %d, %v after %q, want %q", host, status, err, got, want)
		}
	}
	if _, err := first.Call(t.Context(), "algo-1", "x"); !errors.Is(err, launcher.ErrHere) {
		t.Errorf("a call to the own node: %v", err)
	}
	for _, host := range []string{"algo-4", ""} {
		if _, err := first.Call(t.Context(), host, "x"); err == nil {
			t.Errorf("a call to %q is carried", host)
		}
	}
	stop()
	served.Wait()
	if len(heard) > 0 {
		t.Errorf("heard twice: %s", <-heard)
	}
}

// quiet is a log for agents that are not run.
func quiet(t *testing.T, p *place) *record.Writer {
	t.Helper()
	w, err := record.NewWriter(record.Options{Store: p.Store, Prefix: filepath.Join("demo", "logs"), ID: "x", Clock: p.Store.Clock()})
	p.check(err)
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	return w
}
