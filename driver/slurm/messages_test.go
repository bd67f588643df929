package slurm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/slurm/commands"
	"github.com/drover-run/drover/driver/slurm/node"
	"github.com/drover-run/drover/driver/slurm/records"
	"github.com/drover-run/drover/fault"
)

// refusedWith fails the test unless err has this kind, this text and this hint.
func refusedWith(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || err.Error() != text || fault.Hint(err) != hint {
		t.Errorf("got %v, %s, %q; want %s, %s, %q", err, fault.KindOf(err), fault.Hint(err), text, kind, hint)
	}
}

func TestAnOptionThatIsRefusedIsQuoted(t *testing.T) {
	for arg, want := range map[string][2]string{
		"--x\n":       {`read --target-arg "--x\n": it is not an option`, ""},
		"account bio": {`read --target-arg "account bio": it is not an option of sbatch`, "Write option and value as one word: --target-arg account=bio."},
		"-a1-3":       {`read --target-arg "-a1-3": drover decides this itself`, "Set the number of agents with --workers of drover map."},
		"--output=x":  {`read --target-arg "--output=x": drover decides this itself`, "Output is stored by drover: drover logs."},
	} {
		refusedWith(t, checkArgs([]string{"--account=bio", arg}), fault.Invalid, want[0], want[1])
	}
}

func TestALineThatIsRefusedIsQuoted(t *testing.T) {
	for line, want := range map[string][2]string{
		"-N x":               {"read #SBATCH --nodes=x: it is not a number of nodes", "Write it as --nodes=2."},
		"stray":              {`read #SBATCH lines: "stray" is not an option of sbatch`, "See man sbatch."},
		"-q":                 {"read #SBATCH lines: --qos lacks a value", "Write it as --qos=VALUE."},
		"-d afterok:3":       {"read #SBATCH --dependency=afterok:3: drover cannot do that", "Wait for the other job first."},
		"--hold":             {"read #SBATCH --hold: drover cannot do that", "Leave it out."},
		`--comment="a and b`: {`read #SBATCH --comment="a and b: a quote is open at its end, or there is a NUL`, "Close the quote on the same line."},
	} {
		_, err := Directives([]byte("#!/bin/sh\n#SBATCH "+line+"\ntrue\n"), driver.Needs{})
		refusedWith(t, err, fault.Invalid, want[0], want[1])
	}
}

func TestWhatSlurmAnswersIsASentence(t *testing.T) {
	for _, c := range []struct {
		err        error
		kind       fault.Kind
		text, hint string
	}{
		{&commands.Refusal{Command: "sbatch", Text: "sbatch: error: invalid partition specified: fast\n"}, fault.Invalid,
			"start agents: Slurm says: invalid partition specified: fast", "See what there is: sinfo -s; then say --on slurm/PARTITION."},
		{&commands.Refusal{Command: "sbatch", Text: "sbatch: error: The moon is full\n"}, fault.Invalid,
			"start agents: Slurm says: The moon is full", "Check what was asked for: --on slurm/PARTITION, --target-arg."},
		{&commands.Silent{Command: "sbatch", Why: "no answer within 30s"}, fault.Lost,
			"start agents: Slurm does not answer: no answer within 30s", "Is the cluster up? scontrol ping says. Then run it again."},
		{&commands.Silent{Command: "sbatch", Why: commands.NoConfig}, fault.Lost,
			"start agents: its commands find no slurm.conf here, and no server that has one", "Run it on a machine of the cluster, or say where its configuration is: SLURM_CONF=/PATH/slurm.conf."},
	} {
		refusedWith(t, said("start agents", c.err), c.kind, c.text, c.hint)
	}
}

func TestAFolderThatSlurmCannotWriteIntoIsRefused(t *testing.T) {
	d := New("/state/50%")
	refusedWith(t, d.prepareStart(t.Context(), &plan{request: driver.Request{Agents: 1}}), fault.Invalid,
		`start agents: Slurm cannot write into "/state/50%"`, "Name another folder with XDG_STATE_HOME.")
}

// sbatch may have submitted the job without printing its number.
func TestAnAnswerWithoutANumberIsABug(t *testing.T) {
	d := New(t.TempDir())
	d.path = t.TempDir()
	if err := os.WriteFile(filepath.Join(d.path, "sbatch"), []byte("#!/bin/sh\necho Submitted.\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := plan{handle: driver.Handle{Target: Name, Job: "abcd2345", Placement: 1}, folder: t.TempDir(), facts: records.Request{Agents: 1, Arrays: []int{1}}}
	refusedWith(t, d.submitArray(t.Context(), p, 0), fault.Bug,
		`start agents: sbatch answered "Submitted."`, "squeue --me says whether it has the job; sbatch must print its number.")
}

func TestANoteOfAnAgentThatWasNeverAskedForIsDamage(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(records.AgainFile(dir, 2), []byte("7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := records.Again(dir, 2)
	refusedWith(t, err, fault.Invalid, "read record of agents: "+records.AgainFile(dir, 2)+" is damaged", "Remove its folder once nothing of it runs.")
}

func TestAProcessThatSlurmDidNotStartIsNoAgent(t *testing.T) {
	_, err := node.FindPlace(t.TempDir(), func(name string) string { return map[string]string{"SLURM_JOB_ID": "none"}[name] })
	refusedWith(t, err, fault.Invalid, `supervise agent: SLURM_JOB_ID="none" is not a job id`, "Unset DROVER_SLURM_PLACEMENT.")

	dir := t.TempDir()
	t.Setenv(node.EnvFolder, dir)
	t.Setenv(node.EnvIndex, "first")
	_, err = node.Adopt(driver.AgentProcess{})
	refusedWith(t, err, fault.Invalid, `adopt agent: DROVER_SLURM_INDEX="first" is not a number`, "Unset DROVER_SLURM_INDEX.")

	if err := os.WriteFile(records.SecretsFile(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(node.EnvFolder, dir)
	t.Setenv(node.EnvIndex, "0")
	_, err = node.Adopt(driver.AgentProcess{})
	if fault.KindOf(err) != fault.Bug || !strings.HasPrefix(err.Error(), "adopt agent: read its secrets: read record of agents: ") {
		t.Errorf("secrets that are damaged give %v", err)
	}
}
