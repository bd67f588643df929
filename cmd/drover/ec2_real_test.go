//go:build linux

package main_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver/docker/dockerd"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/ec2/ec2test"
	"github.com/drover-run/drover/store/s3/s3test"
)

// Machines run their real user data: they fetch drover's program from a store that checks signatures, by their role, and run agents in
// containers of a real Docker; EC2 and Auto Scaling are a fake. While no command is attached two machines go with a notice and one without:
// others come in their place, each item is counted once, no retry is spent, and no machine is left.
func TestRealMachinesOfEC2GoOnByThemselves(t *testing.T) {
	onlyReal(t)
	t.Parallel() // with others that wait for most of their time
	host := dockerd.Use(t)
	docker := dockerAt(t, host)
	fake := ec2test.New(t)
	fake.UseDocker(t, host, "test", "testtest")
	fake.Stacks.Hurry()
	t.Cleanup(func() {
		for _, id := range strings.Fields(docker("ps", "-aq", "--filter", "name=drover-agent-i-")) {
			docker("rm", "-f", id)
		}
		if err := os.RemoveAll("/var/lib/drover"); err != nil { // where machines have the program
			t.Error(err)
		}
	})
	h := newHome(t)
	for name, value := range fake.Environ() {
		h.environ = append(h.environ, name+"="+value)
	}
	h.environ = append(h.environ, "DROVER_STORE=s3://facts/ec2?region=us-east-1&endpoint="+s3test.Real(t), "DROVER_ON=ec2", "CANARY=canaryvalue")
	h.drover(t, 0, "target", "up", "ec2", "--yes")
	h.drover(t, 0, "map", "--detach", "--image", dockerd.Debian, "--cpus", "1", "--workers", "4", "--slots", "1", "--secret", "TOKEN=env:CANARY", "--from", "1-120", "--", "sh", "-c", `sleep 0.5; [ ${#TOKEN} = 11 ]`, "x", "{}")
	running := func() []string {
		return strings.Fields(docker("ps", "--format", "{{.Names}}", "--filter", "name=drover-agent-i-"))
	}
	drivertest.Until(t, "four containers run", func() bool { return len(running()) == 4 })
	first := fake.Machines()
	asked := fake.Requests("DescribeAutoScalingGroups")
	for _, id := range first[:2] {
		fake.Warn(id)
	}
	fake.Take(first[2])
	var status struct{ State string }
	drivertest.Until(t, "the map has ended", func() bool {
		return len(fake.Machines()) == 0
	})
	if n := fake.Requests("DescribeAutoScalingGroups") - asked; n > 0 {
		t.Errorf("%d requests were sent while no command was attached", n)
	}
	if n := fake.Launched(); n != 7 {
		t.Errorf("%d machines were launched, want four, and three in the place of those that went", n)
	}
	v := h.verified(t)
	if v.State != "SUCCEEDED" || v.Tally.Succeeded != 120 || v.Extra.Retries != 0 {
		t.Errorf("%+v", v)
	}
	out, _ := h.drover(t, 0, "status", "--json", "last")
	if err := json.Unmarshal([]byte(out), &status); err != nil || status.State != "SUCCEEDED" {
		t.Errorf("%s, %v", out, err)
	}
	h.drover(t, 0, "down", "ec2", "--yes")
	if left := append(append(fake.Stacks.Names(), fake.Groups()...), fake.Templates()...); len(left) > 0 || fake.Secrets() > 0 {
		t.Errorf("there are left %s, %d secrets", left, fake.Secrets())
	}
}
