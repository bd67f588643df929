// Package api sends what the driver of EC2 asks of EC2 and Auto Scaling: requests and answers as structs with the members that it needs,
// each operation until its answer is clear.
//
// It refuses to know placements and agents. The tests of package ec2 prove it, over a fake, and moto.
package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/awsquery"
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// Client sends requests to both services in one region.
type Client struct {
	machines, groups awsquery.Caller
	send             amazon.Sender
	region           string
	expects          bool // groups to be there
}

// New makes the client of a sender's account. It sends nothing.
func New(send amazon.Sender) *Client {
	return &Client{machines: awsquery.Caller{Service: ofMachines, Account: send.Account}, groups: awsquery.Caller{Service: ofGroups, Account: send.Account}, send: send, region: send.Account.Config.Region}
}

// The services. Source of operations, members and codes: the API references of EC2 (2016-11-15) and Auto Scaling (2011-01-01), 2026-11.
var (
	ofMachines = awsquery.Service{Name: "ec2", ID: "EC2", Version: "2016-11-15", Flat: true}
	ofGroups   = awsquery.Service{Name: "autoscaling", ID: "AUTO_SCALING", Version: "2011-01-01"}
)

// Tag is a tag of a thing that is made.
type Tag struct{ Key, Value string }

// Filter is one of a list of things.
type Filter struct {
	Name  string
	Value []string
}

// Template is a request for a launch template.
type Template struct {
	LaunchTemplateName string
	LaunchTemplateData TemplateData
	TagSpecification   []TagSpecification
}

// TemplateData is what a launch template says of machines.
type TemplateData struct {
	ImageId, UserData, InstanceInitiatedShutdownBehavior string
	IamInstanceProfile                                   struct{ Name string }
	MetadataOptions                                      struct {
		HttpTokens              string
		HttpPutResponseHopLimit int
	}
	BlockDeviceMapping []BlockDevice
	SecurityGroupId    []string
	TagSpecification   []TagSpecification
}

// TagSpecification are the tags of what is made with a launch template, or of itself.
type TagSpecification struct {
	ResourceType string
	Tag          []Tag
}

// BlockDevice is a disk of machines.
type BlockDevice struct {
	DeviceName string
	Ebs        struct {
		VolumeSize          int
		VolumeType          string
		DeleteOnTermination bool
		Encrypted           *bool
	}
}

// Group is a request for an Auto Scaling group.
type Group struct {
	AutoScalingGroupName              string
	MinSize, MaxSize, DesiredCapacity *int
	VPCZoneIdentifier, PlacementGroup string
	CapacityRebalance                 *bool
	NewInstancesProtectedFromScaleIn  *bool
	MixedInstancesPolicy              *MixedPolicy
	Tags                              []GroupTag
}

// GroupTag is a tag of a group, which its machines may get.
type GroupTag struct {
	Key, Value        string
	PropagateAtLaunch *bool
	ResourceId        string
	ResourceType      string
}

// MixedPolicy says which machines a group launches, and how they are bought.
type MixedPolicy struct {
	LaunchTemplate        *Overrides
	InstancesDistribution Distribution
}

// Overrides are the types that a group may launch with a launch template.
type Overrides struct {
	LaunchTemplateSpecification TemplateVersion
	Overrides                   []Override
}

// TemplateVersion is one version of a launch template.
type TemplateVersion struct{ LaunchTemplateName, Version string }

// Override is one type.
type Override struct{ InstanceType string }

// Distribution says how machines are bought.
type Distribution struct {
	OnDemandAllocationStrategy          string
	OnDemandBaseCapacity                *int
	OnDemandPercentageAboveBaseCapacity *int
	SpotAllocationStrategy              string
}

// GroupState is what Auto Scaling says of a group.
type GroupState struct {
	AutoScalingGroupName     string
	MaxSize, DesiredCapacity int
	Status                   string         // that it is being deleted; "": it is not
	Instances                []GroupMachine `xml:"Instances>member"`
	Tags                     []Tag          `xml:"Tags>member"`
}

// GroupMachine is a machine as its group has it.
type GroupMachine struct {
	InstanceId, InstanceType, AvailabilityZone, LifecycleState string
}

// Raised says whether a group was given a size after it was made: then it may have machines.
func (g GroupState) Raised() bool { return g.MaxSize > 0 }

// Tagged is the value of a tag; "": it has none.
func (g GroupState) Tagged(key string) string {
	for _, t := range g.Tags {
		if t.Key == key {
			return t.Value
		}
	}
	return ""
}

// Activity is what a group has done, or tried.
type Activity struct {
	StatusCode, StatusMessage string
}

// Instance is what EC2 says of a machine.
type Instance struct {
	ID        string    `xml:"instanceId"`
	Type      string    `xml:"instanceType"`
	State     string    `xml:"instanceState>name"`
	Why       string    `xml:"stateReason>code"`
	Words     string    `xml:"stateReason>message"`
	Zone      string    `xml:"placement>availabilityZone"`
	Lifecycle string    `xml:"instanceLifecycle"` // "spot"; "": on demand
	Launched  time.Time `xml:"launchTime"`
	Tags      []TagItem `xml:"tagSet>item"`
}

// TagItem is a tag as EC2 answers it.
type TagItem struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

// ReadMachines sends EC2 a request that changes nothing more the second time.
func (c *Client) ReadMachines(ctx context.Context, doing, operation string, in, out any) error {
	return c.send.Read(ctx, doing, func(ctx context.Context) error { return c.machines.Call(ctx, operation, in, out) })
}

// readGroups is the same for Auto Scaling.
func (c *Client) readGroups(ctx context.Context, doing, operation string, in, out any) error {
	return c.send.Read(ctx, doing, func(ctx context.Context) error { return c.groups.Call(ctx, operation, in, out) })
}

// CreateTemplate makes a launch template, unless there is one of its name.
func (c *Client) CreateTemplate(ctx context.Context, in Template) error {
	there := false
	err := c.send.Read(ctx, "create the launch template", func(ctx context.Context) error {
		err := c.machines.Call(ctx, "CreateLaunchTemplate", in, nil)
		if amazon.ReadAnswer(err).Code == "InvalidLaunchTemplateName.AlreadyExistsException" { // of a request without an answer, or of another command
			there = true
			return nil
		}
		return err
	})
	if err != nil || !there {
		return err
	}
	all, err := c.Templates(ctx, Filter{"launch-template-name", []string{in.LaunchTemplateName}})
	if err == nil && len(all) == 1 && !slices.Contains(all[0].Tags, TagItem{stack.TagManaged, stack.ManagedBy}) {
		return foreign("launch template", in.LaunchTemplateName)
	}
	return err
}

// foreign is the refusal of a thing that only has the name.
func foreign(kind, name string) error {
	return fault.New(fault.Invalid, "Delete it, or type the command again for a job of another name.", "start agents: %s %s is one that drover did not make", kind, name)
}

// LaunchTemplate is what EC2 says of one.
type LaunchTemplate struct {
	Name string    `xml:"launchTemplateName"`
	Tags []TagItem `xml:"tagSet>item"`
}

// Templates gives launch templates by a filter.
func (c *Client) Templates(ctx context.Context, filters ...Filter) (all []LaunchTemplate, err error) {
	in := struct {
		Filter    []Filter
		NextToken string
	}{Filter: filters}
	for {
		var out struct {
			All  []LaunchTemplate `xml:"launchTemplates>item"`
			Next string           `xml:"nextToken"`
		}
		if err := c.ReadMachines(ctx, "look for launch templates", "DescribeLaunchTemplates", in, &out); err != nil {
			return nil, err
		}
		all = append(all, out.All...)
		if in.NextToken = out.Next; in.NextToken == "" {
			return all, nil
		}
	}
}

// CreateGroup makes a Group, unless there is one of its name.
func (c *Client) CreateGroup(ctx context.Context, in Group) error {
	there := false
	err := c.send.Read(ctx, "create the Auto Scaling group", func(ctx context.Context) error {
		err := c.groups.Call(ctx, "CreateAutoScalingGroup", in, nil)
		if amazon.ReadAnswer(err).Code == "AlreadyExists" { // as above
			there = true
			return nil
		}
		return err
	})
	if err != nil || !there {
		return err
	}
	g, err := c.Group(ctx, in.AutoScalingGroupName)
	if err == nil && g != nil && g.Tagged(stack.TagManaged) != stack.ManagedBy {
		return foreign("Auto Scaling group", in.AutoScalingGroupName)
	}
	return err
}

// Group gives a group; nil: there is none, or it is being deleted.
func (c *Client) Group(ctx context.Context, name string) (*GroupState, error) {
	all, err := c.Groups(ctx, GroupQuery{AutoScalingGroupNames: []string{name}})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// GroupQuery asks for groups.
type GroupQuery struct {
	AutoScalingGroupNames []string
	Filters               []GroupFilter
	NextToken             string
	MaxRecords            int
}

// GroupFilter is one of groups.
type GroupFilter struct {
	Name   string
	Values []string
}

// Groups gives groups that are not being deleted.
func (c *Client) Groups(ctx context.Context, in GroupQuery) (all []GroupState, err error) {
	in.MaxRecords = 100
	for {
		var out struct {
			Groups []GroupState `xml:"DescribeAutoScalingGroupsResult>AutoScalingGroups>member"`
			Next   string       `xml:"DescribeAutoScalingGroupsResult>NextToken"`
		}
		if err := c.readGroups(ctx, "describe the Auto Scaling group", "DescribeAutoScalingGroups", in, &out); err != nil {
			return nil, err
		}
		for _, g := range out.Groups {
			if g.Status == "" {
				all = append(all, g)
			}
		}
		if in.NextToken = out.Next; in.NextToken == "" {
			return all, nil
		}
	}
}

// Activities gives the newest of a Group, newest first.
func (c *Client) Activities(ctx context.Context, name string) ([]Activity, error) {
	var out struct {
		All []Activity `xml:"DescribeScalingActivitiesResult>Activities>member"`
	}
	in := struct {
		AutoScalingGroupName string
		MaxRecords           int
	}{name, 20}
	err := c.readGroups(ctx, "read what the Auto Scaling group has done", "DescribeScalingActivities", in, &out)
	return out.All, err
}

// Instances gives machines by a Filter, also those that have ended within the hour.
func (c *Client) Instances(ctx context.Context, filters ...Filter) (all []Instance, err error) {
	in := struct {
		Filter     []Filter
		MaxResults int
		NextToken  string
	}{filters, 1000, ""}
	for {
		var out struct {
			All  []Instance `xml:"reservationSet>item>instancesSet>item"`
			Next string     `xml:"nextToken"`
		}
		if err := c.ReadMachines(ctx, "describe machines", "DescribeInstances", in, &out); err != nil {
			return nil, err
		}
		all = append(all, out.All...)
		if in.NextToken = out.Next; in.NextToken == "" {
			return all, nil
		}
	}
}

// Expecting is a client to which a group that is not there is an error.
func (c *Client) Expecting() *Client {
	s := *c
	s.expects = true
	return &s
}

// Change sends a change of a group that may be sent again. A group that is not there is no error, but for Expecting.
func (c *Client) Change(ctx context.Context, doing, operation string, in any) error {
	err := c.readGroups(ctx, doing, operation, in, nil)
	if a := amazon.ReadAnswer(err); !c.expects && a.Code == "ValidationError" && (strings.Contains(a.Reason, "not found") || strings.Contains(a.Reason, "does not exist")) {
		return nil
	}
	return err
}

// Resize sets how many machines a group has, and may have; -1: it stays.
func (c *Client) Resize(ctx context.Context, name string, most, desired int) error {
	in := Group{AutoScalingGroupName: name, DesiredCapacity: &desired}
	if most >= 0 {
		in.MaxSize = &most
	}
	return c.Change(ctx, "set how many machines there are", "UpdateAutoScalingGroup", in)
}

// actionName is the name of the scheduled action that ends all machines.
const actionName = "drover-end"

// EndAt sets when Auto Scaling ends all machines of a group.
func (c *Client) EndAt(ctx context.Context, name string, at time.Time) error {
	zero := 0
	return c.Change(ctx, "set when all machines end", "PutScheduledUpdateGroupAction", struct {
		AutoScalingGroupName, ScheduledActionName string
		StartTime                                 time.Time
		MinSize, DesiredCapacity                  *int
	}{name, actionName, at.UTC().Truncate(time.Second), &zero, &zero})
}

// EndMachine ends a machine of a group; fewer: the group has one less from now on. A machine that is not there is no error.
func (c *Client) EndMachine(ctx context.Context, id string, fewer bool) error {
	return c.Change(ctx, "end a machine", "TerminateInstanceInAutoScalingGroup", struct {
		InstanceId                     string
		ShouldDecrementDesiredCapacity *bool
	}{id, &fewer})
}

// tagGroups gives a group a tag.
func (c *Client) TagGroup(ctx context.Context, name, key, value string) error {
	no := false
	return c.Change(ctx, "note that machines are stopped", "CreateOrUpdateTags", struct{ Tags []GroupTag }{[]GroupTag{{key, value, &no, name, "auto-scaling-group"}}})
}

// RemoveGroup deletes a group with its machines.
func (c *Client) RemoveGroup(ctx context.Context, name string) error {
	return c.Change(ctx, "delete the Auto Scaling group", "DeleteAutoScalingGroup", struct {
		AutoScalingGroupName string
		ForceDelete          bool
	}{name, true})
}

// RemoveTemplate deletes a launch template, if there is one.
func (c *Client) RemoveTemplate(ctx context.Context, name string) error {
	err := c.ReadMachines(ctx, "delete the launch template", "DeleteLaunchTemplate", struct{ LaunchTemplateName string }{name}, nil)
	if strings.HasPrefix(amazon.ReadAnswer(err).Code, "InvalidLaunchTemplateName.NotFound") {
		return nil
	}
	return err
}

// Console is what a machine printed, as far as EC2 has kept it; "": nothing yet.
func (c *Client) Console(ctx context.Context, id string) (string, error) {
	var out struct {
		Output string `xml:"output"` // in base64
	}
	type query struct {
		InstanceId string
		Latest     *bool
	}
	latest := true
	for _, in := range []query{{id, &latest}, {id, nil}} { // older types have but what was printed some minutes ago
		err := c.ReadMachines(ctx, "read a machine's console", "GetConsoleOutput", in, &out)
		if amazon.ReadAnswer(err).Status != http.StatusBadRequest {
			return out.Output, err
		}
	}
	return "", nil // the machine is forgotten
}
