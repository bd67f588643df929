package ec2

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/quota"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/ec2/instancetype"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// Offer looks for the project's set-up, chooses types of machines, and changes nothing. Without an account in this machine's
// configuration it sends nothing.
func (d *Driver) Offer(ctx context.Context, n driver.Needs) (o driver.Offer, err error) {
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	opts, err := parseOptions(n.Args)
	if err != nil {
		return o, err
	}
	at, err := parseSite(n.Detail)
	if err != nil {
		return o, err
	}
	if have := amazon.Configured(ctx, amazon.Options{Region: at.region}); !have.OK() {
		o.Reason, o.Hint = have.Missing, have.Fix
		return o, nil
	}
	c, err := d.engine.clients.In(ctx, at.region)
	if err != nil {
		return o, err
	}
	at.region = c.region
	o.Machine = "EC2 in " + c.region
	made, project := setupOf{}, n.Labels["project"]
	address := ""
	if d.stores != nil {
		s, err := d.stores(ctx)
		if err != nil {
			return o, err
		}
		address = s.String()
		if made, err = c.findSetup(ctx, project, address); err != nil {
			return o, err
		}
	}
	o.Registry = made.images(c).Prefix()
	if at.account != "" && made.account != "" && at.account != made.account {
		return o, fault.New(fault.Denied, "Use credentials of account "+at.account+": `AWS_PROFILE`.", "the job is in account %s, and the project's set-up is in account %s", at.account, made.account)
	}
	if at.account == "" {
		at.account = made.account
	}
	o.Detail = at.String()
	if n.Agents == 0 {
		o.Fits = true
		return o, nil
	}
	err = d.engine.fill(ctx, c, &o, n, opts, at, project, address)
	if kind := fault.KindOf(err); err != nil && kind != fault.Full && kind != fault.Denied && kind != fault.Invalid {
		return o, err
	}
	if err != nil {
		o.Reason, o.Hint = err.Error(), fault.Hint(err)
		return o, nil
	}
	o.Fits = true
	return o, nil
}

// fill completes an offer for needs. Its refusals are for the plan.
func (e *engine) fill(ctx context.Context, c *client, o *driver.Offer, n driver.Needs, opts options, at site, project, address string) error {
	spot := isSpot(n)
	if err := check(n, at); err != nil {
		return err
	}
	b, err := e.base(ctx, c, opts, project, address)
	if err != nil {
		return err
	}
	k, err := e.chooseIn(ctx, c, n, opts, b, spot)
	if err != nil {
		return err
	}
	if !at.bare && opts.ami == "" && k.GPUs() && k.Arch() == "arm64" {
		return fault.New(fault.Invalid, "Use `--on ec2/ami`, or name an AMI with Docker: `--target-arg ami=AMI`.", "Amazon has no AMI with Docker for machines of arm64 with GPUs")
	}
	o.System, o.Machine, o.Spot = "linux/"+k.Arch(), "EC2: "+k.Words(), spot
	o.Cores, o.Memory = k.Types[0].CPUs*n.Agents, int64(k.Types[0].Memory)<<20*int64(n.Agents)
	o.Identity = "the role of the instance profile " + b.profile
	limited, err := c.checkQuota(ctx, n, k, spot)
	if err != nil {
		return err
	}
	o.Notes = notes(n, k, opts, spot, diskOf(n, at.bare, b, k))
	if !b.own {
		ways, err := c.waysOut(ctx, b.subnets)
		if err != nil {
			return err
		}
		o.Notes = append(o.Notes, ways...)
	}
	if limited != "" {
		o.Notes = append(o.Notes, limited)
	}
	if spot {
		if o.Price, err = c.spotPrice(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// check holds needs against what EC2 has. Its errors are refusals in words for the plan.
func check(n driver.Needs, at site) error {
	switch {
	case at.bare && n.Place.Image != "":
		return fault.New(fault.Invalid, "Leave out `--image`, or use `--on ec2`.", "agents on ec2/ami run on the machine as it is, and in no image")
	case len(n.Place.Mounts) > 0:
		return fault.New(fault.Invalid, "Give it as an input: `-i FOLDER`.", "machines of EC2 see no folder of this machine: --mount %s", n.Place.Mounts[0].Source)
	case n.Disk > 16e12-machineDisk*1e9:
		return fault.New(fault.Invalid, "Ask for less: `--disk`.", "a disk of EC2 has 16 TB at most")
	}
	return nil
}

// fewTypes is how many types AWS advises for spot capacity.
const fewTypes = 10

// notes are what a user may not expect of the offer.
func notes(n driver.Needs, k instancetype.Choice, o options, spot bool, disk int) (all []string) {
	all = append(all, fmt.Sprintf("each agent has a machine alone, with a disk of %d GB", disk))
	if spot && len(k.Types) < fewTypes {
		all = append(all, fmt.Sprintf("spot capacity of few types is taken more often: there are %d to choose from", len(k.Types)))
	}
	if n.Place.Nodes > 1 && len(k.Zones) == 1 {
		all = append(all, "all nodes are in zone "+k.Zones[0]+": --target-arg zones=all says otherwise")
	}
	if n.Spot == job.SpotFirst {
		all = append(all, fmt.Sprintf("after %d minutes without any machine an attached command buys machines on demand", int(firstTime.Minutes())))
	}
	if o.wait > aliveTime {
		all = append(all, fmt.Sprintf("machines may begin up to %s from now, also when no command is attached, and cost at most those hours of %d machines", o.wait, n.Agents))
	}
	lost := "an hour of its machine"
	if n.Agents > 1 {
		lost = fmt.Sprintf("an hour of %d machines", n.Agents)
	}
	return append(all, "AWS ends all machines an hour after the last sign of drover: at the worst "+lost+" is lost")
}

// quotaWait is how long a plan waits for the account's quotas.
const quotaWait = 3 * time.Second

// checkQuota holds needs against what the account may use at once: agents that cannot all run are refused where they are nodes, and noted
// where they are workers. Other machines of the account count too, which nothing tells.
func (c *client) checkQuota(ctx context.Context, n driver.Needs, k instancetype.Choice, spot bool) (note string, err error) {
	send := c.send
	send.Wait = min(send.Wait, quotaWait)
	all, err := quota.List(ctx, send, Name)
	if err != nil {
		return "", ctx.Err() // Auto Scaling says later what it refuses
	}
	var most quota.Quota
	for _, m := range k.Types {
		q, known := quota.OfMachines(all, m.Name, spot)
		if !known {
			return "", nil
		}
		if q.Value >= most.Value {
			most = q
		}
	}
	each, least := float64(k.Types[0].CPUs), 1
	if n.Place.Nodes > 1 {
		least = n.Agents
	}
	wanted := each * float64(n.Agents)
	switch {
	case most.Value >= wanted:
		return "", nil
	case most.Value < each*float64(least):
		return "", fault.New(fault.Full, "Name other types with `--machine`, or ask AWS for more: `"+most.Increase(c.region, wanted)+"`.", "the account's quota %q is %g cores in %s, and the job needs %g", most.Name, most.Value, c.region, each*float64(least))
	}
	return fmt.Sprintf("the account's quota %q is %g cores in %s: at most %d of %d agents run at once", most.Name, most.Value, c.region, int(most.Value/each), n.Agents), nil
}

// spotPrice is what spot capacity of the chosen types costs now at most, where each is cheapest. EC2 launches one of the cheap ones.
func (c *client) spotPrice(ctx context.Context, k instancetype.Choice) (p driver.Price, err error) {
	in := struct {
		InstanceType       []string
		ProductDescription []string
		StartTime          time.Time
		MaxResults         int
	}{nil, []string{"Linux/UNIX"}, time.Now(), 1000}
	for _, m := range k.Types {
		in.InstanceType = append(in.InstanceType, m.Name)
	}
	var out struct {
		All []struct {
			Type  string `xml:"instanceType"`
			Zone  string `xml:"availabilityZone"`
			Price string `xml:"spotPrice"`
		} `xml:"spotPriceHistorySet>item"`
	}
	if err := c.ReadMachines(ctx, "read spot prices", "DescribeSpotPriceHistory", in, &out); err != nil {
		if fault.KindOf(err) == fault.Denied {
			return p, nil
		}
		return p, err
	}
	cheapest := map[string]float64{}
	for _, s := range out.All {
		price, err := strconv.ParseFloat(strings.TrimSpace(s.Price), 64)
		if err != nil || !slices.Contains(k.Zones, s.Zone) {
			continue
		}
		if least, known := cheapest[s.Type]; !known || price < least {
			cheapest[s.Type] = price
		}
	}
	for _, price := range cheapest {
		p.Spot = max(p.Spot, price)
	}
	if p.Spot == 0 {
		return driver.Price{}, nil
	}
	p.Currency, p.Source, p.Day = "USD", "EC2's spot price history, "+c.region+", the dearest of the chosen types", time.Now().UTC().Format(time.DateOnly)
	return p, nil
}
