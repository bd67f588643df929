package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/slurm/commands"
	"github.com/drover-run/drover/driver/slurm/node"
	"github.com/drover-run/drover/driver/slurm/records"
	"github.com/drover-run/drover/fault"
)

// What Slurm 22.05 printed, as it was.
const (
	squeued = "1|0|2|RUNNING|0|None|n1|NONE|drover-abcd2345-1-0|\n" +
		"1|1|1|COMPLETED|1|None|n[1-2]|1795359664|drover-abcd2345-1-0|\n" +
		"9|N/A|9|PENDING|0|ReqNodeNotAvail, UnavailableNodes:n4||NONE|drover-abcd2345-1-0|\n" +
		"slurm_load_jobs error\n"
	accounts = "1_7|NODE_FAIL|0:0|n1|drover-a-1-0\n1_7|COMPLETED|0:0|n2|drover-a-1-0\n1_8|CANCELLED by 0|0:15|n1|drover-a-1-0\n1_9|RUNNING|0:0|n1|drover-a-1-0\n" +
		"1_[10-20]|PENDING|0:0|None assigned|drover-a-1-0\n2|FAILED|3:0|n3|drover-b-1-0\n3_0|REQUEUED|0:0|n1|drover-a-1-0\n" +
		"4_[0,2-3%5]|CANCELLED by 0|0:0|None assigned|allocation\n5_[0,2...]|CANCELLED by 0|0:0|None assigned|drover-a-1-0\n"
	groupsOf = "main*|up|infinite|2|mix|4|4096|3/5/0/8|gpu:2\nmain*|up|infinite|1|down*|4|4096|0/0/4/4|gpu:2\n" +
		"gpu|up|1-00:00:00|3|idle|64|257000|0/192/0/192|gpu:a100:4(S:0-1),gpu:v100:1,nvme:1\nold|down|30:00|1|idle|2|1000|0/2/0/2|(null)\n"
)

func TestWhatSlurmPrintsIsRead(t *testing.T) {
	want := []commands.Row{{Slurm: 1, Task: 0, Job: 2, State: "RUNNING", Reason: "None", Nodes: "n1", Name: "drover-abcd2345-1-0"},
		{Slurm: 1, Task: 1, Job: 1, State: "COMPLETED", Starts: 1, Reason: "None", Nodes: "n[1-2]", Name: "drover-abcd2345-1-0", End: time.Unix(1795359664, 0)},
		{Slurm: 9, Task: -1, Job: 9, State: "PENDING", Reason: "ReqNodeNotAvail, UnavailableNodes:n4", Name: "drover-abcd2345-1-0"}}
	if diff := cmp.Diff(want, commands.ParseRows(squeued)); diff != "" {
		t.Errorf("squeue:\n%s", diff)
	}
	want = []commands.Row{{Slurm: 1, Task: 7, State: "COMPLETED", Reason: "None", Nodes: "n2", Name: "drover-a-1-0"},
		{Slurm: 1, Task: 8, State: "CANCELLED", Reason: "signal 15", Nodes: "n1", Name: "drover-a-1-0"},
		{Slurm: 2, Task: -1, State: "FAILED", Reason: "exit status 3", Nodes: "n3", Name: "drover-b-1-0"}}
	for _, task := range []int{0, 2, 3} {
		want = append(want, commands.Row{Slurm: 4, Task: task, State: "CANCELLED", Reason: "None", Nodes: "None assigned", Name: "allocation"})
	}
	want = append(want, commands.Row{Slurm: 5, State: "CANCELLED", Reason: "None", Nodes: "None assigned", Name: "drover-a-1-0"})
	if diff := cmp.Diff(want, commands.ParseAccounts(accounts)); diff != "" {
		t.Errorf("sacct:\n%s", diff)
	}
}

func TestPartitionsAreChoices(t *testing.T) {
	all := choices(parseGroups(groupsOf), driver.Needs{Agents: 1, CPUs: 2, GPUs: 1, Memory: 1 << 30})
	want := []driver.Choice{
		{Detail: "main", Default: true, Machine: "3 nodes with 4 cores, 4 GB, 2 GPUs", Free: 2, All: 4},
		{Detail: "gpu", Machine: "3 nodes with 64 cores, 251 GB, 5 GPUs", Free: 15, All: 15, Time: 24 * time.Hour},
		{Detail: "old", Machine: "1 node with 2 cores, 1 GB", Time: 30 * time.Minute, Reason: "partition old of Slurm is not up"},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
}

func TestSignalsHaveCauses(t *testing.T) {
	for out, want := range map[string]node.Notice{
		"":                   {},
		"x CANCELLED AT now": {},
		"slurmstepd-n1: error: *** JOB 3 ON n1 CANCELLED AT 2026-11-22T15:01:04 ***\n":                                                 {Asked: true, Why: "cancelled in Slurm, by hand"},
		"slurmstepd-n1: error: *** JOB 4 ON n1 CANCELLED AT 2026-11-22T15:01:05 DUE TO JOB REQUEUE ***\n":                              {Why: "its Slurm job was requeued"},
		"slurmstepd: error: *** JOB 6 ON n1 CANCELLED AT 2026-11-22T15:02:23 DUE TO TIME LIMIT ***\n":                                  {Why: "its Slurm job has reached its time limit"},
		"error: *** JOB 7 ON n4 CANCELLED AT 2026-11-22T15:01:05 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n":             {Why: "Slurm has taken a node down"},
		"error: *** JOB 5 ON n2 CANCELLED AT 2026-11-22T15:01:05 DUE TO PREEMPTION ***\n":                                              {Why: "preempted in Slurm for another job"},
		"*** JOB 1 ON n1 CANCELLED AT 1 DUE TO JOB REQUEUE ***\nagain\n*** JOB 1 ON n1 CANCELLED AT 2 DUE TO PREEMPTION ***\nslurmd\n": {Why: "preempted in Slurm for another job"},
	} {
		if n, ok := node.CauseOf(out); n != want || ok != (want.Why != "") {
			t.Errorf("%q: %+v, %v", out, n, ok)
		}
	}
	for record, asked := range map[string]bool{
		"JobId=3 JobState=COMPLETING Reason=None Restarts=0 EndTime=2026-11-22T15:01:04 PreemptTime=None": true,
		"JobId=3 JobState=CANCELLED Reason=None Restarts=0 EndTime=2026-11-22T15:01:04":                   true,
		"JobId=4 JobState=COMPLETING Reason=None Restarts=1 EndTime=Unknown PreemptTime=None":             false,
		"JobId=7 JobState=PENDING Reason=BeginTime Restarts=1 EndTime=Unknown":                            false,
		"JobId=6 JobState=COMPLETING Reason=TimeLimit Restarts=0 EndTime=2026-11-22T15:01:04":             false,
		"": false,
	} {
		if n, known := node.CauseInRecord(record, 0); n.Asked != asked || n.Why == "" || known != (record != "") {
			t.Errorf("%q: %+v", record, n)
		}
	}
}

func TestSlurmsTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{"5": 5 * time.Minute, "5:00": 5 * time.Minute, "1:02:03": time.Hour + 2*time.Minute + 3*time.Second,
		"2-03": 51 * time.Hour, "1-00:30": 24*time.Hour + 30*time.Minute, "0:09": 9 * time.Second, "INVALID": -1, "UNLIMITED": -1, "": -1, "-5": -1, "1:2:3:4": -1, "infinite": -1} {
		got, ok := commands.ParseTime(text)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q is %s, %v", text, got, ok)
		}
	}
}

func FuzzSlurmsWordsAreRead(f *testing.F) {
	for _, text := range []string{squeued, accounts, groupsOf, "1-02:03:04", "JobState=PENDING Restarts=1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		commands.ParseRows(text)
		commands.ParseAccounts(text)
		choices(parseGroups(text), driver.Needs{Agents: 3, CPUs: 2, Memory: 1, GPUs: 1})
		if d, ok := commands.ParseTime(text); ok && d < 0 {
			t.Errorf("%q is %s", text, d)
		}
		node.CauseOf(text)
		node.CauseInRecord(text, 0)
	})
}

func TestEveryReasonIsASentence(t *testing.T) {
	for _, r := range reasons {
		sentence, hint := why(strings.ReplaceAll(r.code, "*", "Anything"))
		if !strings.HasPrefix(sentence, r.sentence) && !strings.Contains(r.code, "*") {
			t.Errorf("%s reads %q", r.code, sentence)
		}
		if hint != "" && !strings.HasSuffix(hint, ".") && !strings.HasSuffix(hint, "PARTITION") {
			t.Errorf("%s: the hint %q is not a sentence", r.code, hint)
		}
	}
	if s, hint := why("SomethingNew"); !strings.Contains(s, "SomethingNew") || hint == "" {
		t.Errorf("an unknown reason reads %q, %q", s, hint)
	}
	if s, _ := why("ReqNodeNotAvail, UnavailableNodes:n4"); !strings.Contains(s, "down, drained or reserved") {
		t.Errorf("it reads %q", s)
	}
}

// A task that Slurm has given a machine and not launched there is an interruption, and
// another is placed; a script that Slurm has launched and that failed is not.
func TestATaskThatSlurmFailsToLaunchIsAnInterruption(t *testing.T) {
	const began = "7|N/A|7|FAILED|0|NonZeroExitCode|n1|1795359664|drover-abcd2345-1-0|\n"
	const revoked = "srun: error: Task launch for StepId=7.0 failed on node n2: Job credential revoked\nsrun: error: Application launch failed: Job credential revoked\n"
	for _, row := range []struct {
		name, squeued, file, words string
		gang                       bool
		want                       driver.State
	}{
		{name: "Slurm says that the launch failed", squeued: "7|N/A|7|FAILED|0|JobLaunchFailure|n1|1795359664|drover-abcd2345-1-0|\n", want: driver.Taken},
		{name: "a state of its own", squeued: "7|N/A|7|LAUNCH_FAILED|0|None|n1|1795359664|drover-abcd2345-1-0|\n", want: driver.Taken},
		{name: "the node was down", squeued: "7|N/A|7|FAILED|0|NodeDown|n1|1795359664|drover-abcd2345-1-0|\n", want: driver.Taken},
		{name: "slurmd's own system failed", squeued: "7|N/A|7|FAILED|0|SystemFailure|n1|1795359664|drover-abcd2345-1-0|\n", want: driver.Taken},
		{name: "srun was refused by a node", squeued: began, gang: true, file: "out-7-srun", words: revoked, want: driver.Taken},
		{name: "one node's credential was revoked", squeued: began, file: "out-7-0", words: "slurmstepd: error: Job credential revoked\n", want: driver.Taken},
		{name: "the script failed", squeued: began, want: driver.Ended},
		{name: "the program is not there", squeued: began, file: "out-7-0", words: "slurmstepd: error: execve(): /home/x/drover: No such file or directory\n", want: driver.Ended},
		{name: "a program that prints such words", squeued: began, file: "out-7-0", words: "Job credential revoked\n", want: driver.Ended},
		{name: "cancelled by hand", squeued: "7|N/A|7|CANCELLED|0|None|n1|1795359664|drover-abcd2345-1-0|\n", want: driver.Ended},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			if row.file != "" {
				if err := os.WriteFile(filepath.Join(dir, row.file), []byte(row.words), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			v := &view{folder: dir, facts: records.Request{Agents: 1, Gang: row.gang, Arrays: []int{1}}, jobs: []records.Submitted{{ID: 7}}}
			if m := v.judgeAgent(driver.Member{}, 0, records.Note{}, commands.ParseRows(row.squeued)[0], true); m.State != row.want {
				t.Errorf("it is %s (%s), want %s", m.State, m.Reason, row.want)
			}
		})
	}
}

// What sbatch is asked: the words, in their order.
func TestWhatSbatchIsAsked(t *testing.T) {
	r := driver.Request{Job: "abcd2345", Placement: 2, Agents: 3, Needs: driver.Needs{Detail: "gpu", CPUs: 1.5, Memory: 1 << 30, GPUs: 2, Time: time.Hour, Args: []string{"--account=bio"}}}
	p := plan{request: r, handle: driver.Handle{Target: Name, Job: r.Job, Placement: 2}, folder: "/f", facts: records.Request{Agents: 3, Arrays: []int{2, 1}}}
	const common = "--chdir=/ --export=ALL --input=/dev/null --requeue --open-mode=append "
	const needs = "--partition=gpu --cpus-per-task=2 --mem=1280M --gres=gpu:2 --time=70 --account=bio "
	want := "--parsable --job-name=drover-abcd2345-2-0 --comment=drover " + common + "--array=0-1 --nodes=1 --ntasks=1 --output=/f/out-%A-%a " + needs + "/f/script-0"
	if diff := cmp.Diff(want, strings.Join(sbatchArgs(p, 0), " ")); diff != "" {
		t.Error(diff)
	}
	p.facts = records.Request{Agents: 3, Gang: true, Arrays: []int{3}}
	want = "--parsable --job-name=drover-abcd2345-2-0 --comment=drover " + common + "--nodes=3 --ntasks=3 --ntasks-per-node=1 --output=/f/out-%j-batch " + needs + "/f/script-0"
	if diff := cmp.Diff(want, strings.Join(sbatchArgs(p, 0), " ")); diff != "" {
		t.Error(diff)
	}
	if got := string(script(plan{request: r, folder: "/a b'c", facts: records.Request{Arrays: []int{5, 7}}}, 1, "/p q")); !strings.Contains(got, `='/a b'\''c' DROVER_SLURM_FROM=5 exec '/p q' agent`) {
		t.Errorf("the script is\n%s", got)
	}
}

// A map that runs eight items at once gets eight cores, in the plan as in what sbatch is
// asked, unless the user's own options say what it gets.
func TestEachItemAtOnceIsAskedACore(t *testing.T) {
	for _, row := range []struct {
		needs driver.Needs
		want  string
	}{
		{driver.Needs{Slots: 8}, "--cpus-per-task=8"},
		{driver.Needs{Slots: 8, CPUs: 2}, "--cpus-per-task=2"}, // what eight items of a quarter need
		{driver.Needs{Slots: 1}, ""},
		{driver.Needs{}, ""},
		{driver.Needs{Slots: 8, Args: []string{"-c4"}}, ""},
		{driver.Needs{Slots: 8, Args: []string{"--cpus-per-task=4"}}, ""},
		{driver.Needs{Slots: 8, Args: []string{"--cpus-per-gpu=4"}}, ""},
		{driver.Needs{Slots: 8, Args: []string{"--exclusive"}}, ""},
		{driver.Needs{Slots: 8, Args: []string{"--exclusive=user", "--account=bio"}}, ""},
	} {
		if got := strings.Join(needArgs(row.needs), " "); got != row.want {
			t.Errorf("%+v asks for %q, want %q", row.needs, got, row.want)
		}
	}
	g := group{cpus: 16, memory: 1 << 30}
	if agents, why := g.agentsPerNode(driver.Needs{Slots: 8}); agents != 2 {
		t.Errorf("a node of 16 cores has room for %d agents that run 8 items each (%s)", agents, why)
	}
	if agents, why := g.agentsPerNode(driver.Needs{Slots: 17}); agents != 0 || why != "its nodes have 16 cores, and 17 are needed" {
		t.Errorf("a node of 16 cores has room for %d agents that run 17 items each (%s)", agents, why)
	}
}

func TestSlurmIsGivenNothingSecret(t *testing.T) {
	env := commands.ClientEnv([]string{"PATH=/bin", "AWS_SECRET_ACCESS_KEY=x", "TOKEN=y", "SBATCH_ACCOUNT=bio", "SBATCH_EXPORT=ALL", "SBATCH_ERROR=/tmp/err", "SLURM_JOB_ID=4", "LC_ALL=C", "SQUEUE_FORMAT=%i"})
	if diff := cmp.Diff([]string{"PATH=/bin", "SBATCH_ACCOUNT=bio", "LC_ALL=C", "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0"}, env); diff != "" {
		t.Error(diff)
	}
	env = agentEnv([]string{"PATH=/bin", "TOKEN=y", "CONDA_PREFIX=/c", "MODULEPATH=/m", "PYTHONPATH=/p", "HISTFILE=/h"}, driver.Boot{Env: []string{"A=b"}, Tools: []string{"/t/uv"}})
	if diff := cmp.Diff([]string{"PATH=/bin:/t", "CONDA_PREFIX=/c", "MODULEPATH=/m", "PYTHONPATH=/p", "A=b"}, env); diff != "" {
		t.Error(diff)
	}
}

func TestOptionsThatDroverDecidesAreRefused(t *testing.T) {
	for _, arg := range []string{"--array=1-3", "-a1-3", "-J", "-Jx", "--output=x", "-N2", "--wrap=x", "--export=ALL", "account", "", "--x\n"} {
		if err := checkArgs([]string{arg}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", arg, err)
		}
	}
	if err := checkArgs([]string{"--account=bio", "-pgpu", "--constraint=a100", "--nodelist=n1", "--ntasks-per-socket-x"}); err != nil {
		t.Error(err)
	}
	if err := said("start agents", &commands.Refusal{Command: "sbatch", Text: "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit)"}); fault.KindOf(err) != fault.Full {
		t.Errorf("a limit of jobs is %v", err)
	}
	if text := fmt.Sprint(said("start agents", &commands.Silent{Command: "sbatch", Why: "no answer within 30s"})); !strings.Contains(text, "does not answer") {
		t.Error(text)
	}
}
