package sagemaker

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
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// Setup makes, as one stack of CloudFormation, what training jobs of a project need in an account: their role.
type Setup struct {
	engine *engine
	look   time.Duration
}

var _ driver.Setup = (*Setup)(nil)

// roleID is the role's ID in the stack.
const roleID = "Role"

// setupName is the name of the stack of a project with its store.
func setupName(project, at string) string {
	at, _, _ = strings.Cut(at, "?")
	sum := sha256.Sum256(fmt.Append(nil, Name, "\x00", at, "\x00", project))
	return "drover-" + strings.TrimPrefix(project, "drover-") + "-" + hex.EncodeToString(sum[:3])
}

// setupOf is what is known of a project's set-up; the zero value: there is none.
type setupOf struct{ name, account, role string }

// findSetup finds the set-up of a project with its store.
func (c *client) findSetup(ctx context.Context, project, at string) (s setupOf, err error) {
	if project == "" {
		return s, nil
	}
	name := setupName(project, at)
	id, role, err := c.stacks.Find(ctx, name, roleID)
	if fault.KindOf(err) == fault.Denied {
		return s, nil // a user without the right to look names the role
	}
	if err != nil || role == "" {
		return s, err
	}
	parts := strings.Split(id, ":") // arn:PARTITION:cloudformation:REGION:ACCOUNT:stack/...
	if len(parts) < 5 {             // of no form that AWS has
		return s, nil
	}
	return setupOf{name, parts[4], "arn:" + parts[1] + ":iam::" + parts[4] + ":role/" + role}, nil
}

// findRole is the role of a project's set-up; "": there is none.
func (c *client) findRole(ctx context.Context, project, at string) (string, error) {
	s, err := c.findSetup(ctx, project, at)
	return s.role, err
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
	for _, arg := range s.Args { // options of jobs may stand beside
		if name, _, _ := strings.Cut(arg, "="); optionNames[name] == "" {
			return nil, st, driver.UnknownOption("SageMaker", arg, optionNames, "docs/how-to/run-on-sagemaker.md")
		}
	}
	if !strings.HasPrefix(s.Store, "s3://") {
		return nil, st, fault.New(fault.Invalid, "Name a bucket: `--store s3://bucket/prefix`.", "set up SageMaker: its agents open no store in %s", s.Store)
	}
	if c, err = u.engine.clients.In(ctx, at.region); err != nil {
		return nil, st, err
	}
	c.stacks = stack.New(c.send.Account, u.look)
	st, err = newStack(s)
	return c, st, err
}

// newStack is the stack of a scope.
func newStack(s driver.Scope) (st stack.Stack, err error) {
	var store map[string]any
	if err := json.Unmarshal([]byte(s.Rights), &store); err != nil {
		return st, fault.Wrap(err, fault.Bug, "", "set up SageMaker: read the rights on the store")
	}
	var service []any
	for _, r := range stack.Statements(rights(driver.Agents)) {
		if r["Sid"] == "Images" {
			r["Resource"] = []any{"*"} // framework images are of Amazon's own accounts
		}
		service = append(service, r)
	}
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(outputOf(options{}, s.Store), "s3://"), "/")
	service = append(service, map[string]any{"Sid": "Output", "Effect": "Allow", "Action": []string{"s3:PutObject", "s3:AbortMultipartUpload"}, "Resource": stack.Sub("arn:${AWS::Partition}:s3:::" + bucket + "/" + strings.ReplaceAll(prefix, "${", "${!") + "/*")})
	trust := map[string]any{"Version": "2012-10-17", "Statement": []any{map[string]any{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": map[string]any{"Service": "sagemaker.amazonaws.com"},
		"Condition": map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": stack.Ref("AWS::AccountId")}}}}}
	name := setupName(s.Project, s.Store)
	return stack.Stack{Name: name, Description: "drover: the role of training jobs of project " + s.Project, Tags: map[string]string{"drover-project": s.Project, "drover-store": amazon.TagText(s.Store, 256)},
		Resources: []stack.Resource{{ID: roleID, Type: "AWS::IAM::Role", Kind: "role of training jobs", Properties: map[string]any{"AssumeRolePolicyDocument": trust,
			"Policies": []any{map[string]any{"PolicyName": "store", "PolicyDocument": store}, map[string]any{"PolicyName": "service", "PolicyDocument": map[string]any{"Version": "2012-10-17", "Statement": service}}}}}}}, nil
}

// Describe gives the stack, its role, and the repositories of images that were built for its jobs.
func (u *Setup) Describe(ctx context.Context, s driver.Scope) ([]driver.Piece, error) {
	c, st, err := u.open(ctx, s)
	if err != nil {
		return nil, err
	}
	pieces, err := c.stacks.Describe(ctx, st)
	if err != nil {
		return nil, err
	}
	warm, err := c.warmPools(ctx, s.Project)
	if err != nil || pieces[0].State != driver.PieceThere {
		return append(pieces, warm...), err
	}
	pieces = append(pieces, warm...)
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

// Destroy deletes the stack, and the repositories of images that were built for its jobs.
func (u *Setup) Destroy(ctx context.Context, s driver.Scope, gone func(driver.Piece)) error {
	c, st, err := u.open(ctx, s)
	if err != nil {
		return err
	}
	if err := c.endWarmPools(ctx, s.Project, gone); err != nil {
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
