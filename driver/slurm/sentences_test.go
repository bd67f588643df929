package slurm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/slurm/commands"
	"github.com/drover-run/drover/driver/slurm/node"
	"github.com/drover-run/drover/driver/slurm/records"
	"github.com/drover-run/drover/fault"
)

// What squeue names as the reason is what the user reads, with what can be done.
func TestATaskThatWaitsSaysWhatForAndWhatCanBeDone(t *testing.T) {
	for _, row := range [][3]string{
		{"None", "Slurm has accepted it and has not considered it yet (None)", ""},
		{"Priority", "other jobs come before it in Slurm's queue (Priority)", "sprio -l shows the order, squeue --start --me when it may begin."},
		{"Resources", "it is next, and waits for free nodes (Resources)", "squeue --start --me says when; sinfo shows partitions with free nodes: --on slurm/PARTITION."},
		{"BeginTime", "it may not begin yet: one that is started again waits a minute or two (BeginTime)", "squeue --start --me says when it may begin."},
		{"DependencyNeverSatisfied", "it waits for a job that can no longer end as required (DependencyNeverSatisfied)", "Cancel it: drover cancel."},
		{"Dependency", "it waits for another job (Dependency)", "squeue --me shows it."},
		{"JobHeldUser", "it was put on hold (JobHeldUser)", "scontrol release JOBID lets it go; squeue --me shows the id."},
		{"JobHeldAdmin", "an administrator has put it on hold (JobHeldAdmin)", "Ask the cluster's administrators."},
		{"job_requeued_in_held_state", "it was requeued and put on hold (job_requeued_in_held_state)", "scontrol release JOBID lets it go; squeue --me shows the id."},
		{"launch_failed_requeued_held", "a node could not start it, so Slurm has put it on hold (launch_failed_requeued_held)", "scontrol release JOBID tries again; squeue --me shows the id."},
		{"launch failed requeued held", "a node could not start it, so Slurm has put it on hold (launch failed requeued held)", "scontrol release JOBID tries again; squeue --me shows the id."},
		{"JobArrayTaskLimit", "its array already runs as many tasks as it may (JobArrayTaskLimit)", "scontrol update jobid=JOBID ArrayTaskThrottle=N allows more."},
		{"PartitionTimeLimit", "it asks for more time than its partition allows, or the partition is down (PartitionTimeLimit)", "Ask for less with --timeout; sinfo -o '%P %l' shows limits."},
		{"PartitionNodeLimit", "it asks for more nodes than its partition allows (PartitionNodeLimit)", "Ask for fewer --nodes, or choose another: --on slurm/PARTITION."},
		{"PartitionDown", "its partition is down (PartitionDown)", "sinfo -s shows others: --on slurm/PARTITION."},
		{"PartitionInactive", "its partition is inactive (PartitionInactive)", "sinfo -s shows others: --on slurm/PARTITION."},
		{"PartitionConfig", "its partition does not allow what it asks for (PartitionConfig)", "sinfo -o '%P %l %c %m %G' shows what they allow."},
		{"BadConstraints", "no node has what it asks for (BadConstraints)", "sinfo -o '%P %c %m %G %f' shows what nodes have."},
		{"ReqNodeNotAvail, UnavailableNodes:n4", "a node that it needs is down, drained or reserved (ReqNodeNotAvail)", "sinfo -R says why; leave the node's name out, or choose another partition."},
		{"Nodes_required_for_job_are_DOWN", "the nodes that it needs are down, drained or reserved (Nodes_required_for_job_are_DOWN)", "sinfo -R says why."},
		{"NodeDown", "a node that it needs is down (NodeDown)", "sinfo -R says why."},
		{"Reservation", "its reservation has not begun (Reservation)", "scontrol show reservation says when it does."},
		{"Licenses", "it waits for a licence (Licenses)", "scontrol show licenses shows who may have some."},
		{"InvalidAccount", "its account may not be used (InvalidAccount)", "Name one: --target-arg account=NAME; sacctmgr show assoc user=$USER lists yours."},
		{"InvalidQOS", "its QOS may not be used (InvalidQOS)", "Name one: --target-arg qos=NAME."},
		{"AccountNotAllowed", "its account may not use this partition (AccountNotAllowed)", "Choose another: --target-arg account=NAME, or --on slurm/PARTITION."},
		{"QOSNotAllowed", "its QOS may not be used in this partition (QOSNotAllowed)", "Choose another: --target-arg qos=NAME, or --on slurm/PARTITION."},
		{"QOSMaxNodes", "you already use as much as its QOS allows one user (QOSMaxNodes)", "It begins when other jobs of yours end; sacctmgr show qos shows the limits."},
		{"QOSGrpNodes", "its QOS has no resources left, for all users together (QOSGrpNodes)", "It begins when others' jobs end; another QOS: --target-arg qos=NAME."},
		{"QOSNodes", "it is over a limit of its QOS (QOSNodes)", "sacctmgr show qos shows the limits."},
		{"AssocMaxNodes", "you already use as much as your account allows one user (AssocMaxNodes)", "It begins when other jobs of yours end; sacctmgr show assoc user=$USER shows the limits."},
		{"AssocGrpNodes", "your account has no resources left, for all users together (AssocGrpNodes)", "It begins when others' jobs end; another account: --target-arg account=NAME."},
		{"AssocNodes", "it is over a limit of your account (AssocNodes)", "sacctmgr show assoc user=$USER shows the limits."},
		{"Prolog", "a node is being made ready for it (Prolog)", ""},
		{"Cleaning", "what ran before it is being cleaned up (Cleaning)", ""},
		{"FrontEndDown", "no front-end node is up (FrontEndDown)", "Ask the cluster's administrators."},
		{"SomethingNew", "Slurm makes it wait: SomethingNew", "squeue --start --me says when it may begin."},
	} {
		listed := commands.ParseRows("7|N/A|7|PENDING|0|" + row[0] + "||NONE|drover-abcd2345-1-0|\n")
		if m := memberOf(t.TempDir(), records.Note{}, listed, nil); m.State != driver.Waiting || m.Reason != row[1] || m.Hint != row[2] {
			t.Errorf("%s is %s: %q, %q", row[0], m.State, m.Reason, m.Hint)
		}
	}
}

// memberOf is the only agent of a placement that Slurm's job 7 is, with what squeue listed.
func memberOf(dir string, n records.Note, listed []commands.Row, silent error) driver.Member {
	v := &view{folder: dir, facts: records.Request{Agents: 1, Arrays: []int{1}}, jobs: []records.Submitted{{ID: 7}}, notes: []records.Note{n}, rows: map[int]commands.Row{}, silent: silent}
	v.assignTasks(listed)
	return v.agentMember(0)
}

func TestAnAgentThatIsNotThereSaysWhatSlurmCallsIt(t *testing.T) {
	dir := t.TempDir()
	up := records.Note{Up: &records.Up{Node: "n1", Job: 7}}
	hint := "Do the nodes see " + filepath.Dir(dir) + "? srun ls " + filepath.Dir(dir) + " says; XDG_STATE_HOME names another folder."
	for _, c := range []struct {
		note         records.Note
		state, cause string
		want         driver.State
		reason, hint string
	}{
		{records.Note{}, "RUNNING", "None", driver.Waiting, "its Slurm job begins", ""},
		{records.Note{}, "CANCELLED", "None", driver.Ended, "cancelled in Slurm, before it began", ""},
		{records.Note{}, "PREEMPTED", "None", driver.Taken, "its agent never started: Slurm calls it PREEMPTED", ""},
		{records.Note{}, "LAUNCH_FAILED", "JobLaunchFailure", driver.Taken, "its agent never started: Slurm did not launch it on n1 (JobLaunchFailure)", ""},
		{records.Note{}, "FAILED", "NonZeroExitCode", driver.Ended, "its agent never started on n1: Slurm calls it FAILED (NonZeroExitCode)", hint},
		{records.Note{}, "", "", driver.Lost, "its agent never started, and Slurm no longer knows its job", ""},
		{up, "SUSPENDED", "None", driver.Running, "Slurm has suspended it", ""},
		{up, "TIMEOUT", "TimeLimit", driver.Taken, "its Slurm job has reached its time limit", "Ask for more with --timeout; drover resume goes on."},
		{up, "OUT_OF_MEMORY", "OutOfMemory", driver.Ended, "Slurm ended it: it needed more memory than its limit", "Ask for more with --memory."},
		{up, "FAILED", "None", driver.Lost, "it died without reporting why, or was killed: Slurm calls it FAILED", ""},
		{up, "CANCELLED", "None", driver.Ended, "cancelled in Slurm, by hand", ""},
		{up, "", "", driver.Lost, "it died without reporting why, and Slurm no longer knows its job", ""},
		{records.Note{Up: up.Up, Outcome: &records.End{Code: 137, Reason: "signal: killed"}}, "FAILED", "None", driver.Lost, "it died without reporting why, or was killed: signal: killed", ""},
	} {
		var listed []commands.Row
		if c.state != "" {
			listed = commands.ParseRows("7|N/A|7|" + c.state + "|0|" + c.cause + "|n1|1795359664|drover-abcd2345-1-0|\n")
		}
		if m := memberOf(dir, c.note, listed, nil); m.State != c.want || m.Reason != c.reason || m.Hint != c.hint {
			t.Errorf("%s is %s: %q, %q", c.state, m.State, m.Reason, m.Hint)
		}
	}
	if m := memberOf(dir, records.Note{}, nil, errors.New("no answer within 30s")); m.State != driver.Waiting || m.Reason != "Slurm does not answer: no answer within 30s" {
		t.Errorf("while Slurm is silent it is %s: %q", m.State, m.Reason)
	}
}

func TestAnAgentThatSbatchDidNotTakeSaysSo(t *testing.T) {
	for _, c := range []struct {
		job          records.Submitted
		want         driver.State
		reason, hint string
	}{
		{records.Submitted{}, driver.Waiting, "not submitted yet", ""},
		{records.Submitted{Refused: "Invalid qos", Hint: "Ask."}, driver.Ended, "never started: Slurm says: Invalid qos", "Ask."},
		{records.Submitted{Refused: "stopped"}, driver.Ended, "stopped", ""},
	} {
		v := &view{folder: t.TempDir(), facts: records.Request{Agents: 1, Arrays: []int{1}}, jobs: []records.Submitted{c.job}, notes: []records.Note{{}}, rows: map[int]commands.Row{}}
		if m := v.agentMember(0); m.State != c.want || m.Reason != c.reason || m.Hint != c.hint {
			t.Errorf("%+v is %s: %q, %q", c.job, m.State, m.Reason, m.Hint)
		}
	}
}

func TestWhatSbatchRefusesHasANextStep(t *testing.T) {
	for _, c := range []struct {
		answer string
		kind   fault.Kind
		hint   string
	}{
		{"invalid partition specified: fast", fault.Invalid, "See what there is: sinfo -s; then say --on slurm/PARTITION."},
		{"Batch job submission failed: Invalid account or account/partition combination specified", fault.Denied, "See yours: sacctmgr show assoc user=$USER; then add --target-arg account=NAME."},
		{"Batch job submission failed: Invalid qos specification", fault.Denied, "See yours: sacctmgr show assoc user=$USER format=qos; then add --target-arg qos=NAME."},
		{"Batch job submission failed: User's group not permitted to use this partition", fault.Denied, "Choose a partition that you may use: --on slurm/PARTITION; sinfo -s lists them."},
		{"Batch job submission failed: Access/permission denied", fault.Denied, "Ask the cluster's administrators, or choose another partition: --on slurm/PARTITION."},
		{"Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)", fault.Invalid, "Ask for less with --timeout, or choose a partition that allows it: sinfo -o '%P %l'."},
		{"Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)", fault.Full, "You have as many jobs as you may: wait, or cancel some; sacctmgr show qos says the limits."},
		{"Batch job submission failed: Job limit reached", fault.Full, "The cluster accepts no more jobs at the moment: wait, or ask for fewer --workers."},
		{"Batch job submission failed: Reached maximum number of arrays", fault.Full, "Wait, or ask for fewer --workers."},
		{"Batch job submission failed: Too many pending jobs", fault.Full, "Wait, or ask for fewer --workers."},
		{"Batch job submission failed: Slurm temporarily unable to accept job, sleeping and retrying", fault.Full, "Try it again in a while."},
		{"Batch job submission failed: Memory specification can not be satisfied", fault.Invalid, "Ask for less --memory, or choose a partition with larger nodes: sinfo -o '%P %m'."},
		{"Batch job submission failed: Invalid generic resource (gres) specification", fault.Invalid, "See what GPUs there are: sinfo -o '%P %G'."},
		{"Batch job submission failed: Invalid job array specification", fault.Invalid, "Ask for fewer --workers."},
		{"Batch job submission failed: Requested node configuration is not available", fault.Invalid, "Ask for less, or choose another partition: sinfo -o '%P %D %c %m %G' says what nodes have."},
		{"Batch job submission failed: Node count specification invalid", fault.Invalid, "Ask for fewer --nodes, or choose another partition: sinfo -s."},
		{"Batch job submission failed: More processors requested than permitted", fault.Invalid, "Ask for fewer --cpus, or choose another partition: sinfo -o '%P %c'."},
		{"Batch job submission failed: Invalid feature specification", fault.Invalid, "See what there is: sinfo -o '%P %f'."},
		{"unrecognized option '--colour'", fault.Invalid, "Check --target-arg, and the script's #SBATCH lines: man sbatch."},
		{"invalid option -- 'Q'", fault.Invalid, "Check --target-arg, and the script's #SBATCH lines: man sbatch."},
	} {
		refusedWith(t, said("start agents", &commands.Refusal{Command: "sbatch", Text: "sbatch: error: " + c.answer + "\n"}), c.kind,
			"start agents: Slurm says: "+strings.TrimPrefix(c.answer, "Batch job submission failed: "), c.hint)
	}
}

// slurmThatPrints is a Slurm with a sinfo that prints these lines.
func slurmThatPrints(t *testing.T, groups string) *Driver {
	t.Helper()
	d := New(t.TempDir())
	d.path = t.TempDir()
	if err := os.WriteFile(filepath.Join(d.path, "sinfo"), []byte("#!/bin/sh\nprintf '%s' '"+groups+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestWhatSlurmHasNotGotIsSaidWithWhatToAskFor(t *testing.T) {
	const (
		main  = "main*|up|1:00:00|2|mix|4|4096|3/5/0/8|(null)\n"
		other = "gpu|up|infinite|3|idle|64|257000|0/192/0/192|gpu:a100:4\n"
		fewer = "Ask for less, or choose another: drover offers, sinfo -o '%P %D %c %m %G %l'."
	)
	for _, c := range []struct {
		groups       string
		needs        driver.Needs
		reason, hint string
	}{
		{main + other, driver.Needs{Agents: 1, Detail: "fast"}, `Slurm has no partition "fast"`, "Use --on slurm/main, --on slurm/gpu."},
		{"", driver.Needs{Agents: 1}, "Slurm has no partition that you may use", "sinfo -a shows all."},
		{other, driver.Needs{Agents: 1}, "Slurm has no default partition", "Use --on slurm/gpu."},
		{main, driver.Needs{Agents: 1, CPUs: 9}, "partition main of Slurm: its nodes have 4 cores, and 9 are needed", fewer},
		{main + other, driver.Needs{Agents: 1, CPUs: 9}, "partition main of Slurm: its nodes have 4 cores, and 9 are needed", "It would fit elsewhere: --on slurm/gpu."},
		{main, driver.Needs{Agents: 1, Slots: 9}, "partition main of Slurm: its nodes have 4 cores, and 9 are needed", "Run fewer items at once with -j, or say what each needs: --cpus 0.5."},
		{main, driver.Needs{Agents: 1, Memory: 6 << 30}, "partition main of Slurm: its nodes have 4 GB of memory, and 6.5 GB is needed, of which 256 MB is for drover itself", fewer},
		{main, driver.Needs{Agents: 1, Time: 2 * time.Hour}, "partition main of Slurm allows 1h, and 2h10m is asked for, of which 10m is to start and to save", fewer},
		{main, driver.Needs{Agents: 3, Place: driver.Place{Nodes: 3}}, "partition main of Slurm has 2 nodes for it, and 3 are needed", fewer},
		{"main*|up|1:00:00|2|drain|4|4096|0/0/8/8|(null)\n", driver.Needs{Agents: 1}, "partition main of Slurm has no node that accepts jobs", fewer},
	} {
		o, err := slurmThatPrints(t, c.groups).Offer(t.Context(), c.needs)
		if err != nil || o.Fits || o.Reason != c.reason || o.Hint != c.hint {
			t.Errorf("%+v of\n%sgives %q, %q, %v", c.needs, c.groups, o.Reason, o.Hint, err)
		}
	}
	o, err := slurmThatPrints(t, main).Offer(t.Context(), driver.Needs{Agents: 3, Slots: 2})
	if want := "slurm, partition main: 2 nodes with 4 cores, 4 GB; each worker is asked 2 cores, one for each item at once; 2 could begin now"; err != nil || !o.Fits || o.Machine != want {
		t.Errorf("it offers %q, %v, want %q", o.Machine, err, want)
	}
}

func TestAnOptionOfSbatchHasItsWordInDrover(t *testing.T) {
	for arg, hint := range map[string]string{
		"-D/data":         "Programs run in a copy of their folder; -s names another one.",
		"--export=ALL":    "Use --env NAME=VALUE, or --secret NAME.",
		"--nodes=2":       "Use --nodes of drover run.",
		"--dependency=3":  "Wait for the other job first.",
		"--signal=USR1":   "Programs get SIGTERM before the time limit and when they have to go: docs/how-to/slurm.md.",
		"--job-name=x":    "drover finds its jobs by their names; -t names a task.",
		"--ntasks=4":      "Use --nodes of drover run, and --procs-per-node for more of a launcher's processes.",
		"--test-only":     "Leave it out.",
		"--output=/tmp/x": "Output is stored by drover: drover logs.",
	} {
		refusedWith(t, checkArgs([]string{arg}), fault.Invalid, "read --target-arg \""+arg+"\": drover decides this itself", hint)
	}
	said, err := Directives([]byte("#!/bin/sh\n#SBATCH --array=1-9\n#SBATCH --chdir=/x\n"), driver.Needs{})
	want := []string{"--array=1-9: drover map has its items from --from.", "--chdir=/x: Programs run in a copy of their folder; -s names another one."}
	if diff := cmp.Diff(want, said.Left); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

// A placement that cannot be read is named with what was being done.
func TestAPlacementThatCannotBeReadNamesWhatWasDone(t *testing.T) {
	d := New(t.TempDir())
	h := driver.Handle{Target: Name, Job: "abcd2345", Placement: 1}
	dir, ok := d.placementFolder(h)
	if !ok || os.MkdirAll(folder.RequestFile(dir), 0o700) != nil {
		t.Fatal("no folder for it")
	}
	if _, err := d.Status(t.Context(), h); err == nil || !strings.HasPrefix(err.Error(), "look at agents: ") {
		t.Errorf("its status is %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d = New(file)
	if _, err := d.List(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "list agents: ") {
		t.Errorf("its list is %v", err)
	}
}

func TestWhyATaskMustGoIsInWhatSlurmWrote(t *testing.T) {
	n, ok := node.CauseOf("slurmstepd: error: *** JOB 6 ON n1 CANCELLED AT 2026-11-22T15:02:23 DUE TO MEMORY LIMIT ***\n")
	if !ok || n.Why != "Slurm ended it, due to memory limit" {
		t.Errorf("it says %+v, %v", n, ok)
	}
	if n, known := node.CauseInRecord("JobId=3 JobState=RUNNING Reason=None Restarts=0", 0); known || n.Why != "Slurm has sent SIGTERM" {
		t.Errorf("it says %+v, %v", n, known)
	}
}
