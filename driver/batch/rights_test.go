package batch

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/drover-run/drover/cloud/amazon/policy"
	"github.com/drover-run/drover/driver"
)

// What a submitter is granted is what the driver asks for, and agents are granted no more than their
// secrets: what they need of the bucket is the store's policy.
func TestPoliciesNameWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	for whose, want := range map[driver.Party][]string{
		driver.Agents: {"secretsmanager:GetSecretValue"},
		driver.Submitters: {"batch:DescribeComputeEnvironments", "batch:DescribeJobDefinitions", "batch:DescribeJobQueues", "batch:DescribeJobs", "batch:GetJobQueueSnapshot", "batch:ListJobs", "batch:RegisterJobDefinition", "batch:SubmitJob",
			"batch:TagResource", "batch:TerminateJob", "ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:CompleteLayerUpload", "ecr:CreateRepository", "ecr:DescribeRepositories", "ecr:GetAuthorizationToken",
			"ecr:GetDownloadUrlForLayer", "ecr:InitiateLayerUpload", "ecr:PutImage", "ecr:PutLifecyclePolicy", "ecr:TagResource", "ecr:UploadLayerPart", "iam:PassRole", "logs:GetLogEvents", "secretsmanager:CreateSecret", "secretsmanager:DeleteSecret", "secretsmanager:PutSecretValue", "secretsmanager:TagResource", "servicequotas:ListServiceQuotas"},
	} {
		text, err := writePolicy(driver.Config{}, whose, driver.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		var p struct{ Statement []policy.Statement }
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range p.Statement {
			got = append(got, s.Action...)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q", whose, got)
		}
	}
}
