package mem_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// remoteMutants are rules of package remote taken out of its source, each with the test
// that must fail then. N is the mutant's number.
var remoteMutants = []struct{ what, file, old, new, test string }{
	{"a second submission's process stays", "claim.go", "other.ID != c.ID || other.Index", "other.ID != c.ID && mutantNow != N || other.Index",
		"TestRemoteIsADriver/an_engine_that_submits_twice/starting_twice_starts_once"},
	{"an agent that is started again keeps its number", "claim.go", "case other == c:", "case other == c || mutantNow == N:", "TestAProcessThatIsStartedAgainIsAnotherAgent"},
	{"a second Start asks without looking", "driver.go", "if len(ids) > 0 {\n\t\t\t\treturn p.answer", "if len(ids) > 0 && mutantNow != N {\n\t\t\t\treturn p.answer", "TestAnAnswerThatWasLostIsFoundByName"},
	{"a second Start does not wait for the first", "driver.go", "if waited < d.o.Settle {", "if waited < d.o.Settle && mutantNow != N {", "TestManyStartsAskTheEngineOnce"},
	{"every Start asks", "driver.go", "if !mine {\n\t\t\tcontinue", "if !mine && mutantNow != N {\n\t\t\tcontinue", "TestManyStartsAskTheEngineOnce"},
	{"a stopped placement is submitted", "driver.go", "s.removing || s.orders > 0 {", "s.removing || s.orders > 0 && mutantNow != N {", "TestAStopBeforeTheEngineIsAskedStands"},
	{"a refusal leaves a record", "driver.go", "if fresh && k == 1 {", "if fresh && k == 1 && mutantNow != N {", "TestARefusedSubmissionLeavesNothing"},
	{"a stop knows only the submission that was answered", "driver.go", "if all || v.inFlight()", "if all && mutantNow != N || v.inFlight()", "TestAStopEndsBothSubmissions"},
	{"a later and longer grace stands", "orders.go", "k > 0 && last.Grace <= grace", "k > 0 && last.Grace <= grace && mutantNow != N", "TestALongerGraceAddsNoOrder"},
	{"an agent begins in spite of a Stop", "supervise.go", "err == nil && k > 0 {\n\t\treturn 0", "err == nil && k > 0 && mutantNow != N {\n\t\treturn 0", "TestAnAgentThatComesUpAfterAStopDoesNotBegin"},
	{"a supervisor does not keep the time", "supervise.go", "killed, over = true, nil\n\t\t\tagent.Kill()", "killed, over = true, nil\n\t\t\tif mutantNow != N {\n\t\t\t\tagent.Kill()\n\t\t\t}",
		"TestRemoteIsADriver/an_engine_that_shows_what_it_has/stop_kills_what_ignores_it_after_grace"},
	{"the engine is believed against the record", "members.go", "if e, ended := v.ends[n]; ended {\n\t\tm.State", "if e, ended := v.ends[n]; ended && mutantNow != N {\n\t\tm.State", "TestTheRecordOfAnEndStands"},
	{"the engine's restart is not waited for", "members.go", "if n, mine := v.next(p, seen); mine && !seen[n] {", "if n, mine := v.next(p, seen); mine && !seen[n] && mutantNow != N {", "TestWhatWaitsIsEndedByAStop"},
	{"what waits is left by a Stop", "members.go", "grace > 0 && up", "grace > 0 && (up || mutantNow == N)", "TestWhatWaitsIsEndedByAStop"},
	{"the record is not read again after the engine", "driver.go", "return !p.State.Alive() && !v.through(p) }", "return !p.State.Alive() && !v.through(p) && mutantNow != N }", "TestAnEndThatIsRecordedMeanwhileStands"},
	{"a lost attempt stands for the one after it", "members.go", "if a.State.Alive() != b.State.Alive() {", "if mutantNow == N {\n\t\t\treturn cmp.Compare(a.Attempt, b.Attempt)\n\t\t}\n\t\tif a.State.Alive() != b.State.Alive() {", "TestAnAttemptThatNeverCameUpIsFollowedByTheNext"},
	{"a Stop that finds nothing leaves no order", "driver.go", "if err := p.order(ctx, grace); err != nil {\n\t\treturn err\n\t}", "if v, _ := d.look(ctx, p, true); v.alive() || mutantNow != N {\n\t\tif err := p.order(ctx, grace); err != nil {\n\t\t\treturn err\n\t\t}\n\t}", "TestAStopBeforeTheEngineIsAskedStands"},
	{"what was started for a removed record runs on", "driver.go", "if err == nil && now.Request.Nonce == p.Request.Nonce {", "if err == nil && now.Request.Nonce == p.Request.Nonce || mutantNow == N {", "TestWhatWasStartedForARemovedRecordEnds"},
	{"what the engine alone has is not listed", "driver.go", "if r.names(h) && !slices.ContainsFunc(all, named) {", "if r.names(h) && !slices.ContainsFunc(all, named) && mutantNow != N {", "TestWhatHasNoRecordIsListedAndRemoved"},
	{"the record goes before what it names", "driver.go", "if err := d.engine.Remove(ctx, p.Handle, v.found); err != nil {\n\t\treturn err\n\t}",
		"if err := d.engine.Remove(ctx, p.Handle, v.found); err != nil && mutantNow != N {\n\t\treturn err\n\t}", "TestARemovalThatFailsKeepsTheRecord"},
}

// TestEachRuleOfRemoteIsNoticed plants the mutants into a copy of the source, all in one
// build, and demands that the named test of each fails.
func TestEachRuleOfRemoteIsNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles this package's tests once more")
	}
	bin := plantRemote(t)
	play := func(n int, test, limit string) ([]byte, error) {
		parts := strings.Split(test, "/")
		for i := range parts {
			parts[i] = "^" + parts[i] + "$"
		}
		cmd := exec.Command(bin, "-test.run", strings.Join(parts, "/"), "-test.timeout", limit, "-test.v")
		cmd.Env = append(os.Environ(), fmt.Sprintf("DROVER_MUTANT=%d", n), "DROVER_LOOKS=200")
		return cmd.CombinedOutput()
	}
	noticed := regexp.MustCompile(`--- FAIL: |panic: test timed out`)
	for i, m := range remoteMutants {
		t.Run(m.what, func(t *testing.T) {
			t.Parallel()
			if out, err := play(0, m.test, "2m"); err != nil || !strings.Contains(string(out), "--- PASS: ") {
				t.Fatalf("%s without a mutant: %v\n%.2000s", m.test, err, out)
			}
			if out, err := play(i+1, m.test, "15s"); err == nil || !noticed.Match(out) {
				t.Fatalf("%s does not notice: %v\n%.2000s", m.test, err, out)
			}
		})
	}
}

// plantRemote compiles this package's tests with all mutants in the source of remote.
func plantRemote(t *testing.T) (bin string) {
	t.Helper()
	dir, root := t.TempDir(), filepath.Join("..", "remote")
	texts := map[string]string{"planted.go": "package remote\n\nimport (\n\"os\"\n\"strconv\"\n)\n\nvar mutantNow, _ = strconv.Atoi(os.Getenv(\"DROVER_MUTANT\"))\n"}
	for i, m := range remoteMutants {
		if texts[m.file] == "" {
			source, err := os.ReadFile(filepath.Join(root, m.file))
			if err != nil {
				t.Fatal(err)
			}
			texts[m.file] = string(source)
		}
		if n := strings.Count(texts[m.file], m.old); n != 1 {
			t.Fatalf("%s holds the text of %q %d times, want once: %s", m.file, m.what, n, m.old)
		}
		edit := strings.NewReplacer("mutantNow == N", fmt.Sprint("mutantNow == ", i+1), "mutantNow != N", fmt.Sprint("mutantNow != ", i+1)).Replace(m.new)
		texts[m.file] = strings.Replace(texts[m.file], m.old, edit, 1)
	}
	overlay := map[string]string{}
	for name, text := range texts {
		at, err := filepath.Abs(filepath.Join(root, name))
		if err == nil {
			overlay[at] = filepath.Join(dir, name)
			err = os.WriteFile(overlay[at], []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	plan, err := json.Marshal(map[string]any{"Replace": overlay})
	file, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutants.test")
	if err == nil {
		err = os.WriteFile(file, plan, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", file, "-o", bin, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the mutants do not compile: %v\n%s", err, out)
	}
	return bin
}
