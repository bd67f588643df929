package program

import (
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli"
)

func TestTheAgentsOfABucketAtGoogleHaveAGoogleAccount(t *testing.T) {
	_, err := rights(t.Context(), "gs://bucket/jobs", "", cli.Agents{Profile: "bio"})
	if fault.KindOf(err) != fault.Invalid || err == nil || err.Error() != `open gs://bucket/jobs as "bio": it is not a Google account` ||
		fault.Hint(err) != "Name an account, --agent-profile NAME@PROJECT.iam.gserviceaccount.com, or --agent-profile machine." {
		t.Errorf("%v\n  %s", err, fault.Hint(err))
	}
}
