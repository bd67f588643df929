package batch

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/batch"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/logtail"
	"github.com/drover-run/drover/cloud/amazon/registry"
	"github.com/drover-run/drover/cloud/amazon/secret"
	"github.com/drover-run/drover/fault"
)

// openClient makes the client of a region. It sends nothing.
func openClient(ctx context.Context, region string) (c *client, of string, err error) {
	account, err := amazon.Open(ctx, amazon.Options{Region: region})
	if err != nil {
		return nil, "", err
	}
	if account.Config.Region == "" {
		return nil, "", fault.New(fault.Invalid, "Say where: `--on batch/QUEUE@REGION`, or export AWS_REGION=REGION.", "ask AWS Batch: there is no region")
	}
	return newClient(account, account.Config.Region, amazon.Patience), account.Config.Region, nil
}

// newClient makes the client of an account; wait is as in amazon.Sender.
func newClient(account *amazon.Account, region string, wait time.Duration) *client {
	images := &registry.Registries{Open: func(context.Context, string) (*amazon.Account, error) { return account, nil }} // in this region alone
	send := amazon.Sender{Account: account, Wait: wait}
	return &client{api: batch.NewFromConfig(account.Config), secrets: secret.New(send), logs: logtail.New(send), images: images, region: region,
		send: send}
}
