package stack

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// Options are those that a stack was made with; "": there is no such stack.
func (c *Client) Options(ctx context.Context, name string) (string, error) {
	v, err := c.readStatus(ctx, name)
	if !v.there() || !v.ours() {
		return "", err
	}
	return v.options, err
}

// Describe gives the stack and its resources, as driver.Setup does.
func (c *Client) Describe(ctx context.Context, s Stack) ([]driver.Piece, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	v, err := c.read(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	return s.judge(v), nil
}

// judge says of each piece how it stands.
func (s Stack) judge(v state) []driver.Piece {
	all := s.pieces()
	switch {
	case !v.there():
		return all
	case !v.ours():
		all[0].State, all[0].Why = driver.PieceForeign, "a stack that drover did not make"
		return all
	case v.usable() || v.changing() && v.status != types.StackStatusDeleteInProgress:
		all[0].State = driver.PieceThere
	}
	for i, r := range s.Resources {
		if v.has(r) {
			all[i+1].State = driver.PieceThere
		}
	}
	return all
}

// mostRounds is how often one Apply changes a stack: delete what is half made, make it, and mend what
// another command has made meanwhile.
const mostRounds = 5

// Apply makes or changes the stack, as driver.Setup does.
func (c *Client) Apply(ctx context.Context, s Stack, made func(driver.Piece)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var t *teller
	for range mostRounds {
		v, err := c.read(ctx, s.Name)
		if err != nil {
			return err
		}
		if v.there() && !v.ours() {
			return fault.New(fault.Invalid, "Delete it, or choose another project with `-p`.", "set up: stack %s is one that drover did not make", s.Name)
		}
		if t == nil {
			t = newTeller(s, v, made)
		}
		t.tell(v)
		if v.usable() && v.options == s.Options && !slices.ContainsFunc(s.judge(v), func(p driver.Piece) bool { return p.State != driver.PieceThere }) {
			return nil
		}
		if err := c.change(ctx, s, v, t); err != nil {
			return err
		}
	}
	return fault.New(fault.Full, "Try again when no other command changes it.", "set up: stack %s changes again and again", s.Name)
}

// change brings a stack one step on: it waits for what CloudFormation is at, deletes what is half made,
// or asks for what is missing and waits for it.
func (c *Client) change(ctx context.Context, s Stack, v state, t *teller) (err error) {
	switch {
	case v.changing():
		_, err = c.follow(ctx, v.id, t.tellCreated)
		return err
	case !v.there():
		if v.id, err = c.create(ctx, s); err != nil || v.id == "" {
			return err // "": another command has deleted it meanwhile
		}
	case !v.usable():
		_, err = c.delete(ctx, s, v, func(driver.Piece) {})
		return err
	default:
		if err = c.update(ctx, s, v.id); err != nil {
			return err
		}
	}
	if v, err = c.follow(ctx, v.id, t.tellCreated); err != nil {
		return err
	}
	if !v.usable() || v.status == types.StackStatusUpdateRollbackComplete {
		return c.failed(ctx, "make", s, v)
	}
	return nil
}

// teller tells of each piece of a stack when it has been made, in their order.
type teller struct {
	stack Stack
	told  []bool // of each piece: it was there before, or made was called
	made  func(driver.Piece)
}

// newTeller makes the teller of a stack that stands as v says.
func newTeller(s Stack, v state, made func(driver.Piece)) *teller {
	t := &teller{stack: s, made: made}
	for _, p := range s.judge(v) {
		t.told = append(t.told, p.State == driver.PieceThere)
	}
	return t
}

// tell tells of what is there now, up to the first piece that is not.
func (t *teller) tell(v state) {
	for i, p := range t.stack.judge(v) {
		if t.told[i] {
			continue
		}
		if p.State != driver.PieceThere {
			return
		}
		t.told[i] = true
		t.made(p)
	}
}

// tellCreated tells of the resources of a stack that is being created. Of one that is being updated the
// states do not tell whether a resource is as it should be.
func (t *teller) tellCreated(v state) {
	if v.status == types.StackStatusCreateInProgress || v.status == types.StackStatusCreateComplete {
		t.tell(v)
	}
}

// failed is the error of a change that has ended badly.
func (c *Client) failed(ctx context.Context, doing string, s Stack, v state) error {
	resource, reason, err := c.firstFailure(ctx, v.id)
	if err != nil {
		return err
	}
	if reason == "" {
		reason = v.reason
	}
	if i := slices.IndexFunc(s.Resources, func(r Resource) bool { return r.ID == resource }); i >= 0 {
		reason = s.Resources[i].Kind + " " + resource + ": " + reason
	}
	return fault.New(fault.Invalid, "Mend it, and type the same command again: CloudFormation's console has all events of the stack.", "%s stack %s: it is %s: %s", doing, s.Name, v.status, reason)
}

// create asks for the stack and gives its ID.
func (c *Client) create(ctx context.Context, s Stack) (id string, err error) {
	in := &cloudformation.CreateStackInput{StackName: &s.Name, TemplateBody: aws.String(s.Template()), OnFailure: types.OnFailureDelete, TimeoutInMinutes: aws.Int32(60),
		Capabilities: []types.Capability{types.CapabilityCapabilityIam}, Parameters: s.parameters(), Tags: []types.Tag{{Key: aws.String(TagManaged), Value: aws.String(ManagedBy)}}}
	for name, value := range s.Tags {
		in.Tags = append(in.Tags, types.Tag{Key: aws.String(name), Value: aws.String(value)})
	}
	slices.SortFunc(in.Tags, func(a, b types.Tag) int { return strings.Compare(*a.Key, *b.Key) })
	err = c.send.Read(ctx, "create stack "+s.Name, func(ctx context.Context) error { // there are never two of a name
		out, err := c.api.CreateStack(ctx, in)
		if amazon.ReadAnswer(err).Code == "AlreadyExistsException" { // of a request without an answer, or of another command
			v, err := c.readStatus(ctx, s.Name)
			id = v.id
			return err
		}
		if err == nil {
			id = aws.ToString(out.StackId)
		}
		return err
	})
	return id, err
}

// update asks for the changes of the stack, if there are any.
func (c *Client) update(ctx context.Context, s Stack, id string) error {
	return c.send.Read(ctx, "update stack "+s.Name, func(ctx context.Context) error {
		_, err := c.api.UpdateStack(ctx, &cloudformation.UpdateStackInput{StackName: &id, TemplateBody: aws.String(s.Template()), Parameters: s.parameters(), Capabilities: []types.Capability{types.CapabilityCapabilityIam}})
		a := amazon.ReadAnswer(err)
		if a.Code == "ValidationError" && (strings.Contains(a.Reason, "No updates") || strings.Contains(a.Reason, "_IN_PROGRESS")) {
			return nil // it is so, or another command changes it, which is followed
		}
		return err
	})
}

func (s Stack) parameters() []types.Parameter {
	return []types.Parameter{{ParameterKey: aws.String(parameter), ParameterValue: &s.Options}}
}

// follow looks at a stack until CloudFormation has done what it is at, and calls tell after each look.
func (c *Client) follow(ctx context.Context, id string, tell func(state)) (v state, err error) {
	for {
		if v, err = c.readStatus(ctx, id); err != nil {
			return v, err
		}
		if v.there() {
			if err := c.readResources(ctx, &v); err != nil {
				return v, err
			}
		}
		tell(v)
		if !v.changing() {
			return v, nil
		}
		select {
		case <-time.After(c.look):
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
	}
}

// Destroy deletes the stack, as driver.Setup does.
func (c *Client) Destroy(ctx context.Context, s Stack, gone func(driver.Piece)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	v, err := c.read(ctx, s.Name)
	if err != nil || !v.there() || !v.ours() {
		return err
	}
	v, err = c.delete(ctx, s, v, gone)
	if err == nil && v.there() {
		return c.failed(ctx, "delete", s, v)
	}
	return err
}

// delete deletes a stack, waits for it, and calls gone after each piece, in the reverse of their
// order.
func (c *Client) delete(ctx context.Context, s Stack, v state, gone func(driver.Piece)) (state, error) {
	if v.changing() && v.status != types.StackStatusDeleteInProgress && v.status != types.StackStatusCreateInProgress {
		var err error
		if v, err = c.follow(ctx, v.id, func(state) {}); err != nil || !v.there() {
			return v, err
		}
	}
	err := c.send.Read(ctx, "delete stack "+s.Name, func(ctx context.Context) error {
		_, err := c.api.DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: &v.id})
		return err
	})
	if err != nil {
		return v, err
	}
	var left []int // pieces that are there, by their index: the stack is the first
	for i := range s.pieces() {
		if i == 0 || v.holds(s.Resources[i-1]) {
			left = append(left, i)
		}
	}
	return c.follow(ctx, v.id, func(now state) {
		for n := len(left) - 1; n >= 0; n-- {
			if i := left[n]; now.there() && (i == 0 || now.holds(s.Resources[i-1])) {
				return
			}
			gone(s.pieces()[left[n]])
			left = left[:n]
		}
	})
}
