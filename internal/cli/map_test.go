package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/clitest"
	"github.com/drover-run/drover/internal/cli/start"
	"github.com/drover-run/drover/job"
)

func TestAMistypedMapIsOneErrorWithTheNextStep(t *testing.T) {
	d := newDesk(t)
	clitest.Write(t, "items.txt", "a\nb\n")
	clitest.Write(t, "work.sh", "")
	clitest.Write(t, "run.yaml", "verb: run\nprogram: ./work.sh\n")
	for _, row := range []struct{ typed, text, hint string }{
		{"map ./work.sh {}", "no items given", "Try drover map --from items.txt -- ./work.sh {}."},
		{"map --from items.txt", "no program given", "Try drover map --from items.txt -- ./work.sh {}."},
		{"map --from items.txt --", "no program given", "Try drover map --from items.txt -- ./work.sh {}."},
		{"map --from items.txt -j 0 -- ./work.sh {}", "read --slots: 0", "Use 1 or more."},
		{"map --from items.txt -j -1 -- ./work.sh {}", "read --slots: -1", "Use 1 or more."},
		{"map --from items.txt -j many -- ./work.sh {}", `read --slots: "many" is not a whole number`, "drover help map lists the flags."},
		{"map --from items.txt -j 20000 -- ./work.sh {}", "20000 items at once", "Use -j 1 to 10000."},
		{"map --from items.txt --workers 0 -- ./work.sh {}", "read --workers: 0", "Use 1 or more."},
		{"map --from items.txt --retries -1 -- ./work.sh {}", "read --retries: -1", "Use 0 or more."},
		{"map --from items.txt --max-fails some -- ./work.sh {}", `at most "some" items may fail`, "Use a number such as 10, or percent such as 5%."},
		{"map --from items.txt --max-fails 101% -- ./work.sh {}", `at most "101%" items may fail`, "Use a number such as 10, or percent such as 5%."},
		{"map --from items.txt --item-timeout soon -- ./work.sh {}", `"soon"`, "Write it as 90s, 15m, 2h or 1d."},
		{"map --from items.txt --format xml -- ./work.sh {}", `unknown format "xml"`, "Use lines, csv or jsonl."},
		{"map --from items.txt --out ../x -- ./work.sh {}", `output "../x" is not a name below the folder for outputs`, "Use a name such as thumbs/{.stem}.png."},
		{"map --from items.txt --nodes 2 -- ./work.sh {}", "drover map has no --nodes", "Use --workers for more agents."},
		{"map --from items.txt --ic 2 -- ./work.sh {}", "drover map has no --nodes", "Use --workers for more agents."},
		{"map --from items.txt --timeout 2h -- ./work.sh {}", "drover map has no --timeout", "Use --item-timeout: it is the limit of each item."},
		{"map --from items.txt --no-mounts -- ./work.sh {}", "drover map has no --no-mounts", "Leave it out: items see the machine as it is."},
		{"map --from items.txt --launcher mpi -- ./work.sh {}", `drover map has no flag "--launcher"`, "drover help map lists the flags."},
		{"map --form items.txt -- ./work.sh {}", `drover map has no flag "--form"`, "Did you mean --from?"},
		{"map --from items.txt --shell echo {}", "--shell takes one command line, got 2 words", "Quote the whole line:"},
		{"map --from items.txt -o items.txt -- ./work.sh {}", `read --output: "items.txt" is a file`, "Name a folder with -o."},
		{"map --from nothing.txt -- ./work.sh {}", `read items from "nothing.txt": it is not there`, "Check the path, or pipe the items in with --from -."},
		{"map --from itmes.txt -- ./work.sh {}", `read items from "itmes.txt": it is not there`, "Did you mean items.txt?"},
		{"map --from items.txt run.yaml", "read job file run.yaml: it says verb: run", "Use drover run run.yaml, or write verb: map in it."},
		{"run --from items.txt ./work.sh", `drover run has no flag "--from"`, "Items are for drover map: drover map --from items.txt -- ./work.sh {}."},
		{"items last", "there are none yet", "Start one: drover run train.py."},
		{"items last x", "there are none yet", "Start one: drover run train.py."},
		{"items a b c", "drover items takes a job and a number, not 3 words", "Name a job, and one item: drover items a b."},
		{"items last --state done", `"done" is not an item state`, "Use pending, leased, succeeded, failed, quarantined, cancelled."},
		{"items last --state faild", `"faild" is not an item state`, "Did you mean failed?"},
		{"results --csv --json", "both --csv and --json", "Leave one of them out."},
		{"verify a b", "2 jobs named, drover verify takes one", "Name one job: drover verify a."},
	} {
		args := strings.Fields(row.typed)
		if args[0] == "map" || args[0] == "run" {
			args = slices.Insert(args, 1, "--on", "mem")
		}
		out, _, err := d.typed(args...)
		if fault.Exit(err) != fault.ExitUsage || out != "" || !strings.Contains(fmt.Sprint(err), row.text) || !strings.HasPrefix(fault.Hint(err), row.hint) {
			t.Errorf("drover %s: %v\n  %s\n%s", row.typed, err, fault.Hint(err), out)
		}
	}
}

func TestItemsThatNobodyPipesInAreRefused(t *testing.T) {
	d := newDesk(t)
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	d.app.In = tty
	_, _, err = d.typed("map", "--on", "mem", "--from", "-", "--", "true")
	if fault.Exit(err) != fault.ExitUsage || !strings.Contains(err.Error(), "read items from standard input: it is a terminal") || fault.Hint(err) == "" {
		t.Errorf("%v\n  %s", err, fault.Hint(err))
	}
}

func TestWhatIsTypedIsWhatTheSpecSays(t *testing.T) {
	d := newDesk(t)
	clitest.Write(t, "map.yaml", "verb: map\nprogram: ./work.sh\nargs: ['{}']\nfrom: list.csv\nslots: 3\nworkers: 2\nout: [a]\n")
	for _, row := range []struct {
		typed string
		want  job.Spec
	}{
		{"map --from 1-9 -- ./work.sh -x {} --on", job.Spec{Program: "./work.sh", Args: []string{"-x", "{}", "--on"}, Items: job.Items{From: "1-9"}}},
		{"map --from - -j 8 --workers 3 --retries 2 --item-timeout 5s --max-fails 5% --stdin --out a --out b --format csv --cpus 2 --memory 1G --gpus 1 cat",
			job.Spec{Program: "cat", Retries: 2, GPUs: 1, Limits: job.Limits{CPUs: 2, Memory: 1 << 30},
				Items: job.Items{From: "-", Format: "csv", Slots: 8, Workers: 3, ItemTimeout: job.Duration(5 * time.Second), MaxFails: "5%", Stdin: true, Out: []string{"a", "b"}}}},
		{"map --shell --from 1-9 x.yaml", job.Spec{Program: "x.yaml", Items: job.Items{From: "1-9", ByShell: true}}},
		{"map -j 4 --out b map.yaml more", job.Spec{Program: d.t.Name(), Args: []string{"{}", "more"}, Items: job.Items{From: "list.csv", Slots: 4, Workers: 2, Out: []string{"a", "b"}}}},
	} {
		a := *d.app
		cmd := &cobra.Command{Use: "map"}
		s, m := start.NewSpecReader(&a).MapFlags(cmd)
		if err := cmd.ParseFlags(strings.Fields(row.typed)[1:]); err != nil {
			t.Fatal(err)
		}
		got, err := start.NewSpecReader(&a).ReadMapSpec(cmd, s, m, cmd.Flags().Args())
		if err != nil {
			t.Fatal(err)
		}
		got.Project, got.ProjectOf, got.Nodes = "", "", 0
		if row.want.Program == d.t.Name() { // of a job file: relative to its folder
			dir, _ := os.Getwd()
			row.want.Program, row.want.From = dir+"/work.sh", dir+"/list.csv"
		}
		row.want.Verb = job.Map
		if diff := cmp.Diff(row.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("drover %s (-want +got):\n%s", row.typed, diff)
		}
	}
}
