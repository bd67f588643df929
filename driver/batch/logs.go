package batch

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/drover-run/drover/cloud/amazon/logtail"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
)

// defaultLogs is the group in which AWS Batch keeps what containers print, where a definition names
// none.
const defaultLogs = "/aws/batch/job"

// addTails gives processes of a job that ended badly the end of what their containers printed: it says
// why an agent never came up. What cannot be read is left out.
func (c *client) addTails(ctx context.Context, b *logtail.Budget, j types.JobDetail, all []remote.Process) {
	for i := range all {
		p := &all[i]
		if p.State != driver.Ended || p.Code <= 0 || p.Terminated || p.Attempt > len(j.Attempts) {
			continue
		}
		if at := j.Attempts[p.Attempt-1].Container; at != nil && at.LogStreamName != nil {
			p.Tail = c.logs.Read(ctx, b, logGroup(j), *at.LogStreamName)
		}
	}
}

// logGroup is where a job's containers print to.
func logGroup(j types.JobDetail) string {
	if j.Container != nil && j.Container.LogConfiguration != nil {
		if group := j.Container.LogConfiguration.Options["awslogs-group"]; group != "" {
			return group
		}
	}
	return defaultLogs
}
