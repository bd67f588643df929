package batch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// Setup makes, as one stack of CloudFormation, what jobs of a project stand on in an account: a network,
// roles, compute environments and queues.
type Setup struct {
	engine *engine
	look   time.Duration
}

var _ driver.Setup = (*Setup)(nil)

// setupName is the name of a scope's stack, and of its queue of spot capacity where the scope names none.
func setupName(s driver.Scope, at site) string {
	sum := sha256.Sum256(fmt.Append(nil, s.Store, "\x00", s.Project, "\x00", at.queue))
	name := strings.TrimPrefix(s.Project, namePrefix)
	if at.queue != "" {
		name = strings.TrimPrefix(strings.ReplaceAll(at.queue, "_", "-"), namePrefix)
	}
	return namePrefix + name + "-" + hex.EncodeToString(sum[:3])
}

// mostQueue is how long the name of a set-up's queue may be, so that those of its other queues and its stack have no more
// than 128 letters.
const mostQueue = 100

// open finds the stack of a scope, with the options that it was made with and those of the scope.
func (u *Setup) open(ctx context.Context, s driver.Scope) (c *client, stacks *stack.Client, made stack.Stack, err error) {
	if ctx.Err() != nil {
		return nil, nil, made, context.Cause(ctx)
	}
	at, err := parseSite(s.Detail)
	if err != nil {
		return nil, nil, made, err
	}
	if namesFargate(at.queue) {
		at.queue = "" // they are queues of the project's set-up
	}
	asked, err := mergeSetup(s.Args)
	if err != nil {
		return nil, nil, made, err
	}
	if len(at.queue) > mostQueue {
		return nil, nil, made, fault.New(fault.Invalid, "Choose a shorter one.", "set up AWS Batch: the names of other queues begin with %s, which has more than %d letters", at.queue, mostQueue)
	}
	if !strings.HasPrefix(s.Store, "s3://") {
		return nil, nil, made, fault.New(fault.Invalid, "Name a bucket: `--store s3://bucket/prefix`.", "set up AWS Batch: its agents open no store in %s", s.Store)
	}
	if c, err = u.engine.clientOf(ctx, at.region); err != nil {
		return nil, nil, made, err
	}
	stacks = stack.New(c.send.Account, u.look)
	name := setupName(s, at)
	kept, err := stacks.Options(ctx, name)
	if err != nil {
		return nil, nil, made, err
	}
	all, err := mergeSetup(append(strings.Fields(kept), asked...))
	if err != nil {
		return nil, nil, made, err
	}
	o, err := parseSetup(all)
	if err != nil {
		return nil, nil, made, err
	}
	at.region = c.region
	made, err = setupStack(name, s, at, o)
	made.Options = strings.Join(all, " ")
	return c, stacks, made, err
}

// Describe gives the stack, its resources, and which of its queues' names something else has.
func (u *Setup) Describe(ctx context.Context, s driver.Scope) ([]driver.Piece, error) {
	c, stacks, st, err := u.open(ctx, s)
	if err != nil {
		return nil, err
	}
	return describeSetup(ctx, c, stacks, st)
}

func describeSetup(ctx context.Context, c *client, stacks *stack.Client, st stack.Stack) ([]driver.Piece, error) {
	pieces, err := stacks.Describe(ctx, st)
	if err != nil || pieces[0].State != driver.PieceMissing {
		return pieces, err
	}
	found, err := c.queues(ctx, queueNames(st))
	for _, q := range found {
		i := slices.IndexFunc(pieces, func(p driver.Piece) bool { return p.Kind == kindQueue && p.Name == aws.ToString(q.JobQueueName) })
		if i >= 0 && pieces[i].State == driver.PieceMissing && q.Status != types.JQStatusDeleted && q.Status != types.JQStatusDeleting && q.Tags[tagSetup] != st.Name {
			pieces[i].State, pieces[i].Why = driver.PieceForeign, "a queue that this set-up did not make"
		}
	}
	return pieces, err
}

// Apply makes the stack.
func (u *Setup) Apply(ctx context.Context, s driver.Scope, made func(driver.Piece)) error {
	c, stacks, st, err := u.open(ctx, s)
	if err != nil {
		return err
	}
	pieces, err := describeSetup(ctx, c, stacks, st)
	if err != nil {
		return err
	}
	for _, p := range pieces {
		if p.State == driver.PieceForeign && p.Kind == kindQueue {
			return fault.New(fault.Invalid, "Use it as it is, `--on batch/"+p.Name+"`, or choose another name.", "set up AWS Batch: queue %s is %s", p.Name, p.Why)
		}
	}
	return stacks.Apply(ctx, st, made)
}

// Destroy deletes the stack and the job definitions with its role. It deletes nothing while jobs are in
// its queues that drover did not submit.
func (u *Setup) Destroy(ctx context.Context, s driver.Scope, gone func(driver.Piece)) error {
	c, stacks, st, err := u.open(ctx, s)
	if err != nil {
		return err
	}
	role := ""
	found, err := c.queues(ctx, queueNames(st))
	if err != nil {
		return err
	}
	for _, q := range found {
		if q.Tags[tagSetup] != st.Name {
			continue
		}
		role = q.Tags[roleTag]
		name, err := c.liveJob(ctx, aws.ToString(q.JobQueueName))
		if err != nil {
			return err
		}
		if name != "" {
			return fault.New(fault.Invalid, "Wait for it, or end it with `aws batch terminate-job`.", "take away the set-up of AWS Batch: job %s in queue %s has not ended", name, aws.ToString(q.JobQueueName))
		}
	}
	if role != "" {
		if err := c.removeDefinitions(ctx, role); err != nil {
			return err
		}
	}
	return stacks.Destroy(ctx, st, gone)
}

// queueNames are those of a set-up's queues.
func queueNames(st stack.Stack) (all []string) {
	for _, r := range st.Resources {
		if r.Kind == kindQueue {
			all = append(all, r.Name)
		}
	}
	return all
}

// liveJob is the name of a job in a queue that has not ended; "": there is none.
func (c *client) liveJob(ctx context.Context, queue string) (string, error) {
	for _, status := range types.JobStatus("").Values() {
		if !isAlive(status) {
			continue
		}
		var out *batch.ListJobsOutput
		err := c.send.Read(ctx, "list the jobs of queue "+queue, func(ctx context.Context) (err error) {
			out, err = c.api.ListJobs(ctx, &batch.ListJobsInput{JobQueue: &queue, JobStatus: status, MaxResults: aws.Int32(1)})
			return err
		})
		if err != nil {
			return "", err
		}
		if len(out.JobSummaryList) > 0 {
			return aws.ToString(out.JobSummaryList[0].JobName), nil
		}
	}
	return "", nil
}

// removeDefinitions takes the job definitions of drover's with a role out of use.
func (c *client) removeDefinitions(ctx context.Context, role string) error {
	in := &batch.DescribeJobDefinitionsInput{Status: aws.String("ACTIVE")}
	for {
		var out *batch.DescribeJobDefinitionsOutput
		err := c.send.Read(ctx, "look for job definitions", func(ctx context.Context) (err error) {
			out, err = c.api.DescribeJobDefinitions(ctx, in)
			return err
		})
		if err != nil {
			return err
		}
		for _, d := range out.JobDefinitions {
			if !strings.HasPrefix(aws.ToString(d.JobDefinitionName), namePrefix) || d.ContainerProperties == nil || aws.ToString(d.ContainerProperties.JobRoleArn) != role {
				continue
			}
			err := c.send.Read(ctx, "deregister a job definition", func(ctx context.Context) error {
				_, err := c.api.DeregisterJobDefinition(ctx, &batch.DeregisterJobDefinitionInput{JobDefinition: d.JobDefinitionArn})
				return err
			})
			if err != nil {
				return err
			}
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return nil
		}
	}
}

// The tags of a set-up's queues, by which offers find them.
const (
	tagSetup     = "drover-set-up" // the stack's name
	tagProject   = "drover-project"
	tagStore     = "drover-store"
	tagPurchase  = "drover-purchase" // one of the purchases below
	tagLogs      = "drover-log-group"
	tagExecution = "drover-execution-role" // by which Fargate pulls images
)

// kindQueue is the kind of a set-up's queues among its pieces.
const kindQueue = "job queue"

// idle is what pieces cost that look as if they might cost something.
const idle = "$0.00"

// setupStack is the stack of a scope.
func setupStack(name string, s driver.Scope, at site, o setupOptions) (stack.Stack, error) {
	st := stack.Stack{Name: name, Description: "drover: what jobs of project " + s.Project + " stand on in AWS Batch", Tags: map[string]string{tagProject: s.Project, tagStore: tagText(s.Store, 256)}}
	subnets, groups := texts(o.subnets), texts(o.groups)
	if len(o.subnets) == 0 {
		st.Resources, subnets, groups = network(name, cmp.Or(o.zones, zonesOf(at.region)))
	}
	agents, err := agentsRole(s.Rights, o)
	if err != nil {
		return st, err
	}
	logs := "/drover/" + name
	st.Resources = append(st.Resources,
		stack.Resource{ID: "Logs", Type: "AWS::Logs::LogGroup", Kind: "log group", Name: logs, Idle: idle, Properties: map[string]any{"LogGroupName": logs, "RetentionInDays": 14}},
		agents,
		roleOf("MachinesRole", "role of machines", "ec2.amazonaws.com", "AmazonEC2ContainerServiceforEC2Role"),
		stack.Resource{ID: "MachinesProfile", Type: "AWS::IAM::InstanceProfile", Kind: "instance profile", Properties: map[string]any{"Roles": []any{stack.Ref("MachinesRole")}}},
		machines(name, s.Project, o),
		roleOf("FargateRole", "role of Fargate", "ecs-tasks.amazonaws.com", "AmazonECSTaskExecutionRolePolicy"),
	)
	b := built{name: name, queue: cmp.Or(at.queue, name), logs: logs, scope: s, options: o, subnets: subnets, groups: groups}
	st.Resources = append(st.Resources, b.environments()...)
	st.Resources = append(st.Resources, b.queues()...)
	return st, nil
}

func texts(list []string) (all []any) {
	for _, s := range list {
		all = append(all, s)
	}
	return all
}

// trust lets a service of AWS take a role.
func trust(service string) map[string]any {
	return map[string]any{"Version": "2012-10-17", "Statement": []any{map[string]any{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": map[string]any{"Service": service}}}}
}

// agentsRole is the role of containers: what the store's owner has written of their rights there, their
// secrets, and the addresses of S3 that the options name.
func agentsRole(storeRights string, o setupOptions) (r stack.Resource, err error) {
	var store map[string]any
	if err := json.Unmarshal([]byte(storeRights), &store); err != nil {
		return r, fault.Wrap(err, fault.Bug, "", "set up AWS Batch: read the rights on the store")
	}
	secrets := map[string]any{"Version": "2012-10-17", "Statement": []any{map[string]any{"Effect": "Allow", "Action": "secretsmanager:GetSecretValue",
		"Resource": stack.Sub("arn:${AWS::Partition}:secretsmanager:${AWS::Region}:${AWS::AccountId}:secret:drover/drover-*")}}}
	policies := []any{map[string]any{"PolicyName": "store", "PolicyDocument": store}, map[string]any{"PolicyName": "secrets", "PolicyDocument": secrets}}
	if more := dataRights(o); len(more) > 0 {
		policies = append(policies, map[string]any{"PolicyName": "data", "PolicyDocument": map[string]any{"Version": "2012-10-17", "Statement": more}})
	}
	return stack.Resource{ID: "AgentsRole", Type: "AWS::IAM::Role", Kind: "role of agents", Properties: map[string]any{"AssumeRolePolicyDocument": trust("ecs-tasks.amazonaws.com"),
		"Policies": policies}}, nil
}

// dataRights are statements for the addresses of S3 that agents may read and write beside the store.
func dataRights(o setupOptions) (all []any) {
	grant := func(addresses []string, actions ...string) {
		for _, address := range addresses {
			bucket, prefix, _ := strings.Cut(strings.TrimPrefix(address, "s3://"), "/")
			all = append(all, map[string]any{"Effect": "Allow", "Action": actions, "Resource": partitioned("s3:::" + bucket + "/" + prefix + "*")},
				map[string]any{"Effect": "Allow", "Action": []string{"s3:ListBucket"}, "Resource": partitioned("s3:::" + bucket), "Condition": map[string]any{"StringLike": map[string]string{"s3:prefix": prefix + "*"}}})
		}
	}
	grant(o.reads, "s3:GetObject")
	grant(o.writes, "s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload")
	return all
}

// partitioned is an ARN in the partition of the stack. What is in the ARN is no reference.
func partitioned(rest string) map[string]any {
	return stack.Sub("arn:${AWS::Partition}:" + strings.ReplaceAll(rest, "${", "${!"))
}

// roleOf is a role with one of Amazon's own policies for services: that of ECS's machines, which Batch's are, or that by
// which Fargate pulls images and writes logs.
func roleOf(id, kind, service, policy string) stack.Resource {
	return stack.Resource{ID: id, Type: "AWS::IAM::Role", Kind: kind, Properties: map[string]any{"AssumeRolePolicyDocument": trust(service),
		"ManagedPolicyArns": []any{stack.Sub("arn:${AWS::Partition}:iam::aws:policy/service-role/" + policy)}}}
}

// userData has ECS tell containers that their machine goes: its agent does so only where it is told to.
const userData = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="drover"

--drover
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/sh
echo ECS_ENABLE_SPOT_INSTANCE_DRAINING=true >>/etc/ecs/ecs.config

--drover--
`

// machines is the launch template of machines. Its metadata service wants a token, and answers containers,
// which ask it whether their machine goes.
func machines(name, project string, o setupOptions) stack.Resource {
	return stack.Resource{ID: "Machines", Type: "AWS::EC2::LaunchTemplate", Kind: "launch template", Properties: map[string]any{"LaunchTemplateData": map[string]any{
		"MetadataOptions":     map[string]any{"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
		"BlockDeviceMappings": []any{map[string]any{"DeviceName": "/dev/xvda", "Ebs": map[string]any{"VolumeType": "gp3", "VolumeSize": o.disk, "Encrypted": true, "DeleteOnTermination": true}}},
		"TagSpecifications":   []any{map[string]any{"ResourceType": "volume", "Tags": []any{map[string]any{"Key": tagManaged, "Value": managedBy}, map[string]any{"Key": tagProject, "Value": project}, map[string]any{"Key": "Name", "Value": name}}}},
		"UserData":            map[string]any{"Fn::Base64": userData}}}}
}
