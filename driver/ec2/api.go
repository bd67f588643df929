package ec2

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/awsquery"
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// The services. Source of operations, members and codes: the API references of EC2 (2016-11-15) and Auto Scaling (2011-01-01), 2026-11.
var (
	ofMachines = awsquery.Service{Name: "ec2", ID: "EC2", Version: "2016-11-15", Flat: true}
	ofGroups   = awsquery.Service{Name: "autoscaling", ID: "AUTO_SCALING", Version: "2011-01-01"}
)

type tag struct{ Key, Value string }

func sortTags(all []tag) {
	slices.SortFunc(all, func(a, b tag) int { return strings.Compare(a.Key, b.Key) })
}

// filter is one of a list of things.
type filter struct {
	Name  string
	Value []string
}

// template is a request for a launch template.
type template struct {
	LaunchTemplateName string
	LaunchTemplateData templateData
	TagSpecification   []tagSpecification
}

type templateData struct {
	ImageId, UserData, InstanceInitiatedShutdownBehavior string
	IamInstanceProfile                                   struct{ Name string }
	MetadataOptions                                      struct {
		HttpTokens              string
		HttpPutResponseHopLimit int
	}
	BlockDeviceMapping []blockDevice
	SecurityGroupId    []string
	TagSpecification   []tagSpecification
}

type tagSpecification struct {
	ResourceType string
	Tag          []tag
}

type blockDevice struct {
	DeviceName string
	Ebs        struct {
		VolumeSize          int
		VolumeType          string
		DeleteOnTermination bool
		Encrypted           *bool
	}
}

// group is a request for an Auto Scaling group.
type group struct {
	AutoScalingGroupName              string
	MinSize, MaxSize, DesiredCapacity *int
	VPCZoneIdentifier                 string
	CapacityRebalance                 *bool
	NewInstancesProtectedFromScaleIn  *bool
	MixedInstancesPolicy              *mixedPolicy
	Tags                              []groupTag
}

type groupTag struct {
	Key, Value        string
	PropagateAtLaunch *bool
	ResourceId        string
	ResourceType      string
}

type mixedPolicy struct {
	LaunchTemplate        *overrides
	InstancesDistribution distribution
}

type overrides struct {
	LaunchTemplateSpecification templateVersion
	Overrides                   []override
}

type templateVersion struct{ LaunchTemplateName, Version string }

type override struct{ InstanceType string }

type distribution struct {
	OnDemandAllocationStrategy          string
	OnDemandBaseCapacity                *int
	OnDemandPercentageAboveBaseCapacity *int
	SpotAllocationStrategy              string
}

// groupState is what Auto Scaling says of a group.
type groupState struct {
	AutoScalingGroupName     string
	MaxSize, DesiredCapacity int
	CreatedTime              time.Time
	Status                   string         // that it is being deleted; "": it is not
	Instances                []groupMachine `xml:"Instances>member"`
	Tags                     []tag          `xml:"Tags>member"`
}

// groupMachine is a machine as its group has it.
type groupMachine struct {
	InstanceId, InstanceType, AvailabilityZone, LifecycleState string
}

// raised says whether the last step of Submit was done: then a group may have machines.
func (g groupState) raised() bool { return g.MaxSize > 0 }

// tagged is the value of a tag; "": it has none.
func (g groupState) tagged(key string) string {
	for _, t := range g.Tags {
		if t.Key == key {
			return t.Value
		}
	}
	return ""
}

// activity is what a group has done, or tried.
type activity struct {
	StatusCode, StatusMessage, Cause string
}

// instance is what EC2 says of a machine.
type instance struct {
	ID        string    `xml:"instanceId"`
	Type      string    `xml:"instanceType"`
	State     string    `xml:"instanceState>name"`
	Why       string    `xml:"stateReason>code"`
	Words     string    `xml:"stateReason>message"`
	Zone      string    `xml:"placement>availabilityZone"`
	Lifecycle string    `xml:"instanceLifecycle"` // "spot"; "": on demand
	Launched  time.Time `xml:"launchTime"`
	Tags      []tagItem `xml:"tagSet>item"`
}

type tagItem struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

// read sends a request that changes nothing more the second time, to one of the services.
func (c *client) read(ctx context.Context, to awsquery.Caller, doing, operation string, in, out any) error {
	return c.send.Read(ctx, doing, func(ctx context.Context) error { return to.Call(ctx, operation, in, out) })
}

// createTemplate makes a launch template, unless there is one of its name.
func (c *client) createTemplate(ctx context.Context, in template) error {
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
	all, err := c.templates(ctx, filter{"launch-template-name", []string{in.LaunchTemplateName}})
	if err == nil && len(all) == 1 && !slices.Contains(all[0].Tags, tagItem{stack.TagManaged, stack.ManagedBy}) {
		return foreign("launch template", in.LaunchTemplateName)
	}
	return err
}

func foreign(kind, name string) error {
	return fault.New(fault.Invalid, "Delete it, or type the command again for a job of another name.", "start agents: %s %s is one that drover did not make", kind, name)
}

// launchTemplate is what EC2 says of one.
type launchTemplate struct {
	Name string    `xml:"launchTemplateName"`
	Tags []tagItem `xml:"tagSet>item"`
}

// templates gives launch templates by a filter.
func (c *client) templates(ctx context.Context, filters ...filter) (all []launchTemplate, err error) {
	in := struct {
		Filter    []filter
		NextToken string
	}{Filter: filters}
	for {
		var out struct {
			All  []launchTemplate `xml:"launchTemplates>item"`
			Next string           `xml:"nextToken"`
		}
		if err := c.read(ctx, c.machines, "look for launch templates", "DescribeLaunchTemplates", in, &out); err != nil {
			return nil, err
		}
		all = append(all, out.All...)
		if in.NextToken = out.Next; in.NextToken == "" {
			return all, nil
		}
	}
}

// createGroup makes a group, unless there is one of its name.
func (c *client) createGroup(ctx context.Context, in group) error {
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
	g, err := c.readGroup(ctx, in.AutoScalingGroupName)
	if err == nil && g != nil && g.tagged(stack.TagManaged) != stack.ManagedBy {
		return foreign("Auto Scaling group", in.AutoScalingGroupName)
	}
	return err
}

// readGroup gives a group; nil: there is none, or it is being deleted.
func (c *client) readGroup(ctx context.Context, name string) (*groupState, error) {
	all, err := c.readGroups(ctx, groupQuery{AutoScalingGroupNames: []string{name}})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return &all[0], nil
}

// groupQuery asks for groups.
type groupQuery struct {
	AutoScalingGroupNames []string
	Filters               []groupFilter
	NextToken             string
	MaxRecords            int
}

type groupFilter struct {
	Name   string
	Values []string
}

// readGroups gives groups that are not being deleted.
func (c *client) readGroups(ctx context.Context, in groupQuery) (all []groupState, err error) {
	in.MaxRecords = 100
	for {
		var out struct {
			Groups []groupState `xml:"DescribeAutoScalingGroupsResult>AutoScalingGroups>member"`
			Next   string       `xml:"DescribeAutoScalingGroupsResult>NextToken"`
		}
		if err := c.read(ctx, c.groups, "describe the Auto Scaling group", "DescribeAutoScalingGroups", in, &out); err != nil {
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

// activities gives the newest of a group, newest first.
func (c *client) activities(ctx context.Context, name string) ([]activity, error) {
	var out struct {
		All []activity `xml:"DescribeScalingActivitiesResult>Activities>member"`
	}
	in := struct {
		AutoScalingGroupName string
		MaxRecords           int
	}{name, 20}
	err := c.read(ctx, c.groups, "read what the Auto Scaling group has done", "DescribeScalingActivities", in, &out)
	return out.All, err
}

// instances gives machines by a filter, also those that have ended within the hour.
func (c *client) instances(ctx context.Context, filters ...filter) (all []instance, err error) {
	in := struct {
		Filter     []filter
		MaxResults int
		NextToken  string
	}{filters, 1000, ""}
	for {
		var out struct {
			All  []instance `xml:"reservationSet>item>instancesSet>item"`
			Next string     `xml:"nextToken"`
		}
		if err := c.read(ctx, c.machines, "describe machines", "DescribeInstances", in, &out); err != nil {
			return nil, err
		}
		all = append(all, out.All...)
		if in.NextToken = out.Next; in.NextToken == "" {
			return all, nil
		}
	}
}

// change sends a change of a group that may be sent again. A group that is not there is no error.
func (c *client) change(ctx context.Context, doing, operation string, in any) error {
	err := c.read(ctx, c.groups, doing, operation, in, nil)
	if a := amazon.ReadAnswer(err); a.Code == "ValidationError" && (strings.Contains(a.Reason, "not found") || strings.Contains(a.Reason, "does not exist")) {
		return nil
	}
	return err
}

// resize sets how many machines a group has, and may have; -1: it stays.
func (c *client) resize(ctx context.Context, name string, most, desired int) error {
	in := group{AutoScalingGroupName: name, DesiredCapacity: &desired}
	if most >= 0 {
		in.MaxSize = &most
	}
	return c.change(ctx, "set how many machines there are", "UpdateAutoScalingGroup", in)
}

// actionName is the name of the scheduled action that ends all machines.
const actionName = "drover-end"

// endAt sets when Auto Scaling ends all machines of a group.
func (c *client) endAt(ctx context.Context, name string, at time.Time) error {
	zero := 0
	return c.change(ctx, "set when all machines end", "PutScheduledUpdateGroupAction", struct {
		AutoScalingGroupName, ScheduledActionName string
		StartTime                                 time.Time
		MinSize, DesiredCapacity                  *int
	}{name, actionName, at.UTC().Truncate(time.Second), &zero, &zero})
}

// endMachine ends a machine of a group; fewer: the group has one less from now on. A machine that is not there is no error.
func (c *client) endMachine(ctx context.Context, id string, fewer bool) error {
	return c.change(ctx, "end a machine", "TerminateInstanceInAutoScalingGroup", struct {
		InstanceId                     string
		ShouldDecrementDesiredCapacity *bool
	}{id, &fewer})
}

// tagGroups gives a group a tag.
func (c *client) tagGroup(ctx context.Context, name, key, value string) error {
	no := false
	return c.change(ctx, "note that machines are stopped", "CreateOrUpdateTags", struct{ Tags []groupTag }{[]groupTag{{key, value, &no, name, "auto-scaling-group"}}})
}

// removeGroup deletes a group with its machines.
func (c *client) removeGroup(ctx context.Context, name string) error {
	return c.change(ctx, "delete the Auto Scaling group", "DeleteAutoScalingGroup", struct {
		AutoScalingGroupName string
		ForceDelete          bool
	}{name, true})
}

// removeTemplate deletes a launch template, if there is one.
func (c *client) removeTemplate(ctx context.Context, name string) error {
	err := c.read(ctx, c.machines, "delete the launch template", "DeleteLaunchTemplate", struct{ LaunchTemplateName string }{name}, nil)
	if strings.HasPrefix(amazon.ReadAnswer(err).Code, "InvalidLaunchTemplateName.NotFound") {
		return nil
	}
	return err
}

// console is what a machine printed, as far as EC2 has kept it; "": nothing yet.
func (c *client) console(ctx context.Context, id string) (string, error) {
	var out struct {
		Output string `xml:"output"` // in base64
	}
	type query struct {
		InstanceId string
		Latest     *bool
	}
	latest := true
	for _, in := range []query{{id, &latest}, {id, nil}} { // older types have but what was printed some minutes ago
		err := c.read(ctx, c.machines, "read a machine's console", "GetConsoleOutput", in, &out)
		if amazon.ReadAnswer(err).Status != http.StatusBadRequest {
			return out.Output, err
		}
	}
	return "", nil // the machine is forgotten
}

// names is a list for people.
func names(all []string) string {
	if len(all) > 4 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:3], ", "), len(all)-3)
	}
	return strings.Join(all, ", ")
}
