package gcpbatch

import (
	"fmt"
	"strings"

	"github.com/drover-run/drover/driver"
)

// roles are what a party needs of a project beside the bucket, and why.
var roles = map[driver.Party][]struct{ role, why string }{
	driver.Agents: {
		{"roles/batch.agentReporter", "machines report to Google Batch"},
		{"roles/logging.logWriter", "what tasks print goes to Cloud Logging"},
		{"roles/artifactregistry.reader", "images of Artifact Registry"},
	},
	driver.Submitters: {
		{editorRole, "jobs"},
		{"roles/iam.serviceAccountUser", "jobs of the agents' service account"},
		{secretsRole, "the secrets of jobs: helps"},
		{"roles/logging.viewer", "what agents printed that never came up: helps"},
		{"roles/compute.viewer", "quotas in the plan: helps"},
	},
}

// writePolicy is the commands that grant them.
func writePolicy(_ driver.Config, whose driver.Party, _ driver.Scope) (string, error) {
	member := "serviceAccount:NAME@PROJECT.iam.gserviceaccount.com"
	if whose == driver.Submitters {
		member = "user:YOU"
	}
	var b strings.Builder
	for _, r := range roles[whose] {
		fmt.Fprintf(&b, "gcloud projects add-iam-policy-binding PROJECT --member=%s --role=%s --condition=None # %s\n", member, r.role, r.why)
	}
	return b.String(), nil
}
