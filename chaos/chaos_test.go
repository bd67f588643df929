//go:build linux

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// three is a job of three items, of which the second fails, in a lane of the test's.
func three(t *testing.T) *round {
	t.Helper()
	l := &lane{dir: t.TempDir(), round: 1}
	if err := os.Mkdir(filepath.Join(l.dir, "said"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &round{lane: l, work: work{kind: "items", items: 3, workers: 1, slots: 1, bad: 2, outputs: true}, hit: map[string]int{}}
}

const (
	first  = `{"item":1,"value":"1","state":"SUCCEEDED","stdout":"item 1\n","outputs":[{"name":"o/1.txt"}]}` + "\n"
	second = `{"item":2,"value":"2","state":"FAILED"}` + "\n"
	third  = `{"item":3,"value":"3","state":"SUCCEEDED","stdout":"item 3\n","outputs":[{"name":"o/3.txt"}]}` + "\n"
)

func TestEveryWrongResultIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		results      string
		lost, double int
		broken       string // what is said; empty: nothing is wrong
	}{
		"all is well":                {first + second + third, 0, 0, ""},
		"in another order":           {third + first + second, 0, 0, ""},
		"one is missing":             {first + second, 1, 0, "item 3 has no result"},
		"one is there twice":         {first + second + third + first, 0, 1, "item 1 has 2 results"},
		"one that nobody gave":       {first + second + third + strings.ReplaceAll(first, "1", "9"), 1, 0, "no such item"},
		"another's value":            {strings.Replace(first, `"value":"1"`, `"value":"3"`, 1) + second + third, 1, 0, "no such item"},
		"another's result":           {strings.Replace(first, "item 1", "item 3", 1) + second + third, 1, 0, `its result must be "item 1\n"`},
		"a failure that is none":     {strings.Replace(first, "SUCCEEDED", "FAILED", 1) + second + third, 1, 0, "must have succeeded"},
		"a success that is none":     {first + strings.Replace(second, "FAILED", "SUCCEEDED", 1) + third, 1, 0, "must have failed"},
		"a success without output":   {strings.Replace(first, `{"name":"o/1.txt"}`, "", 1) + second + third, 1, 0, "must have its output"},
		"a line that is half there":  {first + second + third + third[:20], 0, 0, "is none"},
		"nothing that came of items": {"", 3, 0, "item 1 has no result"},
	} {
		r := three(t)
		r.judgeResults([]byte(c.results))
		said := strings.Join(r.broken, "; ")
		if r.lost != c.lost || r.double != c.double || (c.broken == "") != (said == "") || !strings.Contains(said, c.broken) {
			t.Errorf("%s: lost %d, double %d, said %q; want %d, %d, %q", name, r.lost, r.double, said, c.lost, c.double, c.broken)
		}
	}
}

func TestEveryWrongOutputIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files  map[string]string
		lost   int
		broken string
	}{
		"all is well":     {map[string]string{"1.txt": "output of 1\n", "3.txt": "output of 3\n"}, 0, ""},
		"one is missing":  {map[string]string{"1.txt": "output of 1\n"}, 1, "output of item 3"},
		"one is torn":     {map[string]string{"1.txt": "output", "3.txt": "output of 3\n"}, 1, "output of item 1"},
		"one too many":    {map[string]string{"1.txt": "output of 1\n", "3.txt": "output of 3\n", "2.txt": "bad"}, 0, "3 outputs came home"},
		"nothing is home": {nil, 2, "came home"},
	} {
		r := three(t)
		home := t.TempDir()
		for file, text := range c.files {
			if err := os.MkdirAll(filepath.Join(home, "o"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(home, "o", file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.judgeOutputs(home)
		said := strings.Join(r.broken, "; ")
		if r.lost != c.lost || (c.broken == "") != (said == "") || !strings.Contains(said, c.broken) {
			t.Errorf("%s: lost %d, said %q; want %d, %q", name, r.lost, said, c.lost, c.broken)
		}
	}
}

func TestEveryRunTooManyIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runs     string
		recorded verified
		again    int
		broken   string
	}{
		"once each":               {"1\n3\n2\n", verified{}, 0, ""},
		"again, and nobody knows": {"1\n3\n2\n1\n", verified{}, 0, "1 items ran again, and at most 0"},
		"again, and in the bound": {"1\n3\n2\n1\n", verified{Bound: 1}, 0, ""},
		"again, by our own hit":   {"1\n3\n2\n1\n1\n", verified{}, 2, ""},
		"a result out of nothing": {"1\n2\n", verified{}, 0, "item 3 has a result, and never ran"},
		"what is no item":         {"1\n2\n3\n4\n", verified{}, 0, "which is no item"},
	} {
		r := three(t)
		r.found, r.again = c.recorded, c.again
		if err := os.WriteFile(r.lane.outputPath("runs"), []byte(c.runs), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.judgeRuns(); err != nil {
			t.Fatal(err)
		}
		said := strings.Join(r.broken, "; ")
		if (c.broken == "") != (said == "") || !strings.Contains(said, c.broken) {
			t.Errorf("%s: said %q; want %q", name, said, c.broken)
		}
	}
}

func TestASeedRepeatsItsRounds(t *testing.T) {
	t.Parallel()
	said := func(seed uint64) (all []string) {
		for n := range uint64(20) {
			r := newRound(&lane{flaky: true, bucket: &bucket{}}, rand.New(rand.NewPCG(seed, n)), time.Hour)
			all = append(all, fmt.Sprintf("%+v %v %v", r.work, r.flaky, r.overS3))
			for _, p := range r.plan {
				all = append(all, fmt.Sprint(p.name, p.after, p.which, p.share))
			}
		}
		return all
	}
	if diff := gocmp.Diff(said(7), said(7)); diff != "" {
		t.Errorf("the same seed gives other rounds:\n%s", diff)
	}
	if gocmp.Equal(said(7), said(8)) {
		t.Error("two seeds give the same rounds")
	}
}

func TestEveryHitIsDrawn(t *testing.T) {
	t.Parallel()
	drawn := map[string]bool{}
	for n := range uint64(300) {
		for _, p := range newRound(&lane{flaky: true}, rand.New(rand.NewPCG(1, n)), time.Hour).plan {
			drawn[p.name] = true
		}
	}
	for _, h := range append(hits[:len(hits):len(hits)], pastLease) {
		if !drawn[h.name] {
			t.Errorf("300 rounds, and none has %q", h.name)
		}
	}
}

func TestTheTallyIsTheSumOfTheRounds(t *testing.T) {
	t.Parallel()
	total := newTally()
	r := three(t)
	r.hit, r.commands, r.ran = map[string]int{"killed an agent": 2}, 3, map[int]int{1: 2, 2: 1, 3: 1}
	total.addRound(r)
	total.addRound(r)
	if total.foundWrong() {
		t.Error("nothing was broken, and the tally is bad")
	}
	want := `every promise was kept
  rounds    2: 2 maps of 6 items, 0 runs; 0 over S3, 0 over a store that misbehaved; 6 commands
  hits      4
                4 killed an agent
  extra     2 runs of items beyond one for each; 0 were allowed
  lost      0
  double    0
  orphans   0
  took      61 s`
	if diff := gocmp.Diff(want, total.tallyText(61*time.Second)); diff != "" {
		t.Errorf("the tally differs (-want +got):\n%s", diff)
	}
	r.noteWrong("a process is left")
	r.stray++
	total.addRound(r)
	if text := total.tallyText(time.Minute); !total.foundWrong() || !strings.HasPrefix(text, "1 PROMISES WERE BROKEN") || !strings.Contains(text, "orphans   1") {
		t.Errorf("a stray process is said so: %s", text)
	}
}

func TestABadCommandLineIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"now"}, {"-lanes", "0"}, {"-for", "-1s"}, {"-drover", "/nowhere/drover"}, {"-drills"}} {
		var said bytes.Buffer
		if code := run(t.Context(), args, io.Discard, &said); code != 2 || !strings.HasPrefix(said.String(), "chaos: ") {
			t.Errorf("%q: status %d, %q", args, code, &said)
		}
	}
}

// realOptions builds both programs as make chaos does.
func realOptions(t *testing.T) options {
	t.Helper()
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it")
	}
	bin := t.TempDir()
	o := options{drover: filepath.Join(bin, "drover"), flaky: filepath.Join(bin, "drover-chaos"), python: cmp.Or(os.Getenv("PYTHON"), "python3")}
	for file, tags := range map[string]string{o.drover: "grpcnotrace", o.flaky: "grpcnotrace,chaos"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-tags", tags, "-o", file, "../cmd/drover")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	out, err := exec.CommandContext(t.Context(), "sh", "../store/testdata/servers.sh", "versitygw").Output()
	if err != nil {
		t.Fatalf("install versitygw: %v", err)
	}
	o.s3 = strings.TrimSpace(string(out))
	return o
}

// Twenty seconds of the real thing, with the programs as make chaos builds them. The
// first four rounds of this seed plan every kind of hit, and have every kind of job.
func TestRealChaosFindsNothing(t *testing.T) {
	o := realOptions(t)
	temp, err := os.MkdirTemp("", "c") // sockets have short names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	if err := os.Chmod(temp, 0o711); err != nil { // the intruder passes through
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	var out, said bytes.Buffer
	code := run(t.Context(), []string{"-drover", o.drover, "-flaky", o.flaky, "-python", o.python, "-s3", o.s3,
		"-for", "20s", "-seed", "95464", "-lanes", "2"}, &out, &said)
	t.Logf("%s%s", &out, &said)
	want := []string{`rounds +[1-9]`, `hits +[1-9]`, `lost +0\n`, `double +0\n`, `orphans +0\n`}
	if os.Getuid() == 0 {
		want = append(want, `intruder +[1-9][0-9]* doors, [1-9][0-9]* processes, .* 0 of them given way to`)
	}
	for _, line := range want {
		if !regexp.MustCompile(line).MatchString(out.String()) {
			t.Errorf("the tally has no line like %s", line)
		}
	}
	if code != 0 {
		t.Errorf("status %d: the seed finds it again", code)
	}
}

// Without a net nothing is answered, reset or silent; when it is back, all is. What
// is refused and what is lost are counted.
func TestTheNetIsAwayForAsLongAsItWasTaken(t *testing.T) {
	for _, mute := range []bool{false, true} {
		b := &bucket{rand: rand.New(rand.NewPCG(1, 1))}
		var done atomic.Int64
		to := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { done.Add(1) })
		var arrived atomic.Int64 // when the newest one was heard
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived.Store(time.Now().UnixNano())
			b.passRequest(to, w, r)
		}))
		ask := func() (status int) {
			resp, err := http.Get(server.URL)
			if err != nil {
				return 0
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		back := func(length time.Duration) {
			for ask() != http.StatusOK {
				rest(t.Context(), length/10)
			}
		}
		length, began := 300*time.Millisecond, time.Now()
		for b.cutNetwork(length, mute); ; b.cutNetwork(length, mute) {
			status := ask()
			if time.Unix(0, arrived.Load()).Sub(began) < length {
				if status != 0 || done.Load() != 0 || mute && time.Since(began) < length {
					t.Errorf("without a net it answers %d after %v", status, time.Since(began))
				}
				break
			}
			back(length) // this machine was too slow to ask in time
			done.Store(0)
			length, began = 4*length, time.Now()
		}
		back(length)
		if took := time.Since(began); took < length {
			t.Errorf("the net was away for %v", took)
		}
		b.setFaults(ills{busy: 1})
		if status := ask(); status != http.StatusServiceUnavailable || done.Load() != 1 {
			t.Errorf("a busy server answers %d, and has done %d", status, done.Load())
		}
		b.setFaults(ills{late: 1})
		if status := ask(); status != 0 || done.Load() < 2 {
			t.Errorf("a lost reply is %d, and %d were done", status, done.Load())
		}
		if asked, befell := b.resetCounts(); asked < befell || befell < 3 {
			t.Errorf("of %d requests %d were ill", asked, befell)
		}
		server.Close()
	}
}

// A brown-out that answers nothing holds a command up for as long as it lasts, if its
// program is the flaky one.
func TestRealBrownOutsReachTheProgramThatIsMadeForThem(t *testing.T) {
	o := realOptions(t)
	l, err := newLane(o, filepath.Join(t.TempDir(), "lane"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.removeDisk()
	const length = 3 * time.Second
	began := time.Now()
	if err := l.writeFaultPlan(1, length, map[string]any{"Busy": 1}); err != nil {
		t.Fatal(err)
	}
	if out, err := l.droverCommand(t.Context(), false, "run", "-q", "-t", "calm", "true").CombinedOutput(); err != nil {
		t.Errorf("the released program: %v: %s", err, out)
	}
	if out, err := l.droverCommand(t.Context(), true, "run", "-q", "-t", "weathered", "true").CombinedOutput(); err != nil {
		t.Errorf("the program in the storm: %v: %s", err, out)
	}
	if took := time.Since(began); took < length {
		t.Errorf("the store answered nothing for %s, and the command took %s", length, took)
	}
}
