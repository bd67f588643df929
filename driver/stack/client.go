package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drover-run/drover/cloud/amazon"
)

// Client makes, describes and deletes stacks in one region of an account.
type Client struct {
	api  *cloudformation.Client
	send amazon.Sender
	look time.Duration // between two looks at a stack that changes
}

// New makes the client of an account. It sends nothing. look is the time between two looks at a stack
// that changes, such as Look.
func New(account *amazon.Account, look time.Duration) *Client {
	return &Client{cloudformation.NewFromConfig(account.Config), amazon.Sender{Account: account, Wait: amazon.Patience}, look}
}

// Look is the time between two looks at a stack that changes.
const Look = 3 * time.Second

// state is a stack as it stands in the account. The zero value: there is none.
type state struct {
	id        string
	status    types.StackStatus
	reason    string
	tags      map[string]string
	options   string
	resources map[string]types.ResourceStatus // by logical ID
	texts     map[string][]byte               // of its template's resources, by logical ID; nil: not asked for
}

func (v state) there() bool { return v.id != "" && v.status != types.StackStatusDeleteComplete }

// ours says whether drover has made the stack.
func (v state) ours() bool { return v.tags[TagManaged] == ManagedBy }

// changing says whether CloudFormation is at work on the stack.
func (v state) changing() bool {
	return strings.HasSuffix(string(v.status), "_IN_PROGRESS") && v.status != types.StackStatusReviewInProgress
}

// usable says whether the last change of the stack has left it whole.
func (v state) usable() bool {
	switch v.status {
	case types.StackStatusCreateComplete, types.StackStatusUpdateComplete, types.StackStatusUpdateRollbackComplete, types.StackStatusImportComplete, types.StackStatusImportRollbackComplete:
		return true
	}
	return false
}

// has says whether a resource is there as it should be.
func (v state) has(r Resource) bool {
	s := string(v.resources[r.ID])
	if !strings.HasSuffix(s, "_COMPLETE") || s == string(types.ResourceStatusDeleteComplete) {
		return false
	}
	return v.texts == nil || bytes.Equal(v.texts[r.ID], normal(r.text()))
}

// holds says whether there is something of a resource, whole or half made.
func (v state) holds(r Resource) bool {
	s := v.resources[r.ID]
	return s != "" && s != types.ResourceStatusDeleteComplete
}

// normal is JSON with the names of objects in order.
func normal(text []byte) []byte {
	var v any
	if json.Unmarshal(text, &v) != nil {
		return text
	}
	text, _ = json.Marshal(v) // it came from JSON
	return text
}

// read reads a stack, by its name or ID, with its resources and its template.
func (c *Client) read(ctx context.Context, name string) (v state, err error) {
	if v, err = c.readStatus(ctx, name); err != nil || !v.there() || !v.ours() {
		return v, err
	}
	if err := c.readResources(ctx, &v); err != nil {
		return v, err
	}
	var out *cloudformation.GetTemplateOutput
	err = c.send.Read(ctx, "read the template of stack "+name, func(ctx context.Context) (err error) {
		out, err = c.api.GetTemplate(ctx, &cloudformation.GetTemplateInput{StackName: &v.id})
		return err
	})
	if err != nil {
		return v, err
	}
	var template struct{ Resources map[string]json.RawMessage }
	v.texts = map[string][]byte{}
	if json.Unmarshal([]byte(aws.ToString(out.TemplateBody)), &template) != nil {
		return v, nil // of another form: it differs in all
	}
	for id, text := range template.Resources {
		v.texts[id] = normal(text)
	}
	return v, nil
}

// readStatus reads a stack without its resources.
func (c *Client) readStatus(ctx context.Context, name string) (v state, err error) {
	var out *cloudformation.DescribeStacksOutput
	err = c.send.Read(ctx, "describe stack "+name, func(ctx context.Context) (err error) {
		out, err = c.api.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
		if a := amazon.ReadAnswer(err); a.Code == "ValidationError" && strings.Contains(a.Reason, "does not exist") {
			out, err = &cloudformation.DescribeStacksOutput{}, nil
		}
		return err
	})
	if err != nil || len(out.Stacks) == 0 {
		return v, err
	}
	s := out.Stacks[0]
	v = state{id: aws.ToString(s.StackId), status: s.StackStatus, reason: aws.ToString(s.StackStatusReason), tags: map[string]string{}}
	for _, t := range s.Tags {
		v.tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	for _, p := range s.Parameters {
		if aws.ToString(p.ParameterKey) == parameter {
			v.options = aws.ToString(p.ParameterValue)
		}
	}
	return v, nil
}

// readResources reads how the resources of a stack stand.
func (c *Client) readResources(ctx context.Context, v *state) error {
	var out *cloudformation.DescribeStackResourcesOutput
	err := c.send.Read(ctx, "describe the resources of a stack", func(ctx context.Context) (err error) {
		out, err = c.api.DescribeStackResources(ctx, &cloudformation.DescribeStackResourcesInput{StackName: &v.id})
		return err
	})
	if err != nil {
		return err
	}
	v.resources = map[string]types.ResourceStatus{}
	for _, r := range out.StackResources {
		v.resources[aws.ToString(r.LogicalResourceId)] = r.ResourceStatus
	}
	return nil
}

// firstFailure is what went wrong first in the last change of a stack, in CloudFormation's words; "":
// it does not say.
func (c *Client) firstFailure(ctx context.Context, id string) (resource, reason string, err error) {
	in := &cloudformation.DescribeStackEventsInput{StackName: &id}
	for {
		var out *cloudformation.DescribeStackEventsOutput
		err := c.send.Read(ctx, "read the events of a stack", func(ctx context.Context) (err error) {
			out, err = c.api.DescribeStackEvents(ctx, in)
			return err
		})
		if err != nil {
			return "", "", err
		}
		for _, e := range out.StackEvents { // newest first
			why, own := aws.ToString(e.ResourceStatusReason), aws.ToString(e.PhysicalResourceId) == id
			status := string(e.ResourceStatus)
			switch {
			case own && (status == string(types.StackStatusCreateInProgress) || status == string(types.StackStatusUpdateInProgress) || status == string(types.StackStatusDeleteInProgress) && why == "User Initiated"):
				return resource, reason, nil
			case !own && strings.HasSuffix(status, "_FAILED") && why != "" && !strings.Contains(why, "cancelled"):
				resource, reason = aws.ToString(e.LogicalResourceId), why
			}
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return resource, reason, nil
		}
	}
}

// Find gives the ID of a stack of drover's, and CloudFormation's name of one of its resources; "": there is none.
func (c *Client) Find(ctx context.Context, name, resource string) (id, physical string, err error) {
	id, all, err := c.FindAll(ctx, name)
	return id, all[resource], err
}

// FindAll gives the ID of a stack of drover's, and CloudFormation's names of its resources by their IDs in it; "": there is none.
func (c *Client) FindAll(ctx context.Context, name string) (id string, physical map[string]string, err error) {
	v, err := c.readStatus(ctx, name)
	if err != nil || !v.there() || !v.ours() {
		return "", nil, err
	}
	var out *cloudformation.DescribeStackResourcesOutput
	err = c.send.Read(ctx, "describe the resources of stack "+name, func(ctx context.Context) (err error) {
		out, err = c.api.DescribeStackResources(ctx, &cloudformation.DescribeStackResourcesInput{StackName: &v.id})
		return err
	})
	if err != nil {
		return "", nil, err
	}
	physical = map[string]string{}
	for _, r := range out.StackResources {
		physical[aws.ToString(r.LogicalResourceId)] = aws.ToString(r.PhysicalResourceId)
	}
	return v.id, physical, nil
}
