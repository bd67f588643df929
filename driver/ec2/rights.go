package ec2

import (
	"github.com/drover-run/drover/cloud/amazon/policy"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/stack"
)

// groupRights is the name of what agents may do with their group.
const groupRights = "Group"

// rights are what a party needs of AWS beside the bucket.
func rights(whose driver.Party) []policy.Statement {
	groups := []string{"arn:aws:autoscaling:*:*:autoScalingGroup:*:autoScalingGroupName/drover-*"}
	templates := []string{"arn:aws:ec2:*:*:launch-template/*"}
	ours := func(s policy.Statement, key string) policy.Statement {
		s.Condition = map[string]any{"StringEquals": map[string]string{key + stack.TagManaged: stack.ManagedBy}}
		return s
	}
	if whose == driver.Agents {
		return []policy.Statement{
			ours(policy.Allow(groupRights, []string{"autoscaling:TerminateInstanceInAutoScalingGroup", "autoscaling:PutScheduledUpdateGroupAction"}, groups), "autoscaling:ResourceTag/"),
			policy.ReadSecrets(),
			policy.LogIn(),
			policy.Allow("Images", []string{"ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"}, []string{"arn:aws:ecr:*:*:repository/*"}),
		}
	}
	return []policy.Statement{
		policy.Allow("Look", []string{"autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeScalingActivities", "ec2:DescribeInstances", "ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings",
			"ec2:DescribeSubnets", "ec2:DescribeRouteTables", "ec2:DescribeImages", "ec2:DescribeLaunchTemplates", "ec2:DescribeSpotPriceHistory", "ec2:GetConsoleOutput", "servicequotas:ListServiceQuotas"}, []string{"*"}), // AWS knows no resource for these
		policy.Allow("Setup", []string{"cloudformation:DescribeStacks", "cloudformation:DescribeStackResources"}, []string{"arn:aws:cloudformation:*:*:stack/drover-*"}), // finds what target up has made
		policy.Allow("Groups", []string{"autoscaling:CreateAutoScalingGroup", "autoscaling:UpdateAutoScalingGroup", "autoscaling:DeleteAutoScalingGroup", "autoscaling:SuspendProcesses",
			"autoscaling:PutScheduledUpdateGroupAction", "autoscaling:TerminateInstanceInAutoScalingGroup", "autoscaling:CreateOrUpdateTags"}, groups),
		policy.Allow("Templates", []string{"ec2:CreateLaunchTemplate", "ec2:CreateTags"}, templates),
		ours(policy.Allow("OwnTemplates", []string{"ec2:DeleteLaunchTemplate"}, templates), "ec2:ResourceTag/"),
		ours(policy.Allow("Machines", []string{"ec2:TerminateInstances"}, []string{"arn:aws:ec2:*:*:instance/*"}), "ec2:ResourceTag/"),
		policy.Allow("Launch", []string{"ec2:RunInstances", "ec2:CreateTags"}, []string{"*"}),                                                                                                                            // a group with a launch template asks for it; drover sends neither
		policy.Allow("Parameters", []string{"ssm:GetParameters"}, []string{"arn:aws:ssm:*::parameter/aws/service/*"}),                                                                                                    // the public names of AMIs
		policy.Allow("ServiceRoles", []string{"iam:CreateServiceLinkedRole"}, []string{"arn:aws:iam::*:role/aws-service-role/autoscaling.amazonaws.com/*", "arn:aws:iam::*:role/aws-service-role/spot.amazonaws.com/*"}), // an account's first job makes AWS's own
		policy.PassRole("ec2.amazonaws.com"),
		policy.LogIn(), // for images that are built here
		policy.PushImages(),
		policy.StoreSecrets(),
	}
}

// writePolicy is an IAM policy with them.
func writePolicy(_ driver.Config, whose driver.Party, _ driver.Scope) (string, error) {
	return policy.Document(rights(whose))
}
