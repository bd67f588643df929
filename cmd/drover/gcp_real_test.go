//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-run/drover/driver/docker/dockerd"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/gcpbatch/gcpbatchtest"
	"github.com/drover-run/drover/store/gcs/gcstest"
)

// Scripts with Google Batch as their target, each with a project of its own: a fake, of which nothing is claimed about Google. The store is fake-gcs-server. Jobs stay
// queued.
func TestRealScriptsOnAFakeOfGoogleBatch(t *testing.T) {
	onlyReal(t)
	scriptsOnAFake(t, "gcp", func(t *testing.T) fakeTarget {
		fake := gcpbatchtest.New(t)
		fake.Hold("CODE_GCE_QUOTA_EXCEEDED: the quota CPUS of region europe-west1 is used up.")
		environ := fake.Environ()
		environ["DROVER_STORE"] = "gs://facts/" + filepath.Base(t.Name()) + "?endpoint=" + bucket(t)
		return fakeTarget{environ, map[string]func(*testscript.TestScript, bool, []string){
			// gcp jobs N, gcp accounts N: fails unless there are N jobs, or service accounts that drover has made
			"gcp": func(ts *testscript.TestScript, neg bool, args []string) {
				need(ts, neg, args, 2, "gcp jobs|accounts N")
				n := map[string]int{"jobs": len(fake.Jobs()), "accounts": len(fake.Accounts())}[args[0]]
				if strconv.Itoa(n) != args[1] {
					ts.Fatalf("there are %d %s", n, args[0])
				}
			},
		}}
	})
}

// bucket starts fake-gcs-server with the bucket facts, and gives its address.
func bucket(t *testing.T) (endpoint string) {
	t.Helper()
	endpoint = gcstest.Real(t)
	gcstest.Make(t, endpoint, "facts")
	return endpoint
}

// gcpInContainers is a project of which Google Batch and Secret Manager are a fake; what machines run, and fetch from fake-gcs-server, is real, and agents run in
// containers of a real Docker. running are the names of these.
func gcpInContainers(t *testing.T) (fake *gcpbatchtest.Server, h home, running func() []string) {
	t.Helper()
	onlyReal(t)
	t.Parallel() // with others that wait for most of their time
	host := dockerd.Use(t)
	docker := dockerAt(t, host)
	fake = gcpbatchtest.New(t)
	fake.UseDocker(host)
	h = newHome(t)
	for name, value := range fake.Environ() {
		h.environ = append(h.environ, name+"="+value)
	}
	h.environ = append(h.environ, "DROVER_STORE=gs://facts/"+t.Name()+"?endpoint="+bucket(t), "DROVER_ON=gcp", "CANARY=canaryvalue")
	return fake, h, func() (names []string) {
		for _, name := range strings.Fields(docker("ps", "--format", "{{.Names}}")) {
			if id, _, _ := strings.Cut(name, "."); slices.Contains(fake.Jobs(), id) {
				names = append(names, name)
			}
		}
		return names
	}
}

// While no command is attached three machines go with a notice and one without: Google Batch starts others in their place, each item is counted once, no
// retry is spent, and nothing is left.
func TestRealMachinesOfGoogleBatchGoOnByThemselves(t *testing.T) {
	fake, h, running := gcpInContainers(t)
	h.drover(t, 0, "target", "up", "gcp", "--yes")
	h.drover(t, 0, "map", "--detach", "--image", dockerd.Debian, "--workers", "8", "--slots", "2", "--secret", "TOKEN=env:CANARY",
		"--from", "1-10000", "--", "sh", "-c", `sleep 0.05; [ ${#TOKEN} = 11 ]`, "x", "{}")
	drivertest.Until(t, "eight containers run", func() bool { return len(running()) == 8 })
	id, asked := fake.Jobs()[0], fake.Requests("jobs.get")
	for n := range 3 {
		fake.Warn(id, n)
	}
	fake.Take(id, 3)
	drivertest.Until(t, "the map has ended", func() bool { return len(running()) == 0 })
	if n := fake.Requests("jobs.get") - asked; n > 0 {
		t.Errorf("%d requests were sent while no command was attached", n)
	}
	if v := h.verified(t); v.State != "SUCCEEDED" || v.Tally.Succeeded != 10_000 || v.Extra.Retries != 0 {
		t.Errorf("%+v", v)
	}
	h.drover(t, 0, "down", "gcp", "--yes")
	if left := slices.Concat(fake.Jobs(), fake.Accounts()); len(left) > 0 || fake.Secrets() > 0 {
		t.Errorf("left: %s, %d secrets", left, fake.Secrets())
	}
}

// A machine is told that it goes: its program saves, another machine comes in its place and goes on from there, and the model comes back; it is one
// interruption, and no retry is spent. So it is with two nodes.
func TestRealAProgramOnGoogleBatchGoesOnFromWhatItHasSaved(t *testing.T) {
	fake, h, running := gcpInContainers(t)
	put(t, filepath.Join(h.work, "train.py"), []byte(savingProgram))
	for _, nodes := range []int{1, 2} {
		c := h.begin(t, "run", "-t", "train-"+strconv.Itoa(nodes), "--image", dockerd.Debian, "--nodes", strconv.Itoa(nodes), "train.py")
		for n := range nodes {
			if c.says(t, "waits"); nodes > 1 {
				c.says(t, "["+strconv.Itoa(n)+"] waits")
			}
		}
		drivertest.Until(t, "its containers run", func() bool { return len(running()) == nodes })
		fake.Warn(fake.Jobs()[len(fake.Jobs())-1], 0)
		c.says(t, "went on from 7")
		c.sound(t)
		var status struct{ Interruptions, Failures int }
		out, _ := h.drover(t, 0, "status", "--json", "last")
		if err := json.Unmarshal([]byte(out), &status); err != nil || status.Interruptions != 1 || status.Failures != 0 {
			t.Errorf("%s, %v", out, err)
		}
	}
}

// Each command of a job's life is killed after its n-th request to Google Batch or Secret Manager and typed again: it goes on, agents start once, and nothing is left.
func TestRealCommandsThatAreKilledAfterARequestToGoogleGoOn(t *testing.T) {
	onlyReal(t)
	t.Parallel() // most wait, for a request that Google may have got
	endpoint := bucket(t)
	var all sync.WaitGroup
	for n := 1; n <= 10; n++ {
		all.Go(func() {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				fake := gcpbatchtest.New(t)
				fake.Hold("held")
				environ := fake.Environ()
				environ["DROVER_STORE"] = "gs://facts/" + strconv.Itoa(n) + "?endpoint=" + endpoint
				killAfter(t, account{fake, strings.TrimSuffix(fake.At(""), "/"), environ, func() int { return len(fake.Jobs()) }, func() string {
					if jobs, secrets, accounts := fake.Jobs(), fake.Secrets(), fake.Accounts(); len(jobs) > 0 || secrets > 0 || len(accounts) > 0 {
						return fmt.Sprintf("jobs %s, %d secrets, accounts %s", jobs, secrets, accounts)
					}
					return ""
				}}, "gcp", n, nil)
			})
		})
	}
	all.Wait()
}
