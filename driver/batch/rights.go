package batch

import (
	"encoding/json"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// statement is one of an IAM policy.
type statement struct {
	Sid       string         `json:"Sid"`
	Effect    string         `json:"Effect"`
	Action    []string       `json:"Action"`
	Resource  []string       `json:"Resource"`
	Condition map[string]any `json:"Condition,omitempty"`
}

// secretARNs are the names of all secrets of drover's.
const secretARNs = "arn:aws:secretsmanager:*:*:secret:drover/drover-*"

// rights are what a party needs of AWS beside the bucket.
func rights(whose driver.Party) []statement {
	if whose == driver.Agents {
		return []statement{{Sid: "Secrets", Effect: "Allow", Action: []string{"secretsmanager:GetSecretValue"}, Resource: []string{secretARNs}}}
	}
	return []statement{
		{Sid: "Look", Effect: "Allow", Resource: []string{"*"}, // AWS knows no resource for these
			Action: []string{"batch:DescribeJobQueues", "batch:DescribeComputeEnvironments", "batch:DescribeJobDefinitions", "batch:DescribeJobs", "batch:ListJobs", "batch:GetJobQueueSnapshot", "servicequotas:ListServiceQuotas"}},
		{Sid: "Logs", Effect: "Allow", Action: []string{"logs:GetLogEvents"}, Resource: []string{"arn:aws:logs:*:*:log-group:/aws/batch/job:*", "arn:aws:logs:*:*:log-group:/drover/*"}}, // why an agent never came up; helps
		{Sid: "Jobs", Effect: "Allow", Action: []string{"batch:SubmitJob", "batch:TerminateJob", "batch:TagResource"},
			Resource: []string{"arn:aws:batch:*:*:job-queue/*", "arn:aws:batch:*:*:job-definition/drover-*", "arn:aws:batch:*:*:job/*"}},
		{Sid: "Definitions", Effect: "Allow", Action: []string{"batch:RegisterJobDefinition", "batch:TagResource"}, Resource: []string{"arn:aws:batch:*:*:job-definition/drover-*"}},
		{Sid: "Roles", Effect: "Allow", Action: []string{"iam:PassRole"}, Resource: []string{"arn:aws:iam::*:role/drover-*", "arn:aws:iam::*:role/ROLE"},
			Condition: map[string]any{"StringEquals": map[string]string{"iam:PassedToService": "ecs-tasks.amazonaws.com"}}},
		{Sid: "Login", Effect: "Allow", Action: []string{"ecr:GetAuthorizationToken"}, Resource: []string{"*"}}, // for images that are built here; AWS knows no resource for it
		{Sid: "Images", Effect: "Allow", Resource: []string{"arn:aws:ecr:*:*:repository/drover-*"}, Action: []string{"ecr:DescribeRepositories", "ecr:CreateRepository", "ecr:TagResource", "ecr:PutLifecyclePolicy",
			"ecr:BatchCheckLayerAvailability", "ecr:InitiateLayerUpload", "ecr:UploadLayerPart", "ecr:CompleteLayerUpload", "ecr:PutImage", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"}},
		{Sid: "Secrets", Effect: "Allow", Action: []string{"secretsmanager:CreateSecret", "secretsmanager:PutSecretValue", "secretsmanager:DeleteSecret", "secretsmanager:TagResource"}, Resource: []string{secretARNs}},
	}
}

// policy is an IAM policy with them. ROLE in it stands for the name of the agents' role where no set-up of
// drover's has made it.
func policy(_ driver.Config, whose driver.Party, _ driver.Scope) (string, error) {
	text, err := json.MarshalIndent(map[string]any{"Version": "2012-10-17", "Statement": rights(whose)}, "", "  ")
	if err != nil {
		return "", fault.Wrap(err, fault.Bug, "", "print policy")
	}
	return string(text) + "\n", nil
}
