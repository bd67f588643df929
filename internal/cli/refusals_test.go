package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/bring"
	"github.com/drover-run/drover/internal/cli/clitest"
	"github.com/drover-run/drover/internal/cli/config"
	"github.com/drover-run/drover/internal/cli/look"
	"github.com/drover-run/drover/internal/cli/setup"
	"github.com/drover-run/drover/internal/cli/summary"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
)

// refusal is a command line, and the error that it ends in. JOB in them is the short
// name of the job last, HERE the working folder, and CONFIG the user's config file.
type refusal struct {
	typed string
	kind  fault.Kind
	text  string // all of it
	hint  string // all of it
}

// refuses runs the command line, and compares its error word for word.
func (d *desk) refuses(id string, row refusal) {
	d.t.Helper()
	here, err := os.Getwd()
	if err != nil {
		here = "" // the working folder was removed
	}
	known := strings.NewReplacer("job JOB", "job "+id[:min(len(id), 4)], "status JOB", "status "+id[:min(len(id), 4)], "ID", id, "HERE", here, "CONFIG", d.configFile())
	out, _, err := d.typed(strings.Fields(known.Replace(row.typed))...)
	if err == nil {
		d.t.Errorf("drover %s is no error:\n%s", row.typed, out)
		return
	}
	if text := known.Replace(row.text); err.Error() != text || fault.KindOf(err) != row.kind || out != "" {
		d.t.Errorf("drover %s: %v (%v), want %s (%v)\n%s", row.typed, err, fault.KindOf(err), text, row.kind, out)
	}
	if hint := known.Replace(row.hint); fault.Hint(err) != hint {
		d.t.Errorf("drover %s: next step %q, want %q", row.typed, fault.Hint(err), hint)
	}
}

func (d *desk) configFile() string { return filepath.Join(d.app.Dirs.Config, "config.yaml") }

// aRun leaves a job of one node in the store, which no agent has taken yet.
func (d *desk) aRun(task string) (id string) {
	d.t.Helper()
	m := d.world()
	spec, err := job.Spec{Project: "demo", Task: task, Program: "train.py", Nodes: 1, On: "mem"}.Normal()
	m.check(err)
	m.job = job.Job{V: job.Format, Spec: spec, User: "ann", Host: "desk"}
	m.check(tasks.NameJob(d.t.Context(), m.World, &m.job))
	_, _, err = tasks.SubmitJob(d.t.Context(), m.World, m.job, "cli-1")
	m.check(err)
	return m.job.ID
}

func TestFlagsAndWordsThatCannotBeUsed(t *testing.T) {
	d := newDesk(t)
	d.aMap()
	t.Setenv("DROVER_ON", "mem")
	clitest.Write(t, "train.py", "")
	if _, _, err := d.typed("put", "none", "state", ".", "-p", "p"); err != nil { // a state, and no job
		t.Fatal(err)
	}
	for _, row := range []refusal{
		{"target add big --on mem --max-gpus -1", fault.Invalid, "add target: a limit is below 0", "Leave out the options that set no limit."},
		{"target rm big", fault.Missing, `remove target: the config has no target "big"`, "drover target ls shows those there are."},
		{"target rm mem", fault.Missing, `remove target: the config has no target "mem"`, "It is built in, and stays."},
		{"status --store ./jobs --store-endpoint http://own:9000", fault.Invalid, "choose store: ./jobs is a folder, and --store-endpoint is where a server has buckets", "Name a bucket too: --store s3://bucket/prefix."},
		{"config trust train.py", fault.Invalid, "confirm HERE/train.py: drover reads no settings from a file of that name", "Name a drover.yaml."},
		{"ssm data -p p -t none -o out", fault.Missing, "download data of task none: it has had no job", "Run it first: ssm run -p p -t none -e SCRIPT."},
		{"ssm shell -p p -t t --cmd_line ls --dir_files gone", fault.Invalid, "read --dir_files: open gone: no such file or directory", "Name a folder: --dir_files ./code."},
		{"get people log", fault.Invalid, `get: "log" is not a part of a job that can be fetched by itself`, "Write drover get JOB, or drover get TASK state."},
		{"put greet stat .", fault.Invalid, `put: "stat" is not a part of a task that can be put`, "Write it as drover put FOLDER s3://bucket/folder, or drover put greet state FOLDER."},
		{"data greet -p demo --clear logs", fault.Invalid, `read --clear: "logs" is not something that a task keeps`, "Use --clear state or --clear jobs."},
		{"doctor --policy owners", fault.Invalid, `print policy: unknown role "owners"`, "Write --policy agents, or --policy submitters."},
		{"doctor --policy agents --store ./jobs", fault.Invalid, "print policy: a user that may write to the folder ./jobs may do everything", "Name a bucket: --store s3://bucket/prefix."},
		{"gc --keep 0", fault.Invalid, "read --keep: 0", "Use 1 or more; name jobs to remove them all."},
		{"logs last --source errors", fault.Invalid, `read --source: unknown source "errors"`, "Use program, stdout, stderr or agent."},
		{"logs last --since yesterday", fault.Invalid, `read --since: "yesterday" is not a time`, "Write how long ago, such as 30m, 2h or 1d, or a time such as 2026-11-21T15:04:05."},
		{"logs last --until 25:00", fault.Invalid, `read --until: "25:00" is not a time`, "Write how long ago, such as 30m, 2h or 1d, or a time such as 2026-11-21T15:04:05."},
		{"items last --error (", fault.Invalid, "read --error: missing closing ): `(`", `Put a backslash before what is meant as it is, such as \( or \[.`},
		{"retry last --error [", fault.Invalid, "read --error: missing closing ]: `[`", `Put a backslash before what is meant as it is, such as \( or \[.`},
		{"map --on mem --from 1-3 --shell convert {}", fault.Invalid, "read command line: --shell takes one command line, got 2 words", "Quote the whole line: drover map --from x --shell 'convert {} {out} | wc'."},
		{"map --on mem --from 1-3 --nodes 2 true", fault.Invalid, "read command line: drover map has no --nodes", "Use --workers for more agents."},
		{"map --on mem --from 1-3 --timeout 5s true", fault.Invalid, "read command line: drover map has no --timeout", "Use --item-timeout: it is the limit of each item."},
		{"map --on mem --from 1-3 --clean-state true", fault.Invalid, "read command line: drover map has no --clean-state", "Leave it out: items have no /state."},
		{"map --on mem --from 1-3 --metric loss true", fault.Invalid, "read command line: drover map has no --metric", "Leave it out: drover results shows what items printed."},
		{"status --watch --json", fault.Invalid, "read command line: --watch does not go with --json", "Use drover events -f --json, or drover status --json again and again."},
		{"offers --nodes 0", fault.Invalid, "read command line: --nodes is 0, and a job has at least 1", "Leave it out for a job of one node."},
		{"offers --gpus -1", fault.Invalid, "read command line: a limit is below 0", "Use numbers above 0."},
		{"offers --cpus -0.5", fault.Invalid, "read command line: a limit is below 0", "Use numbers above 0."},
		{"image push train", fault.Invalid, "read command line: a registry or --as says where it goes", "Write it as drover image push train ghcr.io/me, or with --as ghcr.io/me/name:1."},
		{"image push train ghcr.io/me --as ghcr.io/me/x:1", fault.Invalid, "read command line: a registry or --as says where it goes", "Write it as drover image push train ghcr.io/me, or with --as ghcr.io/me/name:1."},
		{"image build --push ghcr.io/me -o train.tar", fault.Invalid, "read command line: both --push and -o", "Write the archive, then: drover image push FILE REGISTRY."},
		{"metrics last --csv --json", fault.Invalid, "read command line: both --csv and --json", "Use one of them."},
		{"items last --slowest --largest", fault.Invalid, "read command line: both --slowest and --largest", "Use one of them at a time: both tables show time and memory."},
	} {
		d.refuses("", row)
	}
}

func TestFlagsOfMapsAndOfAttemptsThatAJobOfOneRunHasNot(t *testing.T) {
	d := newDesk(t)
	id := d.aRun("train")
	for _, row := range []refusal{
		{"logs last --item 3 -p demo", fault.Invalid, "read output of one item: job ID is not a map", "Leave --item and --prefix out."},
		{"logs last --prefix -p demo", fault.Invalid, "read output of one item: job ID is not a map", "Leave --item and --prefix out."},
		{"metrics last --attempt 9 -p demo", fault.Invalid, "read --attempt: job JOB has no attempt 9", "It has not begun: drover status JOB says what it waits for."},
		{"metrics last loss -p demo", fault.Missing, `plot metrics: job JOB has no metric "loss"`, "It has none so far."},
	} {
		d.refuses(id, row)
	}
}

func TestConfigsThatCannotBeUsed(t *testing.T) {
	const limits = "Write a number above 0."
	for name, row := range map[string]struct {
		config string
		refusal
	}{
		"a list": {"store: [a, b]\n", refusal{"status", fault.Invalid, "read config CONFIG: store is a list", `Write it as lines of "key: value".`}},
		"no name of a target": {"targets:\n  big:\n    gpus: 1\n", refusal{"run --on big true", fault.Invalid,
			"read config: target big does not say what it is: targets.big.on", "drover config set targets.big.on slurm/gpu, or drover target rm big."}},
		"no workers": {"targets:\n  big:\n    on: mem\n    workers: 0\n", refusal{"status", fault.Invalid, `read config CONFIG: targets.big.workers: read workers: "0"`, limits}},
		"no cores":   {"targets:\n  big:\n    on: mem\n    cpus: few\n", refusal{"status", fault.Invalid, `read config CONFIG: targets.big.cpus: read cpus: "few"`, limits}},
		"a queue without a size": {"targets:\n  mem:\n    queues:\n      night:\n        cpus: many\n", refusal{"run --on mem --queue night true", fault.Invalid,
			`read config CONFIG: targets.mem.queues.night.cpus: "many" is not a size`, "Write a number above 0; memory such as 8G."}},
		"queues of a target to be": {"targets:\n  big:\n    queues:\n      night:\n        cpus: 2\n", refusal{"target add big --on mem", fault.Invalid,
			"add target big: the config already has queues of that name", "Edit it by hand: CONFIG."}},
		"no lines of its own": {"{project: eyes, store: /data}\n", refusal{"config set project nose", fault.Invalid,
			"write config: its YAML is too unusual to be changed line by line", "Edit it by hand: CONFIG."}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			clitest.Write(t, d.configFile(), row.config)
			d.refuses("", row.refusal)
			if b, err := os.ReadFile(d.configFile()); err != nil || string(b) != row.config {
				t.Errorf("the config is now %q (%v)", b, err)
			}
		})
	}
}

func TestConfigsThatOthersWriteOrThatAreNoFiles(t *testing.T) {
	d := newDesk(t)
	clitest.Write(t, d.configFile(), "project: eyes\n")
	if err := os.Chmod(d.configFile(), 0o666); err != nil {
		t.Fatal(err)
	}
	d.refuses("", refusal{"status", fault.Invalid, "read config CONFIG: other users may write it", "chmod go-w CONFIG ends that."})
	if err := os.Chmod(d.configFile(), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Write(t, d.configFile()+".new/in-the-way", "") // what is written takes the config's place when it is whole
	d.refuses("", refusal{"config set project nose", fault.Denied, "write config: open CONFIG.new: is a directory", ""})

	d.app.Dirs.Config = t.TempDir()
	if err := os.Mkdir(d.configFile(), 0o700); err != nil {
		t.Fatal(err)
	}
	d.refuses("", refusal{"status", fault.Denied, "read config: it is not a regular file", ""})
}

func TestTargetsOfAProjectFileStay(t *testing.T) {
	d := newDesk(t)
	clitest.Write(t, config.ProjectFileName, "targets:\n  big:\n    on: mem\n")
	d.refuses("", refusal{"target rm big", fault.Invalid, "remove target big: it is in HERE/drover.yaml", "Edit that file."})
}

func TestFoldersThatAMachineHasNot(t *testing.T) {
	d := newDesk(t)
	clitest.Write(t, config.ProjectFileName, "project: eyes\n")
	dirs := d.app.Dirs
	d.app.Dirs.Data = ""
	d.refuses("", refusal{"status", fault.Invalid, "choose store: neither HOME nor XDG_DATA_HOME is set", "Set HOME, or name a folder with --store."})
	d.app.Dirs = dirs
	d.app.Dirs.State = ""
	d.refuses("", refusal{"status", fault.Invalid, "find a folder for running jobs: HOME is not set, and the one in the temporary folder belongs to another user", "Set HOME."})
	d.refuses("", refusal{"config trust", fault.Invalid, "confirm HERE/drover.yaml: this user has no folder to record it in", "Set HOME."})
	d.app.Dirs = dirs

	clitest.Write(t, "file", "")
	for cache, want := range map[string][2]string{
		"file/below": {"make drover's cache: mkdir file: not a directory", "Set XDG_CACHE_HOME to a folder that can be written."},
		"/dev/fd":    {"make a folder for outputs: ", "Free space, or set XDG_CACHE_HOME to another disk."}, // nor can root make one there
	} {
		d.app.Dirs.Cache = cache
		err := bring.NewBringer(d.app).BringInto(t.Context(), "s3://bucket/outputs", nil)
		if fault.KindOf(err) != fault.Full || !strings.HasPrefix(err.Error(), want[0]) || fault.Hint(err) != want[1] {
			t.Errorf("%s: %v\n  %s", cache, err, fault.Hint(err))
		}
	}
}

func TestAWorkingFolderThatWasRemoved(t *testing.T) {
	d := newDesk(t)
	d.aMap()
	gone := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(gone)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	for _, typed := range []string{"run --on mem true", "config trust", "image build --append"} {
		_, _, err := d.typed(strings.Fields(typed)...)
		if fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), "find the working folder: ") || fault.Hint(err) != "Change to a folder that is there." {
			t.Errorf("drover %s: %v\n  %s", typed, err, fault.Hint(err))
		}
	}
}

// full is an output that takes nothing, such as a file on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestAnOutputThatTakesNothingIsAnError(t *testing.T) {
	d := newDesk(t)
	d.aMap()
	for _, typed := range []string{"logs last", "logs last --item 1", "logs last --search hello"} {
		a := *d.app
		a.Out, a.Err = full{}, full{}
		root := newCommandTree(&a).newRoot()
		root.SetArgs(strings.Fields(typed))
		err := root.ExecuteContext(t.Context())
		if fault.KindOf(err) != fault.Full || !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(err.Error(), "print output: ") || fault.Hint(err) != "" {
			t.Errorf("drover %s: %v (%v)", typed, err, fault.KindOf(err))
		}
	}
}

// atTerminal gives an app at a terminal where keys are typed.
func (d *desk) atTerminal(keys string) *app.App {
	d.t.Helper()
	a, _ := d.atTerminalSeen(keys)
	return a
}

// atTerminalSeen gives also what the terminal shows.
func (d *desk) atTerminalSeen(keys string) (*app.App, *os.File) {
	d.t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { tty.Close(); master.Close() })
	if _, err := master.WriteString(keys); err != nil {
		d.t.Fatal(err)
	}
	a := *d.app
	a.Out, a.In, a.Err = &bytes.Buffer{}, tty, tty
	return &a, master
}

func TestAnythingButYesIsNotConfirmed(t *testing.T) {
	d := newDesk(t)
	const hangUp = "\x04" // Ctrl-D
	for keys, ok := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "yes but\n": false, hangUp: false} {
		err := d.atTerminal(keys).ConfirmRemoval(false, "The jobs of demo/train are removed.")
		switch {
		case ok && err == nil:
		case ok || fault.KindOf(err) != fault.Invalid || err.Error() != "ask before removing: not confirmed, nothing was changed" || fault.Hint(err) != "":
			t.Errorf("%q: %v", keys, err)
		}
	}
	a := d.atTerminal(hangUp)
	a.Found = func() []string { return nil }
	if _, err := setup.NewInit(a).AskForStore(); fault.KindOf(err) != fault.Invalid || err.Error() != "choose store: no answer" || fault.Hint(err) != "Name one: drover init --store s3://bucket/prefix." {
		t.Errorf("%v\n  %s", err, fault.Hint(err))
	}
}

func TestWatchingJobsThatNoAgentWorksOnEnds(t *testing.T) {
	d := newDesk(t)
	m := d.submitMap(job.Spec{Task: "left", Program: "true", Items: job.Items{From: "1-3"}}, 1, items.Source{From: "1-3"})
	m.check(liveness.WriteHeartbeat(t.Context(), m.World, m.job.Path(), protocol.Heartbeat{Agent: "1-0-a", Phase: protocol.Left, Host: protocol.Host{Boot: "elsewhere", PID: 1}}))
	a := *d.app
	var out bytes.Buffer
	a.Out, a.Err = &out, &out
	frame, err := look.NewWatcher(&a).NewFrameReader(t.Context(), nil, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	ticks := make(chan time.Time, summary.WatchIdle+1)
	for range summary.WatchIdle + 1 {
		ticks <- time.Time{}
	}
	if f, err := frame(t.Context()); err != nil || !f.Live || !f.Idle {
		t.Fatalf("%+v, %v", f, err)
	}
	err = look.NewWatcher(&a).ShowFrames(t.Context(), frame, ticks, look.NewWatchScreen(&out))
	if fault.KindOf(err) != fault.Interrupted || err.Error() != "watch jobs: no agent works on those that have not ended" || fault.Hint(err) != "Continue one of them: drover resume JOB." {
		t.Errorf("%v\n  %s\n%s", err, fault.Hint(err), out.String())
	}
}
