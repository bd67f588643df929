package ec2

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/store/storetest/server"
)

// moto, a stand-in for AWS that others have made, takes the requests and gives answers that are read. What it does otherwise than AWS: machines
// have no type and run nothing, no scheduled action is carried out, there are no activities, and a group that is deleted leaves its machines.
func TestRealMotoTakesTheRequests(t *testing.T) {
	packages := server.Install(t, "moto")
	at := server.Free()
	host, port, _ := net.SplitHostPort(at)
	moto := exec.Command("python3", "-m", "moto.server", "-H", host, "-p", port)
	moto.Env = append(os.Environ(), "PYTHONPATH="+packages, "PYTHONDONTWRITEBYTECODE=1")
	server.Start(t, moto)
	drivertest.Until(t, "moto listens", func() bool {
		c, err := net.Dial("tcp", at)
		return err == nil && c.Close() == nil
	})
	l := newLocated(t)
	l.engine.clients = amazon.NewClients(func(ctx context.Context, region string) (*client, string, error) {
		account, err := amazon.Open(ctx, amazon.Options{Region: region})
		if err != nil {
			return nil, "", err
		}
		account.Config.BaseEndpoint = aws.String("http://" + at)
		c := newClient(account, time.Minute, 0) // its first answer takes seconds on a busy machine
		return c, c.region, nil
	})
	c, err := l.engine.clients.In(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var subnets struct {
		IDs []string `xml:"subnetSet>item>subnetId"`
	}
	if err := c.ReadMachines(t.Context(), "look", "DescribeSubnets", nil, &subnets); err != nil || len(subnets.IDs) == 0 {
		t.Fatal(subnets, err)
	}
	var groups struct {
		IDs []string `xml:"securityGroupInfo>item>groupId"`
	}
	if err := c.ReadMachines(t.Context(), "look", "DescribeSecurityGroups", nil, &groups); err != nil || len(groups.IDs) == 0 {
		t.Fatal(groups, err)
	}
	own := []string{"profile=machines", "subnets=" + strings.Join(subnets.IDs, ","), "security-groups=" + groups.IDs[0]}
	needs := driver.Needs{Agents: 2, Args: own, Labels: map[string]string{"project": "digits"}}
	o, err := l.Driver.Offer(t.Context(), needs)
	if err != nil || !o.Fits || !strings.Contains(o.Machine, "and 27 more (from 2 cores, ") {
		t.Fatalf("%+v, %v", o, err)
	}
	r := l.request(t, 1, 2)
	needs.Detail = o.Detail
	r.Needs, r.Run.Store = needs, l.facts
	h, err := l.Driver.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	all, err := l.Status(t.Context(), h)
	if err != nil || len(all) != 2 || all[0].State != driver.Waiting || all[0].Where == "" {
		t.Errorf("%+v, %v", all, err)
	}
	g, err := c.Group(t.Context(), groupName(h))
	if err != nil || g == nil || g.DesiredCapacity != 2 || len(g.Instances) != 2 || g.Tagged("drover-project") != "digits" {
		t.Fatalf("%+v, %v", g, err)
	}
	if err := c.EndMachine(t.Context(), g.Instances[0].InstanceId, true); err != nil {
		t.Error(err)
	}
	if left, err := c.Group(t.Context(), groupName(h)); err != nil || left.DesiredCapacity != 1 {
		t.Errorf("%+v, %v", left, err)
	}
	if _, err := c.Console(t.Context(), g.Instances[1].InstanceId); err != nil {
		t.Error(err)
	}
	if err := l.Stop(t.Context(), h, 0, false); err != nil {
		t.Error(err)
	}
	if stopped, err := c.Group(t.Context(), groupName(h)); err != nil || stopped.DesiredCapacity != 0 || stopped.Tagged(tagStopped) == "" {
		t.Errorf("%+v, %v", stopped, err)
	}
	if err := l.engine.Remove(t.Context(), h, nil); err != nil {
		t.Error(err)
	}
	if g, err := c.Group(t.Context(), groupName(h)); err != nil || g != nil {
		t.Errorf("%+v, %v", g, err)
	}
}
