package batch

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drover-run/drover/driver/batch/account"
	"github.com/drover-run/drover/driver/stack"
)

// imagesOf are the images of jobs in a queue; none where the queue is of no set-up: its machines may not pull there.
func (c *client) imagesOf(q queue) stack.Images {
	setup := q.detail.Tags[account.TagSetup]
	if setup == "" {
		return stack.Images{}
	}
	return stack.NewImages(c.images, q.site.account, q.site.region, setup)
}

// findImages finds those of a set-up by its queues; none where it is not there.
func (c *client) findImages(ctx context.Context, st stack.Stack) (i stack.Images, err error) {
	found, err := c.queues(ctx, queueNames(st))
	for _, q := range found {
		if q.Tags[account.TagSetup] == st.Name {
			i = stack.NewImages(c.images, accountOf(aws.ToString(q.JobQueueArn)), c.region, st.Name)
		}
	}
	return i, err
}
