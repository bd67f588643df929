package sagemaker

import (
	"context"
	"strings"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/awsjson"
	"github.com/drover-run/drover/fault"
)

// service is SageMaker's control plane. The vendor's client for it takes 6.6 ms at every start of the program, 2.2 MB of it, and
// 41 s of processor time to compile, for the four operations here: docs/design/024.
var service = awsjson.Service{Name: "sagemaker", Host: "api.sagemaker", Target: "SageMaker"}

// createTrainingJob is a request for a job. The names and limits of members are those of AWS's documentation.
type createTrainingJob struct {
	TrainingJobName           string
	AlgorithmSpecification    algorithm
	RoleArn                   string
	OutputDataConfig          outputConfig
	ResourceConfig            resources
	StoppingCondition         stoppingCondition
	EnableManagedSpotTraining bool
	Environment               map[string]string
	Tags                      []tag
}

type algorithm struct {
	TrainingImage       string
	TrainingInputMode   string
	ContainerEntrypoint []string
	ContainerArguments  []string
}

type outputConfig struct{ S3OutputPath string }

type resources struct {
	InstanceType   string
	InstanceCount  int
	VolumeSizeInGB int
}

type stoppingCondition struct {
	MaxRuntimeInSeconds  int
	MaxWaitTimeInSeconds int `json:",omitempty"` // with spot capacity alone
}

type tag struct{ Key, Value string }

// trainingJob is what DescribeTrainingJob answers.
type trainingJob struct {
	TrainingJobName            string
	TrainingJobStatus          string
	SecondaryStatus            string
	FailureReason              string
	ResourceConfig             resources
	EnableManagedSpotTraining  bool
	SecondaryStatusTransitions []transition
}

type transition struct{ Status, StatusMessage string }

// The status of jobs.
const (
	inProgress = "InProgress"
	completed  = "Completed"
	failed     = "Failed"
	stopping   = "Stopping"
	stopped    = "Stopped"
)

// alive says whether a job may be running, now or later.
func (j trainingJob) alive() bool {
	return j.TrainingJobStatus == inProgress || j.TrainingJobStatus == stopping
}

// create asks for a job. Its name is never used again, so that it may be sent again; a job of the name that is there already is the one that was
// asked for. A quota that is used up is a fault of kind Full.
func (c *client) create(ctx context.Context, in createTrainingJob) error {
	limit := ""
	err := c.send.Read(ctx, "create training job "+in.TrainingJobName, func(ctx context.Context) error {
		err := c.api.Call(ctx, "CreateTrainingJob", in, nil)
		a := amazon.ReadAnswer(err)
		switch a.Code {
		case "ResourceInUse":
			return nil
		case "ResourceLimitExceeded":
			limit = a.Reason
		}
		return err
	})
	if limit != "" && err != nil {
		return fault.New(fault.Full, "Ask AWS for more in the console of Service Quotas, name another type with `--machine`, or ask for fewer.", "create training job %s: %s", in.TrainingJobName, strings.TrimSuffix(limit, "."))
	}
	return err
}

// describe describes a job; ok is false where there is none.
func (c *client) describe(ctx context.Context, name string) (j trainingJob, ok bool, err error) {
	ok = true
	err = c.send.Read(ctx, "describe training job "+name, func(ctx context.Context) error {
		err := c.api.Call(ctx, "DescribeTrainingJob", map[string]string{"TrainingJobName": name}, &j)
		if a := amazon.ReadAnswer(err); a.Code == "ValidationException" && strings.Contains(a.Reason, "not found") || a.Code == "ResourceNotFound" {
			ok = false
			return nil
		}
		return err
	})
	return j, ok && err == nil, err
}

// stop asks for the end of a job. One that has ended, or is not there, is left as it is.
func (c *client) stop(ctx context.Context, name string) error {
	return c.send.Read(ctx, "stop training job "+name, func(ctx context.Context) error {
		err := c.api.Call(ctx, "StopTrainingJob", map[string]string{"TrainingJobName": name}, nil)
		switch a := amazon.ReadAnswer(err); a.Code {
		case "ValidationException", "ResourceNotFound":
			return nil
		}
		return err
	})
}

// list gives the names of jobs that have a text in their names, oldest first; with alive those alone that have not ended.
func (c *client) list(ctx context.Context, text string, alive bool) (names []string, err error) {
	in := map[string]any{"NameContains": text, "SortBy": "CreationTime", "SortOrder": "Ascending", "MaxResults": 100}
	if alive {
		in["StatusEquals"] = inProgress
	}
	for {
		var out struct {
			TrainingJobSummaries []struct{ TrainingJobName string }
			NextToken            string
		}
		err := c.send.Read(ctx, "list training jobs", func(ctx context.Context) error {
			return c.api.Call(ctx, "ListTrainingJobs", in, &out)
		})
		if err != nil {
			return nil, err
		}
		for _, j := range out.TrainingJobSummaries {
			names = append(names, j.TrainingJobName)
		}
		if in["NextToken"] = out.NextToken; out.NextToken == "" {
			return names, nil
		}
	}
}
