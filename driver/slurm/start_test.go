package slurm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/slurm/records"
)

// An answer of sbatch that was lost says nothing of the job, and squeue may show it some
// moments later: it is looked for as long, and not left to be submitted again.
func TestAJobThatSlurmShowsLateIsFound(t *testing.T) {
	bin := notes77(t, map[string]string{
		"sbatch": `echo >>"$(dirname "$0")/submitted"; echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1`,
		"squeue": `echo >>"$(dirname "$0")/asked"; test "$(wc -l <"$(dirname "$0")/asked")" -lt 4 || echo '77|0|78|PENDING|0|None||0|drover-abcd2345-1-0|'`,
	})
	if calls, err := os.ReadFile(filepath.Join(bin, "submitted")); err != nil || strings.Count(string(calls), "\n") != 1 {
		t.Errorf("it was submitted %q, %v", calls, err)
	}
}

// notes77 submits an array to a Slurm of these scripts, in bin, and sees that job 77 is
// noted.
func notes77(t *testing.T, scripts map[string]string) (bin string) {
	t.Helper()
	bin = t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d := New(t.TempDir())
	d.path = bin
	p := plan{handle: driver.Handle{Target: Name, Job: "abcd2345", Placement: 1}, folder: t.TempDir(), facts: records.Request{Agents: 1, Arrays: []int{1}}}
	if err := d.submitArray(t.Context(), p, 0); err != nil {
		t.Fatal(err)
	}
	var noted records.Submitted
	if err := folder.ReadJSON(records.JobFile(p.folder, 0), &noted); err != nil || noted.ID != 77 {
		t.Errorf("it noted %+v, %v", noted, err)
	}
	return bin
}

// A site's sbatch may say more than the job's id.
func TestAnAnswerWithABannerIsRead(t *testing.T) {
	for out, want := range map[string]int{
		"77\n": 77, "77;east\n": 77, "Welcome to East!\n\n77;east\n": 77, "77\nYou have 3 jobs left.\n": 77, "3\n77\n": 77,
		"": 0, "Submitted\n": 0, "0\n": 0, "-7\n": 0,
	} {
		if id := parseSubmitted(out); id != want {
			t.Errorf("%q is job %d, want %d", out, id, want)
		}
	}
	notes77(t, map[string]string{"sbatch": `echo 'Welcome to East!'; echo '77;east'`})
}

// A program is named by what was copied, whatever has become of its file since.
func TestAProgramIsNamedByWhatWasCopied(t *testing.T) {
	d := New(t.TempDir())
	binary := filepath.Join(t.TempDir(), "drover")
	var names []string
	for _, text := range []string{"one", "two", "one"} {
		if err := os.WriteFile(binary, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		path, err := d.installProgram(binary)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%s holds %q, %v; want %q", path, got, err, text)
		}
		names = append(names, filepath.Base(path))
	}
	if names[0] == names[1] || names[0] != names[2] {
		t.Errorf("they are called %q", names)
	}
}
