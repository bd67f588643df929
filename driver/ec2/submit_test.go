package ec2

import (
	"context"
	_ "embed"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/ec2/ec2test"
	"github.com/drover-run/drover/driver/ec2/instancetype"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
	"github.com/drover-run/drover/store"
)

const jobID = "abcdefgh23456777"

// request is one for agents that stay, in an account's own store.
func (l located) request(t *testing.T, placement, agents int) driver.Request {
	t.Helper()
	self := drivertest.Program(t)
	script := drivertest.Script{Stay: true, Marks: t.TempDir()}
	return driver.Request{Job: jobID, Placement: placement, Agents: agents, Needs: driver.Needs{Agents: agents, Detail: "eu-west-1", Labels: map[string]string{"project": "digits", "job": jobID}},
		Run: driver.Boot{Job: "digits/train/" + jobID, Env: script.Environ(), Programs: func(context.Context, string) (driver.Program, error) { return self, nil }}}
}

// onlyProgram gives a program for every system.
func onlyProgram(p driver.Program) driver.Programs {
	return func(context.Context, string) (driver.Program, error) { return p, nil }
}

func newLocated(t *testing.T) located {
	t.Helper()
	a := newAccount(t)
	return located{a.driver(t), a, ""}
}

//go:embed testdata/template.golden
var goldenTemplate string

// lines is a request as text, one parameter on a line.
func lines(form url.Values) string {
	var all []string
	for name, values := range form {
		all = append(all, name+"="+values[0])
	}
	slices.Sort(all)
	return strings.Join(all, "\n") + "\n"
}

func TestMachinesAreToldWhatWasLookedAt(t *testing.T) {
	l := newLocated(t)
	l.BreakAMI()
	r := l.request(t, 1, 2)
	sum := strings.Repeat("ab", 32)
	r.Needs.Time = 2 * time.Hour
	r.Run.Programs = func(context.Context, string) (driver.Program, error) {
		return driver.Program{System: "linux/amd64", SHA256: sum, Downloads: []store.Download{{Tool: "curl", Command: "fetch-it", Of: store.OfMachine}, {Tool: "curl", Command: "of a container", Of: store.OfContainer}, {Tool: "wget", Command: "secretaddress", Secret: true}}}, nil
	}
	name := groupName(driver.Handle{Job: jobID, Placement: 1})
	if _, err := l.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	form, script := l.Template(name)
	form.Del("LaunchTemplateData.UserData")
	text := lines(form) + "\n" + strings.NewReplacer(programFile, "PROGRAM", dirOf(programFile), "FOLDER", l.facts, "STORE").Replace(script)
	for _, word := range strings.Fields(text) {
		if n, is := strings.CutPrefix(strings.Trim(word, "'"), "--setenv=DROVER_EC2_UNTIL="); is {
			text = strings.ReplaceAll(text, n, "UNTIL")
		}
	}
	compare(t, "testdata/template.golden", goldenTemplate, text)
}

func dirOf(path string) string { return path[:strings.LastIndex(path, "/")] }

// A canary is in no request, and in no script.
func TestSecretsAreInTheirStoreAlone(t *testing.T) {
	l := newLocated(t)
	l.BreakAMI()
	r := l.request(t, 1, 1)
	t.Setenv("CANARY", "canaryvalue")
	r.Run.Secrets = map[string]string{"TOKEN": "env:CANARY"}
	h, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	form, script := l.Template(groupName(h))
	if text := lines(form) + script; strings.Contains(text, "canaryvalue") || !strings.Contains(script, "DROVER_EC2_SECRET="+secretName(h)) || l.Secrets() != 1 {
		t.Errorf("%d secrets; %s", l.Secrets(), text)
	}
	if err := l.Stop(t.Context(), h, 0, true); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Status(t.Context(), h); err != nil || l.Secrets() != 0 || len(l.Groups()) != 0 || len(l.Templates()) != 0 {
		t.Errorf("%v; left: %d secrets, %s, %s", err, l.Secrets(), l.Groups(), l.Templates())
	}
}

// Each request of Start is done, and its answer lost: typed again there is one group, one template, and as many machines as were asked for.
func TestEachAnswerOfAStartMayBeLost(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"DescribeSubnets", "DescribeInstanceTypes", "CreateLaunchTemplate", "CreateAutoScalingGroup", "SuspendProcesses", "PutScheduledUpdateGroupAction", "UpdateAutoScalingGroup"} {
		l := newLocated(t)
		l.BreakAMI()
		l.Lose(operation, 1)
		h, err := l.Start(t.Context(), l.request(t, 1, 3))
		if err != nil {
			t.Errorf("%s: %v", operation, err)
			continue
		}
		desired, endAt := l.Group(groupName(h))
		if machines := l.Machines(); len(l.Groups()) != 1 || len(l.Templates()) != 1 || len(machines) != 3 || desired != 3 || endAt.Before(l.Now().Add(50*time.Minute)) {
			t.Errorf("%s: groups %s, templates %s, machines %s of %d, which end at %s", operation, l.Groups(), l.Templates(), machines, desired, endAt)
		}
	}
}

// A Start that dies before its last step leaves no machine, and the next one goes on.
func TestAStartThatWasCutOffGoesOn(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"CreateLaunchTemplate", "CreateAutoScalingGroup", "SuspendProcesses", "PutScheduledUpdateGroupAction"} {
		l := newLocated(t)
		l.BreakAMI()
		l.Lose(operation, -1)
		ctx, cancel := context.WithCancel(t.Context())
		started := make(chan error, 1)
		r := l.request(t, 1, 2)
		go func() {
			_, err := l.Start(ctx, r)
			started <- err
		}()
		drivertest.Until(t, "it is asked for again", func() bool { return l.Requests(operation) > 1 }) // the first was carried out
		cancel()
		if err := <-started; err == nil {
			t.Errorf("%s: it has started", operation)
		}
		if n := len(l.Machines()); n != 0 {
			t.Errorf("%s: %d machines", operation, n)
		}
		l.Lose(operation, 0)
		if _, err := l.Start(t.Context(), l.request(t, 1, 2)); err != nil || len(l.Machines()) != 2 || len(l.Groups()) != 1 {
			t.Errorf("%s: %v, machines %s, groups %s", operation, err, l.Machines(), l.Groups())
		}
	}
}

// What Start asks for does not grow with the number of agents.
func TestAStartOfManyMachinesTakesFewRequests(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.BreakAMI()
	l.Refuse("InsufficientInstanceCapacity: none")
	if _, err := l.Start(t.Context(), l.request(t, 1, 1000)); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, operation := range []string{"DescribeSubnets", "CreateLaunchTemplate", "CreateAutoScalingGroup", "DescribeAutoScalingGroups", "SuspendProcesses", "PutScheduledUpdateGroupAction", "UpdateAutoScalingGroup"} {
		n += l.Requests(operation)
	}
	if n > 10 {
		t.Errorf("%d requests", n)
	}
}

func TestARefusedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	for operation, doing := range map[string]string{"CreateLaunchTemplate": "create the launch template", "CreateAutoScalingGroup": "create the Auto Scaling group", "SuspendProcesses": "keep the group from moving machines that work",
		"PutScheduledUpdateGroupAction": "set when all machines end", "UpdateAutoScalingGroup": "set how many machines there are", "DescribeInstanceTypes": "ask for the types of machines",
		"DescribeInstanceTypeOfferings": "ask which zones have which machines", "DescribeSubnets": "look at the subnets of machines"} {
		l := newLocated(t)
		l.Deny(operation)
		r := l.request(t, 1, 1)
		r.Run.Secrets = map[string]string{"TOKEN": "file:/proc/version"}
		if _, err := l.Start(t.Context(), r); fault.KindOf(err) != fault.Denied || !strings.HasPrefix(err.Error(), doing+": ") {
			t.Errorf("%s: %v", operation, err)
		}
		if len(l.Groups()) != 0 || len(l.Templates()) != 0 || l.Secrets() != 0 {
			t.Errorf("%s leaves %s, %s, %d secrets", operation, l.Groups(), l.Templates(), l.Secrets())
		}
	}
}

// What is refused while a placement lives is said with what was being done.
func TestWhatIsDeniedIsSaid(t *testing.T) {
	t.Parallel()
	for operation, test := range map[string]struct {
		doing string
		do    func(located, driver.Handle) error
	}{
		"DescribeAutoScalingGroups": {"describe the Auto Scaling group", status},
		"DescribeInstances":         {"describe machines", status},
		"CreateOrUpdateTags":        {"note that machines are stopped", stop},
		"DeleteAutoScalingGroup":    {"delete the Auto Scaling group", stop},
		"DeleteLaunchTemplate":      {"delete the launch template", stop},
		"DescribeLaunchTemplates":   {"look for launch templates", func(l located, _ driver.Handle) error { return sweep(l) }},
		"TerminateInstances": {"end machines", func(l located, h driver.Handle) error {
			c, err := l.engine.clients.In(context.Background(), "")
			if err == nil {
				err = c.terminate(context.Background(), []remote.Process{{Claimant: remote.Claimant{Process: "i-1"}}})
			}
			return err
		}},
		"TerminateInstanceInAutoScalingGroup": {"end a machine", func(l located, h driver.Handle) error {
			c, err := l.engine.clients.In(context.Background(), "")
			if err == nil {
				err = c.EndMachine(context.Background(), "i-1", true)
			}
			return err
		}},
		"GetConsoleOutput": {"read a machine's console", func(l located, h driver.Handle) error {
			c, err := l.engine.clients.In(context.Background(), "")
			if err == nil {
				_, err = c.Console(context.Background(), "i-1")
			}
			return err
		}},
	} {
		l := newLocated(t)
		l.BreakAMI()
		l.Refuse("InsufficientInstanceCapacity")
		h, err := l.Start(t.Context(), l.request(t, 1, 1))
		if err != nil {
			t.Fatal(err)
		}
		l.Deny(operation)
		if err := test.do(l, h); fault.KindOf(err) != fault.Denied || !strings.HasPrefix(err.Error(), test.doing+": ") {
			t.Errorf("%s: %v", operation, err)
		}
	}
	l := newLocated(t)
	l.Refuse("InsufficientInstanceCapacity")
	h, err := l.Start(t.Context(), l.request(t, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	l.Deny("DescribeScalingActivities")
	until(t, l, h, "why no machine comes is not known", func(all []driver.Member) bool {
		return len(all) == 1 && strings.Contains(all[0].Reason, "; read what the Auto Scaling group has done: ")
	})
	l.Deny("DescribeRouteTables")
	if o, err := l.Offer(t.Context(), driver.Needs{Agents: 1}); err != nil || !o.Fits {
		t.Errorf("without the right to look at routes: %+v, %v", o, err)
	}
	l.Deny("DescribeSpotPriceHistory")
	if o, err := l.Offer(t.Context(), driver.Needs{Agents: 1}); err != nil || !o.Fits || o.Price.Known() {
		t.Errorf("without the right to read spot prices: %+v, %v", o, err)
	}
}

func status(l located, h driver.Handle) error {
	_, err := l.Status(context.Background(), h)
	return err
}

func stop(l located, h driver.Handle) error {
	if err := l.Stop(context.Background(), h, 0, true); err != nil {
		return err
	}
	_, err := l.engine.Processes(context.Background(), h, nil, remote.Known{})
	if err == nil {
		err = l.engine.Remove(context.Background(), h, nil)
	}
	return err
}

func sweep(l located) error {
	c, err := l.engine.clients.In(context.Background(), "")
	if err == nil {
		err = c.sweep(context.Background(), "digits")
	}
	return err
}

func TestAScriptThatIsTooLongIsRefused(t *testing.T) {
	l := newLocated(t)
	r := l.request(t, 1, 1)
	p := drivertest.Program(t)
	p.Downloads = []store.Download{{Tool: "cat", Command: strings.Repeat("long ", 4<<10)}}
	r.Run.Programs = onlyProgram(p)
	if _, err := l.Start(t.Context(), r); fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), "start agents: what a machine is told has ") || fault.Hint(err) != "Use a store with a shorter name." {
		t.Error(err)
	}
	r.Run.Programs = nil
	if _, err := l.Start(t.Context(), r); fault.KindOf(err) != fault.Bug {
		t.Error(err)
	}
}

func TestAnAccountNeedsARegion(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	if _, _, err := openClient(t.Context(), ""); err == nil || err.Error() != "ask EC2: there is no region" || fault.Hint(err) != "Say where: --on ec2/REGION, or export AWS_REGION=REGION." {
		t.Error(err)
	}
	if c, of, err := openClient(t.Context(), "eu-west-3"); err != nil || of != "eu-west-3" || c.region != of {
		t.Errorf("%s, %v", of, err)
	}
}

func TestAForeignGroupIsSpared(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	name := groupName(driver.Handle{Job: jobID, Placement: 1})
	l.Occupy(name)
	if _, err := l.Start(t.Context(), l.request(t, 1, 1)); fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), "start agents: Auto Scaling group "+name+" is one that drover did not make") {
		t.Error(err)
	}
	if !slices.Equal(l.Groups(), []string{name}) || len(l.Templates()) != 0 {
		t.Errorf("left: %s, %s", l.Groups(), l.Templates())
	}
}

func TestMachinesMayBeInAPlacementGroup(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.BreakAMI()
	r := l.request(t, 1, 2)
	r.Needs.Args = []string{"placement-group=far"}
	if _, err := l.Start(t.Context(), r); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "The placement group 'far' does not exist") {
		t.Error(err)
	}
	if left := slices.Concat(l.Groups(), l.Templates()); len(left) > 0 {
		t.Errorf("left: %s", left)
	}
	r.Placement, r.Needs.Args = 2, []string{"placement-group=" + ec2test.PlacementGroup}
	if _, err := l.Start(t.Context(), r); err != nil || len(l.Machines()) != 2 {
		t.Errorf("%v, machines %s", err, l.Machines())
	}
}

func TestOffersSayWhatThereIs(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.Quotas.Set("All P4, P3 and P2 Spot Instance Requests", 0)
	l.Quotas.Set("All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", 8)
	l.Quotas.Set("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", 64)
	expr := func(text string) where.Expr {
		t.Helper()
		e, err := where.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, test := range []struct {
		name   string
		change func(*driver.Needs)
		want   string // the machine; "": it does not fit
		reason string
	}{
		{"nothing said", func(n *driver.Needs) {}, "EC2: c5.large, c6a.large, c6i.large and 8 more (from 2 cores, 4 GB) in eu-west-1a, eu-west-1b, eu-west-1c", ""},
		{"memory", func(n *driver.Needs) { n.Memory = 10 << 30 }, "EC2: r5.large, r6i.large, m5.xlarge, m5.2xlarge (from 2 cores, 16 GB)", ""},
		{"on demand", func(n *driver.Needs) { n.Spot, n.Agents = job.SpotNever, 32 }, "EC2: c5.large, ", ""},
		{"arm", func(n *driver.Needs) { n.Where = expr("arch == arm64") }, "EC2: m7g.large (2 cores, 8 GB) in eu-west-1a, ", ""},
		{"a zone", func(n *driver.Needs) { n.Where = expr("zone == eu-west-1b") }, "EC2: c5.large, c6a.large, c6i.large and 8 more (from 2 cores, 4 GB) in eu-west-1b", ""},
		{"zones by option", func(n *driver.Needs) { n.Args = []string{"zones=eu-west-1c"} }, "EC2: c5.large, c6a.large, m5.large and 7 more (from 2 cores, 4 GB) in eu-west-1c", ""},
		{"nodes", func(n *driver.Needs) { n.Agents, n.Place.Nodes = 2, 2 }, "EC2: c5.large, c6a.large, c6i.large and 8 more (from 2 cores, 4 GB) in eu-west-1b", ""},
		{"a type", func(n *driver.Needs) { n.Machine = []string{"m5.*"} }, "EC2: m5.large, m5.xlarge, m5.2xlarge (from 2 cores, 8 GB)", ""},
		{"GPUs in another family", func(n *driver.Needs) { n.Machine = []string{"g5.xlarge"} }, "EC2: g5.xlarge (4 cores, 16 GB, 1 GPU) in eu-west-1a, eu-west-1b", ""},

		{"no quota", func(n *driver.Needs) { n.GPUs, n.Where = 1, expr("type =~ p3.*") }, "", `the account's quota "All P4, P3 and P2 Spot Instance Requests" is 0 cores in eu-west-1, and the job needs 8`},
		{"more nodes than the quota", func(n *driver.Needs) { n.Agents, n.Place.Nodes = 8, 8 }, "", `the account's quota "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests" is 8 cores in eu-west-1, and the job needs 16`},
		{"an unknown type", func(n *driver.Needs) { n.Machine = []string{"m5.lrge"} }, "", "no zone of eu-west-1 has machines of type m5.lrge"},
		{"too much", func(n *driver.Needs) { n.CPUs = 500 }, "", "no machine of EC2's in eu-west-1 has what an agent needs: 500 cores"},
		{"GPUs on a type without", func(n *driver.Needs) { n.GPUs, n.Machine = 1, []string{"m5.large"} }, "", "no machine of EC2's in eu-west-1 has what an agent needs: 1 GPU, --machine m5.large"},
		{"a condition that nothing meets", func(n *driver.Needs) { n.Where = expr("type =~ x9.*") }, "", "no machine of EC2's in eu-west-1 has what an agent needs: type =~ x9.*"},
		{"a zone that is not there", func(n *driver.Needs) { n.Args = []string{"zones=eu-west-1z"} }, "", "read --target-arg zones=eu-west-1z: there is no subnet in zone eu-west-1z"},
		{"an AMI of another region", func(n *driver.Needs) { n.Args = []string{"ami=ami-0000dead"} }, "", "look at the AMI: eu-west-1 has no ami-0000dead"},
		{"an AMI of another processor", func(n *driver.Needs) { n.Args = []string{"ami=ami-00000a64"} }, "", "ami-00000a64 is for arm64, and c5.large is amd64"},
		{"a subnet that is not there", func(n *driver.Needs) { n.Args = []string{"subnets=subnet-0z", "security-groups=sg-0a"} }, "", "look at the subnets of machines: eu-west-1 has no subnet subnet-0z"},
		{"subnets without addresses", func(n *driver.Needs) { n.Args = []string{"subnets=subnet-0fulla", "security-groups=sg-0a"} }, "", "no subnet for machines has a free address: subnet-0fulla"},
		{"GPUs of arm64 in a container", func(n *driver.Needs) { n.GPUs, n.Machine = 1, []string{"g5g.xlarge"} }, "", "Amazon has no AMI with Docker for machines of arm64 with GPUs"},
		{"GPUs of arm64 on the machine as it is", func(n *driver.Needs) { n.Detail, n.GPUs, n.Machine = "ami/eu-west-1", 1, []string{"g5g.xlarge"} }, "EC2: g5g.xlarge (4 cores, 8 GB, 1 GPU)", ""},
		{"a mount", func(n *driver.Needs) { n.Place.Mounts = []job.Mount{{Source: "/data", Target: "/data"}} }, "", "machines of EC2 see no folder of this machine: --mount /data"},
		{"an image on the machine as it is", func(n *driver.Needs) { n.Detail, n.Place.Image = "ami/eu-west-1", "x" }, "", "agents on ec2/ami run on the machine as it is, and in no image"},
		{"too large a disk", func(n *driver.Needs) { n.Disk = 17e12 }, "", "a disk of EC2 has 16 TB at most"},
	} {
		n := driver.Needs{Agents: 1}
		test.change(&n)
		o, err := l.Offer(t.Context(), n)
		switch {
		case err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want != "" && (!o.Fits || !strings.HasPrefix(o.Machine, test.want)):
			t.Errorf("%s: %q, %s; want %s", test.name, o.Machine, o.Reason, test.want)
		case test.reason != "" && (o.Fits || o.Reason != test.reason || o.Hint == ""):
			t.Errorf("%s: %q (%s); want %q", test.name, o.Reason, o.Hint, test.reason)
		}
	}
	if n := l.Requests("DescribeInstanceTypeOfferings"); n != 1 {
		t.Errorf("the types are asked for %d times", n)
	}
	if o, err := l.Offer(t.Context(), driver.Needs{Agents: 1, Machine: []string{"m5.*"}}); err != nil || !slices.Contains(o.Notes, "spot capacity of few types is taken more often: there are 3 to choose from") {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := l.Offer(t.Context(), driver.Needs{Agents: 1, Machine: []string{"quantum.large"}}); err != nil || o.Hint != "Name a type that the region has: aws ec2 describe-instance-type-offerings --region eu-west-1." {
		t.Errorf("%+v, %v", o, err)
	}
	c, err := l.engine.clients.In(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.waysOut(t.Context(), nil); err == nil || !strings.HasPrefix(err.Error(), "look at the routes of subnets: ") {
		t.Error(err)
	}
	for ids, want := range map[string]string{
		"subnet-0darka":                 "subnet-0darka has no route out of its network: its machines begin no agent unless there are endpoints of S3 and Auto Scaling",
		"subnet-0b,subnet-0privatec":    "subnet-0privatec gives its machines no public address, and leads to the Internet by one alone: they begin no agent unless there are endpoints of S3 and Auto Scaling",
		"subnet-0a,subnet-0b,subnet-0c": "",
	} {
		o, err := l.Offer(t.Context(), driver.Needs{Agents: 1, Args: []string{"subnets=" + ids, "security-groups=sg-0a"}})
		if err != nil || slices.Contains(o.Notes, want) != (want != "") || strings.Contains(strings.Join(o.Notes, "\n"), "Auto Scaling") != (want != "") {
			t.Errorf("%s: %q, %v", ids, o.Notes, err)
		}
	}
	for disk, change := range map[int]func(*driver.Needs){40: func(*driver.Needs) {}, 90: func(n *driver.Needs) { n.Disk = 50e9 }, 72: func(n *driver.Needs) { n.Args, n.Disk = []string{"ami=ami-0123456789abcdef0"}, 15e8 },
		120: func(n *driver.Needs) { n.Detail, n.GPUs, n.Machine = "ami/eu-west-1", 1, []string{"g5.xlarge"} }} {
		n := driver.Needs{Agents: 1}
		change(&n)
		if o, err := l.Offer(t.Context(), n); err != nil || !slices.Contains(o.Notes, fmt.Sprintf("each agent has a machine alone, with a disk of %d GB", disk)) {
			t.Errorf("want a disk of %d GB: %+v, %v", disk, o, err)
		}
	}
	if p := Target.Properties(driver.Config{}); p.Identity != "the machines' role" || !p.At("eu-west-1").Containers || p.At("ami/eu-west-1").Containers || p.At("ami").Pulls || !p.At("ami").Apart {
		t.Errorf("%+v", p)
	}
	o, err := l.Offer(t.Context(), driver.Needs{Agents: 32, Spot: job.SpotFirst, Args: []string{"wait=12h"}})
	want := []string{"each agent has a machine alone, with a disk of 40 GB", "after 10 minutes without any machine an attached command buys machines on demand",
		"machines may begin up to 12h0m0s from now, also when no command is attached, and cost at most those hours of 32 machines",
		"AWS ends all machines an hour after the last sign of drover: at the worst an hour of 32 machines is lost",
		`the account's quota "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests" is 8 cores in eu-west-1: at most 4 of 32 agents run at once`}
	if err != nil || !slices.Equal(o.Notes, want) || o.Price.Spot == 0 || o.Price.Check() != nil {
		t.Errorf("%+v, %v", o, err)
	}
	for args, want := range map[string]string{
		"amy=ami-1": `read --target-arg "amy=ami-1": EC2 has no such option here`, "ami=x": `read --target-arg "ami=x": its value is not of this form`, "wait=200h": `read --target-arg "wait=200h": machines are waited for 7 days at most`,
		"wait=0h": `read --target-arg "wait=0h": its value is not of this form`} {
		if _, err := l.Offer(t.Context(), driver.Needs{Agents: 1, Args: []string{args}}); err == nil || err.Error() != want || fault.Hint(err) == "" {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, err := parseOptions([]string{"subnets=subnet-0a"}); err == nil || err.Error() != "choose the network of machines: of subnets and security groups only one is given" {
		t.Error(err)
	}
	if _, err := l.Driver.Offer(t.Context(), driver.Needs{Agents: 1, Detail: "Ireland"}); err == nil {
		t.Error("a region of no form")
	}
	if o, err := l.Driver.Offer(t.Context(), driver.Needs{Agents: 1, Labels: map[string]string{"project": "digits"}}); err != nil || o.Fits || o.Reason != "the project has no role and no network for machines" {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestNamesAreReadAsTheyAreWritten(t *testing.T) {
	h := driver.Handle{Target: Name, Job: jobID, Placement: 12}
	if got, ok := parseGroupName(groupName(h)); !ok || got != h {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"", "drover-x", "other-abc-1", "drover-abc-01", "drover-abc-99999999999999999999"} {
		if got, ok := parseGroupName(name); ok {
			t.Errorf("%q is %+v", name, got)
		}
	}
	for _, detail := range []string{"", "ami", "eu-west-1", "ami/eu-west-1", "eu-west-1/123456789012", "ami/eu-west-1/123456789012"} {
		if s, err := parseSite(detail); err != nil || s.String() != detail {
			t.Errorf("%q: %v, %v", detail, s, err)
		}
	}
}

func TestTheAMIFollowsFromTheMachines(t *testing.T) {
	for want, test := range map[string]struct {
		bare bool
		m    instancetype.Type
	}{
		"resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id":                                  {false, instancetype.Type{Arch: "amd64"}},
		"resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/arm64/recommended/image_id":                            {false, instancetype.Type{Arch: "arm64"}},
		"resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/gpu/recommended/image_id":                              {false, instancetype.Type{Arch: "amd64", GPUs: 1}},
		"resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64":                                   {true, instancetype.Type{Arch: "arm64"}},
		"resolve:ssm:/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.7-amazon-linux-2023/latest/ami-id": {true, instancetype.Type{Arch: "amd64", GPUs: 1}},
	} {
		if got := amiOf(options{}, test.bare, instancetype.Choice{Types: []instancetype.Type{test.m}}); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A condition on many types is looked at quickly; the figure is a bound and no measurement.
func BenchmarkChoose(b *testing.B) {
	var all []instancetype.Type
	for i := range 900 {
		all = append(all, instancetype.Type{Name: fmt.Sprintf("m%d.x%d", i%30, i), Arch: "amd64", CPUs: 2 + i%60, Memory: 8192, Spot: true, Plain: true, Zones: []string{"a", "b", "c", "d", "e", "f"}})
	}
	e, err := where.Parse("type =~ m2.* and zone != f and memory > 4G")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := instancetype.Choose(all, instancetype.Wish{Needs: driver.Needs{Where: e}, Spot: true, Region: "eu-west-1", Zones: []string{"a", "b", "c", "d", "e", "f"}}); err != nil {
			b.Fatal(err)
		}
	}
}
