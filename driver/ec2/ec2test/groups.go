package ec2test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// operation is one that the fake answers: the names of its parameters, without numbers, and what it does.
type operation struct {
	takes string
	do    func(*Server, url.Values) (string, error)
}

// operations are all of both services.
var operations = map[string]operation{
	"CreateAutoScalingGroup": {"AutoScalingGroupName MinSize MaxSize DesiredCapacity VPCZoneIdentifier PlacementGroup CapacityRebalance NewInstancesProtectedFromScaleIn Tags.Key Tags.Value Tags.PropagateAtLaunch " +
		"MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.LaunchTemplateName MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification.Version MixedInstancesPolicy.LaunchTemplate.Overrides.InstanceType " +
		"MixedInstancesPolicy.InstancesDistribution.OnDemandAllocationStrategy MixedInstancesPolicy.InstancesDistribution.OnDemandBaseCapacity MixedInstancesPolicy.InstancesDistribution.OnDemandPercentageAboveBaseCapacity MixedInstancesPolicy.InstancesDistribution.SpotAllocationStrategy", createGroup},
	"UpdateAutoScalingGroup":              {"AutoScalingGroupName MinSize MaxSize DesiredCapacity MixedInstancesPolicy.InstancesDistribution.OnDemandPercentageAboveBaseCapacity", updateGroup},
	"DeleteAutoScalingGroup":              {"AutoScalingGroupName ForceDelete", deleteGroup},
	"DescribeAutoScalingGroups":           {"AutoScalingGroupNames Filters.Name Filters.Values NextToken MaxRecords", describeGroups},
	"SuspendProcesses":                    {"AutoScalingGroupName ScalingProcesses", suspend},
	"PutScheduledUpdateGroupAction":       {"AutoScalingGroupName ScheduledActionName StartTime MinSize DesiredCapacity", schedule},
	"TerminateInstanceInAutoScalingGroup": {"InstanceId ShouldDecrementDesiredCapacity", terminateInGroup},
	"CreateOrUpdateTags":                  {"Tags.Key Tags.Value Tags.PropagateAtLaunch Tags.ResourceId Tags.ResourceType", tagGroup},
	"DescribeScalingActivities":           {"AutoScalingGroupName MaxRecords", describeActivities},
	"CreateLaunchTemplate": {"LaunchTemplateName LaunchTemplateData.ImageId LaunchTemplateData.UserData LaunchTemplateData.InstanceInitiatedShutdownBehavior LaunchTemplateData.IamInstanceProfile.Name LaunchTemplateData.MetadataOptions.HttpTokens " +
		"LaunchTemplateData.MetadataOptions.HttpPutResponseHopLimit LaunchTemplateData.BlockDeviceMapping.DeviceName LaunchTemplateData.BlockDeviceMapping.Ebs.VolumeSize LaunchTemplateData.BlockDeviceMapping.Ebs.VolumeType LaunchTemplateData.BlockDeviceMapping.Ebs.DeleteOnTermination " +
		"LaunchTemplateData.BlockDeviceMapping.Ebs.Encrypted LaunchTemplateData.SecurityGroupId LaunchTemplateData.TagSpecification.ResourceType LaunchTemplateData.TagSpecification.Tag.Key LaunchTemplateData.TagSpecification.Tag.Value TagSpecification.ResourceType TagSpecification.Tag.Key TagSpecification.Tag.Value", createTemplate},
	"DeleteLaunchTemplate":          {"LaunchTemplateName", deleteTemplate},
	"DescribeLaunchTemplates":       {"Filter.Name Filter.Value NextToken", describeTemplates},
	"DescribeInstances":             {"Filter.Name Filter.Value MaxResults NextToken", describeInstances},
	"TerminateInstances":            {"InstanceId", terminate},
	"GetConsoleOutput":              {"InstanceId Latest", console},
	"DescribeInstanceTypes":         {"MaxResults NextToken", describeTypes},
	"DescribeInstanceTypeOfferings": {"LocationType MaxResults NextToken", describeOfferings},
	"DescribeSubnets":               {"SubnetId", describeSubnets},
	"DescribeRouteTables":           {"Filter.Name Filter.Value", describeRoutes},
	"DescribeImages":                {"ImageId", describeImages},
	"DescribeSpotPriceHistory":      {"InstanceType ProductDescription StartTime MaxResults", describePrices},
}

// group is an Auto Scaling group. All of it is under Server.mu.
type group struct {
	name       string
	most       int
	desired    int
	tags       map[string]string
	atLaunch   []string // keys of tags that machines get
	template   string
	types      []string
	zones      []string
	spot       bool
	created    time.Time
	endAt      time.Time // of its scheduled action; zero: there is none
	endsAt     []time.Time
	suspended  []string
	activities []string // XML, newest first
}

// template is a launch template.
type template struct {
	form     url.Values
	userData string
	tags     map[string]string
}

func notFound(name string) error {
	return refuse("ValidationError", "AutoScalingGroup name not found - AutoScalingGroup: %s does not exist", name)
}

func integer(form url.Values, name string, is int) (int, error) {
	if !form.Has(name) {
		return is, nil
	}
	n, err := strconv.Atoi(form.Get(name))
	if err != nil || n < 0 {
		return 0, refuse("ValidationError", "%s must be a number", name)
	}
	return n, nil
}

func createGroup(s *Server, form url.Values) (string, error) {
	const policy = "MixedInstancesPolicy."
	name := form.Get("AutoScalingGroupName")
	if s.groups[name] != nil {
		return "", refuse("AlreadyExists", "AutoScalingGroup by this name already exists - A group with the name %s already exists", name)
	}
	g := &group{name: name, tags: map[string]string{}, created: s.now(), template: form.Get(policy + "LaunchTemplate.LaunchTemplateSpecification.LaunchTemplateName"),
		types: list(form, policy+"LaunchTemplate.Overrides.member", ".InstanceType"), spot: form.Get(policy+"InstancesDistribution.OnDemandPercentageAboveBaseCapacity") == "0"}
	t := s.templates[g.template]
	if t == nil || form.Get(policy+"LaunchTemplate.LaunchTemplateSpecification.Version") != "1" {
		return "", refuse("ValidationError", "You must use a valid fully-formed launch template. The specified launch template does not exist.")
	}
	if len(g.types) == 0 || len(g.types) > 40 {
		return "", refuse("ValidationError", "There are %d overrides", len(g.types))
	}
	if near := form.Get("PlacementGroup"); near != "" && near != PlacementGroup {
		return "", refuse("ValidationError", "The placement group '%s' does not exist", near)
	}
	for _, id := range strings.Split(form.Get("VPCZoneIdentifier"), ",") {
		zone, known := subnetZone(id)
		if !known {
			return "", refuse("ValidationError", "The subnet ID '%s' does not exist", id)
		}
		g.zones = append(g.zones, zone)
	}
	for i := 1; form.Has(fmt.Sprintf("Tags.member.%d.Key", i)); i++ {
		key := form.Get(fmt.Sprintf("Tags.member.%d.Key", i))
		g.tags[key] = form.Get(fmt.Sprintf("Tags.member.%d.Value", i))
		if form.Get(fmt.Sprintf("Tags.member.%d.PropagateAtLaunch", i)) == "true" {
			g.atLaunch = append(g.atLaunch, key)
		}
	}
	s.groups[name] = g
	return size(s, g, form)
}

// size takes in how large a group is to be.
func size(s *Server, g *group, form url.Values) (string, error) {
	most, err := integer(form, "MaxSize", g.most)
	if err != nil {
		return "", err
	}
	desired, err := integer(form, "DesiredCapacity", g.desired)
	if err != nil {
		return "", err
	}
	if desired > most {
		return "", refuse("ValidationError", "Desired capacity:%d must be between the specified min size:0 and max size:%d", desired, most)
	}
	g.most, g.desired = most, desired
	s.reconcile(g)
	return "", nil
}

func updateGroup(s *Server, form url.Values) (string, error) {
	g := s.groups[form.Get("AutoScalingGroupName")]
	if g == nil {
		return "", notFound(form.Get("AutoScalingGroupName"))
	}
	if share := form.Get("MixedInstancesPolicy.InstancesDistribution.OnDemandPercentageAboveBaseCapacity"); share != "" {
		g.spot = share == "0"
	}
	return size(s, g, form)
}

func deleteGroup(s *Server, form url.Values) (string, error) {
	g := s.groups[form.Get("AutoScalingGroupName")]
	if g == nil {
		return "", notFound(form.Get("AutoScalingGroupName"))
	}
	if form.Get("ForceDelete") != "true" && len(live(s, g)) > 0 {
		return "", refuse("ResourceInUse", "You cannot delete an AutoScalingGroup while there are instances or pending Spot instance request(s) still in the group.")
	}
	for _, m := range live(s, g) {
		m.end("Client.UserInitiatedShutdown", "User initiated shutdown")
	}
	delete(s.groups, g.name)
	return "", nil
}

func suspend(s *Server, form url.Values) (string, error) {
	g := s.groups[form.Get("AutoScalingGroupName")]
	if g == nil {
		return "", notFound(form.Get("AutoScalingGroupName"))
	}
	g.suspended = list(form, "ScalingProcesses.member", "")
	return "", nil
}

func schedule(s *Server, form url.Values) (string, error) {
	g := s.groups[form.Get("AutoScalingGroupName")]
	if g == nil {
		return "", notFound(form.Get("AutoScalingGroupName"))
	}
	at, err := time.Parse(time.RFC3339, form.Get("StartTime"))
	if err != nil || at.Before(s.now()) || form.Get("DesiredCapacity") != "0" || form.Get("MinSize") != "0" {
		return "", refuse("ValidationError", "Given start time is in the past, or the sizes are not those of an end")
	}
	g.endAt, g.endsAt = at, append(g.endsAt, at)
	return "", nil
}

func terminateInGroup(s *Server, form url.Values) (string, error) {
	id := form.Get("InstanceId")
	m := s.machine(id)
	if m == nil || m.state == "terminated" || s.groups[m.group.name] != m.group {
		return "", refuse("ValidationError", "Instance Id not found - No managed instance found for instance ID: %s", id)
	}
	if form.Get("ShouldDecrementDesiredCapacity") == "true" {
		m.group.desired = max(m.group.desired-1, 0)
	}
	m.end("Client.UserInitiatedShutdown", "User initiated shutdown")
	s.reconcile(m.group)
	return "<Activity></Activity>", nil
}

func tagGroup(s *Server, form url.Values) (string, error) {
	g := s.groups[form.Get("Tags.member.1.ResourceId")]
	if g == nil || form.Get("Tags.member.1.ResourceType") != "auto-scaling-group" {
		return "", notFound(form.Get("Tags.member.1.ResourceId"))
	}
	g.tags[form.Get("Tags.member.1.Key")] = form.Get("Tags.member.1.Value")
	return "", nil
}

// live are a group's machines that have not ended.
func live(s *Server, g *group) (all []*machine) {
	for _, m := range s.machines {
		if m.group == g && m.state != "terminated" {
			all = append(all, m)
		}
	}
	return all
}

// reconcile launches and ends machines, until a group has as many as it is to have.
func (s *Server) reconcile(g *group) {
	if s.over || s.groups[g.name] != g {
		return
	}
	live := live(s, g)
	for len(live) > g.desired {
		live[0].end("Client.UserInitiatedShutdown", "User initiated shutdown")
		live = live[1:]
	}
	for n := len(live); n < g.desired; n++ {
		why := s.knobs.refuse
		if why != "" && !g.spot && strings.Contains(why, "Spot") { // it is of spot capacity alone
			why = ""
		}
		if why == "" {
			err := launch(s, g)
			if err == nil {
				g.note("Successful", "Launching a new EC2 instance")
				continue
			}
			why = err.Error()
		}
		g.note("Failed", why)
		return
	}
}

// note adds an activity.
func (g *group) note(status, text string) {
	g.activities = append([]string{"<member>" + element("StatusCode", status) + element("StatusMessage", text) + "</member>"}, g.activities...)
	g.activities = g.activities[:min(len(g.activities), 100)]
}

func describeActivities(s *Server, form url.Values) (string, error) {
	g := s.groups[form.Get("AutoScalingGroupName")]
	if g == nil {
		return "", notFound(form.Get("AutoScalingGroupName"))
	}
	n, _ := strconv.Atoi(form.Get("MaxRecords"))
	return "<Activities>" + strings.Join(g.activities[:min(n, len(g.activities))], "") + "</Activities>", nil
}

func describeGroups(s *Server, form url.Values) (string, error) {
	var b strings.Builder
	b.WriteString("<AutoScalingGroups>")
	wanted := list(form, "AutoScalingGroupNames.member", "")
	key, value := strings.TrimPrefix(form.Get("Filters.member.1.Name"), "tag:"), form.Get("Filters.member.1.Values.member.1")
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[name]
		if len(wanted) > 0 && !slices.Contains(wanted, name) || key != "" && g.tags[key] != value {
			continue
		}
		b.WriteString("<member>" + element("AutoScalingGroupName", name) + element("MinSize", "0") + element("MaxSize", fmt.Sprint(g.most)) + element("DesiredCapacity", fmt.Sprint(g.desired)) +
			element("CreatedTime", g.created.UTC().Format(time.RFC3339)) + "<Instances>")
		for _, m := range live(s, g) {
			b.WriteString("<member>" + element("InstanceId", m.id) + element("InstanceType", m.kind) + element("AvailabilityZone", m.zone) + element("LifecycleState", "InService") + "</member>")
		}
		b.WriteString("</Instances><Tags>")
		for _, key := range slices.Sorted(maps.Keys(g.tags)) {
			b.WriteString("<member>" + element("Key", key) + element("Value", g.tags[key]) + "</member>")
		}
		b.WriteString("</Tags></member>")
	}
	b.WriteString("</AutoScalingGroups>")
	return b.String(), nil
}

func createTemplate(s *Server, form url.Values) (string, error) {
	const data = "LaunchTemplateData."
	name := form.Get("LaunchTemplateName")
	text, err := base64.StdEncoding.DecodeString(form.Get(data + "UserData"))
	switch {
	case s.templates[name] != nil:
		return "", refuse("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
	case len(name) < 3 || len(name) > 128:
		return "", refuse("InvalidLaunchTemplateName.MalformedException", "%q", name)
	case err != nil || len(text) > 16<<10:
		return "", refuse("InvalidUserData.Malformed", "User data has %d bytes", len(text))
	case form.Get(data+"InstanceInitiatedShutdownBehavior") != "terminate", form.Get(data+"MetadataOptions.HttpTokens") != "required", form.Get(data+"IamInstanceProfile.Name") == "", form.Get(data+"BlockDeviceMapping.1.Ebs.DeleteOnTermination") != "true":
		return "", refuse("InvalidParameterValue", "this is no template of drover's: %v", form)
	}
	t := &template{form, string(text), map[string]string{}}
	for i := 1; form.Has(fmt.Sprintf("TagSpecification.1.Tag.%d.Key", i)); i++ {
		t.tags[form.Get(fmt.Sprintf("TagSpecification.1.Tag.%d.Key", i))] = form.Get(fmt.Sprintf("TagSpecification.1.Tag.%d.Value", i))
	}
	s.templates[name] = t
	return "", nil
}

func deleteTemplate(s *Server, form url.Values) (string, error) {
	name := form.Get("LaunchTemplateName")
	if s.templates[name] == nil {
		return "", refuse("InvalidLaunchTemplateName.NotFoundException", "At least one of the launch templates specified in the request does not exist.")
	}
	delete(s.templates, name)
	return "", nil
}

func describeTemplates(s *Server, form url.Values) (string, error) {
	var b strings.Builder
	b.WriteString("<launchTemplates>")
	for _, name := range slices.Sorted(maps.Keys(s.templates)) {
		t := s.templates[name]
		of := func(key string) string {
			if key == "launch-template-name" {
				return name
			}
			return t.tags[strings.TrimPrefix(key, "tag:")]
		}
		if matches(form, of) {
			b.WriteString("<item>" + element("launchTemplateName", name) + tagSet(t.tags) + "</item>")
		}
	}
	b.WriteString("</launchTemplates>")
	return b.String(), nil
}

func tagSet(all map[string]string) string {
	var b strings.Builder
	b.WriteString("<tagSet>")
	for _, key := range slices.Sorted(maps.Keys(all)) {
		b.WriteString("<item>" + element("key", key) + element("value", all[key]) + "</item>")
	}
	return b.String() + "</tagSet>"
}

// matches says whether a thing meets the filters of a request; of gives its value for a filter's name.
func matches(form url.Values, of func(string) string) bool {
	for i := 1; form.Has(fmt.Sprintf("Filter.%d.Name", i)); i++ {
		if !slices.Contains(list(form, fmt.Sprintf("Filter.%d.Value", i), ""), of(form.Get(fmt.Sprintf("Filter.%d.Name", i)))) {
			return false
		}
	}
	return true
}

// Groups are the names of all groups, and Templates those of all launch templates.
func (s *Server) Groups() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.groups))
}

// Templates is as Groups says.
func (s *Server) Templates() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.templates))
}

// Template is the newest request for a launch template, as text.
func (s *Server) Template(name string) (form url.Values, userData string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.templates[name]; t != nil {
		return t.form, t.userData
	}
	return nil, ""
}

// Group is how large a group is to be, and when all of its machines end.
func (s *Server) Group(name string) (desired int, endAt time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.groups[name]; g != nil {
		return g.desired, g.endAt
	}
	return 0, time.Time{}
}

// Occupy makes a group of a name that drover did not make.
func (s *Server) Occupy(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups[name] = &group{name: name, tags: map[string]string{}}
}
