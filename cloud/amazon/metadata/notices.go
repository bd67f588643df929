// Package metadata asks the metadata service of a machine of Amazon's what is about to happen to the machine.
//
// It refuses to know what runs there. Tests with a stand-in of the service prove it.
package metadata

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/drover-run/drover/cloud/amazon"
)

// Announcement says that the machine goes.
type Announcement struct {
	Why  string        // in one sentence
	Left time.Duration // until then; 0: not known
}

// Question is one thing that the service is asked. It answers 404, or with a text that says nothing, until something is announced.
type Question struct {
	path string
	read func(text []byte) (Announcement, bool)
}

// What a machine can be asked.
var (
	Spot  = Question{"spot/instance-action", readSpot}
	Group = Question{"autoscaling/target-lifecycle-state", readGroup} // of a machine of an Auto Scaling group
)

const (
	// Look is how often the service is asked: AWS says two minutes before it takes a machine that it will, and
	// asks for a look each five seconds.
	Look = 5 * time.Second
	// mostSilent is how many requests in a row may get no answer: then there is no such service here.
	mostSilent = 3
)

// New is the client of this machine's service.
func New() *imds.Client { return imds.New(imds.Options{Retryer: aws.NopRetryer{}}) }

// Watch calls announce for the first announcement. It asks every look, and returns after that, with ctx, or where there is no service.
func Watch(ctx context.Context, service *imds.Client, look time.Duration, announce func(Announcement), all ...Question) {
	for silent := 0; silent < mostSilent; {
		a, told, err := askAll(ctx, service, all)
		switch {
		case told:
			announce(a)
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
}

func askAll(ctx context.Context, service *imds.Client, all []Question) (a Announcement, told bool, err error) {
	for _, q := range all {
		text, err := Read(ctx, service, q.path)
		if err != nil {
			return a, false, err
		}
		if a, told = q.read(text); told {
			return a, true, nil
		}
	}
	return a, false, nil
}

// Read asks for a path below meta-data; nil: there is nothing.
func Read(ctx context.Context, service *imds.Client, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	out, err := service.GetMetadata(ctx, &imds.GetMetadataInput{Path: path})
	if amazon.ReadAnswer(err).Status == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer out.Content.Close()
	return io.ReadAll(io.LimitReader(out.Content, 4<<10))
}

func readSpot(text []byte) (a Announcement, told bool) {
	var action struct {
		Action string
		Time   time.Time
	}
	if json.Unmarshal(text, &action) != nil || action.Action == "" {
		return a, false
	}
	return Announcement{"AWS takes the machine away at " + action.Time.UTC().Format(time.TimeOnly) + " UTC: spot capacity", max(0, time.Until(action.Time))}, true
}

func readGroup(text []byte) (Announcement, bool) {
	return Announcement{Why: "its Auto Scaling group ends the machine"}, strings.TrimSpace(string(text)) == "Terminated"
}
