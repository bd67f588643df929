package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/clitest"
	"github.com/drover-run/drover/internal/cli/config"
	"github.com/drover-run/drover/store"
)

// another is a user other than those that run tests. It needs no name.
const another = 54321

// planted is a way in which a drover.yaml gets below a user's working folder that is not
// the user's own doing.
type planted struct {
	name     string
	asRoot   bool // it takes another user, and so root, to make it
	plant    func(t *testing.T, folder, file string)
	note     []string // in the note, beside the file's name
	noRemedy bool     // confirming does not help
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var plants = []planted{
	{name: "another user's file", asRoot: true, note: []string{"it belongs to another user (uid 54321)", "drover config trust "},
		plant: func(t *testing.T, _, file string) { mustDo(t, os.Chown(file, another, another)) }},
	{name: "another user's folder", asRoot: true, note: []string{"the folder ", "belongs to another user (uid 54321)", "drover config trust "},
		plant: func(t *testing.T, folder, _ string) { mustDo(t, os.Chown(folder, another, another)) }},
	{name: "a file that its group may write", note: []string{"other users may write it", "chmod go-w "},
		plant: func(t *testing.T, _, file string) { mustDo(t, os.Chmod(file, 0o664)) }},
	{name: "a file that all may write", note: []string{"other users may write it", "chmod go-w "},
		plant: func(t *testing.T, _, file string) { mustDo(t, os.Chmod(file, 0o646)) }},
	{name: "a folder that its group may write", note: []string{"other users may write the folder ", "chmod go-w "},
		plant: func(t *testing.T, folder, _ string) { mustDo(t, os.Chmod(folder, 0o775)) }},
	{name: "a shared folder with a sticky bit", note: []string{"other users may write the folder ", "drover config trust "},
		plant: func(t *testing.T, folder, _ string) { mustDo(t, os.Chmod(folder, 0o777|os.ModeSticky)) }},
	{name: "a link", note: []string{"it is a link", "drover config trust "}, plant: func(t *testing.T, _, file string) {
		mustDo(t, os.Rename(file, file+".real"))
		mustDo(t, os.Symlink(file+".real", file))
	}},
	{name: "a pipe that nothing is written to", note: []string{"it is not a regular file"}, noRemedy: true, plant: func(t *testing.T, _, file string) {
		mustDo(t, os.Remove(file))
		mustDo(t, syscall.Mkfifo(file, 0o600))
	}},
	{name: "a file that is too large", note: []string{"it has more than 1 MiB"}, noRemedy: true, plant: func(t *testing.T, _, file string) {
		mustDo(t, os.Truncate(file, 2<<20))
	}},
}

// A drover.yaml that others may have written decides nothing. A note names it and says
// what to do; the one in a folder above counts, as if it were not there. Once the user has
// confirmed what it says it counts, until it says another thing.
func TestAProjectFileThatOthersMayHaveWrittenIsPassedOver(t *testing.T) {
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			if p.asRoot && os.Geteuid() != 0 {
				t.Skip("only root can give a file to another user")
			}
			d := newDesk(t)
			top, err := os.Getwd()
			mustDo(t, err)
			folder, file := filepath.Join(top, "scratch"), filepath.Join(top, "scratch", config.ProjectFileName)
			clitest.Write(t, filepath.Join(top, config.ProjectFileName), "project: above\n")
			clitest.Write(t, file, "project: planted\n")
			clitest.Write(t, filepath.Join(folder, "own", "x"), "")
			p.plant(t, folder, file)
			t.Chdir(filepath.Join(folder, "own"))

			project := func(want string) (said string) {
				t.Helper()
				out, said, err := d.typed("config", "get", "project")
				if err != nil || strings.TrimSpace(out) != want {
					t.Errorf("project is %q, want %q (%v)", out, want, err)
				}
				return said
			}
			said := project("above")
			if strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "note: "+file+" is not used: ") {
				t.Errorf("said %q", said)
			}
			for _, words := range p.note {
				if !strings.Contains(said, words) {
					t.Errorf("said %q, without %q", said, words)
				}
			}
			if p.noRemedy {
				return
			}
			if out, _, err := d.typed("config", "trust"); err != nil || !strings.Contains(out, "planted") {
				t.Fatalf("confirmed with %q: %v", out, err)
			}
			if said := project("planted"); said != "" {
				t.Errorf("a confirmed file makes the command say %q", said)
			}
			if p.name == "a link" {
				return // its text is written elsewhere
			}
			mustDo(t, os.WriteFile(file, []byte("project: another\n"), 0o644))
			project("above")
		})
	}
}

// A record of a confirmation that others may write confirms nothing.
func TestAConfirmationThatOthersMayWriteCountsForNothing(t *testing.T) {
	d := newDesk(t)
	clitest.Write(t, config.ProjectFileName, "python: python3\n")
	clitest.Write(t, "x.py", "")
	python := func() error { _, _, err := d.typed("run", "--on", "mem", "--plan", "x.py"); return err }
	if _, _, err := d.typed("config", "trust"); err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob(filepath.Join(d.app.Dirs.State, "confirmed", "*"))
	if err != nil || len(records) != 1 {
		t.Fatalf("%d records: %v", len(records), err)
	}
	if info, err := os.Stat(records[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the record's mode is %v (%v)", info.Mode(), err)
	}
	if err := python(); err != nil {
		t.Errorf("after it was confirmed: %v", err)
	}
	mustDo(t, os.Chmod(records[0], 0o620))
	if err := python(); fault.Exit(err) != fault.ExitUsage {
		t.Errorf("by a record that the group may write: %v", err)
	}
	mustDo(t, os.Chmod(records[0], 0o600))
	if os.Geteuid() == 0 {
		mustDo(t, os.Chown(records[0], another, another))
		if err := python(); fault.Exit(err) != fault.ExitUsage {
			t.Errorf("by a record of another user: %v", err)
		}
		mustDo(t, os.Chown(records[0], 0, 0))
	}
	if _, _, err := d.typed("config", "trust", "--forget"); err != nil {
		t.Fatal(err)
	}
	if err := python(); fault.Exit(err) != fault.ExitUsage {
		t.Errorf("after the confirmation was taken back: %v", err)
	}
}

// Keys that run a program, or send credentials, code or results elsewhere, are not acted
// on before the user has confirmed the file: each command that would is refused with the
// file, the key and what to type. All others go on, and so does one that says it itself.
func TestKeysOfAProjectFileThatMustBeConfirmed(t *testing.T) {
	const run = "run --on mem --plan x.py"
	for i, row := range []struct {
		key, text      string
		user           string   // the user's own file
		refused, allow []string // command lines
	}{
		{"python", "python: ./mine\n", "", []string{run, "map --on mem --plan --from 1-3 -- ./x.sh {}"}, []string{"status", "config", "run --on mem --python python3 --plan x.py"}},
		{"store", "store: s3://bucket/x\n", "", []string{"status", run, "doctor --policy agents"}, []string{"config", "status --store /own"}},
		{"store", "store: ../beside\n", "", []string{"status"}, []string{"config get store"}},
		{"store", "store: /tmp/x\n", "", []string{"status"}, nil},
		{"store", "store: away/store\n", "", []string{"status"}, nil}, // by a link
		{"store_endpoint", "store_endpoint: http://127.0.0.1:1\n", "store: s3://own/x\n", []string{"status", run}, []string{"status --store-endpoint http://127.0.0.1:2", "status --store /own"}},
		{"image_mirror", "image_mirror: example.com/x\n", "", []string{"run --on mem --framework pytorch --plan x.py", "image build --framework pytorch --plan"}, []string{run, "status"}},
		{"image_registry", "image_registry: example.com/x\n", "", []string{"run --on mem --dockerfile . --plan x.py"}, []string{run, "status"}},
		{"agent_role", "agent_role: arn:aws:iam::1:role/x\n", "store: s3://own/x\n", []string{run, "resume"}, []string{"status", "run --store /own --on mem --plan x.py"}},
		{"agent_profile", "agent_profile: admin\n", "store: s3://own/x\n", []string{run, "retry"}, []string{"status", "run --agent-profile narrow --on mem --plan x.py"}},
		{"output", "output: ../elsewhere\n", "", []string{run}, []string{"status", "run -o out --on mem --plan x.py"}},
		{"output", "output: s3://bucket/x\n", "", []string{run}, nil},
		{"targets.big.args", "targets: {big: {on: mem, args: [--wrap=x]}}\n", "", []string{"run --on big --plan x.py", "offers big"}, []string{run, "target ls", "offers"}},
		{"targets.big.store", "targets: {big: {on: mem, store: s3://bucket/x}}\n", "", []string{"run --on big --plan x.py"}, []string{run, "status"}},
		{"project", "project: vision\nstore: kept\noutput: out\ntargets: {big: {on: mem, workers: 2}}\n", "", nil, []string{"status", run, "run --on big --plan x.py"}},
	} {
		t.Run(fmt.Sprintf("%d-%s", i, row.key), func(t *testing.T) {
			d := newDesk(t)
			d.app.OpenPlace = func(context.Context, string, string, func(string)) (store.Bucket, error) { return d.bucket, nil }
			file, err := filepath.Abs(config.ProjectFileName)
			mustDo(t, err)
			clitest.Write(t, "x.py", "")
			clitest.Write(t, "x.sh", "#!/bin/sh\n")
			mustDo(t, os.Chmod("x.sh", 0o755))
			mustDo(t, os.Symlink(t.TempDir(), "away"))
			clitest.Write(t, filepath.Join(d.app.Dirs.Config, "config.yaml"), row.user)
			clitest.Write(t, config.ProjectFileName, row.text)
			refused := func(line string) (is bool) {
				t.Helper()
				_, _, err := d.typed(strings.Fields(line)...)
				is = err != nil && strings.Contains(err.Error(), "use "+row.key+" of "+file+": ")
				if is && (fault.Exit(err) != fault.ExitUsage || !strings.Contains(fault.Hint(err), "drover config trust "+file+".")) {
					t.Errorf("drover %s: %v\n  %s", line, err, fault.Hint(err))
				}
				return is
			}
			for _, line := range row.refused {
				if !refused(line) {
					t.Errorf("drover %s acts on %s", line, row.key)
				}
			}
			for _, line := range row.allow {
				if _, _, err := d.typed(strings.Fields(line)...); err != nil {
					t.Errorf("drover %s: %v", line, err)
				}
			}
			if _, _, err := d.typed("config", "trust", file); err != nil {
				t.Fatal(err)
			}
			for _, line := range row.refused {
				if refused(line) {
					t.Errorf("drover %s is refused though the file is confirmed", line)
				}
			}
			clitest.Write(t, config.ProjectFileName, row.text+"# edited\n")
			for _, line := range row.refused {
				if !refused(line) {
					t.Errorf("drover %s acts on %s of a file that has changed since", line, row.key)
				}
			}
		})
	}
}

// The user's own file decides what runs: one that others may write is refused, and so is
// that of another user, with the HOME that this process has.
func TestTheUsersFileIsTheUsersOwn(t *testing.T) {
	d := newDesk(t)
	file := filepath.Join(d.app.Dirs.Config, "config.yaml")
	clitest.Write(t, file, "python: ./mine\n")
	if _, _, err := d.typed("config"); err != nil {
		t.Fatal(err)
	}
	mustDo(t, os.Chmod(file, 0o666))
	if _, _, err := d.typed("config"); fault.Exit(err) != fault.ExitUsage || fault.Hint(err) != "chmod go-w "+file+" ends that." {
		t.Errorf("%v (%s)", err, fault.Hint(err))
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	mustDo(t, os.Chmod(file, 0o600))
	mustDo(t, os.Chown(file, another, another))
	if _, _, err := d.typed("config"); fault.Exit(err) != fault.ExitUsage || !strings.Contains(fault.Hint(err), "sudo -H drover") {
		t.Errorf("%v (%s)", err, fault.Hint(err))
	}
}
