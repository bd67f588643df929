//go:build linux

package main_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/ec2/ec2test"
	"github.com/drover-run/drover/store/s3/s3test"
)

var (
	chaosTime = flag.Duration("ec2chaos", time.Second, "begin rounds of chaos on the fake of EC2 for so long")
	chaosSeed = flag.Uint64("ec2seed", 4711, "the choices of those rounds")
)

// chaosOnEC2 is one map on the fake of EC2, of which the machines, the service and the command are hit at random.
type chaosOnEC2 struct {
	fake    *ec2test.Server
	rng     *rand.Rand
	home    home
	command begun
	hits    map[string]int
}

// hit does one thing to the job: with a machine, with the service, or with the command that is attached.
func (c *chaosOnEC2) hit(t *testing.T) {
	var machine string
	if alive := c.fake.Machines(); len(alive) > 0 {
		machine = alive[c.rng.IntN(len(alive))]
	}
	operations := []string{"DescribeAutoScalingGroups", "TerminateInstanceInAutoScalingGroup", "PutScheduledUpdateGroupAction", "DescribeInstances"}
	all := []struct {
		what string
		do   func()
	}{
		{"warned", func() { c.fake.Warn(machine) }},
		{"taken", func() { c.fake.Take(machine) }},
		{"crashed", func() { c.fake.KillProcesses(machine) }},
		{"terminated by hand", func() { c.fake.TerminateByHand(machine) }},
		{"throttled", func() { c.fake.Throttle(1 + c.rng.IntN(10)) }},
		{"lost an answer", func() { c.fake.Lose(operations[c.rng.IntN(len(operations))], 1) }},
		{"late", func() { c.fake.Late(c.rng.IntN(3)) }},
		{"killed the command", func() { c.kill(); c.command = c.home.begin(t, "resume", "last") }},
	}
	h := all[c.rng.IntN(len(all))]
	h.do()
	c.hits[h.what]++
}

func (c *chaosOnEC2) kill() {
	_ = c.command.Process.Kill() // it may have ended
	_ = c.command.Wait()
}

// Maps run on machines of EC2's fake that are warned, taken, cut off and crash, while the service throttles, is late and loses answers, and the command is killed. Each
// is brought to its end; each item counts once, and after the hour nothing is left. make chaos-ec2 plays it for longer.
func TestRealMachinesOfEC2BearChaos(t *testing.T) {
	onlyReal(t)
	t.Parallel() // as above
	fake := ec2test.New(t)
	fake.UseOwnFiles(t, "test", "testtest")
	fake.Stacks.Hurry()
	h := newHome(t)
	h.finds(fake.Environ())
	h.environ = append(h.environ, "DROVER_STORE=s3://facts/chaos?region=us-east-1&endpoint="+s3test.Real(t), "DROVER_ON=ec2/ami")
	h.drover(t, 0, "target", "up", "ec2", "--yes")
	for round, began := uint64(1), time.Now(); round == 1 || time.Since(began) < *chaosTime; round++ {
		c := &chaosOnEC2{fake: fake, rng: rand.New(rand.NewPCG(*chaosSeed, round)), home: h, hits: map[string]int{}}
		c.play(t, round)
		if t.Failed() {
			t.Fatalf("the same choices again: -ec2seed %d, round %d", *chaosSeed, round)
		}
	}
	nothingIsLeft(t, fake, h)
}

// play plays a round.
func (c *chaosOnEC2) play(t *testing.T, round uint64) {
	began, launched := time.Now(), c.fake.Launched()
	items := 100 + c.rng.IntN(200)
	task := fmt.Sprintf("chaos-%d-%d", *chaosSeed, round)
	c.command = c.home.begin(t, "map", "-t", task, "--workers", "3", "--slots", "2", "--from", fmt.Sprintf("1-%d", items), "--", "sh", "-c", "sleep 0.2", "x", "{}")
	drivertest.Until(t, "a machine works", func() bool { return len(c.fake.Machines()) > 0 })
	for hits := 6 + c.rng.IntN(10); hits > 0; hits-- {
		<-time.After(time.Duration(c.rng.IntN(int(1500 * time.Millisecond))))
		c.hit(t)
	}
	c.kill()
	c.fake.Throttle(0)
	c.fake.Late(0)
	for tries := 0; ; tries++ { // three placements in a row that came to nothing are the end of a command, and not of the job
		var status struct{ State string }
		out, _ := c.home.drover(t, 0, "status", "--json", "last")
		if err := json.Unmarshal([]byte(out), &status); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if status.State == "SUCCEEDED" {
			break
		}
		if tries == 5 {
			t.Fatalf("round %d: it does not end: %s", round, out)
		}
		_ = c.home.begin(t, "resume", "last").Wait() // how the job is decides
	}
	if v := c.home.verified(t); v.State != "SUCCEEDED" || v.Tally.Items != items || v.Tally.Succeeded != items {
		t.Errorf("round %d: of %d items: %+v", round, items, v)
	}
	launched = c.fake.Launched() - launched // it forgets those that ended an hour ago
	c.fake.Advance(61 * time.Minute)
	if left := c.fake.Machines(); len(left) > 0 {
		t.Errorf("round %d: an hour later there are %s", round, left)
	}
	c.fake.Advance(-61 * time.Minute) // commands go by the clock of this machine
	var hits []string
	for what, n := range c.hits {
		hits = append(hits, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(hits)
	t.Logf("round %d: %d items in %.1f s, %d machines: %s: sound", round, items, time.Since(began).Seconds(), launched, hits)
}
