package maprunner

import (
	"bytes"
	"context"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/flaky"
	"github.com/drover-run/drover/store/mem"
)

// told gives a runner's programs the notice that an agent has for them.
func told(t *testing.T) func(*Config, *Prepared) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notice")
	stays := module(t)
	return func(c *Config, k *Prepared) {
		stays(c, k)
		k.Environ = append(k.Environ, "DROVER_NOTICE="+name)
		c.WriteNotice = func(why string, _ time.Duration) {
			if why == "" {
				_ = os.Remove(name)
			} else if err := os.WriteFile(name, []byte(why), 0o600); err != nil {
				t.Error(err)
			}
		}
	}
}

// unhurried is a program that stays: it works on its 20th item until it is told to end.
const unhurried = `
os.environ.get("FAST") or drover.stopping()
for i, item in enumerate(drover.items(), 1):
    if os.environ.get("FAST"): item.done(item.n); continue
    open("began-%d" % i, "w").close()
    while i >= 20 and not drover.stopping(): time.sleep(0.01)
    item.done(item.n)
open("after-" + me, "w").close()
`

// begans counts the files that programs have left with a name that begins so.
func (a *agent) begans(what string) int {
	a.s.t.Helper()
	all, err := filepath.Glob(filepath.Join(a.code, what+"-*"))
	a.s.check(err)
	return len(all)
}

func TestAProgramThatStaysEndsWhenItsAgentMustGo(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]node.Notice{"by a person": {Asked: true, Why: "asked to stop"}, "by its machine": {Why: "the machine goes"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRange(t, python(unhurried), 300, 300)
			a := s.start(1, told(t))
			a.begun("began-20")
			a.notice <- n
			status := 75
			if n.Asked {
				status = 0
			}
			a.leave(status)
			if began, after := a.begans("began"), a.begans("after"); began != 20 || after != 1 {
				t.Errorf("%d items began, and %d programs came to their end", began, after)
			}
			if left := s.open(); left != 280 {
				t.Errorf("%d items are open, want those that had not begun", left)
			}
			for _, r := range s.results() {
				if r.Interruptions > 0 || r.Failures > 0 || r.Blames > 0 {
					t.Errorf("item %d: %+v", r.N, r.Carry)
				}
			}
			change := module(t)
			s.start(1, func(c *Config, k *Prepared) { change(c, k); k.Environ = append(k.Environ, "FAST=1") }).leave(0)
			s.wants(job.Succeeded, job.Tally{Items: 300, Succeeded: 300})
		})
	}
}

func TestAProgramThatStaysEndsWhenTheJobIsStopped(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*site) (bool, error){
		"drained": func(s *site) (bool, error) {
			return control.DrainJob(s.t.Context(), s.World, s.job.Path(), "cli-1", "enough")
		},
		"cancelled": func(s *site) (bool, error) {
			return control.CancelJob(s.t.Context(), s.World, s.job.Path(), "cli-1", "enough")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRange(t, python(unhurried), 300, 300)
			a := s.start(1, told(t))
			a.begun("began-20")
			_, err := stop(s)
			s.check(err)
			a.leave(0)
			s.wants(job.Cancelled, job.Tally{Items: 300, Succeeded: 20, Cancelled: 280})
			if began, after := a.begans("began"), a.begans("after"); began != 20 || after != 1 {
				t.Errorf("%d items began, and %d programs came to their end", began, after)
			}
		})
	}
}

// What a program says of an item after it was told to end: that it is done is so; that
// it failed may be because of that.
func TestOnlyASuccessCountsOfWhatIsBeingEnded(t *testing.T) {
	t.Parallel()
	s := newRange(t, python(`
os.environ.get("FAST") or drover.stopping()
for item in drover.items():
    if os.environ.get("FAST"): item.done(item.n); continue
    open("began", "w").close()
    while not drover.stopping(): time.sleep(0.01)
    time.sleep(0.3)
    item.fail("no more time", retry=False)
`), 5, 5)
	a := s.start(1, told(t))
	a.begun("began")
	a.notice <- node.Notice{Why: "the machine goes"}
	a.leave(75)
	interruptions := 0
	for _, r := range s.results() {
		if interruptions += r.Interruptions; r.Result != nil || r.Failures > 0 {
			t.Errorf("item %d: %+v, %+v", r.N, r.Carry, r.Result)
		}
	}
	if interruptions != 1 {
		t.Errorf("%d interruptions, want that of the item that had begun", interruptions)
	}
}

// A program without our module, which hears SIGTERM itself, is told that there is
// nothing more, and what it gives back is not held against any item.
func TestWhoAsksWhenAllEndsIsToldSo(t *testing.T) {
	t.Parallel()
	s := newRange(t, python(`
import socket, json
signal.signal(signal.SIGTERM, lambda *_: None)
c = socket.socket(socket.AF_UNIX); c.connect(os.environ["DROVER_SOCK"])
f = c.makefile("rw")
def ask(what):
    f.write(json.dumps(what) + "\n"); f.flush()
    return json.loads(f.readline())
n = ask({"want": 1})["items"][0]["n"]
open("began", "w").close()
while not os.path.exists(os.environ["DROVER_NOTICE"]): time.sleep(0.01)
if ask({"done": [{"n": n}], "want": 5}).get("end"): open("told", "w").close()
`), 50, 50)
	a := s.start(1, told(t))
	a.begun("began")
	a.notice <- node.Notice{Why: "the machine goes"}
	a.leave(75)
	if _, err := os.Stat(filepath.Join(a.code, "told")); err != nil {
		t.Errorf("it was not told of the end: %v", err)
	}
	if left := s.open(); left != 49 {
		t.Errorf("%d items are open, want all but one of 50", left)
	}
	for _, r := range s.results() {
		if r.Interruptions+r.Failures+r.Blames > 0 {
			t.Errorf("item %d: %+v, %+v", r.N, r.Carry, r.Result)
		}
	}
}

// brownOut is a store of which all requests are lost while it is on.
type brownOut struct {
	store.Bucket
	out   *flaky.Bucket // the same, and nothing comes through
	on    atomic.Bool
	asked chan struct{} // one value, once the loop has asked for something in vain
}

func (b *brownOut) at(key string) store.Bucket {
	if !b.on.Load() {
		return b.Bucket
	}
	if !strings.Contains(key, "/logs/") { // the log has a goroutine of its own
		select {
		case b.asked <- struct{}{}:
		default:
		}
	}
	return b.out
}

func (b *brownOut) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	return b.at(key).Create(ctx, key, body)
}

func (b *brownOut) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return b.at(key).Put(ctx, key, body)
}

func (b *brownOut) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	return b.at(key).Get(ctx, key, off, n)
}

func (b *brownOut) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	return b.at(prefix).List(ctx, prefix, after, limit)
}

// shellsIn are the shells with dir as their folder.
func shellsIn(dir string) (pids []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range all {
		process := filepath.Dir(link)
		at, err := os.Readlink(link)
		what, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		if err == nil && at == dir && bytes.Contains(what, []byte("sh\x00-c\x00")) {
			pids = append(pids, filepath.Base(process))
		}
	}
	return pids
}

// runs says whether a process is there and no zombie.
func runs(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	_, rest, ok := strings.Cut(string(stat), ") ")
	return err == nil && ok && rest[0] != 'Z'
}

// What ended while the agent waited for its store had ended, whatever came then: it is
// recorded, and does not run again.
func TestWhatHadEndedIsRecordedByAnAgentThatMustGo(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc to see when a process has ended")
	}
	const slots = 6
	for name, change := range map[string]func(*job.Spec){
		"small ones":   func(*job.Spec) {},
		"with limits":  func(s *job.Spec) { s.Memory = 256 << 20 },
		"with outputs": func(s *job.Spec) { s.Out, s.Args = []string{"n{}"}, append(s.Args, "{out}") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := shell(`: >began-$1; [ -z "$2" ] || echo $1 >"$2"
				while ! [ -e go ]; do sleep 0.01; done`)
			change(&spec)
			bucket := mem.New()
			dark := &brownOut{Bucket: bucket, out: flaky.New(bucket, flaky.Plan{Rand: rand.New(rand.NewSource(1)).Intn, Busy: 1}), asked: make(chan struct{}, 1)}
			s := &site{t: t, other: dark}
			s.submit(spec, "1-"+strconv.Itoa(slots), slots)
			heard := make(chan struct{})
			a := s.start(slots, func(c *Config, _ *Prepared) {
				c.WriteNotice = func(string, time.Duration) { close(heard) }
			})
			for n := 1; n <= slots; n++ {
				a.begun("began-" + strconv.Itoa(n))
			}
			// From here on the agent waits for its store, as soon as it wants anything of it.
			dark.on.Store(true)
			<-dark.asked
			items := shellsIn(a.code)
			if len(items) < slots {
				t.Fatalf("%d of %d items run", len(items), slots)
			}
			s.check(os.WriteFile(filepath.Join(a.code, "go"), nil, 0o600))
			a.wait(func() bool { return !slices.ContainsFunc(items, runs) })
			a.notice <- node.Notice{Asked: true, Why: "asked to stop"}
			<-heard
			dark.on.Store(false)
			a.leave(0)
			if left := s.open(); left > 0 {
				t.Errorf("%d of %d items are open, and all had ended", left, slots)
			}
		})
	}
}
