package ec2

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/ec2/api"
	"github.com/drover-run/drover/driver/ec2/instancetype"
	"github.com/drover-run/drover/fault"
)

// base is what machines stand on in the account.
type base struct {
	account string // "": not known
	profile string // name of the instance profile
	groups  []string
	subnets []subnet
	own     bool   // the subnets are of a set-up's own network, which has a way out
	image   int    // GB of the AMI that was named; 0: Amazon's own
	device  string // the root device of the AMI that was named; "": Amazon's own
	arch    string // its processor; "": as the machines have it
	setup   string // the stack's name; "": there is none
}

type subnet struct {
	id, zone, network string
	free              int  // addresses
	public            bool // machines get public addresses
}

// zones are those with subnets that have addresses left.
func (b base) zones() (all []string) {
	for _, s := range b.subnets {
		if s.free > 0 && !slices.Contains(all, s.zone) {
			all = append(all, s.zone)
		}
	}
	return all
}

// base finds what machines stand on: what the options name, else the project's set-up.
func (e *engine) base(ctx context.Context, c *client, o options, project, at string) (b base, err error) {
	b.profile, b.groups = o.profile, o.groups
	ids := o.subnets
	if b.profile == "" || len(ids) == 0 {
		made, err := c.findSetup(ctx, project, at)
		if err != nil {
			return b, err
		}
		b.account, b.setup = made.account, made.name
		b.profile = cmp.Or(b.profile, made.profile)
		if len(ids) == 0 {
			ids, b.groups, b.own = made.subnets, made.groups, made.own
		}
	}
	if b.profile == "" || len(ids) == 0 {
		return b, fault.New(fault.Denied, "Have it made: `drover target up ec2`; or name your own: `--target-arg profile=NAME --target-arg subnets=SUBNET --target-arg security-groups=GROUP`.", "the project has no role and no network for machines")
	}
	if b.subnets, err = c.subnets(ctx, ids); err != nil {
		return b, err
	}
	if len(b.zones()) == 0 {
		return b, fault.New(fault.Full, "Name other subnets: `--target-arg subnets=SUBNET --target-arg security-groups=GROUP`.", "no subnet for machines has a free address: %s", names(ids))
	}
	if o.ami != "" {
		if err := c.checkAMI(ctx, o.ami, &b); err != nil {
			return b, err
		}
	}
	return b, nil
}

// subnets describes subnets.
func (c *client) subnets(ctx context.Context, ids []string) (all []subnet, err error) {
	var out struct {
		All []struct {
			ID      string `xml:"subnetId"`
			Zone    string `xml:"availabilityZone"`
			Free    int    `xml:"availableIpAddressCount"`
			Network string `xml:"vpcId"`
			Public  bool   `xml:"mapPublicIpOnLaunch"`
		} `xml:"subnetSet>item"`
	}
	err = c.ReadMachines(ctx, "look at the subnets of machines", "DescribeSubnets", struct{ SubnetId []string }{ids}, &out)
	if strings.HasPrefix(amazon.ReadAnswer(err).Code, "InvalidSubnet") {
		return nil, fault.New(fault.Invalid, "Look at those that there are: `aws ec2 describe-subnets --region "+c.region+"`.", "look at the subnets of machines: %s has no subnet %s", c.region, names(ids))
	}
	for _, s := range out.All {
		all = append(all, subnet{s.ID, s.Zone, s.Network, s.Free, s.Public})
	}
	return all, err
}

// checkAMI looks at an image that was named.
func (c *client) checkAMI(ctx context.Context, id string, b *base) error {
	var out struct {
		All []struct {
			Arch   string `xml:"architecture"`
			Device string `xml:"rootDeviceName"`
			Disks  []struct {
				Name string `xml:"deviceName"`
				Size int    `xml:"ebs>volumeSize"`
			} `xml:"blockDeviceMapping>item"`
		} `xml:"imagesSet>item"`
	}
	err := c.ReadMachines(ctx, "look at the AMI", "DescribeImages", struct{ ImageId []string }{[]string{id}}, &out)
	if strings.HasPrefix(amazon.ReadAnswer(err).Code, "InvalidAMIID") || err == nil && len(out.All) == 0 {
		return fault.New(fault.Invalid, "An AMI is of one region: copy it there, `aws ec2 copy-image`, or name another.", "look at the AMI: %s has no %s", c.region, id)
	}
	if err != nil {
		return err
	}
	for _, d := range out.All[0].Disks {
		if d.Name == out.All[0].Device {
			b.image = d.Size
		}
	}
	b.device, b.arch = out.All[0].Device, instancetype.Architectures[out.All[0].Arch]
	return nil
}

// chooseIn gives the types and zones for needs.
func (e *engine) chooseIn(ctx context.Context, c *client, n driver.Needs, o options, b base, spot bool) (k instancetype.Choice, err error) {
	all, err := e.readTypes(ctx, c)
	if err != nil {
		return k, err
	}
	if k, err = instancetype.Choose(all, instancetype.Wish{Needs: n, Spot: spot, Region: c.region, Zones: b.zones(), Named: o.zones}); err != nil {
		return k, err
	}
	if b.arch != "" && b.arch != k.Arch() {
		return k, fault.New(fault.Invalid, "Name an AMI for "+k.Arch()+", or machines for "+b.arch+": `--where 'arch == "+b.arch+"'`.", "%s is for %s, and %s is %s", o.ami, b.arch, k.Types[0].Name, k.Arch())
	}
	return k, nil
}

// routeTable is where a network sends what leaves a subnet.
type routeTable struct {
	Network string `xml:"vpcId"`
	Of      []struct {
		Subnet string `xml:"subnetId"`
		Main   bool   `xml:"main"`
	} `xml:"associationSet>item"`
	Routes []struct {
		To      string `xml:"destinationCidrBlock"`
		Gateway string `xml:"gatewayId"`
		State   string `xml:"state"`
	} `xml:"routeSet>item"`
}

// isOf says whether a table is that of a subnet, by its name or as the main one of its network.
func (r routeTable) isOf(s subnet, main bool) bool {
	for _, of := range r.Of {
		if !main && of.Subnet == s.id || main && of.Main && r.Network == s.network {
			return true
		}
	}
	return false
}

// waysOut says which subnets have no way to AWS and the bucket, as far as the routes tell; a user that may not look is told nothing.
func (c *client) waysOut(ctx context.Context, all []subnet) (notes []string, err error) {
	var networks []string
	for _, s := range all {
		if !slices.Contains(networks, s.network) {
			networks = append(networks, s.network)
		}
	}
	var out struct {
		Tables []routeTable `xml:"routeTableSet>item"`
	}
	err = c.ReadMachines(ctx, "look at the routes of subnets", "DescribeRouteTables", struct{ Filter []api.Filter }{[]api.Filter{{Name: "vpc-id", Value: networks}}}, &out)
	if err != nil {
		if fault.KindOf(err) == fault.Denied {
			err = nil
		}
		return nil, err
	}
	for _, s := range all {
		i := slices.IndexFunc(out.Tables, func(r routeTable) bool { return r.isOf(s, false) })
		if i < 0 {
			i = slices.IndexFunc(out.Tables, func(r routeTable) bool { return r.isOf(s, true) })
		}
		if i < 0 {
			continue
		}
		gateway, found := "", false
		for _, r := range out.Tables[i].Routes {
			if r.To == "0.0.0.0/0" && r.State != "blackhole" {
				gateway, found = r.Gateway, true
			}
		}
		switch {
		case !found:
			notes = append(notes, s.id+" has no route out of its network: its machines begin no agent unless there are endpoints of S3 and Auto Scaling")
		case strings.HasPrefix(gateway, "igw-") && !s.public:
			notes = append(notes, s.id+" gives its machines no public address, and leads to the Internet by one alone: they begin no agent unless there are endpoints of S3 and Auto Scaling")
		}
	}
	return notes, nil
}
