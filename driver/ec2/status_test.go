package ec2

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/ec2/api"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// ofEC2 is a machine as EC2 describes it.
func ofEC2(state, why string) api.Instance {
	return api.Instance{ID: "i-1", Type: "m5.large", Zone: "eu-west-1a", State: state, Why: why, Words: why + ": Some words.", Lifecycle: "spot", Launched: time.Unix(0, 0)}
}

func TestAMachineIsAsEC2Says(t *testing.T) {
	t.Parallel()
	alive := api.GroupState{MaxSize: 2, DesiredCapacity: 2}
	stopped := api.GroupState{MaxSize: 2, Tags: []api.Tag{{Key: tagStopped, Value: "yes"}}}
	for name, test := range map[string]struct {
		m    api.Instance
		g    api.GroupState
		came bool // up as an agent
		want string
	}{
		"it boots":                     {ofEC2("pending", ""), alive, false, "waiting: its machine boots"},
		"it runs":                      {ofEC2("running", ""), alive, false, "running: its agent comes up"},
		"its agent runs":               {ofEC2("running", ""), alive, true, "running: "},
		"it was taken":                 {ofEC2("terminated", "Server.SpotInstanceTermination"), alive, true, "taken: AWS has taken its machine away: spot capacity"},
		"it was taken while it booted": {ofEC2("shutting-down", "Server.SpotInstanceShutdown"), alive, false, "taken: AWS has taken its machine away: spot capacity"},
		"AWS had none":                 {ofEC2("terminated", "Server.InsufficientInstanceCapacity"), alive, false, "taken: AWS has ended its machine: Server.InsufficientInstanceCapacity"},
		"it shut down":                 {ofEC2("terminated", "Client.InstanceInitiatedShutdown"), alive, true, "lost: its machine has shut down without a word of its agent"},
		"it never came up":             {ofEC2("terminated", "Client.InstanceInitiatedShutdown"), alive, false, "ended: its machine has shut down before an agent came up"},
		"a user ended it":              {ofEC2("terminated", "Client.UserInitiatedShutdown"), alive, true, "ended by Terminate: its machine was terminated in EC2"},
		"a Stop ended it":              {ofEC2("terminated", "Client.UserInitiatedShutdown"), stopped, true, "ended by Terminate: stopped: killed at once"},
		"its group was ended":          {ofEC2("terminated", "Client.UserInitiatedShutdown"), api.GroupState{MaxSize: 2}, true, "taken: " + expiredWords},
		"its group was ended, or it has ended itself": {ofEC2("terminated", "Client.UserInitiatedShutdown"), api.GroupState{MaxSize: 2}, false, "ended: its machine was ended before an agent came up"},
		"a user stopped it":                           {ofEC2("stopped", "Client.UserInitiatedShutdown"), alive, true, "lost: its machine was stopped in EC2"},
		"its disk was not made":                       {ofEC2("terminated", "Client.VolumeLimitExceeded"), alive, false, "ended: Client.VolumeLimitExceeded: Some words"},
	} {
		v := view{group: test.g, name: "drover-x-1", came: map[string]bool{"i-1": test.came}, now: time.Unix(60, 0)}
		p := v.process(test.m)
		got := string(p.State)
		if p.Terminated {
			got += " by Terminate"
		}
		if got += ": " + p.Reason; got != test.want {
			t.Errorf("%s: %s\nwant %s", name, got, test.want)
		}
		if p.Where != "i-1, m5.large, eu-west-1a, spot" || p.Index != remote.Anywhere || p.Process != "i-1" {
			t.Errorf("%+v", p)
		}
	}
	v := view{group: alive, came: map[string]bool{}, now: time.Unix(20*60, 0), region: "eu-west-1"}
	if p := v.process(ofEC2("running", "")); p.State != driver.Waiting || p.Reason != "its machine runs for 20m0s, and no agent has come up on it: its end is 1h0m0s away at most" ||
		p.Hint != "See what it printed: aws ec2 get-console-output --latest --output text --region eu-west-1 --instance-id i-1." {
		t.Errorf("%+v", p)
	}
}

func TestWhyNoMachineComesIsSaid(t *testing.T) {
	t.Parallel()
	failed := func(text string) api.Activity { return api.Activity{StatusCode: "Failed", StatusMessage: text} }
	const spot = "Could not launch Spot Instances. "
	for _, test := range []struct {
		all         []api.Activity
		words, hint string
	}{
		{[]api.Activity{failed(spot + "InsufficientInstanceCapacity - There is no Spot capacity available that matches your request. Launching EC2 instance failed."), failed("x")},
			"EC2 has none of its machines now: Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity available that matches your request. Launching EC2 instance failed (tried 2 times)", "Allow more types, with --machine or --where, or use --spot=first."},
		{[]api.Activity{failed("Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity due to your request configuration.")}, "EC2 has none of its machines now: Could not", "Allow more types, with --machine or --where, or use --spot=first."},
		{[]api.Activity{failed("We currently do not have sufficient m5.large capacity in the Availability Zone you requested (eu-west-1a).")}, "EC2 has none of its machines now: We currently", "Allow more types, with --machine or --where, or use --spot=first."},
		{[]api.Activity{failed(spot + "MaxSpotInstanceCountExceeded - Max spot instance count exceeded.")}, "the account's quota of spot capacity is used up: ", "Ask AWS for more: aws service-quotas list-service-quotas --region eu-west-1 --service-code ec2 names it, or use --on-demand."},
		{[]api.Activity{failed("You have requested more vCPU capacity than your current vCPU limit of 0 allows for the instance bucket that the specified instance type belongs to.")}, "the account's quota of on-demand machines is used up: ", "Ask AWS for more: aws service-quotas list-service-quotas --region eu-west-1 --service-code ec2 names it."},
		{[]api.Activity{failed(spot + "SpotMaxPriceTooLow - Your Spot request price is lower")}, "spot capacity costs more than an on-demand machine: ", "Use --on-demand."},
		{[]api.Activity{failed("There are not enough free addresses: InsufficientFreeAddressesInSubnet")}, "its subnets have no address left: ", "Name others: --target-arg subnets=SUBNET --target-arg security-groups=GROUP."},
		{[]api.Activity{failed("AuthFailure.ServiceLinkedRoleCreationNotPermitted - The provided credentials do not have permission")}, "the account has no service-linked role for spot capacity: ", "Have an administrator make it: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com."},
		{[]api.Activity{failed("InvalidAMIID.NotFound: The image id does not exist")}, "its AMI is not there: ", "Name one that is: --target-arg ami=AMI."},
		{[]api.Activity{failed("ParameterNotFound for /aws/service/ecs")}, "the region has no AMI of Amazon's under the public name: ", "Name one: --target-arg ami=AMI."},
		{[]api.Activity{failed("UnauthorizedOperation: You are not authorized")}, "Auto Scaling may not launch its machines: ", "Have an administrator allow it: the activity of the group names the right."},
		{[]api.Activity{failed("Something that is new.")}, "Something that is new", ""},
	} {
		r, is := refusalOf(test.all, "eu-west-1")
		if !is || !strings.HasPrefix(r.words, test.words) || r.hint != test.hint {
			t.Errorf("%v: %+v", test.all, r)
		}
	}
	if _, is := refusalOf([]api.Activity{{StatusCode: "Successful"}, failed("x")}, "eu-west-1"); is {
		t.Error("the newest launch has succeeded")
	}
}

// until looks until what is wanted is so, a bounded number of times.
func until(t *testing.T, l located, h driver.Handle, want string, is func([]driver.Member) bool) []driver.Member {
	t.Helper()
	var members []driver.Member
	for range 3000 {
		var err error
		if members, err = l.Status(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if is(members) {
			return members
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	t.Fatalf("never seen that %s: %+v", want, members)
	return nil
}

// states are those of members, by their numbers.
func states(all []driver.Member) (words []string) {
	for _, m := range all {
		words = append(words, fmt.Sprint(m.Index, " ", m.State))
	}
	return words
}

func are(want ...string) func([]driver.Member) bool {
	return func(all []driver.Member) bool { return slices.Equal(states(all), want) }
}

// start starts agents that end with a status once they are asked to stop.
func (l located) start(t *testing.T, agents, code int) driver.Handle {
	t.Helper()
	r := l.request(t, 1, agents)
	r.Run.Env = drivertest.Script{Stay: true, Code: code, Marks: t.TempDir()}.Environ()
	h, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A machine that goes is replaced by AWS, while no command is attached; the number of its agent is not given again.
func TestAMachineThatGoesIsReplaced(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	h := l.start(t, 2, fault.ExitLater)
	until(t, l, h, "both run", are("0 running", "1 running"))
	l.Take(l.machine(t, h, 0))
	until(t, l, h, "another one has come", are("0 taken", "1 running", "2 running"))
	l.Warn(l.machine(t, h, 1))
	all := until(t, l, h, "another one has come for the one that was warned", are("0 taken", "1 ended", "2 running", "3 running"))
	if all[1].Code != fault.ExitLater {
		t.Errorf("the one that was warned: %+v", all[1])
	}
	l.TerminateByHand(l.machine(t, h, 2))
	until(t, l, h, "and for the one that a user has ended", are("0 taken", "1 ended", "2 ended", "3 running", "4 running"))
	l.KillProcesses(l.machine(t, h, 3))
	until(t, l, h, "and for the one that has crashed", are("0 taken", "1 ended", "2 ended", "3 lost", "4 running", "5 running"))
	if desired, _ := l.Group(groupName(h)); desired != 2 {
		t.Errorf("the group has %d", desired)
	}
	if err := l.Stop(t.Context(), h, time.Minute, false); err != nil {
		t.Fatal(err)
	}
	until(t, l, h, "all have ended", func(all []driver.Member) bool {
		return !slices.ContainsFunc(all, func(m driver.Member) bool { return m.State.Alive() })
	})
}

// An agent that has done its work ends its machine, and the group has one less.
func TestAMachineEndsWithItsAgent(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	r := l.request(t, 1, 3)
	r.Run.Env = drivertest.Script{Marks: t.TempDir()}.Environ()
	h, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	until(t, l, h, "all have ended", are("0 ended", "1 ended", "2 ended"))
	for range 3000 {
		if len(l.Machines()) == 0 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	if desired, _ := l.Group(groupName(h)); desired != 0 || len(l.Machines()) != 0 {
		t.Errorf("the group has %d, and there are %s", desired, l.Machines())
	}
	l.Advance(2 * time.Hour) // EC2 has forgotten its machines
	until(t, l, h, "the records say how they ended", are("0 ended", "1 ended", "2 ended"))
}

func TestAnAgentThatWasToldToGoLeavesItsPlace(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.BreakAMI()
	h := l.start(t, 2, 0)
	c, err := l.engine.clients.In(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for code, want := range map[int]int{fault.ExitLater: 2, 0: 1} {
		id := l.Machines()[0]
		before, _ := l.Group(groupName(h))
		(&host{client: c, group: groupName(h), id: id}).leave(code)
		after, _ := l.Group(groupName(h))
		if machines := l.Machines(); before-after != 2-want || len(machines) != after || slices.Contains(machines, id) {
			t.Errorf("exit status %d: the group had %d, and has %d; there are %s", code, before, after, machines)
		}
	}
}

// AWS ends all machines of a group an hour after the last sign of drover, whatever has died; that is an interruption.
func TestNothingIsLeftAnHourAfterTheLastSign(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	h := l.start(t, 2, 0)
	until(t, l, h, "both run", are("0 running", "1 running"))
	_, first := l.Group(groupName(h))
	for _, id := range l.Machines() {
		if l.Armed(id) != "+21" {
			t.Errorf("the machine shuts itself down in %q minutes", l.Armed(id))
		}
	}
	l.BreakAMI() // those in their place run nothing
	for _, id := range l.Machines() {
		l.KillProcesses(id)
	}
	until(t, l, h, "both are lost", func(all []driver.Member) bool {
		return len(all) == 4 && all[0].State == driver.Lost && all[1].State == driver.Lost
	})
	l.Advance(50 * time.Minute)
	if len(l.Machines()) != 2 {
		t.Errorf("after 50 minutes there are %s", l.Machines())
	}
	l.Advance(first.Sub(l.Now()) + time.Second)
	if len(l.Machines()) != 0 {
		t.Errorf("after an hour there are %s", l.Machines())
	}
	until(t, l, h, "those are no members any more", are("0 lost", "1 lost"))
}

// All that is ours is killed at once, after the n-th request of commands and machines: an hour later no machine is left, and the placement can be
// started and taken away again.
func TestNothingIsLeftWhereverAllDies(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 24; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			l := newLocated(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			killAll := func() {
				cancel()
				l.BreakAMI()
				for _, id := range l.Machines() {
					l.KillProcesses(id)
				}
			}
			l.After(n, killAll)
			r := l.request(t, 1, 2)
			if h, err := l.Start(ctx, r); err == nil {
				for ctx.Err() == nil && l.Requests("PutScheduledUpdateGroupAction") < 3 {
					if _, err := l.Status(ctx, h); err != nil {
						break
					}
					select {
					case <-ctx.Done():
					case <-time.After(20 * time.Millisecond):
					}
				}
			}
			killAll() // those that were launched meanwhile
			l.Advance(time.Hour)
			if left := l.Machines(); len(left) > 0 {
				t.Errorf("after an hour there are %s", left)
			}
			l.Advance(-time.Hour) // commands go by the clock of this machine
			h, err := l.Start(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Stop(t.Context(), h, 0, true); err != nil {
				t.Fatal(err)
			}
			until(t, l, h, "it is taken away", func(all []driver.Member) bool { return len(all) == 0 })
			if left := append(l.Groups(), l.Machines()...); len(left) > 0 {
				t.Errorf("there are left %s", left)
			}
		})
	}
}

// A command that stays attached moves the end on, and a machine that works does.
func TestTheEndIsMovedOn(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.BreakAMI()
	h := l.start(t, 1, 0)
	name := groupName(h)
	c, err := l.engine.clients.In(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	look := func() {
		t.Helper()
		if _, err := l.engine.Processes(t.Context(), h, nil, remote.Known{}); err != nil {
			t.Fatal(err)
		}
	}
	_, first := l.Group(name)
	for range 9 {
		look()
		l.Advance(10 * time.Minute)
	}
	look()
	if _, endAt := l.Group(name); !endAt.After(first.Add(20*time.Minute)) || len(l.Machines()) != 1 {
		t.Errorf("an attached command has moved the end from %s to %s; there are %s", first, endAt, l.Machines())
	}
	if n := l.Requests("PutScheduledUpdateGroupAction"); n > 6 {
		t.Errorf("in an hour and a half it has asked for that %d times", n)
	}
	p, err := remote.NewRecords(l.store, Name).Open(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	before := l.Requests("PutScheduledUpdateGroupAction")
	_, first = l.Group(name)
	for range 3 { // three machines at the same time
		(&host{client: c, group: name}).moveEnd(t.Context(), p, l.Now().Add(time.Minute))
	}
	if _, endAt := l.Group(name); l.Requests("PutScheduledUpdateGroupAction") != before+1 || !endAt.After(first) {
		t.Errorf("machines have moved the end to %s by %d requests", endAt, l.Requests("PutScheduledUpdateGroupAction")-before)
	}
	// Two nodes move it once both have been seen, and no more when one of them has been silent for two turns.
	nodes := []*host{{client: c, group: name, id: "i-1", nodes: 2}, {client: c, group: name, id: "i-2", nodes: 2}}
	for turn, row := range []struct {
		present []*host
		moves   int
	}{{nodes[:1], 0}, {nodes, 1}, {nodes[1:], 1}, {nodes[1:], 0}, {nodes, 1}} {
		before := l.Requests("PutScheduledUpdateGroupAction")
		for _, h := range row.present {
			h.moveEnd(t.Context(), p, l.Now().Add(24*time.Hour+time.Duration(turn)*moveTime))
		}
		if n := l.Requests("PutScheduledUpdateGroupAction") - before; n != row.moves {
			t.Errorf("in turn %d of two nodes %d requests move the end, want %d", turn, n, row.moves)
		}
	}
	if got := later(time.Unix(100, 0), "200"); got != time.Unix(200, 0) {
		t.Error(got)
	}
	if got := later(time.Unix(100, 0), "none"); got != time.Unix(100, 0) {
		t.Error(got)
	}
}

func TestSpotCapacityThatDoesNotComeIsBoughtOnDemand(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.Refuse("Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity available that matches your request.")
	r := l.request(t, 1, 2)
	r.Needs.Spot = job.SpotFirst
	h, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	all := until(t, l, h, "both wait", are("0 waiting", "1 waiting"))
	if !strings.HasPrefix(all[0].Reason, "EC2 has none of its machines now: Could not launch Spot Instances.") || !strings.Contains(all[0].Hint, "--machine") {
		t.Errorf("%+v", all[0])
	}
	l.Advance(9 * time.Minute)
	until(t, l, h, "both still wait", are("0 waiting", "1 waiting"))
	l.Advance(2 * time.Minute)
	l.Deny("UpdateAutoScalingGroup")
	if all, err := l.engine.Processes(t.Context(), h, nil, remote.Known{}); err != nil || !strings.Contains(all[0].Reason, "; buy machines on demand: the server says 403 AccessDenied") {
		t.Errorf("where that is denied: %+v, %v", all, err)
	}
	l.Deny("")
	members := until(t, l, h, "both run", are("0 running", "1 running"))
	if !strings.HasSuffix(members[0].Where, ", on demand") {
		t.Errorf("%+v", members[0])
	}
}

// Where some spot capacity has come it stays: for another share of on-demand machines Auto Scaling would replace what works.
func TestSpotCapacityThatWorksIsNotReplaced(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	r := l.request(t, 1, 2)
	r.Needs.Spot = job.SpotFirst
	h, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	until(t, l, h, "both run", are("0 running", "1 running"))
	c, _, err := l.engine.clientOfHandle(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.Group(t.Context(), groupName(h))
	if err != nil {
		t.Fatal(err)
	}
	g.Instances = g.Instances[:1] // one is missing
	l.Deny("UpdateAutoScalingGroup")
	for range 2 {
		if err := l.engine.attend(t.Context(), c, view{group: *g, name: groupName(h)}, true); err != nil {
			t.Error(err)
		}
		l.Advance(2 * firstTime)
	}
	g.Instances = nil
	for i := range 2 {
		if err := l.engine.attend(t.Context(), c, view{group: *g, name: groupName(h)}, true); (err == nil) != (i == 0) {
			t.Error(err)
		}
		l.Advance(2 * firstTime)
	}
	l.Deny("")
}

// Machines that end before an agent comes up, time after time, are not kept from their end; one that has come up says that others may.
func TestMachinesThatFailAreNotKeptUp(t *testing.T) {
	t.Parallel()
	ended := slices.Repeat([]remote.Process{{State: driver.Ended, Reason: "no way out"}}, 6)
	for _, test := range []struct {
		all  []remote.Process
		came map[string]bool
		want string
	}{
		{ended, nil, "6 machines have ended before an agent came up, the last one: no way out"}, {ended[1:], nil, ""}, {ended, map[string]bool{"i-1": true}, ""},
		{append(slices.Clone(ended[1:]), remote.Process{State: driver.Waiting}), nil, ""},
	} {
		if got := failing(test.all, test.came, 2); got != test.want {
			t.Errorf("%d, %v: %q", len(test.all), test.came, got)
		}
	}
}

// A machine that fetches no program says why, and takes itself off its group: another one would fail as well.
func TestABootThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	r := l.request(t, 1, 2)
	p := drivertest.Program(t)
	p.SHA256 = strings.Repeat("0", 64)
	r.Run.Programs = onlyProgram(p)
	h, err := l.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	all := until(t, l, h, "both have ended", are("0 ended", "1 ended"))
	if all[0].Reason != "it never came up: the program of drover could not be fetched" || !strings.Contains(all[0].Tail, "drover: program not fetched with cat") ||
		all[0].Hint != "See whether the machines' subnets have a way to the bucket, and whether their role may read it." {
		t.Errorf("%+v", all[0])
	}
	if desired, _ := l.Group(groupName(h)); desired != 0 || len(l.Machines()) != 0 {
		t.Errorf("the group has %d, and there are %s", desired, l.Machines())
	}
}

// What EC2 lists late, or has forgotten, is no agent that is lost.
func TestMachinesAreListedLate(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.Late(3)
	h := l.start(t, 1, 0)
	until(t, l, h, "it runs", func(all []driver.Member) bool {
		if len(all) != 1 || !all[0].State.Alive() {
			t.Fatalf("%+v", all)
		}
		return all[0].State == driver.Running
	})
}

// A Stop ends those that never began, also where a machine is still waited for.
func TestAStopEndsWhatWaits(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.Refuse("InsufficientInstanceCapacity")
	h := l.start(t, 3, 0)
	until(t, l, h, "all wait", are("0 waiting", "1 waiting", "2 waiting"))
	if err := l.Stop(t.Context(), h, time.Minute, false); err != nil {
		t.Fatal(err)
	}
	all := until(t, l, h, "all have ended", are("0 ended", "1 ended", "2 ended"))
	if all[0].Reason != "stopped before it began" {
		t.Errorf("%+v", all[0])
	}
	l.Refuse("")
	if len(l.Machines()) != 0 {
		t.Errorf("there are %s", l.Machines())
	}
}

func TestAMachineThatWasJustLaunchedWaits(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.BreakAMI()
	l.Late(100)
	h := l.start(t, 1, 0)
	if all := until(t, l, h, "it waits", are("0 waiting")); all[0].Reason != "its machine was launched" || !strings.Contains(all[0].Where, "eu-west-1") {
		t.Errorf("%+v", all[0])
	}
	v := view{group: api.GroupState{DesiredCapacity: 1, MaxSize: 1}, name: groupName(h)}
	c, err := l.engine.clients.In(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if all, err := l.engine.waiting(t.Context(), c, v); err != nil || len(all) != 1 || all[0].Reason != "Auto Scaling launches its machine" {
		t.Errorf("%+v, %v", all, err)
	}
}

// A machine that a user has taken off its group is named, and ended by a Stop, also where its group and its record are gone.
func TestADetachedMachineIsNamedAndEnded(t *testing.T) {
	t.Parallel()
	l := newLocated(t)
	l.BreakAMI()
	h := l.start(t, 1, 0)
	lost := l.Machines()[0]
	l.Detach(lost)
	if err := l.Stop(t.Context(), h, 0, false); err != nil {
		t.Fatal(err)
	}
	c, err := l.engine.clients.In(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.RemoveGroup(t.Context(), groupName(h)); err != nil {
		t.Fatal(err)
	}
	for o, err := range l.store.List(t.Context(), "") {
		if err == nil {
			err = l.store.Delete(t.Context(), o.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(l.Machines(), []string{lost}) {
		t.Fatalf("there are %s", l.Machines())
	}
	all, err := l.List(t.Context())
	if err != nil || !slices.Equal(all, []driver.Handle{h}) {
		t.Errorf("%v, %v", all, err)
	}
	if err := l.Stop(t.Context(), h, 0, true); err != nil || len(l.Machines()) != 0 {
		t.Errorf("%v; there are %s", err, l.Machines())
	}
}

func TestAProcessThatIsNoMachineIsTold(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	if _, err := newHost(t.Context(), "drover-x-1"); err == nil || !strings.HasPrefix(err.Error(), "adopt agent: the metadata service does not say which machine this is: ") || fault.Hint(err) != "Unset DROVER_EC2_GROUP." {
		t.Error(err)
	}
	t.Setenv(variableImage, "python:3.13-slim")
	t.Setenv("PATH", t.TempDir())
	if _, err := (&host{}).command(remote.Command{Argv: []string{"drover"}}); err == nil || err.Error() != "start agent: the machine's AMI has no Docker" || fault.Hint(err) != "Use --on ec2/ami, or an AMI with Docker." {
		t.Error(err)
	}
}
