package sagemakertest

// processingCreation is a request for a processing job.
type processingCreation struct {
	ProcessingJobName string
	AppSpecification  struct {
		ImageUri                                string
		ContainerEntrypoint, ContainerArguments []string
	}
	RoleArn             string
	ProcessingResources struct {
		ClusterConfig struct {
			InstanceType                  string
			InstanceCount, VolumeSizeInGB int
		}
	}
	ProcessingOutputConfig *processingOutputs `json:",omitempty"`
	StoppingCondition      struct{ MaxRuntimeInSeconds int }
	Environment            map[string]string
	Tags                   []struct{ Key, Value string }
}

type processingOutputs struct {
	Outputs []struct {
		OutputName string
		S3Output   struct{ S3Uri, LocalPath, S3UploadMode string }
	}
}

// createProcessing makes a processing job: one that is like a training job without spot capacity.
func (s *Server) createProcessing(body []byte) (any, error) {
	var asked processingCreation
	if err := decode(body, &asked); err != nil {
		return nil, err
	}
	var in creation
	in.TrainingJobName, in.RoleArn, in.Environment, in.Tags = asked.ProcessingJobName, asked.RoleArn, asked.Environment, asked.Tags
	in.AlgorithmSpecification.TrainingImage, in.AlgorithmSpecification.TrainingInputMode = asked.AppSpecification.ImageUri, "File"
	in.AlgorithmSpecification.ContainerEntrypoint, in.AlgorithmSpecification.ContainerArguments = asked.AppSpecification.ContainerEntrypoint, asked.AppSpecification.ContainerArguments
	of := asked.ProcessingResources.ClusterConfig
	in.ResourceConfig.InstanceType, in.ResourceConfig.InstanceCount, in.ResourceConfig.VolumeSizeInGB = of.InstanceType, of.InstanceCount, of.VolumeSizeInGB
	in.StoppingCondition.MaxRuntimeInSeconds = asked.StoppingCondition.MaxRuntimeInSeconds
	in.OutputDataConfig.S3OutputPath = "s3://none"
	if err := in.check(); err != nil {
		return nil, err
	}
	if in.StoppingCondition.MaxRuntimeInSeconds > 777_600 {
		return nil, refuse("ValidationException", "1 validation error detected: MaxRuntimeInSeconds %d", in.StoppingCondition.MaxRuntimeInSeconds)
	}
	for name, value := range in.Environment {
		if len(name) > 256 || len([]rune(value)) > 256 {
			return nil, refuse("ValidationException", "1 validation error detected: variable %s", name)
		}
	}
	return s.create(in, &asked)
}

// describedProcessing is the job as DescribeProcessingJob shows it.
func (j *job) describedProcessing() map[string]any {
	o := map[string]any{"ProcessingJobName": j.asked.ProcessingJobName, "ProcessingJobArn": arn(j.asked.ProcessingJobName, true), "CreationTime": float64(j.created.Unix()), "ProcessingJobStatus": j.status,
		"AppSpecification": j.asked.AppSpecification, "ProcessingResources": j.asked.ProcessingResources, "StoppingCondition": j.asked.StoppingCondition, "RoleArn": j.in.RoleArn}
	o["Environment"] = j.in.Environment
	if !j.began.IsZero() {
		o["ProcessingStartTime"] = float64(j.began.Unix())
	}
	if j.asked.ProcessingOutputConfig != nil {
		o["ProcessingOutputConfig"] = j.asked.ProcessingOutputConfig
	}
	if j.reason != "" {
		o["FailureReason"] = j.reason
	}
	return o
}
