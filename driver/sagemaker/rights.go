package sagemaker

import (
	"github.com/drover-run/drover/cloud/amazon/policy"
	"github.com/drover-run/drover/driver"
)

// rights are what a party needs of AWS beside the bucket.
func rights(whose driver.Party) []policy.Statement {
	jobs, processes := []string{"arn:aws:sagemaker:*:*:training-job/drover-*"}, []string{"arn:aws:sagemaker:*:*:processing-job/drover-*"}
	if whose == driver.Agents {
		return []policy.Statement{
			policy.ReadSecrets(),
			policy.Allow("Job", []string{"sagemaker:DescribeTrainingJob"}, jobs), // how often it was interrupted, and whether a user has stopped it
			policy.Allow("Process", []string{"sagemaker:DescribeProcessingJob"}, processes),
			policy.LogIn(),
			policy.Allow("Images", []string{"ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"}, []string{"arn:aws:ecr:*:*:repository/*"}),
			policy.Allow("Logs", []string{"logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"}, []string{"arn:aws:logs:*:*:log-group:/aws/sagemaker/*"}),
			policy.Allow("Metrics", []string{"cloudwatch:PutMetricData"}, []string{"*"}), // those of the console; AWS knows no resource for it
		}
	}
	return []policy.Statement{
		policy.Allow("Look", []string{"sagemaker:ListTrainingJobs", "sagemaker:ListProcessingJobs", "servicequotas:ListServiceQuotas"}, []string{"*"}),                  // AWS knows no resource for it
		policy.Allow("Role", []string{"cloudformation:DescribeStacks", "cloudformation:DescribeStackResources"}, []string{"arn:aws:cloudformation:*:*:stack/drover-*"}), // finds the role that target up has made
		policy.Allow("Jobs", []string{"sagemaker:CreateTrainingJob", "sagemaker:DescribeTrainingJob", "sagemaker:StopTrainingJob", "sagemaker:UpdateTrainingJob", "sagemaker:AddTags", "sagemaker:ListTags"}, jobs),
		policy.Allow("Processes", []string{"sagemaker:CreateProcessingJob", "sagemaker:DescribeProcessingJob", "sagemaker:StopProcessingJob", "sagemaker:AddTags", "sagemaker:ListTags"}, processes),
		policy.Allow("Logs", []string{"logs:DescribeLogStreams", "logs:GetLogEvents"}, []string{"arn:aws:logs:*:*:log-group:/aws/sagemaker/*"}), // why an agent never came up; helps
		policy.PassRole("sagemaker.amazonaws.com"),
		policy.LogIn(), // for images that are built here
		policy.PushImages(),
		policy.StoreSecrets(),
	}
}

// writePolicy is an IAM policy with them.
func writePolicy(_ driver.Config, whose driver.Party, _ driver.Scope) (string, error) {
	return policy.Document(rights(whose))
}
