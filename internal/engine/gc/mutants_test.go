package gc

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/internal/ledger/commitseed"
)

// gcMutants are rules taken out of the real source: each edit puts a condition
// beside the code, and N is the mutant's number. Those of one name are one mutant.
var gcMutants = []struct{ what, file, old, new string }{
	{"gc does not look again before it deletes", "engine/gc/collect.go",
		"if err := look(); err != nil {\n\t\treturn 0, freed, err\n\t}", "if mutantNow != N {\n\t\tif err := look(); err != nil {\n\t\t\treturn 0, freed, err\n\t\t}\n\t}"},
	{"gc looks again too soon for what a listing shows", "engine/gc/collect.go",
		"if lag := c.g.options.Lag; lag > 0 {\n\t\tif err := c.r.World.Store.Clock().Sleep(ctx, lag); err != nil {\n\t\t\treturn 0", "if lag := c.g.options.Lag; lag > 0 && mutantNow != N {\n\t\tif err := c.r.World.Store.Clock().Sleep(ctx, lag); err != nil {\n\t\t\treturn 0"},
	{"gc deletes when its time is over", "ledger/removal/sweep.go", "return s.w.Clock().Boot() < s.until", "return mutantNow == N || s.w.Clock().Boot() < s.until"},
	{"two gcs sweep at once", "ledger/removal/sweep.go", "if n, _, open := LastSweep(s.Log.Entries); open && !j.sweepIsOver(s.Log, n) {", "if n, _, open := LastSweep(s.Log.Entries); open && !j.sweepIsOver(s.Log, n) && mutantNow != N {"},
	{"a saver does not look for gc", "ledger/removal/sweep.go", "if now := len(s.log.Entries); now == s.since {", "if now := len(s.log.Entries); mutantNow == N || now == s.since {"},
	{"a saver does not wait for a gc that is about", "ledger/removal/sweep.go", "if !open || s.judge.sweepIsOver(s.log, n) {", "if mutantNow == N || !open || s.judge.sweepIsOver(s.log, n) {"},
	{"an agent that restores does not look for gc", "ledger/removal/sweep.go", "\t\terr = sweeps.Assure(ctx, func()", "\t\tif mutantNow == N {\n\t\t\treturn true, nil\n\t\t}\n\t\terr = sweeps.Assure(ctx, func()"},
	{"state is forgotten", "engine/gc/names.go", "range slices.Sorted(maps.Keys(t.Generations)) {", "range slices.Sorted(maps.Keys(t.Generations)) {\n\t\t\tif mutantNow == N {\n\t\t\t\tcontinue\n\t\t\t}"},
	{"checkpoints are forgotten", "engine/gc/names.go", "\t\tfor _, d := range s.Lists() {\n", "\t\tfor _, d := range s.Lists() {\n\t\t\tif mutantNow == N && d == s.Checkpoints {\n\t\t\t\tcontinue\n\t\t\t}\n"},
	{"a torn generation is taken for a whole one", "engine/gc/names.go", "whole = whole && w", "whole = whole && (w || mutantNow == N)"},
	{"a submit under way names nothing", "engine/gc/names.go", "if going[j.Path] || !j.There || j.Removed {", "if going[j.Path] || !j.There || j.Removed || mutantNow == N && !j.Submitted {"},
	{"outputs are not named before the exit", "ledger/removal/census.go", "if e.Named != nil {", "if e.Named != nil && mutantNow != N {"},
	{"lineage is forgotten", "engine/gc/choose.go", "\tc.keepOrigins(jobs)\n\tc.sortByOrigin(jobs)\n", "\tif mutantNow != N {\n\t\tc.keepOrigins(jobs)\n\t}\n\tc.sortByOrigin(jobs)\n"},
	{"an origin is removed before what was made from it", "engine/gc/choose.go", "for _, later := range made[j.Path] {", "for _, later := range made[j.Path] {\n\t\t\tif mutantNow == N {\n\t\t\t\tbreak\n\t\t\t}"},
	{"what a job was made from goes, and the job stays after all", "engine/gc/collect.go", "\t\tgoing.keepJobAndOrigins(l.job, all)\n", "\t\tif mutantNow != N {\n\t\t\tgoing.keepJobAndOrigins(l.job, all)\n\t\t}\n"},
	{"the newest success goes", "engine/gc/choose.go", "case !can || latest:", "case !can || latest && mutantNow != N:"},
	{"two gcs remove two successes that stand for each other", "ledger/removal/remove.go", "!t.StillHas(because) {", "!t.StillHas(because) && mutantNow != N {"},
	{"blobs may be young", "engine/gc/names.go", "ok && !named && o.Time.Before(before)", "ok && !named && (mutantNow == N || o.Time.Before(before))"},
	{"blobs may be young", "engine/gc/collect.go", "return b.at < before", "return mutantNow == N || b.at < before"},
	{"submits may be young", "engine/gc/gc.go", "now.Sub(j.Since) >= o.MinAge", "(mutantNow == N || now.Sub(j.Since) >= o.MinAge)"},
	{"a submit that has finished is removed", "ledger/removal/remove.go", "if _, submitted := t.PlaceOf(p.Job); submitted {", "if _, submitted := t.PlaceOf(p.Job); submitted && mutantNow != N {"},
	{"a removed submit goes on", "ledger/tasks/task.go", "if _, gone := t.Gone[j.ID]; gone {", "if _, gone := t.Gone[j.ID]; gone && mutantNow != N {"},
	{"a removed submit goes on", "ledger/tasks/task.go", "if _, gone := t.Gone[e.Submitted.Job]; gone {", "if _, gone := t.Gone[e.Submitted.Job]; gone && mutantNow != N {"},
}

// gcNoticedBy is a history that notices each mutant.
var gcNoticedBy = map[string]int{
	"gc does not look again before it deletes":                   42,
	"gc looks again too soon for what a listing shows":           430,
	"gc deletes when its time is over":                           40,
	"two gcs sweep at once":                                      522,
	"a saver does not look for gc":                               25,
	"a saver does not wait for a gc that is about":               18,
	"an agent that restores does not look for gc":                1182,
	"state is forgotten":                                         2,
	"checkpoints are forgotten":                                  4,
	"a torn generation is taken for a whole one":                 3964,
	"a submit under way names nothing":                           305,
	"outputs are not named before the exit":                      280,
	"lineage is forgotten":                                       3,
	"an origin is removed before what was made from it":          495,
	"what a job was made from goes, and the job stays after all": 1160,
	"the newest success goes":                                    22,
	"two gcs remove two successes that stand for each other":     276,
	"blobs may be young":                                         8,
	"submits may be young":                                       11,
	"a submit that has finished is removed":                      24,
	"a removed submit goes on":                                   47,
}

// gcShare picks a third of the mutants, so that each commit plants others.
var gcShare = flag.Int("share", commitseed.Third(), "of all mutants plant only those of one third: 1, 2 or 3; 0: all")

// TestGCMutants plants the mutants into a copy of the source, all in one build, and
// demands that the simulation finds each.
func TestGCMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the simulation once more, and plays it for every mutant")
	}
	var names []string
	for _, m := range gcMutants {
		if !slices.Contains(names, m.what) {
			names = append(names, m.what)
		}
	}
	bin := plantGC(t, names)
	play := func(n, from, seeds int) ([]byte, error) {
		cmd := exec.Command(bin, "-test.run", "^TestGCSimulation$", "-gcfrom", fmt.Sprint(from), "-gcseeds", fmt.Sprint(seeds))
		cmd.Env = append(os.Environ(), fmt.Sprintf("DROVER_MUTANT=%d", n))
		return cmd.CombinedOutput()
	}
	if out, err := play(0, 0, gcNormal/10); err != nil {
		t.Fatalf("without a mutant: %v\n%.2000s", err, out)
	}
	found := regexp.MustCompile(`seed (\d+): [^\n]*`)
	for i, what := range names {
		if *gcShare != 0 && i%3 != *gcShare%3 {
			continue // another commit plays it, and test-long
		}
		t.Run(what, func(t *testing.T) {
			if known := gcNoticedBy[what]; known > 0 { // it takes a moment; where it notices nothing any more, all are played
				if out, err := play(i+1, known-1, 1); err != nil && found.Match(out) {
					return
				}
			}
			out, err := play(i+1, 0, gcRare)
			if hit := found.FindSubmatch(out); err != nil && hit != nil {
				t.Logf("note it in gcNoticedBy: %q: %s, // %.200s", what, hit[1], hit[0])
				return
			}
			t.Fatalf("not noticed in %d histories (%v):\n%.2000s", gcRare, err, out)
		})
	}
}

// plantGC compiles this package's tests with all mutants in the source.
func plantGC(t *testing.T, names []string) (bin string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, m := range gcMutants {
		if texts[m.file] == "" {
			src, err := os.ReadFile(filepath.Join(root, m.file))
			if err != nil {
				t.Fatal(err)
			}
			texts[m.file] = string(src)
		}
		if n := strings.Count(texts[m.file], m.old); n != 1 {
			t.Fatalf("%s holds the text of %q %d times, want once: %s", m.file, m.what, n, m.old)
		}
		number := fmt.Sprint(slices.Index(names, m.what) + 1)
		edit := strings.ReplaceAll(m.new, "mutantNow == N", "mutantNow == "+number)
		edit = strings.ReplaceAll(edit, "mutantNow != N", "mutantNow != "+number)
		texts[m.file] = strings.Replace(texts[m.file], m.old, edit, 1)
	}
	for _, room := range []string{"engine/gc", "ledger/removal", "ledger/tasks"} {
		texts[room+"/planted.go"] = "package " + path.Base(room) + "\n\nimport (\n\"os\"\n\"strconv\"\n)\n\nvar mutantNow, _ = strconv.Atoi(os.Getenv(\"DROVER_MUTANT\"))\n"
	}
	dir, overlay := t.TempDir(), map[string]string{}
	for name, text := range texts {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay[filepath.Join(root, name)] = file
	}
	plan, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutants.test")
	if err := os.WriteFile(file, plan, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", file, "-o", bin, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the mutants do not compile: %v\n%s", err, out)
	}
	return bin
}
