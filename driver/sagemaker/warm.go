package sagemaker

import (
	"context"
	"strings"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// warmPools are the machines that SageMaker keeps for a project when a training job of it has ended, by the names of the jobs.
func (c *client) warmPools(ctx context.Context, project string) (all []driver.Piece, err error) {
	in := map[string]any{"NameContains": "drover-", "WarmPoolStatusEquals": "Available", "MaxResults": 100}
	for {
		var out struct {
			TrainingJobSummaries []struct{ TrainingJobName, TrainingJobArn string }
			NextToken            string
		}
		err := c.send.Read(ctx, "list training jobs", func(ctx context.Context) error {
			return c.api.Call(ctx, "ListTrainingJobs", in, &out)
		})
		if fault.KindOf(err) == fault.Denied {
			return nil, nil // a user without the right to look has made none
		}
		if err != nil {
			return nil, err
		}
		for _, j := range out.TrainingJobSummaries {
			if _, _, ours := parseJobName(j.TrainingJobName); !ours { // a name may have it anywhere
				continue
			}
			tags, err := c.tagsOf(ctx, j.TrainingJobArn)
			if fault.KindOf(err) == fault.Denied {
				continue // as above
			}
			if err != nil {
				return nil, err
			}
			for _, t := range tags {
				if t.Key == "drover-project" && t.Value == amazon.TagText(project, 256) {
					all = append(all, driver.Piece{Kind: "machines kept warm", Name: j.TrainingJobName, State: driver.PieceThere, Idle: "what they cost while they work, until their time is over"})
				}
			}
		}
		if in["NextToken"] = out.NextToken; out.NextToken == "" {
			return all, nil
		}
	}
}

// endWarmPools has SageMaker let go of the machines that it keeps for a project, and calls gone after each pool.
func (c *client) endWarmPools(ctx context.Context, project string, gone func(driver.Piece)) error {
	all, err := c.warmPools(ctx, project)
	if err != nil {
		return err
	}
	for _, p := range all {
		err := c.send.Read(ctx, "end warm pool of "+p.Name, func(ctx context.Context) error {
			in := map[string]any{"TrainingJobName": p.Name, "ResourceConfig": map[string]int{"KeepAlivePeriodInSeconds": 0}}
			err := c.api.Call(ctx, "UpdateTrainingJob", in, nil)
			if a := amazon.ReadAnswer(err); a.Code == "ValidationException" && strings.Contains(strings.ToLower(a.Reason), "warm pool") {
				return nil // it has ended by itself meanwhile
			}
			return err
		})
		if err != nil {
			return err
		}
		gone(p)
	}
	return nil
}
