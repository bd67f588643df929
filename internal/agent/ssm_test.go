package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/bundle/union"
	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// seed is a spec by the rules of ssm.
func seed(s job.Spec, nodes int) job.Spec {
	s.Rules, s.Nodes = job.SSM, nodes
	return s
}

// all works on a job with as many agents as it has nodes, to its end.
func (p *place) all(j job.Job) views.Report {
	p.t.Helper()
	var workers []*worker
	for range j.Spec.Nodes {
		workers = append(workers, p.start(j, nil))
	}
	for _, w := range workers {
		w.leave(0)
	}
	p.index = 0
	return p.look(j)
}

// state is what the task's state holds, all nodes' together.
func (p *place) state(j job.Job) map[string]string {
	p.t.Helper()
	s, err := states.ReadShared(p.t.Context(), p.World, j.Path(), func(protocol.Saved) (bool, error) { return true, nil })
	p.check(err)
	var copies []union.Copy
	base := s.Copies(func(rank int, own string, list store.Digest) {
		copies = append(copies, union.Copy{Rank: rank, Own: own, List: list})
	})
	t, err := union.Unite(p.t.Context(), p.Store, base, copies, contract.IsHost)
	p.check(err)
	dir := p.t.TempDir()
	p.check(tree.Restore(p.t.Context(), p.Store, t, dir))
	return texts(p.t, dir)
}

// TestNodesShareOneState: what WorkerConfig does at its start, and jobs of other
// numbers of nodes after it.
func TestNodesShareOneState(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	// It lists what it finds, as others' folders go, and leaves a file of its own.
	line := `cd $SSM_STATE && find . -type f | sort | tr '\n' ' ' >$SM_MODEL_DIR/found-$SM_CURRENT_HOST
for d in algo-*; do [ "$d" = $SM_CURRENT_HOST ] || rm -rf "$d"; done
echo $WHICH >$SSM_INSTANCE_STATE/mine; echo $WHICH >by-$SM_CURRENT_HOST`
	var before map[string]string
	run := func(which string, nodes int) map[string]string {
		spec := seed(shell(line), nodes)
		spec.Env["WHICH"] = which
		j := p.submit(spec, nil)
		rep := p.all(j)
		if rep.State != job.Succeeded {
			t.Fatalf("%s: %+v", rep.State, rep.Run.Settled)
		}
		want := ""
		for _, name := range slices.Sorted(maps.Keys(before)) {
			want += "./" + name + " "
		}
		for rank := range nodes {
			host := fmt.Sprintf("algo-%d", rank+1)
			if got := p.output(rep.Run.Exits[rank], "model")["found-"+host]; got != want {
				t.Errorf("%s: %s finds %q, want %q", which, host, got, want)
			}
		}
		before = p.state(j)
		return before
	}
	want := map[string]string{"algo-1/mine": "one\n", "algo-2/mine": "one\n", "by-algo-1": "one\n", "by-algo-2": "one\n"}
	if diff := cmp.Diff(want, run("one", 2)); diff != "" {
		t.Errorf("after two nodes (-want +got):\n%s", diff)
	}
	want["algo-1/mine"], want["by-algo-1"] = "two\n", "two\n"
	if diff := cmp.Diff(want, run("two", 1)); diff != "" {
		t.Errorf("after one node (-want +got):\n%s", diff)
	}
	for _, host := range []string{"algo-1", "algo-2", "algo-3"} {
		want[host+"/mine"], want["by-"+host] = "three\n", "three\n"
	}
	if diff := cmp.Diff(want, run("three", 3)); diff != "" {
		t.Errorf("after three nodes (-want +got):\n%s", diff)
	}
	p.nothingLeft()
}

// TestAllNodesOfTheNextAttemptFindWhatEachHasSaved: one is interrupted.
func TestAllNodesOfTheNextAttemptFindWhatEachHasSaved(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	first, second, never := newGate(t), newGate(t), newGate(t)
	j := p.submit(seed(shell(`if [ $DROVER_ATTEMPT = 1 ]; then
trap 'echo last >$SSM_INSTANCE_STATE/s; echo $SM_CURRENT_HOST >$SSM_STATE/$SM_CURRENT_HOST.txt; exit 5' TERM
if [ $DROVER_RANK = 0 ]; then echo >$GATE0; else echo >$GATE1; fi; while :; do sleep 1000 & wait $!; done; fi
cat $SSM_STATE/algo-1/s $SSM_STATE/algo-2/s $SSM_STATE/*.txt >$SM_MODEL_DIR/$SM_CURRENT_HOST`, first, second, never), 2), nil)
	a, b := p.start(j, nil), p.start(j, nil)
	first.wait()
	second.wait()
	a.notice <- node.Notice{Asked: true, Why: "asked to stop"}
	b.notice <- node.Notice{Asked: true, Why: "asked to stop"}
	a.leave(0)
	b.leave(0)
	rep := p.all(j)
	if rep.State != job.Succeeded || rep.Run.Attempt() != 2 {
		t.Fatalf("%s, %+v", rep.State, rep.Run.Attempts)
	}
	for rank, e := range rep.Run.Exits {
		host := fmt.Sprintf("algo-%d", rank+1)
		if got := p.output(e, "model")[host]; got != "last\nlast\nalgo-1\nalgo-2\n" {
			t.Errorf("%s finds %q", host, got)
		}
	}
	if notes := p.said(j, record.Agent); !strings.Contains(notes, "restored state: 4 files") || !strings.Contains(notes, "of all nodes") {
		t.Errorf("notes:\n%s", notes)
	}
}

// TestACleanStateBeginsEmpty also beside what was put there before the first job.
func TestACleanStateBeginsEmpty(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submit(seed(shell(`echo 1 >$SSM_STATE/old`), 1), nil)
	p.all(j)
	spec := seed(shell(`ls -A $SSM_STATE; echo 2 >$SSM_STATE/new`), 1)
	spec.Project, spec.Task, spec.CleanState = "demo", "digits", true
	spec, err := spec.Normal()
	p.check(err)
	next := job.Job{V: job.Format, Spec: spec, StateSince: 1}
	p.check(tasks.NameJob(t.Context(), p.World, &next))
	_, _, err = tasks.SubmitJob(t.Context(), p.World, next, "cli-1")
	p.check(err)
	p.all(next)
	if got := p.said(next, record.Stdout); got != "algo-1\n" {
		t.Errorf("it finds %q", got)
	}
	if diff := cmp.Diff(map[string]string{"new": "2\n"}, p.state(next)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAProcessingJobOfTheSeedRunsAsItsContainerDid(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	script := `import os, sys
print(os.getcwd(), *sys.argv)
for name in ("SSM_STATE", "SSM_INSTANCE_STATE", "SSM_OUTPUT", "SM_CHANNEL_DATA", "SM_CHANNEL_TABLE_1", "SM_CURRENT_HOST", "SM_CHANNELS", "SM_MODEL_DIR"):
    print(name, os.environ.get(name))
print(sorted(os.listdir(os.environ["SSM_STATE"])), os.path.isdir(os.environ["SSM_STATE"] + "_prev"))
open(os.environ["SSM_STATE"] + "/s", "a").write("x")
open(os.environ["SSM_OUTPUT"] + "/o", "w").write("out")
`
	var state map[string]string
	said := func() string {
		spec := seed(job.Spec{Verb: job.Process, Program: "clean.py", Entrypoint: []string{"python3", "-B"}, Args: []string{"--n", "1"},
			Inputs: []job.Input{{Name: "data", Path: "d"}, {Name: "table_1", Path: "t"}}}, 1)
		spec.Project, spec.Task = "demo", "digits"
		spec, err := spec.Normal()
		p.check(err)
		data := t.TempDir()
		write(t, data, map[string]string{"d.csv": "1\n"})
		listing, err := tree.Save(t.Context(), p.Store, data, tree.SaveOptions{})
		p.check(err)
		d, err := tree.PutTree(t.Context(), p.Store, listing)
		p.check(err)
		j := job.Job{V: job.Format, Spec: spec, Code: p.code("clean.py", map[string]string{"clean.py": script}),
			Inputs: map[string]string{"data": string(d), "table_1": string(d)}}
		p.check(tasks.NameJob(t.Context(), p.World, &j))
		_, _, err = tasks.SubmitJob(t.Context(), p.World, j, "cli-1")
		p.check(err)
		rep := p.all(j)
		if rep.State != job.Succeeded {
			t.Fatalf("%s: %+v", rep.State, rep.Run.Settled)
		}
		if diff := cmp.Diff(map[string]string{"o": "out"}, p.output(rep.Run.Exits[0], "output")); diff != "" {
			t.Errorf("output (-want +got):\n%s", diff)
		}
		state = p.state(j)
		return p.said(j, record.Stdout)
	}
	want := func(state, before string) string {
		return `/ /opt/ml/processing/input/code/clean.py --n 1
SSM_STATE /opt/ml/processing/state
SSM_INSTANCE_STATE /opt/ml/processing/state/algo-1
SSM_OUTPUT /opt/ml/processing/output
SM_CHANNEL_DATA /opt/ml/processing/data
SM_CHANNEL_TABLE_1 /opt/ml/processing/input/data/table_1
SM_CURRENT_HOST algo-1
SM_CHANNELS None
SM_MODEL_DIR None
` + state + " " + before + "\n"
	}
	for _, row := range []string{want("[]", "False"), want("['s']", "True")} {
		if diff := cmp.Diff(row, inViewText(p, said())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(map[string]string{"s": "xx"}, state); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

// inViewText takes the agent's folder out of a text, where the machine gives no view.
func inViewText(p *place, text string) string {
	for {
		at := strings.Index(text, p.work)
		if at < 0 {
			return text
		}
		end := at + strings.Index(text[at:], "/opt/ml")
		text = text[:at] + text[end:]
	}
}

func TestWordsBeforeAProgramStartIt(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		spec  job.Spec
		files map[string]string
		want  string
	}{
		"of its own rules": {job.Spec{Program: "a.txt", Entrypoint: []string{"sh", "-c", `cat "$1"; echo $2`, "x"}, Args: []string{"b c"}}, map[string]string{"a.txt": "text\n"}, "text\nb c\n"},
		"no file":          {seed(job.Spec{Program: "echo hello", Entrypoint: []string{"/bin/sh", "-c"}}, 1), nil, "hello\n"},
		"by its name":      {seed(job.Spec{Program: "a.sh", Args: []string{"1"}}, 1), map[string]string{"a.sh": "pwd; echo $1 $0"}, "/\n1 CODE/a.sh\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			row.spec.Verb = job.Process
			j := p.submit(row.spec, row.files)
			if rep := p.all(j); rep.State != job.Succeeded {
				t.Errorf("%s: %+v", rep.State, rep.Run.Settled)
			}
			want := strings.ReplaceAll(row.want, "CODE", job.ProcessingCode)
			if got := inViewText(p, p.said(j, record.Stdout)); got != want {
				t.Errorf("it printed %q, want %q", got, want)
			}
		})
	}
}

// TestHowAJobOfTheSeedEnds: by its command, its failure file and its message file, on
// one node and on the second of two.
func TestHowAJobOfTheSeedEnds(t *testing.T) {
	t.Parallel()
	here := `[ $((DROVER_RANK + 1)) = $DROVER_NODES ] || exit 0; `
	for name, row := range map[string]struct {
		verb    job.Verb
		line    string
		code    int
		reason  string
		message string
	}{
		"a status":                           {job.Run, `exit 3`, 3, "exit status 3", ""},
		"all is well":                        {job.Run, `exit 0`, 0, "", ""},
		"a failure file":                     {job.Run, `echo unlucky >$DROVER_FAILURE_FILE; exit 1`, 1, "unlucky", ""},
		"a failure file, and 0":              {job.Run, `echo unlucky >$DROVER_FAILURE_FILE`, 1, "unlucky", ""},
		"a message, and 0":                   {job.Process, `echo well >$DROVER_MESSAGE_FILE`, 0, "", "well"},
		"a message, and 1":                   {job.Process, `echo badly >$DROVER_MESSAGE_FILE; exit 1`, 1, "badly", "badly"},
		"a status of a processing job":       {job.Process, `exit 4`, 4, "exit status 4", ""},
		"a failure file of a processing one": {job.Process, `echo x >$DROVER_FAILURE_FILE`, 0, "", ""},
	} {
		for _, nodes := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s on %d", name, nodes), func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				rep := p.all(p.submit(seed(job.Spec{Verb: row.verb, Program: "/bin/sh", Args: []string{"-c", here + row.line}}, nodes), nil))
				want := &protocol.Settled{State: job.Succeeded, Attempt: 1}
				if row.code != 0 {
					want = &protocol.Settled{State: job.Failed, Attempt: 1, Rank: nodes - 1, Code: row.code, Reason: row.reason}
					if nodes > 1 {
						want.Reason = "node 1: " + row.reason
					}
				}
				if diff := cmp.Diff(want, rep.Run.Settled); diff != "" {
					t.Errorf("settled (-want +got):\n%s", diff)
				}
				if m := rep.Run.Exits[nodes-1].Message; m != row.message {
					t.Errorf("its message is %q", m)
				}
			})
		}
	}
}

func TestAShellTaskOfTheSeedIsBashInItsCode(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.environ = append(p.environ, "PYTHONPATH=/elsewhere/python", "MINE=1")
	spec := seed(shell(`[[ -f lib.sh ]] && echo ${BASH_VERSION:+bash} $(basename "$PWD") $MINE ${PYTHONPATH%%:*} $SM_HPS $SM_HP_N $(cat $SM_INPUT_CONFIG_DIR/hyperparameters.json)`), 1)
	spec.Hyperparameters = map[string]string{"n": "1", "text": `a "b"`}
	j := p.submit(spec, map[string]string{"lib.sh": ""})
	if rep := p.all(j); rep.State != job.Succeeded {
		t.Fatalf("%s: %+v", rep.State, rep.Run.Settled)
	}
	want := `bash code 1 /elsewhere/python {"n":"1","text":"a \"b\""} 1 {"n":"\"1\"","text":"\"a \\\"b\\\"\""}` + "\n"
	if diff := cmp.Diff(want, p.said(j, record.Stdout)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
