package ledger

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

// mutant is one rule taken out of the real source, by an edit that is applied
// over it at compile time. The simulator must notice each of them.
type mutant struct {
	rule string
	what string
	file string // from the module's root
	old  string // stands once in the file
	new  string
}

// Starred rules of PROTOCOL.md first. L5, M*, E2, E4 are about maps.
var mutants = []mutant{
	{"L1*", "an unclear answer is taken for a lost race", "store/think.go",
		"again := mayRetry(err)\n",
		"again := mayRetry(err)\n\t\tif errors.Is(err, ErrUnclear) {\n\t\t\treturn []byte(`{\"v\":1}`), false, nil\n\t\t}\n"},
	{"L1*", "\"exists\" means somebody else's, without reading", "store/think.go",
		"return held, bytes.Equal(held, body), nil", "return held, false, nil"},
	{"L2*", "nonces, agent ids and tokens are used again", "internal/ledger/ledger.go",
		"return hex.EncodeToString(b[:])", "return hex.EncodeToString(b[:0])"},
	{"T1", "a job is submitted beside a live one", "internal/ledger/task.go",
		"if t.Live != \"\" {\n\t\t\tclosed", "if false {\n\t\t\tclosed"},
	{"T1", "a task is closed before its job has settled", "internal/ledger/task.go",
		"if foldRun(l.Entries).Settled == nil {", "if foldRun(l.Entries).Attempt() == 0 {"},
	{"J1", "agents are started before placed stands", "internal/ledger/keeper.go",
		"return Watch{Start: true, Placed: k.run.Placed[len(k.run.Placed)-1]}",
		"return Watch{Start: true, Placed: Placed{Placement: len(k.run.Placed) + 1, Agents: k.run.Nodes}}"},
	{"R1*", "an agent leaves when its own rank has ended", "internal/ledger/member.go",
		"if m.running || m.ended || len(m.run.Joins) < m.nodes {",
		"if m.ended {\n\t\treturn Order{Do: Leave}, nil\n\t}\n\tif m.running || len(m.run.Joins) < m.nodes {"},
	{"R1", "a rank starts before all are there", "internal/ledger/member.go",
		"len(m.run.Joins) < m.nodes {", "len(m.run.Joins) < 1 {"},
	{"R2*", "a token is used for every attempt", "internal/ledger/member.go",
		"m.w.nonce(), m.w.nonce(), m.w.clock().Now().UTC()\n\t\theld", "m.w.nonce(), m.ID, m.w.clock().Now().UTC()\n\t\theld"},
	{"R3*", "a new attempt is opened because a rank is late", "internal/ledger/next.go",
		"case !ended && joined && ev.Death(join.Agent) != Alive:", "case !ended && (!joined || ev.Death(join.Agent) != Alive):"},
	{"R3*", "a failure is retried without end", "internal/ledger/next.go",
		"exit.Verdict == Broke && r.Failures() < r.Retries", "exit.Verdict == Broke"},
	{"R4*", "the program is blamed before all exits are there", "internal/ledger/next.go",
		"case len(r.Exits) == r.Nodes && len(told) == 0:", "case len(r.Exits) > 0 && len(told) == 0:"},
	{"R4*", "one rank's failure is not the others' end", "internal/ledger/next.go",
		"ended && other != rank && e.Verdict != Done {", "ended && other != rank && e.Verdict != Done && e.Verdict != Broke {"},
	{"R5", "a run succeeds whatever its ranks ended with", "internal/ledger/next.go",
		"if e.Verdict != Done && (e.Verdict == Halted) == halted {", "if e.Verdict == Setup && (e.Verdict == Halted) == halted {"},
	{"R6*", "a fenced writer goes on saving", "internal/ledger/state.go",
		"if h, _ := holder(g.log.Entries); g.me.before(h) {", "if false {"},
	{"R6*", "an attempt begins without restored", "internal/ledger/state.go",
		"mine, err := g.log.Append(ctx, Entry{Restored: &g.me})", "mine, err := true, error(nil)"},
	{"R6*", "the oldest generation is offered", "internal/ledger/state.go",
		"for i := len(counted) - 1; i >= 0; i-- {", "for i := range counted {"},
	{"R6*", "a torn generation is offered", "internal/ledger/state.go",
		"\t\tif ok {\n\t\t\treturn counted[i]", "\t\tif ok || !ok {\n\t\t\treturn counted[i]"},
	{"R8", "a stopped run settles while its programs run", "internal/ledger/next.go",
		"!ended && ev.Death(join.Agent) == Alive && ev.StopAge < stopGrace+r.Grace", "!ended && ev.Death(join.Agent) == Alive && ev.StopAge < 0"},
	{"R7", "a running agent does not look at the job's log", "internal/ledger/next.go",
		"case r.Stop != nil:\n\t\treturn \"the job was stopped\"", "case r.Stop != nil && r.Grace < 0:\n\t\treturn \"\""},
	{"D1*", "an agent elsewhere is judged by a process number here", "internal/ledger/watch.go",
		"known && gone {", "known == gone {"},
	{"D2*", "a lease runs on while the observer sleeps", "internal/ledger/watch.go",
		"if sent-s.looked > readGap {", "if sent-s.looked > 1000*readGap {"},
	{"E1", "cancelled counts after settled", "internal/ledger/keeper.go",
		"if r.Settled != nil || r.Stop != nil {\n\t\t\treturn r.Stop != nil && !r.Failing, nil",
		"if r.Settled != nil || r.Stop != nil {\n\t\t\treturn true, nil"},
}

// TestMutants plants each mutant into a copy of the source and demands that the
// simulator finds it within mutantSeeds worlds.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the simulator once for every mutant")
	}
	const mutantSeeds = 20000
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`seed (\d+): (\w+)`)
	for i, m := range mutants {
		t.Run(fmt.Sprintf("%s %s", m.rule, m.what), func(t *testing.T) {
			bin := build(t, root, i, m)
			cmd := exec.Command(bin, "-test.run", "^TestSimulation$", "-seeds", fmt.Sprint(mutantSeeds))
			out, err := cmd.CombinedOutput()
			hit := found.FindSubmatch(out)
			if err == nil || hit == nil {
				t.Fatalf("not noticed in %d worlds (%v):\n%.2000s", mutantSeeds, err, out)
			}
			t.Logf("%-4s %-55s caught as %s by seed %s", m.rule, m.what, hit[2], hit[1])
		})
	}
}

// build compiles this package's tests with the mutant laid over the source.
func build(t *testing.T, root string, i int, m mutant) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(root, filepath.FromSlash(m.file))
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(src), m.old); n != 1 {
		t.Fatalf("%s holds the text of this mutant %d times, want once: %s", m.file, n, m.old)
	}
	changed := filepath.Join(dir, "mutant.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(src), m.old, m.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	plan := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(plan, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, fmt.Sprintf("mutant%d.test", i))
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", plan, "-o", bin, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mutant does not compile: %v\n%s", err, out)
	}
	return bin
}
