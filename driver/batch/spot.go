package batch

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
)

const (
	// noticeLook is how often the metadata service is asked: AWS says two minutes before it takes a
	// machine that it will, and asks for a look each five seconds.
	noticeLook = 5 * time.Second
	// mostSilent is how many requests in a row may get no answer: then there is no such service here.
	mostSilent = 3
)

// notices gives AWS's announcement that it takes the machine away, as its metadata service tells. ECS
// tells its containers of it only where that was switched on for the machine.
func notices(ctx context.Context, service *imds.Client, look time.Duration) <-chan driver.Notice {
	announced := make(chan driver.Notice)
	go func() { // ends with ctx, with an announcement, or where there is no service
		for silent := 0; silent < mostSilent; {
			n, told, err := readNotice(ctx, service)
			switch {
			case told:
				select {
				case announced <- n:
				case <-ctx.Done():
				}
				return
			case err != nil:
				silent++
			default:
				silent = 0
			}
			select {
			case <-time.After(look):
			case <-ctx.Done():
				return
			}
		}
	}()
	return announced
}

// readNotice asks once. told is false where nothing is announced.
func readNotice(ctx context.Context, service *imds.Client) (n driver.Notice, told bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	out, err := service.GetMetadata(ctx, &imds.GetMetadataInput{Path: "spot/instance-action"})
	if amazon.ReadAnswer(err).Status == http.StatusNotFound {
		return n, false, nil
	}
	if err != nil {
		return n, false, err
	}
	defer out.Content.Close()
	var action struct {
		Action string
		Time   time.Time
	}
	text, err := io.ReadAll(io.LimitReader(out.Content, 4<<10))
	if err == nil {
		err = json.Unmarshal(text, &action)
	}
	if err != nil || action.Action == "" {
		return n, false, err
	}
	left := max(0, time.Until(action.Time))
	return driver.Notice{Why: "AWS takes the machine away at " + action.Time.UTC().Format(time.TimeOnly) + " UTC: spot capacity", Left: left}, true, nil
}

// metadata is the client of the machine's metadata service.
func metadata() *imds.Client {
	return imds.New(imds.Options{Retryer: aws.NopRetryer{}})
}
