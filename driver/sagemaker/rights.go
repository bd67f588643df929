package sagemaker

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

// rights are what a party needs of AWS beside the bucket.
func rights(whose driver.Party) []statement {
	const secrets = "arn:aws:secretsmanager:*:*:secret:drover/drover-*"
	if whose == driver.Agents {
		return []statement{
			{Sid: "Secrets", Effect: "Allow", Action: []string{"secretsmanager:GetSecretValue"}, Resource: []string{secrets}},
			{Sid: "Job", Effect: "Allow", Action: []string{"sagemaker:DescribeTrainingJob"}, Resource: []string{"arn:aws:sagemaker:*:*:training-job/drover-*"}}, // how often it was interrupted
			{Sid: "Login", Effect: "Allow", Action: []string{"ecr:GetAuthorizationToken"}, Resource: []string{"*"}},                                             // AWS knows no resource for it
			{Sid: "Images", Effect: "Allow", Action: []string{"ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"}, Resource: []string{"arn:aws:ecr:*:*:repository/*"}},
			{Sid: "Logs", Effect: "Allow", Action: []string{"logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"}, Resource: []string{"arn:aws:logs:*:*:log-group:/aws/sagemaker/*"}},
		}
	}
	return []statement{
		{Sid: "Look", Effect: "Allow", Action: []string{"sagemaker:ListTrainingJobs"}, Resource: []string{"*"}}, // AWS knows no resource for it
		{Sid: "Role", Effect: "Allow", Action: []string{"cloudformation:DescribeStacks", "cloudformation:DescribeStackResources"}, // finds the role that target up has made
			Resource: []string{"arn:aws:cloudformation:*:*:stack/drover-*"}},
		{Sid: "Jobs", Effect: "Allow", Action: []string{"sagemaker:CreateTrainingJob", "sagemaker:DescribeTrainingJob", "sagemaker:StopTrainingJob", "sagemaker:AddTags"}, Resource: []string{"arn:aws:sagemaker:*:*:training-job/drover-*"}},
		{Sid: "Roles", Effect: "Allow", Action: []string{"iam:PassRole"}, Resource: []string{"arn:aws:iam::*:role/drover-*", "arn:aws:iam::*:role/ROLE"},
			Condition: map[string]any{"StringEquals": map[string]string{"iam:PassedToService": "sagemaker.amazonaws.com"}}},
		{Sid: "Login", Effect: "Allow", Action: []string{"ecr:GetAuthorizationToken"}, Resource: []string{"*"}}, // for images that are built here
		{Sid: "Images", Effect: "Allow", Resource: []string{"arn:aws:ecr:*:*:repository/drover-*"}, Action: []string{"ecr:DescribeRepositories", "ecr:CreateRepository", "ecr:TagResource", "ecr:PutLifecyclePolicy",
			"ecr:BatchCheckLayerAvailability", "ecr:InitiateLayerUpload", "ecr:UploadLayerPart", "ecr:CompleteLayerUpload", "ecr:PutImage", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"}},
		{Sid: "Secrets", Effect: "Allow", Action: []string{"secretsmanager:CreateSecret", "secretsmanager:PutSecretValue", "secretsmanager:DeleteSecret", "secretsmanager:TagResource"}, Resource: []string{secrets}},
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
