package ec2

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/ec2/api"
	"github.com/drover-run/drover/driver/remote"
)

// Processes gives the machines of a group, those that have ended within the hour, and one process for each machine that the group waits for.
func (e *engine) Processes(ctx context.Context, h driver.Handle, _ []string, k remote.Known) (all []remote.Process, err error) {
	c, _, err := e.clientOfHandle(ctx, h)
	if err != nil {
		return nil, err
	}
	name := groupName(h)
	g, err := c.Group(ctx, name)
	if err != nil {
		return nil, err
	}
	machines, err := c.Instances(ctx, api.Filter{Name: "tag:Name", Value: []string{name}})
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, m := range machines {
		known[m.ID] = true
	}
	came := map[string]bool{} // up as an agent
	var unseen []string
	for _, a := range k.Up {
		came[a.Process] = true
		if !known[a.Process] {
			unseen = append(unseen, a.Process) // what has ended loses its tags
		}
	}
	for some := range slices.Chunk(unseen, 200) {
		more, err := c.Instances(ctx, api.Filter{Name: "instance-id", Value: some})
		if err != nil {
			return nil, err
		}
		machines = append(machines, more...)
	}
	if g == nil {
		g = &api.GroupState{} // deleted: nothing of it is wanted
	}
	v := view{group: *g, name: name, came: came, now: e.now(), region: c.region}
	consoles := mostConsoles
	for _, m := range machines {
		known[m.ID] = true
		p := v.process(m)
		if p.State == driver.Lost || !came[m.ID] && !p.State.Alive() {
			e.addConsole(ctx, c, &p, &consoles)
		}
		all = append(all, p)
	}
	for _, m := range g.Instances { // launched a moment ago: EC2 lists it later
		if !known[m.InstanceId] && m.LifecycleState != "Terminated" {
			all = append(all, remote.Process{Claimant: v.claimant(m.InstanceId), State: driver.Waiting, Code: -1, Reason: "its machine was launched", Where: m.InstanceType + " in " + m.AvailabilityZone})
		}
	}
	more, err := e.waiting(ctx, c, v)
	if err != nil {
		return nil, err
	}
	words := failing(all, came, v.group.MaxSize)
	if words == "" { // else the end of the machines is near, and stays where it is
		if err := e.attend(ctx, c, v, len(more) > 0); err != nil { // a user that may only look has others do it
			words = err.Error()
		}
	}
	for i := range more {
		if words != "" {
			more[i].Reason += "; " + words
		}
	}
	return append(all, more...), nil
}

// failing says that machines end before an agent comes up, where many have and none did otherwise: those in their place will too. "": it is not so.
func failing(all []remote.Process, came map[string]bool, most int) string {
	if len(came) > 0 {
		return ""
	}
	last, n := "", 0
	for _, p := range all {
		if !p.State.Alive() {
			last, n = p.Reason, n+1
		}
	}
	if n < manyTries*max(most, 1) {
		return ""
	}
	return fmt.Sprintf("%d machines have ended before an agent came up, the last one: %s", n, last)
}

// manyTries is how many machines may fail for each that is wanted, before their end is not moved on any more.
const manyTries = 3

// view is a group at one moment.
type view struct {
	group  api.GroupState
	name   string
	came   map[string]bool // machines with agents, by their ids
	now    time.Time
	region string
}

// claimant is a machine as it names itself in the records.
func (v view) claimant(id string) remote.Claimant {
	return remote.Claimant{ID: v.name, Index: remote.Anywhere, Attempt: 1, Process: id}
}

// stopped says whether a Stop has set the group to no machines.
func (v view) stopped() bool { return v.group.Tagged(tagStopped) != "" }

// expired says whether the group's scheduled action has.
func (v view) expired() bool {
	return v.group.Raised() && v.group.DesiredCapacity == 0 && !v.stopped()
}

const expiredWords = "its group was ended by AWS: no agent and no command has moved the end on for an hour"

// process is a machine as package remote sees it.
func (v view) process(m api.Instance) remote.Process {
	p := remote.Process{Claimant: v.claimant(m.ID), Code: -1, Where: whereOf(m)}
	switch m.State {
	case "pending":
		p.State, p.Reason = driver.Waiting, "its machine boots"
		return p
	case "running":
		p.State, p.Reason = driver.Running, "its agent comes up"
		if late := v.now.Sub(m.Launched); !v.came[m.ID] && late > bootTime {
			p.State, p.Reason = driver.Waiting, fmt.Sprintf("its machine runs for %s, and no agent has come up on it: its end is %s away at most", late.Round(time.Minute), aliveTime)
			p.Hint = "See what it printed: aws ec2 get-console-output --latest --output text --region " + v.region + " --instance-id " + m.ID + "."
		} else if v.came[m.ID] {
			p.Reason = ""
		}
		return p
	case "stopping", "stopped":
		p.State, p.Reason = driver.Lost, "its machine was stopped in EC2"
		return p
	}
	p.Reason = strings.TrimSuffix(m.Words, ".")
	switch m.Why {
	case "Server.SpotInstanceTermination", "Server.SpotInstanceShutdown":
		p.State, p.Reason = driver.Taken, "AWS has taken its machine away: spot capacity"
	case "Server.InsufficientInstanceCapacity", "Server.InternalError", "Server.ScheduledStop":
		p.State, p.Reason = driver.Taken, "AWS has ended its machine: "+m.Why
	case "Client.InstanceInitiatedShutdown":
		p.State, p.Reason = driver.Lost, "its machine has shut down without a word of its agent"
		if !v.came[m.ID] {
			p.State, p.Reason = driver.Ended, "its machine has shut down before an agent came up"
		}
	case "Client.UserInitiatedShutdown":
		p.State, p.Terminated, p.Reason = driver.Ended, true, "its machine was terminated in EC2"
		if v.stopped() {
			p.Reason = "stopped: killed at once"
		} else if v.expired() && !v.came[m.ID] { // it may have ended itself: its group has none then too
			p.Terminated, p.Reason = false, "its machine was ended before an agent came up"
		} else if v.expired() {
			p.State, p.Terminated, p.Reason = driver.Taken, false, expiredWords
		}
	default: // a volume, a snapshot, a key that is missing
		p.State = driver.Ended
		if v.came[m.ID] {
			p.State = driver.Lost
		}
	}
	return p
}

// whereOf is a machine for people.
func whereOf(m api.Instance) string {
	bought := "on demand"
	if m.Lifecycle == "spot" {
		bought = "spot"
	}
	return strings.Join([]string{m.ID, m.Type, m.Zone, bought}, ", ")
}

// emptyPrefix begins the names of processes that have no machine.
const emptyPrefix = "none-"

// waiting are the processes that have no machine: those that the group still asks for, and, once it asks for none, those that never had one.
func (e *engine) waiting(ctx context.Context, c *client, v view) (all []remote.Process, err error) {
	missing := v.group.DesiredCapacity
	for _, m := range v.group.Instances {
		if !strings.HasPrefix(m.LifecycleState, "Terminat") {
			missing--
		}
	}
	p := remote.Process{State: driver.Waiting, Code: -1, Reason: "Auto Scaling launches its machine"}
	count := max(missing, 0)
	switch {
	case v.group.DesiredCapacity == 0:
		count = v.group.MaxSize
		if p.State, p.Terminated, p.Reason = driver.Ended, true, "stopped before it began"; v.expired() {
			p.State, p.Terminated, p.Reason = driver.Taken, false, expiredWords
		}
	case missing > 0:
		tried, err := c.Activities(ctx, v.name)
		if err != nil { // it is for people
			p.Reason += "; " + err.Error()
		}
		if r, is := refusalOf(tried, c.region); is {
			p.Reason, p.Hint = r.words, r.hint
		}
	}
	for i := range count {
		p.Claimant = v.claimant(emptyPrefix + strconv.Itoa(i))
		p.Attempt = 0 // a machine that has ended comes before it
		all = append(all, p)
	}
	return all, nil
}

// refusal is why a group gets no machine, and what to do about it.
type refusal struct{ words, hint string }

// refusals are what EC2 says when it launches nothing, in the order in which they are looked for. Source: contracts of CreateFleet and RunInstances in
// EC2's API reference, "Error codes", 2026-11.
var refusals = []struct{ code, words, hint string }{
	{"MaxSpotInstanceCountExceeded", "the account's quota of spot capacity is used up", "Ask AWS for more: aws service-quotas list-service-quotas --region %s --service-code ec2 names it, or use --on-demand."},
	{"VcpuLimitExceeded", "the account's quota of on-demand machines is used up", "Ask AWS for more: aws service-quotas list-service-quotas --region %s --service-code ec2 names it."},
	{"InsufficientInstanceCapacity", "EC2 has none of its machines now", "Allow more types, with --machine or --where, or use --spot=first."},
	{"UnfulfillableCapacity", "EC2 has none of its machines now", "Allow more types, with --machine or --where, or use --spot=first."},
	{"SpotMaxPriceTooLow", "spot capacity costs more than an on-demand machine", "Use --on-demand."},
	{"InsufficientFreeAddressesInSubnet", "its subnets have no address left", "Name others: --target-arg subnets=SUBNET --target-arg security-groups=GROUP."},
	{"AuthFailure.ServiceLinkedRoleCreationNotPermitted", "the account has no service-linked role for spot capacity", "Have an administrator make it: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com."},
	{"InvalidAMIID", "its AMI is not there", "Name one that is: --target-arg ami=AMI."},
	{"ParameterNotFound", "the region has no AMI of Amazon's under the public name", "Name one: --target-arg ami=AMI."},
	{"UnauthorizedOperation", "Auto Scaling may not launch its machines", "Have an administrator allow it: the activity of the group names the right."},
}

// refusalOf is the newest reason why machines were not launched, and how often they were not; is is false where the newest launch has succeeded.
func refusalOf(all []api.Activity, region string) (r refusal, is bool) {
	failed := 0
	for _, a := range all {
		switch a.StatusCode {
		case "Failed", "Cancelled":
			failed++
			if r.words == "" {
				r = refusal{words: strings.TrimSuffix(strings.TrimSpace(a.StatusMessage), ".")}
				for _, known := range refusals {
					if strings.Contains(a.StatusMessage, known.code) || strings.Contains(a.StatusMessage, wordsOf[known.code]) && wordsOf[known.code] != "" {
						r.words, r.hint = known.words+": "+r.words, strings.ReplaceAll(known.hint, "%s", region)
						break
					}
				}
			}
		case "Successful":
			if failed == 0 {
				return r, false
			}
		}
	}
	if failed > 1 {
		r.words += fmt.Sprintf(" (tried %d times)", failed)
	}
	return r, failed > 0
}

// wordsOf are how Auto Scaling's activities say some codes, in words.
var wordsOf = map[string]string{
	"MaxSpotInstanceCountExceeded": "Max spot instance count exceeded",
	"VcpuLimitExceeded":            "vCPU capacity than your current vCPU limit",
	"InsufficientInstanceCapacity": "We currently do not have sufficient",
	"UnfulfillableCapacity":        "Could not launch Spot Instances. UnfulfillableCapacity",
}

// mostTail is how much of a machine's console is kept.
const mostTail = 4 << 10

// mostConsoles is how many consoles a look asks for: a thousand machines that never came up say the same.
const mostConsoles = 10

// tail is the end of what a machine printed, asked for until there is something, while left allows.
func (e *engine) tail(ctx context.Context, c *client, id string, left *int) string {
	e.mu.Lock()
	text, known := e.tails[id]
	e.mu.Unlock()
	if known || *left == 0 {
		return text
	}
	*left--
	encoded, err := c.Console(ctx, id)
	if err != nil {
		return "" // it only helps
	}
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if text = strings.TrimSpace(string(decoded)); err != nil || text == "" {
		return ""
	}
	text = text[max(0, len(text)-mostTail):]
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tails[id] = text
	return text
}

// bootSentence is what a machine prints when it begins no agent.
const bootSentence = "drover: this machine begins no agent: "

// addConsole gives a machine that has ended what it printed last, and, where its boot has failed, the boot's own sentence as the
// reason: such a machine has ended itself.
func (e *engine) addConsole(ctx context.Context, c *client, p *remote.Process, left *int) {
	p.Tail = e.tail(ctx, c, p.Process, left)
	if _, after, found := strings.Cut(p.Tail, bootSentence); found {
		line, _, _ := strings.Cut(after, "\n")
		p.State, p.Terminated, p.Reason = driver.Ended, false, strings.TrimSpace(line)
		p.Hint = "See whether the machines' subnets have a way to the bucket, and whether their role may read it."
	}
}
