package batch

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
)

// defaultLogs is the group in which AWS Batch keeps what containers print, where a definition names
// none.
const defaultLogs = "/aws/batch/job"

// The end of what a container printed that ended badly.
const (
	tailLines = 10
	// mostTails is how many one look at a placement asks CloudWatch for: a thousand agents that never come up
	// say the same.
	mostTails = 3
	tailTime  = 5 * time.Second // CloudWatch has to answer
)

// addTails gives processes of a job that ended badly the end of what their containers printed: it says
// why an agent never came up. What cannot be read is left out. left is how many more may be asked for.
func (e *engine) addTails(ctx context.Context, c *client, j types.JobDetail, all []remote.Process, left *int) {
	for i := range all {
		p := &all[i]
		if p.State != driver.Ended || p.Code <= 0 || p.Terminated || p.Attempt > len(j.Attempts) {
			continue
		}
		e.mu.Lock()
		text, known := e.tails[p.Claimant]
		e.mu.Unlock()
		stream := j.Attempts[p.Attempt-1].Container
		if !known && *left > 0 && stream != nil && stream.LogStreamName != nil {
			*left--
			var keep bool
			if text, keep = c.readTail(ctx, logGroup(j), *stream.LogStreamName); keep {
				e.mu.Lock()
				e.tails[p.Claimant] = text
				e.mu.Unlock()
			}
		}
		p.Tail = text
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

// readTail reads the last lines of a stream. keep is false where a later look may find more.
func (c *client) readTail(ctx context.Context, group, stream string) (text string, keep bool) {
	ctx, cancel := context.WithTimeout(ctx, tailTime)
	defer cancel()
	var out *cloudwatchlogs.GetLogEventsOutput
	err := c.send.Read(ctx, "GetLogEvents", func(ctx context.Context) (err error) {
		out, err = c.logs.GetLogEvents(ctx, &cloudwatchlogs.GetLogEventsInput{LogGroupName: &group, LogStreamName: &stream, Limit: aws.Int32(tailLines), StartFromHead: aws.Bool(false)})
		return err
	})
	if err != nil {
		return "", fault.KindOf(err) != fault.Invalid // then there is no such stream yet
	}
	var lines []string
	for _, e := range out.Events {
		lines = append(lines, aws.ToString(e.Message))
	}
	return strings.Join(lines, "\n"), len(lines) > 0
}
