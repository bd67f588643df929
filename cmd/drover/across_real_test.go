//go:build linux

package main_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/store/gcs/gcstest"
	"github.com/drover-run/drover/store/s3/s3test"
)

// overS3 has a home keep its facts in a real server's bucket, behind a net that may
// be hostile.
func (h *home) overS3(t *testing.T) *s3test.Hostile { return h.over(t, versitygw(t)) }

func (h *home) over(t *testing.T, facts http.Handler) *s3test.Hostile {
	t.Helper()
	net := &s3test.Hostile{Next: facts, Rand: rand.New(rand.NewPCG(4711, 1)).IntN}
	server := httptest.NewServer(net)
	t.Cleanup(server.Close)
	t.Cleanup(net.Mend) // or the server would wait for the requests that it holds up
	h.environ = append(h.environ, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=testtest", "AWS_EC2_METADATA_DISABLED=true",
		"DROVER_STORE=s3://facts/drover?endpoint="+server.URL)
	return net
}

// begun is a command line that runs.
type begun struct {
	*exec.Cmd
	said *tape
	name string
}

// tape holds what a command has said so far.
type tape struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *tape) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *tape) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (h home) begin(t *testing.T, args ...string) begun {
	t.Helper()
	b := begun{Cmd: exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), args...), said: &tape{}, name: "drover " + strings.Join(args, " ")}
	b.Dir, b.Env, b.Stdout, b.Stderr = h.work, h.environ, b.said, b.said
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s has said\n%s", b.name, b.said)
		}
	})
	return b
}

// sound waits for its end, which must be a good one.
func (b begun) sound(t *testing.T) {
	t.Helper()
	if err := b.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", b.name, err, b.said)
	}
}

// says waits until it has said so.
func (b begun) says(t *testing.T, words string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); !strings.Contains(b.said.String(), words); {
		select {
		case <-late:
			t.Fatalf("%s has not said %q:\n%s", b.name, words, b.said)
		case <-tick.C:
		}
	}
}

// whenRan waits until items have been run so many times.
func (h home) whenRan(t *testing.T, name string, times int) {
	t.Helper()
	for deadline := time.After(4 * patience); ; { // a machine may have much else to do
		text, _ := os.ReadFile(h.runs(name)) // not there yet is none
		ran := bytes.Count(text, []byte("\n"))
		if ran >= times {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%d items were to run, and %d did", times, ran)
		case <-time.After(20 * time.Millisecond): // they leave lines in a file
		}
	}
}

// allOnce sees that a map has done all of its items, as it says itself and as the
// programs know.
func (h home) allOnce(t *testing.T, runs string, items int) {
	t.Helper()
	v := h.verified(t)
	if v.State != "SUCCEEDED" || v.Tally.Items != items || v.Tally.Succeeded != items {
		t.Errorf("verify says %+v", v)
	}
	// As recorded, and as far as agents that died may have gone without a record.
	extra, most := ran(t, h.runs(runs), items), v.Extra.Retries+v.Extra.Interrupted+v.Bound
	t.Logf("items ran %d times more than once each, the bound is %d", extra, most)
	if extra > most {
		t.Errorf("items ran %d times more than once each, the bound is %d", extra, most)
	}
	out, _ := h.drover(t, 0, "status", "--json", "last")
	var s struct {
		State string
		Items struct{ Succeeded, Failed int }
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil || s.State != v.State || s.Items.Succeeded != items || s.Items.Failed != 0 {
		t.Errorf("status says %v %s", err, out)
	}
}

// slowest notes how long a server took at most. On a machine that has much to do that may
// be so long that a command is right to say so.
type slowest struct {
	next http.Handler
	mu   sync.Mutex
	most time.Duration
}

func (s *slowest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.most = max(s.most, time.Since(began))
	}()
	s.next.ServeHTTP(w, r)
}

func (s *slowest) took() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// What the net does to a map over a bucket is slow at worst. A command says that it waits
// once one of its requests has for ten seconds.
func TestRealMapOverAHostileNet(t *testing.T) {
	onlyReal(t)
	const items, away, back = 20_000, "note: the store has not answered since ", "note: the store answers again, after "
	for _, c := range []struct {
		name  string
		evils s3test.Evils
		cut   bool
		mute  bool
	}{
		{name: "one in twenty is busy", evils: s3test.Evils{Refuse: 0.025, SlowDown: 0.025}},
		{name: "replies are lost", evils: s3test.Evils{Lose: 0.02, LoseLate: 0.05, Truncate: 0.03, Fail: 0.02, Conflict: 0.02, Flip: 0.01, Stutter: 0.02, Lag: 0.02}},
		{name: "no net for a while", cut: true},
		{name: "no answer for a while", cut: true, mute: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHome(t)
			facts := &slowest{next: versitygw(t)}
			net := h.over(t, facts)
			net.Evils = c.evils
			command := h.begin(t, "map", "--workers", "4", "-j", "2", "--from", "1-"+strconv.Itoa(items), "--", h.compiled(t), h.runs("runs"), "{}")
			if c.cut {
				h.whenRan(t, "runs", items/10)
				net.Cut(c.mute)
				if c.mute {
					<-time.After(15 * time.Second) // nothing happens then
				} else {
					command.says(t, away)
				}
				net.Mend()
			}
			command.sound(t)
			t.Logf("it met %v\n%s", net.Met(), command.said)
			for _, note := range []string{away, back} {
				said := strings.Contains(command.said.String(), note)
				was := facts.took()
				if said && !c.cut && was < 5*time.Second || !said && c.cut && !c.mute { // silence is told from slowness after a minute
					t.Errorf("it says %q: %v; the server took %v at most", note, said, was)
				}
			}
			net.Calm()
			h.allOnce(t, "runs", items)
		})
	}
}

// A program hears nothing of a store that is away, and what it leaves is stored later.
func TestRealRunOverANetThatGoesAway(t *testing.T) {
	onlyReal(t)
	t.Parallel() // it waits, for the net
	for _, mute := range []bool{false, true} {
		h := newHome(t)
		net := h.overS3(t)
		put(t, filepath.Join(h.work, "train.py"), []byte(`import os, sys, time
for n in range(20):
    print("step", n, flush=True)
    with open(sys.argv[1], "a") as f:
        f.write("%d\n" % n)
    with open(os.path.join(os.environ["DROVER_CHECKPOINT_DIR"], "steps"), "w") as f:
        f.write(str(n))
    time.sleep(0.5)
with open(os.path.join(os.environ["SM_MODEL_DIR"], "model"), "w") as f:
    f.write("weights")
`))
		command := h.begin(t, "run", "-o", "out", "train.py", h.runs("steps"))
		h.whenRan(t, "steps", 3)
		net.Cut(mute)
		h.whenRan(t, "steps", 20) // it goes on, and ends, while nothing can be stored
		<-time.After(6 * time.Second)
		net.Mend()
		command.sound(t)
		said := command.said.String()
		model, err := os.ReadFile(filepath.Join(h.work, "out", "model", "model"))
		if err != nil || string(model) != "weights" {
			t.Errorf("the model is %q, %v", model, err)
		}
		if strings.Count(said, "step ") != 20 { // whether the store was missed at all is not sure: it is asked rarely
			t.Errorf("it says\n%s", said)
		}
		if steps, _ := os.ReadFile(h.runs("steps")); bytes.Count(steps, []byte("\n")) != 20 {
			t.Errorf("it ran more than once:\n%s", steps)
		}
		h.verified(t)
	}
}

// Two commands that are typed at once over a bucket work on one job. An agent and one
// of the commands are killed: the other goes on. Then everything is killed, again
// and again, and the same command goes on each time.
func TestRealMapOverS3Killed(t *testing.T) {
	onlyReal(t)
	const items = 20_000
	h := newHome(t)
	h.overS3(t)
	args := []string{"map", "--workers", "4", "-j", "2", "--from", "1-" + strconv.Itoa(items), "--", h.compiled(t), h.runs("runs"), "{}"}
	first, second := h.begin(t, args...), h.begin(t, args...)
	h.whenRan(t, "runs", items/20)
	agent := 0
	for pid, name := range processesOf(filepath.Dir(h.work)) {
		if strings.Contains(name, "drover agent ") {
			agent = pid
		}
	}
	if agent == 0 || syscall.Kill(agent, syscall.SIGKILL) != nil || first.Process.Kill() != nil {
		t.Errorf("there is no agent to kill, or no command")
	}
	_ = first.Wait()
	h.whenRan(t, "runs", items/4)
	h.killAll()
	_ = second.Wait()
	for _, much := range []int{items / 2, 3 * items / 4} {
		again := h.begin(t, args...)
		h.whenRan(t, "runs", much)
		h.killAll()
		_ = again.Wait()
	}
	h.begin(t, args...).sound(t)
	h.allOnce(t, "runs", items)
	out, _ := h.drover(t, 0, "status", "--json")
	if n := strings.Count(out, `"id"`); n != 1 {
		t.Errorf("there are %d jobs:\n%s", n, out)
	}
}

// The same map counts the same wherever its facts are.
func TestRealOneMapOnEveryStore(t *testing.T) {
	onlyReal(t)
	const items = 5_000
	for name, with := range map[string]func(t *testing.T, h *home){
		"folder":    func(*testing.T, *home) {},
		"versitygw": func(t *testing.T, h *home) { h.overS3(t) },
		"minio":     func(t *testing.T, h *home) { h.over(t, through(t, s3test.MinIO(t))) },
		"fake-gcs-server": func(t *testing.T, h *home) {
			endpoint := gcstest.Real(t)
			gcstest.Make(t, endpoint, "facts")
			h.environ = append(h.environ, "STORAGE_EMULATOR_HOST="+endpoint, "DROVER_STORE=gs://facts/drover")
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			with(t, &h)
			put(t, filepath.Join(h.work, "work.sh"), []byte("./teller $RUNS $1 || exit 9\n[ $(($1 % 50)) != 0 ] || exit 3\necho did $1\n"))
			h.compiled(t)
			h.drover(t, 1, "map", "-q", "--workers", "2", "--from", "1-"+strconv.Itoa(items), "--env", "RUNS="+h.runs("runs"), "--", "sh", "work.sh", "{}")
			v := h.verified(t)
			if v.State != "FAILED" || v.Tally.Items != items || v.Tally.Succeeded != items*49/50 || v.Tally.Failed != items/50 {
				t.Errorf("verify says %+v", v)
			}
			if extra := ran(t, h.runs("runs"), items); extra != 0 {
				t.Errorf("%d items ran again", extra)
			}
			results, _ := h.drover(t, 0, "results", "--csv", "last")
			if n := strings.Count(results, "did "); n != items*49/50 {
				t.Errorf("%d items have said something", n)
			}
		})
	}
}

// A folder of a Google bucket is an input, whole and in parts.
func TestRealAGoogleBucketIsAnInput(t *testing.T) {
	onlyReal(t)
	h := newHome(t)
	endpoint := gcstest.Real(t)
	gcstest.Make(t, endpoint, "facts")
	h.environ = append(h.environ, "STORAGE_EMULATOR_HOST="+endpoint)
	data := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		put(t, filepath.Join(data, name), []byte("file "+name+"\n"))
	}
	h.drover(t, 0, "put", "-q", data, "gs://facts/in")
	out, _ := h.drover(t, 0, "shell", "-q", "-i", "gs://facts/in?anonymous=true", "cat $SM_CHANNEL_DATA/*")
	if want := "file a\nfile b\nfile c\n"; out != want {
		t.Errorf("it read %q, want %q", out, want)
	}
	out, _ = h.drover(t, 0, "shell", "-q", "--nodes", "2", "-i", "gs://facts/in:sharded", "cat $SM_CHANNEL_DATA/*")
	for _, name := range []string{"a", "b", "c"} {
		if strings.Count(out, "file "+name) != 1 {
			t.Errorf("two nodes read %q", out)
		}
	}
}
