package batch

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drover-run/drover/cloud/amazon/registry"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/batch/account"
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// registry is where images of jobs in a set-up's queue are pushed; "": the queue is of no set-up, and its machines may not
// pull there.
func (q queue) registry() string {
	setup := q.detail.Tags[account.TagSetup]
	if setup == "" {
		return ""
	}
	return registry.Name(q.site.account, q.site.region) + "/" + repositoryPrefix(setup)
}

// repositoryPrefix begins the names of the repositories of a set-up's images. ECR takes small letters.
func repositoryPrefix(setup string) string { return strings.ToLower(setup) }

// repositories are those of a set-up's images.
type repositories struct {
	registry string
	names    []string
}

// findRepositories gives the repositories of a set-up that is there. A user without rights to ECR has none.
func (c *client) findRepositories(ctx context.Context, st stack.Stack) (all repositories, err error) {
	found, err := c.queues(ctx, queueNames(st))
	for _, q := range found {
		if q.Tags[account.TagSetup] == st.Name {
			all.registry = registry.Name(accountOf(aws.ToString(q.JobQueueArn)), c.region)
		}
	}
	if err != nil || all.registry == "" {
		return all, err
	}
	all.names, err = c.images.Repositories(ctx, all.registry, repositoryPrefix(st.Name)+"/")
	if fault.KindOf(err) == fault.Denied {
		err = nil
	}
	return all, err
}

// piece is a repository as a piece of the set-up.
func (all repositories) piece(name string) driver.Piece {
	return driver.Piece{Kind: "image repository", Name: name, State: driver.PieceThere, Idle: "what ECR asks for its images"}
}
