package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/clitest"
	"github.com/drover-run/drover/internal/cli/config"
	"github.com/drover-run/drover/internal/cli/manual"
	"github.com/drover-run/drover/internal/cli/start"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	storemem "github.com/drover-run/drover/store/mem"
)

// desk is a command line over a store in memory. Tests that use it change the
// working folder and the environment, and so do not run side by side.
type desk struct {
	t      *testing.T
	app    *app.App
	bucket *storemem.Bucket
	opened string // what OpenBucket was asked for last
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, s := range config.Known {
		t.Setenv(s.Env, "")
	}
	d := &desk{t: t, bucket: storemem.New()}
	place := mem.New(func(ctx context.Context, _ driver.Request, _ int) error { <-ctx.Done(); return nil })
	t.Cleanup(place.Close)
	home := t.TempDir()
	d.app = &app.App{Host: app.Host{Version: "v1", Dirs: config.Dirs{Data: home + "/data", State: home + "/state", Cache: home + "/cache", Config: home + "/config"},
		OpenBucket: func(_ context.Context, url, endpoint string) (store.Bucket, bool, error) {
			d.opened = strings.TrimSpace(url + " " + endpoint)
			return d.bucket, true, nil
		},
		OpenTargets: func(driver.OpenStore) map[string]driver.Opened {
			return map[string]driver.Opened{mem.Name: mem.Open(place)}
		}}}
	return d
}

// typed runs one command line, and gives what it prints and its error.
func (d *desk) typed(args ...string) (out, said string, err error) {
	d.t.Helper()
	var o, e bytes.Buffer
	a := *d.app
	a.Out, a.Err = &o, &e
	root := newCommandTree(&a).newRoot()
	root.SetArgs(args)
	err = root.ExecuteContext(d.t.Context())
	return o.String(), e.String(), err
}

func TestAMistypedCommandLineIsOneErrorWithTheNextStep(t *testing.T) {
	d := newDesk(t)
	clitest.Write(t, "train.py", "")
	for _, row := range []struct{ typed, text, hint string }{
		{"run --ouptut out train.py", `drover run has no flag "--ouptut"`, "Did you mean --output? Flags of your script come after the script."},
		{"run --detahc=1 train.py", `drover run has no flag "--detahc"`, "Did you mean --detach? Flags of your script come after the script."},
		{"run --epochs 3 train.py", `drover run has no flag "--epochs"`, "Flags of your script come after the script: drover run train.py --epochs."},
		{"run -e 3 train.py", `drover run has no flag "-e"`, "drover help run lists the flags."},
		{"run --timeout", "flag needs an argument: --timeout", "drover help run lists the flags."},
		{"run --retries many train.py", `read --retries: "many" is not a whole number`, "drover help run lists the flags."},
		{"logs --tail x last", `read --tail: "x" is not a whole number`, "drover help logs"},
		{"kill 7fk2", `unknown command "kill"`, "drover cancel JOB ends a job for good."},
		{"stop 7fk2", `unknown command "stop"`, "drover cancel JOB ends a job for good; drover pause JOB lets a map"},
		{"rm 7fk2", `unknown command "rm"`, "drover gc JOB removes a job that has ended"},
		{"list", `unknown command "list"`, "drover status lists the jobs."},
		{"show 7fk2", `unknown command "show"`, "drover status JOB shows one job"},
		{"exec 7fk2 ls", `unknown command "exec"`, "drover attach JOB -- COMMAND"},
		{"submit train.py", `unknown command "submit"`, "drover run --detach SCRIPT"},
		{"run --timeout soon train.py", `"soon"`, "Write it as 90s, 15m, 2h or 1d."},
		{"run --grace soon train.py", `"soon"`, "Write it as 90s, 15m, 2h or 1d."},
		{"run -t a/b train.py", `"a/b" is not a valid name for a task`, "Try a-b: "},
		{"run -p A train.py", `"A" is not a valid name for a project`, "Try a: "},
		{"run -i a=x -i a=y train.py", `two inputs are named "a"`, "Give each input its own name."},
		{"run train.py --on mem", `"local" is unknown`, "Use --on mem."}, // --on is the script's here
		{"run job.yaml", "read job file: open job.yaml", "Check the path."},
		{"run --on mem", "no script or program given", "Try drover run train.py"},
		{"run -o train.py train.py", `read --output: "train.py" is a file`, "Name a folder with -o."},
		{"shell --on mem echo a", "shell takes one command line, got 2 words", "Quote the whole line"},
		{"logs --serach x", `drover logs has no flag "--serach"`, "Did you mean --search?"},
		{"logs --epochs 3", `drover logs has no flag "--epochs"`, "drover help logs lists the flags."},
		{"config get --jsno", `drover config get has no flag "--jsno"`, "drover help config get lists the flags."},
		{"--versoin", `drover has no flag "--versoin"`, "Did you mean --version?"},
		{"--nothing-like-it", `drover has no flag "--nothing-like-it"`, "drover help lists the verbs."},
		{"trian train.py", `unknown command "trian"`, "drover help lists the verbs."},
		{"stauts", `unknown command "stauts"`, "Did you mean drover status?"},
		{"train.py", `unknown command "train.py"`, "Try drover run train.py."},
		{"help stauts", `unknown command "stauts"`, "Did you mean drover status?"},
		{"logs a b", "2 jobs named, drover logs takes one", "Name one job: drover logs a."},
		{"cancel", "no job named", "Name it: drover cancel last."},
		{"doctor now", "drover doctor takes 0 arguments, not 1", "Write it as drover doctor"},
		{"config get", "drover config get takes 1 argument, not 0", "Write it as drover config get KEY"},
		{"config set store", "drover config set takes 2 arguments, not 1", "Write it as drover config set KEY VALUE"},
		{"config get stroe", `there is no "stroe"`, "Did you mean store?"},
		{"config explain colour", `there is no "colour"`, "The keys are project, store, store_endpoint, agent_profile, agent_role, on, machine, where, spot, python, output, image_mirror, image_registry, region."},
		{"logs last", "there are none yet", "Start one: drover run train.py."},
		{"get nothing", `no job "nothing"`, "drover status lists what there is."},
	} {
		out, _, err := d.typed(strings.Fields(row.typed)...)
		if fault.Exit(err) != fault.ExitUsage || out != "" || !strings.Contains(err.Error(), row.text) || !strings.HasPrefix(fault.Hint(err), row.hint) {
			t.Errorf("drover %s: %v\n  %s\n%s", row.typed, err, fault.Hint(err), out)
		}
	}
	if _, _, err := d.typed("logs", "last", "--search", "("); fault.Exit(err) != fault.ExitUsage {
		t.Errorf("a search that is not an expression: %v", err)
	}
}

func TestAFlagBehindTheScriptIsTheScriptsAndIsSaid(t *testing.T) {
	d := newDesk(t)
	for _, row := range []struct {
		verb job.Verb
		args []string
		want string
	}{
		{job.Run, nil, ""},
		{job.Run, []string{"--epochs", "3", "-o", "out", "on", "--", "-q"}, ""},
		{job.Run, []string{"--on", "mem"}, "note: --on went to train.py: drover's own flags come before the script\n"},
		{job.Run, []string{"--output=out", "x", "--output", "--env-file"}, "note: --output, --env-file went to train.py: drover's own flags come before the script\n"},
		{job.Run, []string{"--env_file", "--out", "--ON", "---on", "--"}, ""}, // only exactly a flag of ours
		{job.Shell, []string{"--on"}, ""},
	} {
		var said bytes.Buffer
		a := *d.app
		a.Err = &said
		cmd, _, err := newCommandTree(&a).newRoot().Find([]string{string(row.verb)})
		if err != nil {
			t.Fatal(err)
		}
		start.NewSubmitter(&a).NoteFlagsAfterScript(cmd, job.Spec{Verb: row.verb, Program: "train.py", Args: row.args})
		if said.String() != row.want {
			t.Errorf("%q: %q, want %q", row.args, said.String(), row.want)
		}
	}
}

// A flag wins over the environment, that over the project's file, that over the
// user's, that over the default.
func TestTheLayersOfTheConfig(t *testing.T) {
	d := newDesk(t)
	userFile := filepath.Join(d.app.Dirs.Config, "config.yaml")
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	clitest.Write(t, "below/here/x", "")
	t.Chdir("below/here")
	projectFile := filepath.Join(wd, config.ProjectFileName)
	look := func(what string, want config.Found) {
		t.Helper()
		c, err := config.ReadConfig(d.app.Dirs)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Get("store"); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	opens := func(want string, args ...string) {
		t.Helper()
		if _, _, err := d.typed(append([]string{"status"}, args...)...); err != nil || d.opened != want {
			t.Errorf("%q opens %s, want %s (%v)", args, d.opened, want, err)
		}
	}
	look("nothing is said", config.Found{Value: "", From: "default"})
	opens(d.app.Dirs.Data)
	clitest.Write(t, userFile, "store: /user\n")
	look("by the user's file", config.Found{Value: "/user", From: userFile})
	clitest.Write(t, projectFile, "store: kept\nproject: vision\n")
	look("by the project's file, beside which it is", config.Found{Value: filepath.Join(wd, "kept"), From: projectFile})
	clitest.Write(t, projectFile, "store: s3://bucket/x\n")
	look("a store that is not a folder stays", config.Found{Value: "s3://bucket/x", From: projectFile})
	clitest.Write(t, projectFile, "store: /abs\n")
	look("nor is an absolute one moved", config.Found{Value: "/abs", From: projectFile})
	t.Setenv("DROVER_STORE", "by-env")
	look("by the environment", config.Found{Value: "by-env", From: "DROVER_STORE"})
	opens("by-env")
	opens("by-flag", "--store", "by-flag")

	t.Setenv("DROVER_STORE_ENDPOINT", "http://own:9000")
	opens("by-flag", "--store", "by-flag") // a folder has none
	opens("s3://b/x http://own:9000", "--store", "s3://b/x")
	opens("s3://b/x http://other:1", "--store", "s3://b/x", "--store-endpoint", "http://other:1")

	for text, hint := range map[string]string{"stroe: x\n": "Did you mean store?", "- a\n": "Write it as lines", "store: [\n": "Write it as lines"} {
		clitest.Write(t, projectFile, text)
		if _, err := config.ReadConfig(d.app.Dirs); fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(fault.Hint(err), hint) || !strings.Contains(err.Error(), projectFile) {
			t.Errorf("%q: %v (%s)", text, err, fault.Hint(err))
		}
	}
}

func TestTheProjectIsNamedOrTheFolder(t *testing.T) {
	d := newDesk(t)
	for _, row := range []struct{ folder, want string }{{"My Project_2", "my-project-2"}, {"blobs", "default"}, {"ids", "default"}, {"🚀", "default"}} {
		if err := os.Mkdir(row.folder, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Run(row.folder, func(t *testing.T) {
			t.Chdir(row.folder)
			if got, err := d.app.ProjectName(); err != nil || got != row.want {
				t.Errorf("in %s it is %q (%v), want %q", row.folder, got, err, row.want)
			}
		})
	}
	d.app.Settings.Project = "Not/One"
	if _, err := d.app.ProjectName(); fault.KindOf(err) != fault.Invalid {
		t.Errorf("%v", err)
	}
}

// Every page of help: the verbs' are in docs/reference.md, and its test compares
// them; here are those below.
func TestHelpOfEveryVerbHasWhatAPersonNeeds(t *testing.T) {
	for _, c := range newCommandTree((&app.App{})).newRoot().Commands() {
		if !c.IsAvailableCommand() || c.Name() == "help" {
			continue
		}
		names := []string{c.Name()}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				names = append(names, c.Name()+" "+sub.Name())
			}
		}
		for _, name := range names {
			text := helpOf(t, name)
			if !strings.Contains(text, "\n\n  drover "+name) {
				t.Errorf("help %s does not say how it is written:\n%s", name, text)
			}
			for i, line := range strings.Split(text, "\n") {
				if strings.Contains(line, "`") || strings.HasSuffix(line, " ") {
					t.Errorf("help %s, line %d: %q", name, i+1, line)
				}
			}
		}
		if c.Name() != "completion" && c.Name() != "version" && manual.Examples[c.Name()] == "" {
			t.Errorf("help %s has no example", c.Name())
		}
	}
	want := "Print a setting's value\n\n  drover config get KEY\n"
	if diff := cmp.Diff(want, helpOf(t, "config get")); diff != "" {
		t.Errorf("help config get (-want +got):\n%s", diff)
	}
}
