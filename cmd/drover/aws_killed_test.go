//go:build linux

package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/drover-run/drover/driver/batch/batchtest"
	"github.com/drover-run/drover/driver/ec2/ec2test"
	"github.com/drover-run/drover/driver/sagemaker/sagemakertest"
	"github.com/drover-run/drover/store/s3/s3test"
)

// killer stands before a service, and kills the command that sends its n-th request when the service has done what it asks
// for: there is no answer.
type killer struct {
	next http.Handler

	mu      sync.Mutex
	command *exec.Cmd
	left    int  // requests until then; 0: never
	killed  bool // or about to be
}

func (k *killer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.left--
	now := k.left == 0 && k.command != nil
	k.killed = k.killed || now
	k.mu.Unlock()
	if !now {
		k.next.ServeHTTP(w, r)
		return
	}
	k.next.ServeHTTP(httptest.NewRecorder(), r)
	_ = k.command.Process.Kill() // that it has ended is as well
	panic(http.ErrAbortHandler)
}

// run starts a command and kills it at its n-th request. It returns whether the command got so far.
func (k *killer) run(t *testing.T, h home, n int, args ...string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), args...)
	cmd.Dir, cmd.Env = h.work, h.environ
	k.mu.Lock() // its first request waits until it is counted
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	k.command, k.left, k.killed = cmd, n, false
	k.mu.Unlock()
	_ = cmd.Wait() // by a signal, or well
	k.mu.Lock()
	defer k.mu.Unlock()
	k.command = nil
	return k.killed
}

// account is a fake of an account, with what a job leaves in it.
type account struct {
	http.Handler
	url     string
	environ map[string]string
	made    func() int    // jobs
	left    func() string // what is left of it all; "": nothing
}

// inBatch is an account with AWS Batch.
func inBatch(t *testing.T) account {
	fake := batchtest.New(t)
	fake.Hold()
	fake.Stacks.Hurry()
	return account{fake, fake.URL(), fake.Environ(), fake.Submitted, func() string {
		if stacks, definitions, secrets := fake.Stacks.Names(), fake.Definitions(), fake.Secrets(); len(stacks) > 0 || len(definitions) > 0 || secrets > 0 {
			return fmt.Sprintf("stacks %s, definitions %s, %d secrets", stacks, definitions, secrets)
		}
		return ""
	}}
}

// inSageMaker is an account with SageMaker.
func inSageMaker(t *testing.T) account {
	fake := sagemakertest.New(t)
	fake.Hold()
	fake.Stacks.Hurry()
	return account{fake, fake.URL(), fake.Environ(), func() int { return len(fake.Jobs()) }, func() string {
		if stacks, alive, secrets := fake.Stacks.Names(), fake.Alive(), fake.Secrets(); len(stacks) > 0 || alive > 0 || secrets > 0 {
			return fmt.Sprintf("stacks %s, %d jobs that go on, %d secrets", stacks, alive, secrets)
		}
		return ""
	}}
}

// inEC2 is an account with EC2.
func inEC2(t *testing.T) account {
	fake := ec2test.New(t)
	fake.BreakAMI()
	fake.Stacks.Hurry()
	return account{fake, fake.URL(), fake.Environ(), fake.Launched, func() string {
		if stacks, groups, templates, machines, secrets := fake.Stacks.Names(), fake.Groups(), fake.Templates(), fake.Machines(), fake.Secrets(); len(stacks)+len(groups)+len(templates)+len(machines)+secrets > 0 {
			return fmt.Sprintf("stacks %s, groups %s, launch templates %s, machines %s, %d secrets", stacks, groups, templates, machines, secrets)
		}
		return ""
	}}
}

// Each command of a job's life on a target of AWS is killed after its n-th request to AWS and typed again: it goes on, agents
// start once, and nothing is left. They send some 40 requests at most; those of a submission are all tried.
func TestCommandsThatAreKilledAfterARequestToAWSGoOn(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	free := make(chan struct{}, 10) // most wait, for a request that AWS may have got
	for on, test := range map[string]struct {
		open   func(*testing.T) account
		most   int // requests of its longest command
		submit []string
	}{
		"batch":     {inBatch, 42, nil},
		"ec2":       {inEC2, 30, nil},
		"sagemaker": {inSageMaker, 22, []string{"--framework", "pytorch:2.8.0", "--machine", "g5.xlarge"}},
	} {
		for n := 1; n <= test.most; n++ {
			if n > 10 && n%4 != 2 {
				continue
			}
			all.Go(func() {
				free <- struct{}{}
				defer func() { <-free }()
				t.Run(on+strconv.Itoa(n), func(t *testing.T) { killAfter(t, test.open(t), on, n, test.submit) })
			})
		}
	}
	all.Wait()
}

// killAfter kills each command after its n-th request, if it sends so many.
func killAfter(t *testing.T, in account, on string, n int, submit []string) {
	k := &killer{next: in}
	server := httptest.NewServer(k)
	defer server.Close()
	facts := httptest.NewServer(&s3test.Server{Bucket: "facts"})
	defer facts.Close()
	h := newHome(t)
	for name, value := range in.environ {
		h.environ = append(h.environ, name+"="+strings.ReplaceAll(value, in.url, server.URL))
	}
	h.environ = append(h.environ, "AWS_ENDPOINT_URL_S3="+facts.URL, "DROVER_ON="+on, "CANARY=canaryvalue")
	if in.environ["DROVER_STORE"] == "" {
		h.environ = append(h.environ, "DROVER_STORE=s3://facts/jobs")
	}
	put(t, filepath.Join(h.work, "work.sh"), []byte("echo hello\n"))

	killed := false
	for _, words := range [][]string{
		{"target", "up", on, "--yes"},
		append(append([]string{"run", "--detach", "--secret", "TOKEN=env:CANARY"}, submit...), "work.sh"),
		{"cancel", "last"},
		{"down", on, "--yes"},
	} {
		killed = k.run(t, h, n, words...) || killed
		h.drover(t, 0, words...)
		if words[0] == "run" && in.made() != 1 {
			t.Errorf("%s, killed, and again: %d jobs were made", words, in.made())
		}
	}
	if left := in.left(); left != "" {
		t.Errorf("there are left %s", left)
	}
	if !killed && n <= 10 {
		t.Error("no command sent so many requests")
	}
}
