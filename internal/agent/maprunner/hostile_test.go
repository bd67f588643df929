package maprunner

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/agent/maprunner/outcome"
	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/resource"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/redact"
	"github.com/drover-run/drover/job"
)

// Items that hang, flood, stop themselves, close everything or leave daemons harm
// no neighbour, whichever way they are run.
func TestAHostileItemHarmsNoNeighbour(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]job.Limits{"in a spawner": {}, "with a supervisor each": {Processes: 500}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := shell(`case $1 in
3) yes;;
5) exec sleep 1000;;
7) kill -STOP $$;;
9) exec 0<&- 1>&- 2>&-; sleep 1000;;
11) setsid sh -c 'sleep 1000 & sleep 1000' & exit 0;;
13) kill -9 0;;
15) trap '' TERM; while :; do sleep 1; done;;
esac; echo $1`)
			spec.Limits = limits
			spec.ItemTimeout, spec.Grace = job.Duration(8*time.Second), job.Duration(100*time.Millisecond)
			s := newRange(t, spec, 40, 40)
			s.run(6)
			failed := 0
			for _, r := range s.results() {
				switch r.N {
				case 3, 5, 7, 9, 15:
					if failed++; r.Result == nil || r.Result.Code != 124 || r.Result.Why != "timed out after 8s" {
						t.Errorf("item %d: %+v", r.N, r.Result)
					}
				case 13:
					if failed++; r.Result == nil || r.Result.Signal != "SIGKILL" {
						t.Errorf("item %d: %+v", r.N, r.Result)
					}
				case 11:
				default:
					if want := fmt.Sprintf("%d\n", r.N); r.State != job.ItemSucceeded || r.Result.Head != want || s.said(r.N, 0) != want {
						t.Errorf("item %d: %+v, log %q", r.N, r.Result, s.said(r.N, 0))
					}
				}
			}
			s.wants(job.Failed, job.Tally{Items: 40, Succeeded: 40 - failed, Failed: failed})
		})
	}
}

func TestAFloodIsCutAndSaid(t *testing.T) {
	t.Parallel()
	const size = recorder.MaxOutput + 5<<20
	s := newSite(t, shell(fmt.Sprintf(`if [ $1 = flood ]; then head -c %d /dev/zero; else echo $1; fi`, size)), "a", "flood", "b")
	s.run(2)
	s.wants(job.Succeeded, job.Tally{Items: 3, Succeeded: 3})
	r := s.results()[1].Result
	if r.Size != size || len(r.Head) != recorder.HeadSize || r.Tail != "" {
		t.Errorf("size %d, head %d, tail %d", r.Size, len(r.Head), len(r.Tail))
	}
	if got := len(s.said(2, record.Stdout)); got != recorder.MaxOutput {
		t.Errorf("%d bytes are kept", got)
	}
	if got, want := s.said(2, record.Agent), fmt.Sprintf("stdout cut: the first %d of %d bytes are kept\n", recorder.MaxOutput, size); got != want {
		t.Errorf("it is said that %q", got)
	}
}

// mortal is a spawner that one of its items can kill.
type mortal struct {
	*proc.Spawner
	events chan []proc.Spawned
	deadly map[uint64]bool // commands, by id
	mu     sync.Mutex
}

// openMortal opens one that is gone once a deadly item has begun.
func openMortal(ctx context.Context, c proc.SpawnerConfig) (processExecutor, error) {
	s, err := proc.OpenSpawner(ctx, c)
	if err != nil {
		return nil, err
	}
	m := &mortal{Spawner: s, events: make(chan []proc.Spawned), deadly: map[uint64]bool{}}
	go func() { // ends with the spawner's events
		defer close(m.events)
		for batch := range s.Events() {
			if !m.pass(batch) {
				go m.Spawner.Close() // as if it had been killed
				for range s.Events() {
				}
				return
			}
		}
	}()
	return m, nil
}

func (m *mortal) Send(commands ...proc.SpawnCommand) error {
	m.mu.Lock()
	for _, e := range commands {
		m.deadly[e.ID] = e.Args[len(e.Args)-1] == "deadly"
	}
	m.mu.Unlock()
	return m.Spawner.Send(commands...)
}

// pass passes on what comes before the end: whether the deadly one began is never
// heard.
func (m *mortal) pass(batch []proc.Spawned) (lives bool) {
	m.mu.Lock()
	at := slices.IndexFunc(batch, func(e proc.Spawned) bool { return e.Kind == proc.SpawnedBegan && m.deadly[e.ID] })
	m.mu.Unlock()
	if lives = at < 0; lives {
		at = len(batch)
	}
	m.events <- batch[:at]
	return lives
}

func (m *mortal) Events() <-chan []proc.Spawned { return m.events }

func TestAnItemThatKillsItsSpawnerFailsAlone(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 60 {
		if lines = append(lines, fmt.Sprint("good", i)); i == 20 || i == 21 || i == 50 {
			lines[i] = "deadly"
		}
	}
	s := newSite(t, command("echo", "{}"), lines...)
	a := s.start(4, func(c *Config, _ *Prepared) { c.open = openMortal })
	a.leave(0)
	s.wants(job.Failed, job.Tally{Items: 60, Succeeded: 57, Failed: 3})
	for i, r := range s.results() {
		switch {
		case lines[i] == "deadly" && (r.Result.Why != "it killed its supervisor" || r.Result.Code != outcome.Killed):
			t.Errorf("item %d: %+v", r.N, r.Result)
		case lines[i] != "deadly" && r.Result.Head != lines[i]+"\n":
			t.Errorf("item %d: %+v", r.N, r.Result)
		}
	}
	if !a.noted("they run again, one at a time") {
		t.Error("nobody is told")
	}
}

func TestSecretsAreTakenOutOfAllThatIsRecorded(t *testing.T) {
	t.Parallel()
	s := newRange(t, command("sh", "-c", `printf 'it is hunter'; sleep 0.1; echo 2hunter2; echo "no hunter2hunter2" >&2; exit 1`), 3, 0)
	a := s.start(2, func(c *Config, _ *Prepared) {
		c.Redact = redact.NewRedactor(map[string]string{"PASS": "hunter2hunter2"})
	})
	a.leave(0)
	for _, r := range s.results() {
		if r.Result.Head != "it is [redacted PASS]\n" || r.Result.Why != "no [redacted PASS]" {
			t.Errorf("item %d: %+v", r.N, r.Result)
		}
		if got := s.said(r.N, 0); strings.Contains(got, "hunter2") || strings.Count(got, "[redacted PASS]") != 2 {
			t.Errorf("item %d printed %q", r.N, got)
		}
	}
}

func TestItemsKeepToTheirLimits(t *testing.T) {
	t.Parallel()
	if resource.SupportHere().Memory == "" {
		t.Skip("nothing holds a limit on memory here")
	}
	spec := shell(`if [ $1 = 2 ]; then hoard=$(head -c 150000000 /dev/zero | tr '\0' x); sleep 1000; fi; echo $1`)
	spec.Memory = 64 << 20
	s := newRange(t, spec, 4, 0)
	s.run(2)
	s.wants(job.Failed, job.Tally{Items: 4, Succeeded: 3, Failed: 1})
	if r := s.results()[1].Result; r.Code != outcome.Killed || r.Why != "out of memory: 64 MB limit" {
		t.Errorf("it failed with %+v", r)
	}
}

func TestEachSlotHasItsOwnGPUs(t *testing.T) {
	t.Parallel()
	s := newRange(t, command("sh", "-c", `echo $CUDA_VISIBLE_DEVICES $DROVER_SLOT; [ -e seen.$DROVER_SLOT ] && exit 1; : >seen.$DROVER_SLOT; sleep 0.05; rm seen.$DROVER_SLOT`), 12, 0)
	a := s.start(2, func(_ *Config, k *Prepared) { k.GPUs = []string{"0,1", "2,3"} })
	a.leave(0)
	s.wants(job.Succeeded, job.Tally{Items: 12, Succeeded: 12})
	seen := map[string]bool{}
	for _, r := range s.results() {
		seen[strings.TrimSpace(r.Result.Head)] = true
	}
	if len(seen) != 2 || !seen["0,1 0"] || !seen["2,3 1"] {
		t.Errorf("items saw %v", seen)
	}
}

// begun waits until an item has made a file in the items' folder.
func (a *agent) begun(name string) {
	a.s.t.Helper()
	for limit := time.After(patience); ; {
		if _, err := os.Stat(a.code + "/" + name); err == nil {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-a.ended:
			a.s.t.Fatalf("the agent left: %d, %v", a.status, a.err)
		case <-limit:
			a.s.t.Fatalf("%s does not appear", name)
		}
	}
}
