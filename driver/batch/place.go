package batch

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
)

// queuePlaces are where jobs stand in a queue, as one look at a placement asks for them: once, and only where a job
// waits for a machine and nothing else is said of it.
type queuePlaces struct {
	client *client
	queue  string
	asked  bool
	front  []string // IDs of the first jobs that wait, children without their index; nil: not known
}

func (e *engine) newQueuePlaces(c *client, h driver.Handle) *queuePlaces {
	at, err := parseSite(h.Detail)
	if err != nil {
		return &queuePlaces{asked: true} // nothing is known
	}
	return &queuePlaces{client: c, queue: at.name()}
}

// add says of a process that waits how many other jobs are before its own.
func (q *queuePlaces) add(ctx context.Context, id string, j types.JobDetail, all []remote.Process) {
	if len(all) == 0 || j.Status != types.JobStatusRunnable || aws.ToString(j.StatusReason) != "" {
		return
	}
	if !q.asked {
		q.asked = true
		q.front = q.client.queueFront(ctx, q.queue)
	}
	before := map[string]bool{}
	for _, other := range q.front {
		if other == id {
			if n := len(before); n > 0 {
				all[len(all)-1].Reason += fmt.Sprintf(", behind other jobs: %d", n)
			}
			return
		}
		before[other] = true
	}
}

// queueFront are the IDs of the jobs that a queue would start next, up to a hundred. A caller that may not ask knows
// none.
func (c *client) queueFront(ctx context.Context, queue string) (all []string) {
	var out *batch.GetJobQueueSnapshotOutput
	err := c.send.Read(ctx, "GetJobQueueSnapshot", func(ctx context.Context) (err error) {
		out, err = c.api.GetJobQueueSnapshot(ctx, &batch.GetJobQueueSnapshotInput{JobQueue: &queue})
		return err
	})
	if err != nil || out.FrontOfQueue == nil {
		return nil
	}
	for _, j := range out.FrontOfQueue.Jobs {
		arn := aws.ToString(j.JobArn)
		id, _, _ := strings.Cut(arn[strings.LastIndex(arn, "/")+1:], ":")
		all = append(all, id)
	}
	return all
}
