package sagemaker

import (
	"context"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/awsjson"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// service is SageMaker's control plane. The vendor's client for it takes 6.6 ms at every start of the program, 2.2 MB of it, and
// 41 s of processor time to compile, for the few operations here: docs/design/024.
var service = awsjson.Service{Name: "sagemaker", ID: "SAGEMAKER", Host: "api.sagemaker", Target: "SageMaker"}

// kind is one of the two kinds of jobs that SageMaker has: their operations are alike, and their names are apart.
type kind struct {
	words        string // for people
	noun         string // in the names of operations and members
	logs         string // the group of CloudWatch in which SageMaker keeps what containers print
	mostVariable int    // letters of a variable's value
	mostLife     time.Duration
}

// Source of the sizes: CreateTrainingJob and CreateProcessingJob in SageMaker's API reference, 2026-11.
var (
	training   = kind{"training job", "TrainingJob", "/aws/sagemaker/TrainingJobs", 512, 28 * 24 * time.Hour}
	processing = kind{"processing job", "ProcessingJob", "/aws/sagemaker/ProcessingJobs", 256, 9 * 24 * time.Hour}
)

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
	HyperParameters           map[string]string `json:",omitempty"`
	Tags                      []tag
}

type algorithm struct {
	TrainingImage                    string
	TrainingInputMode                string
	ContainerEntrypoint              []string
	ContainerArguments               []string
	MetricDefinitions                []metricDefinition `json:",omitempty"`
	EnableSageMakerMetricsTimeSeries bool               `json:",omitempty"`
}

type metricDefinition struct{ Name, Regex string }

type outputConfig struct{ S3OutputPath string }

type resources struct {
	InstanceType             string
	InstanceCount            int
	VolumeSizeInGB           int
	KeepAlivePeriodInSeconds int `json:",omitempty"`
}

type stoppingCondition struct {
	MaxRuntimeInSeconds  int
	MaxWaitTimeInSeconds int `json:",omitempty"` // with spot capacity alone
}

type tag struct{ Key, Value string }

// createProcessingJob is a request for a processing job.
type createProcessingJob struct {
	ProcessingJobName   string
	AppSpecification    application
	RoleArn             string
	ProcessingResources struct{ ClusterConfig resources }
	// ProcessingOutputConfig is there where SageMaker is to store what programs leave in the folder of outputs.
	ProcessingOutputConfig *processingOutputs `json:",omitempty"`
	StoppingCondition      stoppingCondition
	Environment            map[string]string
	Tags                   []tag
}

type processingOutputs struct{ Outputs []processingOutput }

type processingOutput struct {
	OutputName string
	S3Output   struct{ S3Uri, LocalPath, S3UploadMode string }
}

type application struct {
	ImageUri            string
	ContainerEntrypoint []string
	ContainerArguments  []string
}

// asProcessing is the same request for a processing job, which has no spot capacity, metrics or hyperparameters.
func (in createTrainingJob) asProcessing() (p createProcessingJob) {
	p = createProcessingJob{ProcessingJobName: in.TrainingJobName, RoleArn: in.RoleArn, StoppingCondition: stoppingCondition{MaxRuntimeInSeconds: in.StoppingCondition.MaxRuntimeInSeconds},
		AppSpecification: application{in.AlgorithmSpecification.TrainingImage, in.AlgorithmSpecification.ContainerEntrypoint, in.AlgorithmSpecification.ContainerArguments},
		Environment:      in.Environment, Tags: in.Tags}
	p.ProcessingResources.ClusterConfig = in.ResourceConfig
	return p
}

// store has SageMaker store the job's outputs below a folder of S3, as one folder for each job.
func (p *createProcessingJob) store(folder string) {
	o := processingOutput{OutputName: "output"}
	o.S3Output.S3Uri, o.S3Output.LocalPath, o.S3Output.S3UploadMode = folder+"/"+p.ProcessingJobName+"/output", job.Processing+"/output", "EndOfJob"
	p.ProcessingOutputConfig = &processingOutputs{[]processingOutput{o}}
}

// description is what SageMaker says of a job of either kind.
type description struct {
	Status      string // such as inProgress
	Secondary   string // of training jobs, such as Downloading
	Reason      string // why it has failed
	Resources   resources
	Spot        bool
	Transitions []transition
	Started     time.Time     // its newest start; zero: it has none, or it is not known
	Limit       time.Duration // how long a start may run
	Until       time.Time     // the end of its time with spot capacity, waits included; zero: it has none
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
func (j description) alive() bool {
	return j.Status == inProgress || j.Status == stopping
}

// stoppedByHand says whether a job that ends at a time was stopped by a user: its time is not over, and its capacity was not taken. One of which no
// start is known was.
func (j description) stoppedByHand(now time.Time) bool {
	return j.Status == stopping && (j.Started.IsZero() || now.Before(j.Started.Add(j.Limit))) && (j.Until.IsZero() || now.Before(j.Until))
}

// create asks for a job with a request of its kind. Its name is never used again, so that it may be sent again; a job of the name that is there
// already is the one that was asked for. A quota that is used up is a fault of kind Full.
func (c *client) create(ctx context.Context, k kind, name string, in any) error {
	limit := ""
	err := c.send.Read(ctx, "create "+k.words+" "+name, func(ctx context.Context) error {
		err := c.api.Call(ctx, "Create"+k.noun, in, nil)
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
		return fault.New(fault.Full, "Ask AWS for more in the console of Service Quotas, name another type with `--machine`, or ask for fewer.", "start agents: a quota of SageMaker's is used up: %s", strings.TrimSuffix(limit, "."))
	}
	return err
}

// describe describes a job; ok is false where there is none.
func (c *client) describe(ctx context.Context, k kind, name string) (j description, ok bool, err error) {
	var out struct {
		TrainingJobStatus, ProcessingJobStatus, SecondaryStatus, FailureReason string
		ResourceConfig                                                         resources
		ProcessingResources                                                    struct{ ClusterConfig resources }
		EnableManagedSpotTraining                                              bool
		SecondaryStatusTransitions                                             []transition
		CreationTime, TrainingStartTime, ProcessingStartTime                   float64 // seconds since 1970
		StoppingCondition                                                      stoppingCondition
	}
	ok = true
	err = c.send.Read(ctx, "describe "+k.words+" "+name, func(ctx context.Context) error {
		err := c.api.Call(ctx, "Describe"+k.noun, map[string]string{k.noun + "Name": name}, &out)
		if a := amazon.ReadAnswer(err); a.Code == "ValidationException" && (strings.Contains(a.Reason, "not found") || strings.Contains(a.Reason, "not find")) || a.Code == "ResourceNotFound" {
			ok = false
			return nil
		}
		return err
	})
	j = description{Status: out.TrainingJobStatus + out.ProcessingJobStatus, Secondary: out.SecondaryStatus, Reason: out.FailureReason, Resources: out.ResourceConfig, Spot: out.EnableManagedSpotTraining, Transitions: out.SecondaryStatusTransitions}
	if at := out.TrainingStartTime + out.ProcessingStartTime; at > 0 {
		j.Started = time.Unix(int64(at), 0)
	}
	j.Limit = time.Duration(out.StoppingCondition.MaxRuntimeInSeconds) * time.Second
	if wait := out.StoppingCondition.MaxWaitTimeInSeconds; wait > 0 && out.CreationTime > 0 {
		j.Until = time.Unix(int64(out.CreationTime), 0).Add(time.Duration(wait) * time.Second)
	}
	if k == processing {
		j.Resources = out.ProcessingResources.ClusterConfig
	}
	return j, ok && err == nil, err
}

// stop asks for the end of a job. One that has ended, or is not there, is left as it is.
func (c *client) stop(ctx context.Context, k kind, name string) error {
	return c.send.Read(ctx, "stop "+k.words+" "+name, func(ctx context.Context) error {
		err := c.api.Call(ctx, "Stop"+k.noun, map[string]string{k.noun + "Name": name}, nil)
		switch a := amazon.ReadAnswer(err); a.Code {
		case "ValidationException", "ResourceNotFound":
			return nil
		}
		return err
	})
}

// summary is a job as lists have it.
type summary struct {
	TrainingJobName, ProcessingJobName     string
	TrainingJobStatus, ProcessingJobStatus string
	SecondaryStatus                        string // of training jobs
}

func (s summary) name() string   { return s.TrainingJobName + s.ProcessingJobName }
func (s summary) status() string { return s.TrainingJobStatus + s.ProcessingJobStatus }

// list gives the jobs that have a text in their names, oldest first; with alive those alone that have not ended.
func (c *client) list(ctx context.Context, k kind, text string, alive bool) (all []summary, err error) {
	in := map[string]any{"NameContains": text, "SortBy": "CreationTime", "SortOrder": "Ascending", "MaxResults": 100}
	if alive {
		in["StatusEquals"] = inProgress
	}
	for {
		var out struct {
			TrainingJobSummaries, ProcessingJobSummaries []summary
			NextToken                                    string
		}
		err := c.send.Read(ctx, "list "+k.words+"s", func(ctx context.Context) error {
			return c.api.Call(ctx, "List"+k.noun+"s", in, &out)
		})
		if err != nil {
			return nil, err
		}
		all = append(append(all, out.TrainingJobSummaries...), out.ProcessingJobSummaries...)
		if in["NextToken"] = out.NextToken; out.NextToken == "" {
			return all, nil
		}
	}
}
