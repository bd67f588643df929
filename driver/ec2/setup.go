package ec2

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/ec2/api"
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// Setup makes, as one stack of CloudFormation, what machines of a project need in an account: their role, and a network.
type Setup struct {
	engine *engine
	look   time.Duration
}

var _ driver.Setup = (*Setup)(nil)

// IDs of resources in the stack.
const (
	roleID    = "Role"
	profileID = "Profile"
	groupID   = "Peers"  // of stack.Network
	subnetID  = "Subnet" // with a number, of stack.Network
)

// setupName is the name of the stack of a project with its store.
func setupName(project, at string) string {
	at, _, _ = strings.Cut(at, "?")
	sum := sha256.Sum256(fmt.Append(nil, Name, "\x00", at, "\x00", project))
	return "drover-" + strings.TrimPrefix(project, "drover-") + "-" + hex.EncodeToString(sum[:3])
}

// setupOf is what is known of a project's set-up; the zero value: there is none.
type setupOf struct {
	name, account, profile string
	groups, subnets        []string
	own                    bool // the subnets are of the set-up's own network
}

// findSetup finds the set-up of a project with its store. A user without the right to look names what it has.
func (c *client) findSetup(ctx context.Context, project, at string) (s setupOf, err error) {
	if project == "" {
		return s, nil
	}
	name := setupName(project, at)
	id, physical, err := c.stacks.FindAll(ctx, name)
	if fault.KindOf(err) == fault.Denied {
		return s, nil
	}
	if err != nil || physical[profileID] == "" {
		return s, err
	}
	s.name, s.profile = name, physical[profileID]
	if parts := strings.Split(id, ":"); len(parts) > 4 { // arn:PARTITION:cloudformation:REGION:ACCOUNT:stack/...
		s.account = parts[4]
	}
	if g := physical[groupID]; g != "" {
		s.groups = []string{g}
	}
	for n := 1; physical[fmt.Sprint(subnetID, n)] != ""; n++ {
		s.subnets = append(s.subnets, physical[fmt.Sprint(subnetID, n)])
	}
	if s.own = len(s.subnets) > 0; s.own {
		return s, nil
	}
	kept, err := c.stacks.Options(ctx, name) // the network is one that target up was given
	if err != nil {
		return s, err
	}
	o, err := parseOptions(strings.Fields(kept))
	s.subnets, s.groups = o.subnets, o.groups
	return s, err
}

// networkOptions are the options of a set-up that its stack keeps: those on the network that machines are in, of which a later target up that names
// none has those of the one before.
func networkOptions(kept string, args []string) (o options, text string, err error) {
	own := strings.Fields(kept)
	all, err := parseOptions(args) // options of jobs may stand beside
	if err != nil {
		return o, "", err
	}
	if len(all.subnets) > 0 {
		own = []string{"subnets=" + strings.Join(all.subnets, ","), "security-groups=" + strings.Join(all.groups, ",")}
	}
	o, err = parseOptions(own)
	return o, strings.Join(own, " "), err
}

// open gives the stack of a scope.
func (u *Setup) open(ctx context.Context, s driver.Scope) (c *client, st stack.Stack, err error) {
	if ctx.Err() != nil {
		return nil, st, context.Cause(ctx)
	}
	at, err := parseSite(s.Detail)
	if err != nil {
		return nil, st, err
	}
	if !strings.HasPrefix(s.Store, "s3://") {
		return nil, st, fault.New(fault.Invalid, "Name a bucket: `--store s3://bucket/prefix`.", "set up EC2: its agents open no store in %s", s.Store)
	}
	if c, err = u.engine.clients.In(ctx, at.region); err != nil {
		return nil, st, err
	}
	c.stacks = stack.New(c.send.Account, u.look)
	kept, err := c.stacks.Options(ctx, setupName(s.Project, s.Store))
	if err != nil {
		return nil, st, err
	}
	o, text, err := networkOptions(kept, s.Args)
	if err != nil {
		return nil, st, err
	}
	st, err = newStack(s, c.region, o)
	st.Options = text
	return c, st, err
}

// newStack is the stack of a scope in a region: with a network, unless the options name one.
func newStack(s driver.Scope, region string, o options) (st stack.Stack, err error) {
	var store map[string]any
	if err := json.Unmarshal([]byte(s.Rights), &store); err != nil {
		return st, fault.Wrap(err, fault.Bug, "", "set up EC2: read the rights on the store")
	}
	var service []any
	for _, r := range stack.Statements(rights(driver.Agents)) {
		switch r["Sid"] {
		case "Images":
			r["Resource"] = []any{"*"} // those of other accounts too
		case groupRights: // of this project alone
			r["Condition"] = map[string]any{"StringEquals": map[string]string{"autoscaling:ResourceTag/" + tagProject: amazon.TagText(s.Project, 256)}}
		}
		service = append(service, r)
	}
	trust := map[string]any{"Version": "2012-10-17", "Statement": []any{map[string]any{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": map[string]any{"Service": stack.Sub("ec2.${AWS::URLSuffix}")}}}}
	name := setupName(s.Project, s.Store)
	var network []stack.Resource
	if len(o.subnets) == 0 {
		network, _, _ = stack.Network(name, stack.ZonesOf(region))
	}
	st = stack.Stack{Name: name, Description: "drover: the role and the network of machines of project " + s.Project, Tags: map[string]string{tagProject: s.Project, "drover-store": amazon.TagText(s.Store, 256)}}
	st.Resources = append(network, stack.Resource{ID: roleID, Type: "AWS::IAM::Role", Kind: "role of machines", Properties: map[string]any{"AssumeRolePolicyDocument": trust,
		"Policies": []any{map[string]any{"PolicyName": "store", "PolicyDocument": store}, map[string]any{"PolicyName": "service", "PolicyDocument": map[string]any{"Version": "2012-10-17", "Statement": service}}}}},
		stack.Resource{ID: profileID, Type: "AWS::IAM::InstanceProfile", Kind: "instance profile", Properties: map[string]any{"Roles": []any{stack.Ref(roleID)}}})
	return st, nil
}

// Describe gives the stack, its resources, and the repositories of images that were built for its jobs.
func (u *Setup) Describe(ctx context.Context, s driver.Scope) ([]driver.Piece, error) {
	c, st, err := u.open(ctx, s)
	if err != nil {
		return nil, err
	}
	pieces, err := c.stacks.Describe(ctx, st)
	if err != nil || pieces[0].State != driver.PieceThere {
		return pieces, err
	}
	images, err := c.findImages(ctx, s)
	if err != nil {
		return nil, err
	}
	more, err := images.Pieces(ctx)
	return append(pieces, more...), err
}

// Apply makes the stack.
func (u *Setup) Apply(ctx context.Context, s driver.Scope, made func(driver.Piece)) error {
	c, st, err := u.open(ctx, s)
	if err != nil {
		return err
	}
	return c.stacks.Apply(ctx, st, made)
}

// Destroy deletes groups and launch templates of the project that no record names any more, the repositories of images that were built for its jobs,
// and the stack.
func (u *Setup) Destroy(ctx context.Context, s driver.Scope, gone func(driver.Piece)) error {
	c, st, err := u.open(ctx, s)
	if err != nil {
		return err
	}
	if err := c.sweep(ctx, s.Project); err != nil {
		return err
	}
	images, err := c.findImages(ctx, s)
	if err == nil {
		err = images.Delete(ctx, gone)
	}
	if err != nil {
		return err
	}
	return c.stacks.Destroy(ctx, st, gone)
}

// sweep deletes groups of a project that never had a machine, and launch templates without a group: what a command has left that was
// killed while it made them.
func (c *client) sweep(ctx context.Context, project string) error {
	project = amazon.TagText(project, 256)
	groups, err := c.Groups(ctx, api.GroupQuery{Filters: []api.GroupFilter{{Name: "tag:" + tagProject, Values: []string{project}}}})
	if err != nil {
		return err
	}
	live := map[string]bool{}
	for _, g := range groups {
		if live[g.AutoScalingGroupName] = g.Raised(); g.Raised() || g.Tagged(stack.TagManaged) != stack.ManagedBy {
			continue
		}
		if err := c.RemoveGroup(ctx, g.AutoScalingGroupName); err != nil {
			return err
		}
	}
	templates, err := c.Templates(ctx, api.Filter{Name: "tag:" + tagProject, Value: []string{project}}, api.Filter{Name: "tag:" + stack.TagManaged, Value: []string{stack.ManagedBy}})
	if err != nil {
		return err
	}
	for _, t := range templates {
		if _, ours := parseGroupName(t.Name); !ours || live[t.Name] {
			continue
		}
		if err := c.RemoveTemplate(ctx, t.Name); err != nil {
			return err
		}
	}
	return nil
}

// findImages finds the images of a scope's set-up; none where it is not there.
func (c *client) findImages(ctx context.Context, s driver.Scope) (stack.Images, error) {
	made, err := c.findSetup(ctx, s.Project, s.Store)
	return made.images(c), err
}

// images are those that were built for the set-up's jobs.
func (s setupOf) images(c *client) stack.Images {
	if s.account == "" {
		return stack.Images{}
	}
	return stack.NewImages(c.images, s.account, c.region, s.name)
}
