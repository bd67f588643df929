package ec2

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/ec2/api"
	"github.com/drover-run/drover/driver/ec2/instancetype"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// aliveTime is how long the machines of a group live after the last sign of drover.
const aliveTime = time.Hour

// Submit makes a placement's launch template and group. The group has no machines until its scheduled end is set: whatever is
// cut off here leaves nothing that runs. Each step is found again by its name.
func (e *engine) Submit(ctx context.Context, s remote.Submission) ([]string, error) {
	at, err := parseSite(s.Handle.Detail)
	if err != nil {
		return nil, err
	}
	c, err := e.clients.In(ctx, at.region)
	if err != nil {
		return nil, err
	}
	o, err := parseOptions(s.Request.Needs.Args)
	if err != nil {
		return nil, err
	}
	b, err := e.base(ctx, c, o, projectOf(s.Request), s.Request.Run.Store)
	if err != nil {
		return nil, err
	}
	spot := isSpot(s.Request.Needs)
	k, err := e.chooseIn(ctx, c, s.Request.Needs, o, b, spot)
	if err != nil {
		return nil, err
	}
	if err := e.notePlace(at); err != nil {
		return nil, err
	}
	in, err := c.template(ctx, s, at, o, b, k, e.now())
	if err != nil {
		return nil, err
	}
	if len(s.Secrets) > 0 {
		if err := c.secrets.Store(ctx, secretName(s.Handle), s.Secrets); err != nil {
			return nil, err
		}
	}
	name := groupName(s.Handle)
	until := e.now().Add(max(o.wait, aliveTime))
	made := c.Expecting() // else machines could be without an end
	steps := []func() error{
		func() error { return c.CreateTemplate(ctx, in) },
		func() error { return c.CreateGroup(ctx, newGroup(s, o, b, k, until, spot)) },
		func() error {
			return made.Change(ctx, "keep the group from moving machines that work", "SuspendProcesses", struct {
				AutoScalingGroupName string
				ScalingProcesses     []string
			}{name, []string{"AZRebalance"}})
		},
		func() error { return made.EndAt(ctx, name, until) },
		func() error { return made.Resize(ctx, name, s.Request.Agents, s.Request.Agents) },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return nil, remote.Undo(err, func() bool { return c.takeBack(ctx, s.Handle, i) })
		}
	}
	return []string{name}, nil
}

// takeBack takes away what a refused Submit has made in so many steps, unless another command has started the placement. It says whether nothing is left.
func (c *client) takeBack(ctx context.Context, h driver.Handle, steps int) bool {
	name := groupName(h)
	if steps > 1 {
		if g, err := c.Group(ctx, name); err != nil || g != nil && g.Raised() {
			return false
		}
		if err := c.RemoveGroup(ctx, name); err != nil {
			return false
		}
	}
	if steps > 0 {
		if err := c.RemoveTemplate(ctx, name); err != nil {
			return false
		}
	}
	return c.secrets.Remove(ctx, secretName(h)) == nil
}

// isSpot says whether machines are spot capacity: they are where nothing was said.
func isSpot(n driver.Needs) bool { return n.Spot != job.SpotNever }

// newGroup is the request for a group without machines.
func newGroup(s remote.Submission, o options, b base, k instancetype.Choice, until time.Time, spot bool) api.Group {
	zero, yes, no := 0, true, false
	g := api.Group{AutoScalingGroupName: groupName(s.Handle), MinSize: &zero, MaxSize: &zero, DesiredCapacity: &zero, CapacityRebalance: &no, NewInstancesProtectedFromScaleIn: &no}
	var in []string
	for _, n := range b.subnets {
		if slices.Contains(k.Zones, n.zone) {
			in = append(in, n.id)
		}
	}
	g.VPCZoneIdentifier, g.PlacementGroup = strings.Join(in, ","), o.cluster
	share := 100
	if spot {
		share = 0
	}
	p := api.MixedPolicy{InstancesDistribution: api.Distribution{OnDemandAllocationStrategy: "lowest-price", OnDemandBaseCapacity: &zero, OnDemandPercentageAboveBaseCapacity: &share, SpotAllocationStrategy: "price-capacity-optimized"}}
	p.LaunchTemplate = &api.Overrides{}
	p.LaunchTemplate.LaunchTemplateSpecification = api.TemplateVersion{LaunchTemplateName: groupName(s.Handle), Version: "1"}
	for _, m := range k.Types {
		p.LaunchTemplate.Overrides = append(p.LaunchTemplate.Overrides, api.Override{InstanceType: m.Name})
	}
	g.MixedInstancesPolicy = &p
	for _, t := range tags(s.Request.Needs.Labels) {
		g.Tags = append(g.Tags, api.GroupTag{Key: t.Key, Value: t.Value, PropagateAtLaunch: &yes})
	}
	own := []api.Tag{{Key: tagUntil, Value: strconv.FormatInt(until.Unix(), 10)}}
	if s.Request.Needs.Spot == job.SpotFirst {
		own = append(own, api.Tag{Key: tagFirst, Value: "yes"})
	}
	for _, t := range own {
		g.Tags = append(g.Tags, api.GroupTag{Key: t.Key, Value: t.Value, PropagateAtLaunch: &no})
	}
	return g
}

// The images of machines, by AWS's public parameters: with Docker, with Docker and what GPUs need, and with neither. The words
// ARCH and GPU stand for parts that follow from the machines.
const (
	amiDocker    = "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/%srecommended/image_id"
	amiBare      = "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-%s"
	amiBareGPU   = "resolve:ssm:/aws/service/deeplearning/ami/%s/oss-nvidia-driver-gpu-pytorch-2.7-amazon-linux-2023/latest/ami-id"
	rootDevice   = "/dev/xvda" // of Amazon's own
	machineDisk  = 40          // GB beside the program's, for the system and images
	gpuDisk      = 120         // the same with Amazon's Deep Learning AMI
	imageRoom    = 10          // GB above the size of an AMI that was named
	mostUserData = 16 << 10    // EC2's limit
)

// amiOf is the image of machines.
func amiOf(o options, bare bool, k instancetype.Choice) string {
	names := map[string]string{"amd64": "x86_64", "arm64": "arm64"}
	switch {
	case o.ami != "":
		return o.ami
	case bare && k.GPUs():
		return fmt.Sprintf(amiBareGPU, names[k.Arch()])
	case bare:
		return fmt.Sprintf(amiBare, names[k.Arch()])
	case k.GPUs():
		return fmt.Sprintf(amiDocker, "gpu/")
	case k.Arch() == "arm64":
		return fmt.Sprintf(amiDocker, "arm64/")
	}
	return fmt.Sprintf(amiDocker, "")
}

// diskOf is the size of a machine's disk, in GB: EC2 refuses one that is smaller than its image's.
func diskOf(n driver.Needs, bare bool, b base, k instancetype.Choice) int {
	own := max(machineDisk, b.image+imageRoom)
	if bare && k.GPUs() && b.image == 0 {
		own = gpuDisk
	}
	return own + int((n.Disk+1e9-1)/1e9)
}

// template is the request for a launch template.
func (c *client) template(ctx context.Context, s remote.Submission, at site, o options, b base, k instancetype.Choice, now time.Time) (in api.Template, err error) {
	script, err := userData(ctx, s, at, c.region, k, o, now)
	if err != nil {
		return in, err
	}
	if len(script) > mostUserData {
		return in, fault.New(fault.Invalid, "Use a store with a shorter name.", "start agents: what a machine is told has %d bytes, and EC2 takes %d", len(script), mostUserData)
	}
	yes := true
	in.LaunchTemplateName = groupName(s.Handle)
	d := &in.LaunchTemplateData
	d.ImageId, d.UserData, d.InstanceInitiatedShutdownBehavior = amiOf(o, at.bare, k), base64.StdEncoding.EncodeToString([]byte(script)), "terminate"
	d.IamInstanceProfile.Name = b.profile
	d.MetadataOptions.HttpTokens, d.MetadataOptions.HttpPutResponseHopLimit = "required", 1
	d.SecurityGroupId = b.groups
	device := api.BlockDevice{DeviceName: cmp.Or(b.device, rootDevice)}
	device.Ebs.VolumeSize, device.Ebs.VolumeType, device.Ebs.DeleteOnTermination, device.Ebs.Encrypted = diskOf(s.Request.Needs, at.bare, b, k), "gp3", true, &yes
	d.BlockDeviceMapping = []api.BlockDevice{device}
	own := tags(s.Request.Needs.Labels)
	d.TagSpecification = []api.TagSpecification{{ResourceType: "instance", Tag: append(slices.Clone(own), api.Tag{Key: "Name", Value: in.LaunchTemplateName})}, {ResourceType: "volume", Tag: own}}
	in.TagSpecification = []api.TagSpecification{{ResourceType: "launch-template", Tag: own}}
	return in, nil
}
