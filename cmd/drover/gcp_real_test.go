//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
			// gcp jobs N, gcp accounts N: fails unless there are N jobs, or service accounts that drover has made.
			// gcp quota METRIC N: the region has a quota. gcp forbid [PERMISSION]: takes one from the user; none: gives all back.
			// gcp off [WORDS]: Google Batch refuses all requests with words; none: no more.
			"gcp": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) == 0 {
					ts.Fatalf("usage: gcp jobs|accounts N, gcp quota METRIC N, gcp forbid [PERMISSION], gcp off [WORDS]")
				}
				switch args = append(args, "", ""); args[0] {
				case "quota":
					limit, err := strconv.ParseFloat(args[2], 64)
					ts.Check(err)
					fake.SetQuota(args[1], limit)
				case "forbid":
					fake.Forbid(args[1])
				case "off":
					fake.Deny("batch", args[1])
				default:
					n := map[string]int{"jobs": len(fake.Jobs()), "accounts": len(fake.IAM.Accounts())}[args[0]]
					if strconv.Itoa(n) != args[1] {
						ts.Fatalf("there are %d %s", n, args[0])
					}
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
	h.finds(fake.Environ())
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
	if left := slices.Concat(fake.Jobs(), fake.IAM.Accounts()); len(left) > 0 || fake.Secrets() > 0 {
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

// The digits example on two nodes, of which one is told that it goes: the nodes go on from their checkpoints, and end with the loss that they have on this machine.
func TestRealTheDigitsExampleOnTwoNodesOfGoogleBatch(t *testing.T) {
	fake, h, running := gcpInContainers(t)
	h.bring(t, "digits")
	const epochs = "100"
	c := h.begin(t, "run", "-t", "train", "--nodes", "2", "--spot", "--image", dockerd.Debian, "-o", "out", "digits/train.py", "--epochs", epochs, "--slow", "0.3")
	c.says(t, "[0] epoch=3 ")
	drivertest.Until(t, "its containers run", func() bool { return len(running()) == 2 })
	fake.Warn(fake.Jobs()[len(fake.Jobs())-1], 0)
	c.sound(t)
	h.drover(t, 0, "run", "--on", "local", "-t", "here", "-o", "here", "digits/train.py", "--epochs", epochs)
	last := regexp.MustCompile(`(?m)^epoch=` + epochs + ` loss=.*$`)
	var said []string
	for _, log := range []string{"out/logs/logs0", "out/logs/logs1", "here/logs/logs0"} {
		text, err := os.ReadFile(filepath.Join(h.work, log))
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, last.FindString(string(text)))
	}
	if said[0] == "" || said[0] != said[1] || said[0] != said[2] {
		t.Errorf("the last epoch of each is %q", said)
	}
	var status struct{ Interruptions, Failures int }
	out, _ := h.drover(t, 0, "status", "--json", "train")
	if err := json.Unmarshal([]byte(out), &status); err != nil || status.Interruptions != 1 || status.Failures != 0 {
		t.Errorf("%s, %v", out, err)
	}
}

// elevenTimes saves each time that it is asked to end, and ends by itself when that was eleven times.
const elevenTimes = `
import os, signal, sys, time
step = "/state/step"
saved = int(open(step).read()) if os.path.exists(step) else 0
if saved == 11:
    open("/opt/ml/model/weights", "w").write("trained")
    print("went on", flush=True)
    sys.exit()
def save(*_):
    open(step, "w").write(str(saved + 1))
    sys.exit(1)
signal.signal(signal.SIGTERM, save)
print("has saved", saved, flush=True)
time.sleep(1000)
`

// Google Batch starts a task again ten times. While no command is attached the eleventh interruption is the last, and nothing runs; the command that is attached then places
// another agent, which goes on from what was saved. Another task of the job, a map's, goes on all the time.
func TestRealTheEleventhInterruptionOnGoogleBatch(t *testing.T) {
	fake, h, running := gcpInContainers(t)
	put(t, filepath.Join(h.work, "train.py"), []byte(elevenTimes))
	h.drover(t, 0, "run", "--detach", "--image", dockerd.Debian, "train.py")
	for n := range 11 {
		c := h.begin(t, "logs", "-f", "last")
		c.says(t, "has saved "+strconv.Itoa(n))
		end(t, c)
		fake.Warn(fake.Jobs()[0], 0)
	}
	drivertest.Until(t, "nothing runs", func() bool { return len(running()) == 0 && fake.State(fake.Jobs()[0]) == "FAILED" })
	c := h.begin(t, "resume", "last")
	c.says(t, "went on")
	c.sound(t)
	var status struct{ Interruptions, Failures int }
	out, _ := h.drover(t, 0, "status", "--json", "last")
	if err := json.Unmarshal([]byte(out), &status); err != nil || status.Interruptions != 11 || status.Failures != 0 {
		t.Errorf("%s, %v", out, err)
	}
}

// An image that is not there, and machines without a way out, are told in the words of the machine's log.
func TestRealGoogleBatchSaysWhyNoAgentCameUp(t *testing.T) {
	onlyReal(t)
	t.Parallel() // as above
	for name, row := range map[string]struct{ image, words string }{
		"nowhere":  {"europe-docker.pkg.dev/demo-project/nowhere/image:1", "docker: Error response from daemon: manifest for europe-docker.pkg.dev/demo-project/nowhere/image:1 not found: manifest unknown"},
		"isolated": {dockerd.Debian, "drover: the program could not be fetched: the machine needs one of curl, wget, python3 or its cloud's own tool, and a way to the store"},
	} {
		t.Run(name, func(t *testing.T) {
			fake, h, _ := gcpInContainers(t)
			fake.Isolate(name == "isolated")
			put(t, filepath.Join(h.work, "train.py"), []byte("print(1)"))
			c := h.begin(t, "run", "--image", row.image, "train.py")
			c.says(t, row.words)
			end(t, c)
		})
	}
}

// end ends a command that follows a job.
func end(t *testing.T, c begun) {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // killed
}

// Each command of a job's life is killed after its n-th request to Google Batch or Secret Manager and typed again: it goes on, agents start once, and nothing is left.
func TestRealCommandsThatAreKilledAfterARequestToGoogleGoOn(t *testing.T) {
	onlyReal(t)
	t.Parallel() // most wait, for a request that Google may have got
	endpoint := bucket(t)
	var all sync.WaitGroup
	for n := 1; n <= 14; n++ {
		all.Go(func() {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				fake := gcpbatchtest.New(t)
				fake.Hold("held")
				environ := fake.Environ()
				environ["DROVER_STORE"] = "gs://facts/" + strconv.Itoa(n) + "?endpoint=" + endpoint
				killAfter(t, account{fake, strings.TrimSuffix(fake.At(""), "/"), environ, func() int { return len(fake.Jobs()) }, func() string {
					if jobs, secrets, accounts := fake.Jobs(), fake.Secrets(), fake.IAM.Accounts(); len(jobs) > 0 || secrets > 0 || len(accounts) > 0 {
						return fmt.Sprintf("jobs %s, %d secrets, accounts %s", jobs, secrets, accounts)
					}
					return ""
				}}, "gcp", n, nil)
			})
		})
	}
	all.Wait()
}
