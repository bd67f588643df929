package maprunner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

// python is a spec of a program that stays.
func python(script string) job.Spec {
	s := command("python3", "-c", "import drover, os, sys, time, signal, threading\nme = os.urandom(4).hex()\n"+script)
	s.Stream = true
	return s
}

// module is where Python programs find ours.
func module(t testing.TB) func(*Config, *Prepared) {
	t.Helper()
	dir, err := filepath.Abs("../module")
	if err != nil {
		t.Fatal(err)
	}
	return func(_ *Config, k *Prepared) { k.Environ = append(k.Environ, "PYTHONPATH="+dir, "PYTHONUNBUFFERED=1") }
}

// stream has one agent do a whole map by programs that stay.
func (s *site) stream(slots int) *agent {
	s.t.Helper()
	a := s.start(slots, module(s.t))
	a.leave(0)
	return a
}

func TestProgramsThatStayAnswerEveryItem(t *testing.T) {
	t.Parallel()
	const n = 5000
	s := newRange(t, python(`
open("here-" + me, "w").close()
while len([f for f in os.listdir() if f.startswith("here-")]) < 2: time.sleep(0.01)
for item in drover.items():
    if item.n > 4000: time.sleep(0.001)
    item.done({"square": int(item.value)**2, "by": me})
`), n, 700)
	s.stream(2)
	s.wants(job.Succeeded, job.Tally{Items: n, Succeeded: n})
	by := map[string]bool{}
	for i, r := range s.results() {
		head, pid, ok := strings.Cut(r.Result.Head, `,"by":`)
		if want := fmt.Sprintf(`{"square":%d`, (i+1)*(i+1)); !ok || head != want || r.Result.Size != int64(len(r.Result.Head)) {
			t.Fatalf("item %d: %q, want %s", i+1, r.Result.Head, want)
		}
		by[pid] = true
	}
	if len(by) != 2 {
		t.Errorf("%d programs answered, want 2", len(by))
	}
}

func TestWhatAnswersMayBe(t *testing.T) {
	t.Parallel()
	spec := python(`
answers = ["text", "ünï\n", "", None, 7, [1, {"a": 2}], "x" * 60000, "x" * 70000, {3, 1, 2}, float("nan"), b"bytes", object()]
for item in drover.items():
    item.done(answers[item.n - 1])
`)
	spec.Retries = 2
	s := newRange(t, spec, 12, 12)
	s.stream(1)
	want := []string{"text", "ünï\n", "", "", "7", `[1,{"a":2}]`, strings.Repeat("x", 60000), "", "[1,2,3]", "", "bytes", ""}
	why := map[int]string{8: "its result of 70002 bytes is longer than 64 KiB: write it to a file, with --out", 10: "ValueError: ", 12: "TypeError: item.done() takes what JSON can say, and this is a object"}
	for i, r := range s.results() {
		if r.Result.Head != want[i] || r.Result.Failed != (why[i+1] != "") || !strings.HasPrefix(r.Result.Why, why[i+1]) {
			t.Errorf("item %d: %+v", i+1, r.Result)
		}
	}
	if r := s.results()[7]; r.Failures != 1 {
		t.Errorf("a result that is too long was tried %d times", r.Failures)
	}
}

func TestValuesAreWhatTheirFormatSays(t *testing.T) {
	t.Parallel()
	s := newSite(t, python("for item in drover.items(): item.done([item.value['a'], item.n, item.attempt])"), `{"a": [1, "two"]}`, `{"a": {"b": null}}`)
	s.stream(1)
	for i, want := range []string{`[[1,"two"],1,1]`, `[{"b":null},2,1]`} {
		if got := s.results()[i].Result.Head; got != want {
			t.Errorf("item %d: %s, want %s", i+1, got, want)
		}
	}
}

func TestWhatAProgramPrintsBelongsToItsItem(t *testing.T) {
	t.Parallel()
	for name, loop := range map[string]string{
		"one after another": "for item in drover.items(): work(item.value)",
		"in threads":        "drover.map(work, workers=4)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRange(t, python("print('loading')\ndef work(v):\n    print('out', v)\n    print('err', v, file=sys.stderr)\n    return v\n"+loop), 300, 100)
			s.stream(2)
			s.wants(job.Succeeded, job.Tally{Items: 300, Succeeded: 300})
			for n := 1; n <= 300; n++ {
				if out, err := s.said(n, record.Stdout), s.said(n, record.Stderr); out != fmt.Sprintf("out %d\n", n) || err != fmt.Sprintf("err %d\n", n) {
					t.Fatalf("item %d printed %q and %q", n, out, err)
				}
			}
		})
	}
}

func TestWhatAProgramWithoutOurModulePrintsBelongsToItsItem(t *testing.T) {
	t.Parallel()
	s := newRange(t, python(`
import socket, json
c = socket.socket(socket.AF_UNIX); c.connect(os.environ["DROVER_SOCK"])
f = c.makefile("rw")
ask = {"want": 1}
while True:
    f.write(json.dumps(ask) + "\n"); f.flush()
    said = json.loads(f.readline())
    if said.get("end"): break
    n = said["items"][0]["n"]
    os.write(1, b"out %d\n" % n); os.write(2, b"err %d\n" % n + b"x" * 20000 + b"\n")
    ask = {"done": [{"n": n, "result": n}], "want": 1}
`), 300, 100)
	s.stream(2)
	s.wants(job.Succeeded, job.Tally{Items: 300, Succeeded: 300})
	for n := 1; n <= 300; n++ {
		if out, err := s.said(n, record.Stdout), s.said(n, record.Stderr); out != fmt.Sprintf("out %d\n", n) || err != fmt.Sprintf("err %d\n%s\n", n, strings.Repeat("x", 20000)) {
			t.Fatalf("item %d printed %q, and to stderr %d bytes", n, out, len(err))
		}
	}
}

func TestACrashIsBlamedOnWhoDidIt(t *testing.T) {
	t.Parallel()
	for name, deed := range map[string]struct{ does, why, signal string }{
		"a segmentation fault":   {"os.kill(os.getpid(), signal.SIGSEGV)", "", "SIGSEGV"},
		"an exit":                {"print('no more', file=sys.stderr); os._exit(3)", "no more", ""},
		"an exit without a word": {"os._exit(0)", "the program ended without answering", ""},
		"an exception":           {"raise ValueError('bad\\nitem')", "ValueError: item", ""},
		"sys.exit":               {"sys.exit(4)", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := python("for item in drover.items():\n    if item.n == 777:\n        " + deed.does + "\n    item.done(item.n)")
			spec.Retries = 1
			s := newRange(t, spec, 1000, 300)
			s.stream(2)
			s.wants(job.Failed, job.Tally{Items: 1000, Succeeded: 999, Failed: 1})
			for _, r := range s.results() {
				failures := 0
				if r.N == 777 {
					failures = 2
				}
				if r.Failures != failures || r.Interruptions != 0 || r.Blames != 0 {
					t.Errorf("item %d: %+v", r.N, r.Carry)
				}
			}
			if r := s.results()[776].Result; r.Why != deed.why || r.Signal != deed.signal || r.Code == 0 {
				t.Errorf("item 777: %+v", r)
			}
		})
	}
}

func TestAnItemMayBeGivenUp(t *testing.T) {
	t.Parallel()
	spec := python("for item in drover.items():\n    if item.n % 2: item.fail('odd', retry=item.n > 2)\n    else: item.done()")
	spec.Retries = 2
	s := newRange(t, spec, 4, 4)
	s.stream(1)
	for i, failures := range []int{1, 0, 3, 0} {
		if r := s.results()[i]; r.Failures != failures || r.Result.Failed != (failures > 0) || failures > 0 && (r.Result.Why != "odd" || r.Result.Code != 1) {
			t.Errorf("item %d: %+v, %+v", i+1, r.Carry, r.Result)
		}
	}
}

func TestAnItemThatHangsIsEnded(t *testing.T) {
	t.Parallel()
	spec := python("for item in drover.items():\n    if item.n == 5: time.sleep(1000)\n    item.done()")
	spec.ItemTimeout = job.Duration(time.Second)
	s := newRange(t, spec, 20, 20)
	s.stream(1)
	s.wants(job.Failed, job.Tally{Items: 20, Succeeded: 19, Failed: 1})
	if r := s.results()[4].Result; r.Code != 124 || r.Why != "timed out after 1s" {
		t.Errorf("item 5: %+v", r)
	}
}

func TestAProgramThatNeverAsksFailsTheJob(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"import absent_module": "ModuleNotFoundError: No module named 'absent_module' (exit status 1)",
		"print('done')":        "the program ended without asking for an item: does it use drover.items()?",
	} {
		s := newRange(t, python(script), 20, 20)
		s.stream(2)
		if got := s.settled(); got.State != job.Failed || got.Reason != want || got.Tally.Failed != 0 {
			t.Errorf("settled as %s, %q, %+v; want %q", got.State, got.Reason, got.Tally, want)
		}
	}
}

func TestAProgramMayEndAndIsStartedAnew(t *testing.T) {
	t.Parallel()
	s := newRange(t, python("for i, item in enumerate(drover.items()):\n    item.done(me)\n    if i == 9: break"), 100, 100)
	s.stream(1)
	s.wants(job.Succeeded, job.Tally{Items: 100, Succeeded: 100})
	by := map[string]int{}
	for _, r := range s.results() {
		by[r.Result.Head]++
		if r.Failures > 0 {
			t.Errorf("item %d: %+v", r.N, r.Carry)
		}
	}
	if len(by) != 10 {
		t.Errorf("they were answered by %v", by)
	}
}

func TestBatchesAndThreads(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"batches":            "drover.map(lambda vs: [int(v)*2 for v in vs], batch=16)",
		"threads":            "drover.map(lambda v: int(v)*2, workers=3)",
		"batches in threads": "drover.map(lambda vs: [int(v)*2 for v in vs], workers=2, batch=7)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRange(t, python(script), 400, 100)
			s.stream(1)
			s.wants(job.Succeeded, job.Tally{Items: 400, Succeeded: 400})
			for _, r := range s.results() {
				if r.Result.Head != strconv.Itoa(2*r.N) {
					t.Fatalf("item %d: %+v", r.N, r.Result)
				}
			}
		})
	}
	t.Run("what is raised", func(t *testing.T) {
		t.Parallel()
		s := newRange(t, python("drover.map(lambda v: 1 // (int(v) - 3))"), 5, 5)
		s.stream(1)
		s.wants(job.Failed, job.Tally{Items: 5, Succeeded: 4, Failed: 1})
		if r := s.results()[2].Result; r.Why != "ZeroDivisionError: integer division or modulo by zero" {
			t.Errorf("item 3: %+v", r)
		}
	})
}

func TestAProgramThatGrowsIsReplaced(t *testing.T) {
	t.Parallel()
	spec := python("leak = []\nfor item in drover.items():\n    leak.append(bytearray(8 << 20)); time.sleep(0.05)\n    item.done(me)")
	spec.Memory = 256 << 20
	s := newRange(t, spec, 150, 150)
	s.stream(1)
	s.wants(job.Succeeded, job.Tally{Items: 150, Succeeded: 150})
	var by []string
	for _, r := range s.results() {
		if !slices.Contains(by, r.Result.Head) {
			by = append(by, r.Result.Head)
		}
		if r.Failures > 0 {
			t.Errorf("item %d: %+v", r.N, r.Carry)
		}
	}
	if len(by) < 2 {
		t.Errorf("one program answered all")
	}
}

func TestACancelEndsProgramsThatStay(t *testing.T) {
	t.Parallel()
	s := newRange(t, python("for item in drover.items():\n    item.done(os.getpid()) if item.n < 10 else time.sleep(1000)"), 50, 50)
	a := s.start(2, module(t))
	s.until(func() bool {
		rep, err := views.NewMapView(s.World, s.job).Refresh(t.Context())
		s.check(err)
		return rep.Tally.Succeeded == 9
	})
	_, err := control.CancelJob(t.Context(), s.World, s.job.Path(), "cli", "enough")
	s.check(err)
	a.leave(0)
	s.wants(job.Cancelled, job.Tally{Items: 50, Succeeded: 9, Cancelled: 41})
}

// until waits for what must come.
func (s *site) until(so func() bool) {
	s.t.Helper()
	for deadline := time.After(patience); !so(); {
		select {
		case <-deadline:
			s.t.Fatal("it did not come")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestAWrongLineIsAnsweredAndItsItemsRunAgain(t *testing.T) {
	t.Parallel()
	s := newRange(t, python(`
import socket, json
if not os.path.exists("tried"):
    open("tried", "w").close()
    c = socket.socket(socket.AF_UNIX); c.connect(os.environ["DROVER_SOCK"])
    f = c.makefile("rw")
    f.write('{"want":3}\n'); f.flush(); f.readline()
    f.write('{"done":[{"n":999}]}\n'); f.flush()
    print("answer", f.readline(), end="")
    assert f.readline() == ""
for item in drover.items(): item.done(item.n)
`), 10, 10)
	a := s.stream(1)
	s.wants(job.Succeeded, job.Tally{Items: 10, Succeeded: 10})
	all := s.said(0, record.Stdout|record.Stderr)
	if !strings.Contains(all, `answer {"error":"item 999 was not given to this connection`) || !strings.Contains(all, "a line on DROVER_SOCK was refused") {
		t.Errorf("it printed %q", all)
	}
	if _, err := os.Stat(filepath.Join(a.code, "tried")); err != nil {
		t.Error(err)
	}
}
