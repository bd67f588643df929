package account

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// KindQueue is the kind of a set-up's queues among its pieces.
const KindQueue = "job queue"

// idle is what pieces cost that look as if they might cost something.
const idle = "$0.00"

// Stack is the stack of a scope in a region. Its queues' names begin with queue; "": with the stack's.
func Stack(name string, s driver.Scope, queue, region string, o Options) (stack.Stack, error) {
	st := stack.Stack{Name: name, Description: "drover: what jobs of project " + s.Project + " stand on in AWS Batch", Tags: map[string]string{TagProject: s.Project, TagStore: amazon.TagText(s.Store, 256)}}
	subnets, groups := texts(o.subnets), texts(o.groups)
	if o.environment != "" || o.queue != "" {
		own, err := readOwn(o, queue)
		if err != nil {
			return st, err
		}
		return own.stack(st, s, region, o)
	}
	if len(o.subnets) == 0 {
		st.Resources, subnets, groups = stack.Network(name, cmp.Or(o.zones, stack.ZonesOf(region)))
	}
	agents, err := agentsRole(s.Rights, o)
	if err != nil {
		return st, err
	}
	st.Resources = append(st.Resources, logGroup(name), agents)
	st.Resources = append(st.Resources, machinesRole()...)
	st.Resources = append(st.Resources, machines(name, s.Project, o), fargateRole())
	b := built{name: name, queue: cmp.Or(queue, name), scope: s, options: o, subnets: subnets, groups: groups}
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
func agentsRole(storeRights string, o Options) (r stack.Resource, err error) {
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
func dataRights(o Options) (all []any) {
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

// logGroup is where containers print to, and logsOf its name.
func logGroup(name string) stack.Resource {
	return stack.Resource{ID: "Logs", Type: "AWS::Logs::LogGroup", Kind: "log group", Name: logsOf(name), Idle: idle, Properties: map[string]any{"LogGroupName": logsOf(name), "RetentionInDays": 14}}
}

func logsOf(name string) string { return "/drover/" + name }

// machinesRole is the role of machines, as machines take it.
func machinesRole() []stack.Resource {
	return []stack.Resource{roleOf("MachinesRole", "role of machines", "ec2.amazonaws.com", "AmazonEC2ContainerServiceforEC2Role"),
		{ID: "MachinesProfile", Type: "AWS::IAM::InstanceProfile", Kind: "instance profile", Properties: map[string]any{"Roles": []any{stack.Ref("MachinesRole")}}}}
}

func fargateRole() stack.Resource {
	return roleOf("FargateRole", "role of Fargate", "ecs-tasks.amazonaws.com", "AmazonECSTaskExecutionRolePolicy")
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
func machines(name, project string, o Options) stack.Resource {
	return stack.Resource{ID: "Machines", Type: "AWS::EC2::LaunchTemplate", Kind: "launch template", Properties: map[string]any{"LaunchTemplateData": map[string]any{
		"MetadataOptions":     map[string]any{"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
		"BlockDeviceMappings": []any{map[string]any{"DeviceName": "/dev/xvda", "Ebs": map[string]any{"VolumeType": "gp3", "VolumeSize": o.disk, "Encrypted": true, "DeleteOnTermination": true}}},
		"TagSpecifications":   []any{map[string]any{"ResourceType": "volume", "Tags": []any{map[string]any{"Key": stack.TagManaged, "Value": stack.ManagedBy}, map[string]any{"Key": TagProject, "Value": project}, map[string]any{"Key": "Name", "Value": name}}}},
		"UserData":            map[string]any{"Fn::Base64": userData}}}}
}
