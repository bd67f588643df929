package batch

import (
	"github.com/drover-run/drover/cloud/amazon/policy"
	"github.com/drover-run/drover/driver"
)

// rights are what a party needs of AWS beside the bucket.
func rights(whose driver.Party) []policy.Statement {
	if whose == driver.Agents {
		return []policy.Statement{policy.ReadSecrets()}
	}
	return []policy.Statement{
		policy.Allow("Look", []string{"batch:DescribeJobQueues", "batch:DescribeComputeEnvironments", "batch:DescribeJobDefinitions", "batch:DescribeJobs", "batch:ListJobs", "batch:GetJobQueueSnapshot", "servicequotas:ListServiceQuotas"},
			[]string{"*"}), // AWS knows no resource for these
		policy.Allow("Logs", []string{"logs:GetLogEvents"}, []string{"arn:aws:logs:*:*:log-group:/aws/batch/job:*", "arn:aws:logs:*:*:log-group:/drover/*"}), // why an agent never came up; helps
		policy.Allow("Jobs", []string{"batch:SubmitJob", "batch:TerminateJob", "batch:TagResource"},
			[]string{"arn:aws:batch:*:*:job-queue/*", "arn:aws:batch:*:*:job-definition/drover-*", "arn:aws:batch:*:*:job/*"}),
		policy.Allow("Definitions", []string{"batch:RegisterJobDefinition", "batch:TagResource"}, []string{"arn:aws:batch:*:*:job-definition/drover-*"}),
		policy.PassRole("ecs-tasks.amazonaws.com"),
		policy.LogIn(), // for images that are built here
		policy.PushImages(),
		policy.StoreSecrets(),
	}
}

// writePolicy is an IAM policy with them.
func writePolicy(_ driver.Config, whose driver.Party, _ driver.Scope) (string, error) {
	return policy.Document(rights(whose))
}
