//go:build linux

package main_test

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/drover-run/drover/driver/batch/batchtest"
	"github.com/drover-run/drover/store/s3/s3test"
)

// killer stands before a service, and kills the command that sends its n-th request when the service has done what it asks
// for: there is no answer.
type killer struct {
	next http.Handler

	mu      sync.Mutex
	command *exec.Cmd
	left    int // requests until then; 0: never
	killed  bool
}

func (k *killer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.left--
	now := k.left == 0 && k.command != nil
	k.mu.Unlock()
	if !now {
		k.next.ServeHTTP(w, r)
		return
	}
	k.next.ServeHTTP(httptest.NewRecorder(), r)
	_ = k.command.Process.Kill() // that it has ended is as well
	k.mu.Lock()
	k.killed = true
	k.mu.Unlock()
	panic(http.ErrAbortHandler)
}

// run starts a command and kills it at its n-th request. It returns whether the command got so far.
func (k *killer) run(t *testing.T, h home, n int, args ...string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), args...)
	cmd.Dir, cmd.Env = h.work, h.environ
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	k.command, k.left, k.killed = cmd, n, false
	k.mu.Unlock()
	_ = cmd.Wait() // by a signal, or well
	k.mu.Lock()
	defer k.mu.Unlock()
	k.command = nil
	return k.killed
}

// Each command of a job's life on AWS Batch is killed after its n-th request to AWS and typed again: it goes on, agents
// start once, and nothing is left. They send some 40 requests at most; those of a submission are all tried.
func TestCommandsThatAreKilledAfterARequestToAWSGoOn(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	free := make(chan struct{}, 6) // most wait, for a request that AWS Batch may have got
	for n := 1; n <= 42; n++ {
		if n > 10 && n%4 != 2 {
			continue
		}
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			t.Run(strconv.Itoa(n), func(t *testing.T) { killAfter(t, n) })
		})
	}
	all.Wait()
}

// killAfter kills each command after its n-th request, if it sends so many.
func killAfter(t *testing.T, n int) {
	fake := batchtest.New(t)
	fake.Hold()
	fake.Stacks.Hurry()
	k := &killer{next: fake}
	server := httptest.NewServer(k)
	defer server.Close()
	facts := httptest.NewServer(&s3test.Server{Bucket: "facts"})
	defer facts.Close()
	h := newHome(t)
	for name, value := range fake.Environ() {
		h.environ = append(h.environ, name+"="+strings.ReplaceAll(value, fake.URL(), server.URL))
	}
	h.environ = append(h.environ, "DROVER_STORE=s3://facts/jobs", "AWS_ENDPOINT_URL_S3="+facts.URL, "DROVER_ON=batch", "CANARY=canaryvalue")
	put(t, filepath.Join(h.work, "work.sh"), []byte("echo hello\n"))

	killed := false
	for _, words := range [][]string{
		{"target", "up", "batch", "--yes"},
		{"run", "--detach", "--secret", "TOKEN=env:CANARY", "work.sh"},
		{"cancel", "last"},
		{"down", "batch", "--yes"},
	} {
		killed = k.run(t, h, n, words...) || killed
		h.drover(t, 0, words...)
		if words[0] == "run" && fake.Submitted() != 1 {
			t.Errorf("%s, killed, and again: %d jobs were submitted", words, fake.Submitted())
		}
	}
	if stacks, definitions, secrets := fake.Stacks.Names(), fake.Definitions(), fake.Secrets(); len(stacks) > 0 || len(definitions) > 0 || secrets > 0 {
		t.Errorf("there are left stacks %s, definitions %s, %d secrets", stacks, definitions, secrets)
	}
	if !killed && n <= 10 {
		t.Error("no command sent so many requests")
	}
}
