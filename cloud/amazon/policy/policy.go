// Package policy writes IAM policies: what is granted of AWS, and what targets of AWS need alike.
//
// It refuses to know what grants are for beyond that. The tests of the targets prove it.
package policy

import "encoding/json"

// Statement allows actions on resources.
type Statement struct {
	Sid       string         `json:"Sid"`
	Effect    string         `json:"Effect"`
	Action    []string       `json:"Action"`
	Resource  []string       `json:"Resource"`
	Condition map[string]any `json:"Condition,omitempty"`
}

// Allow is a statement of a name that allows actions on resources.
func Allow(sid string, actions, resources []string) Statement {
	return Statement{Sid: sid, Effect: "Allow", Action: actions, Resource: resources}
}

// Document is a policy with statements, as IAM reads it.
func Document(all []Statement) (string, error) {
	text, err := json.MarshalIndent(map[string]any{"Version": "2012-10-17", "Statement": all}, "", "  ")
	if err != nil {
		return "", err
	}
	return string(text) + "\n", nil
}

// secrets are the names of all secrets of drover's.
var secrets = []string{"arn:aws:secretsmanager:*:*:secret:drover/drover-*"}

// ReadSecrets lets agents read what they are handed, and StoreSecrets a submitter hand it to them.
func ReadSecrets() Statement {
	return Allow("Secrets", []string{"secretsmanager:GetSecretValue"}, secrets)
}

// StoreSecrets is as ReadSecrets says.
func StoreSecrets() Statement {
	return Allow("Secrets", []string{"secretsmanager:CreateSecret", "secretsmanager:PutSecretValue", "secretsmanager:DeleteSecret", "secretsmanager:TagResource"}, secrets)
}

// LogIn lets a party log in to ECR. AWS knows no resource for it.
func LogIn() Statement {
	return Allow("Login", []string{"ecr:GetAuthorizationToken"}, []string{"*"})
}

// PushImages lets a submitter push images that were built for jobs beside their set-up.
func PushImages() Statement {
	return Allow("Images", []string{"ecr:DescribeRepositories", "ecr:CreateRepository", "ecr:TagResource", "ecr:PutLifecyclePolicy",
		"ecr:BatchCheckLayerAvailability", "ecr:InitiateLayerUpload", "ecr:UploadLayerPart", "ecr:CompleteLayerUpload", "ecr:PutImage", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"}, []string{"arn:aws:ecr:*:*:repository/drover-*"})
}

// PassRole lets a submitter give a service the roles that drover has made, and the role ROLE, which stands for the name of one that it has not.
func PassRole(service string) Statement {
	s := Allow("Roles", []string{"iam:PassRole"}, []string{"arn:aws:iam::*:role/drover-*", "arn:aws:iam::*:role/ROLE"})
	s.Condition = map[string]any{"StringEquals": map[string]string{"iam:PassedToService": service}}
	return s
}
