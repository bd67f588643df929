package contract

import (
	"maps"
	"slices"
	"strings"
)

// processing is processingjobconfig.json: the request that SageMaker would have
// been sent, as far as there is one. What it cannot know here (the image, where
// data came from and goes to) is "", so that a program which reads past it finds
// text; limits that were not set are left out.
func (f Facts) processing() map[string]any {
	environment := map[string]string{}
	maps.Copy(environment, f.Env)
	return map[string]any{
		"ProcessingJobName": f.Job,
		// Six fields like any ARN, for programs that split it; the partition says
		// that it is not AWS's. SageMaker writes the name in lower case here alone.
		"ProcessingJobArn": "arn:drover:sagemaker:" + f.Region + "::processing-job/" + strings.ToLower(f.Job),
		"AppSpecification": map[string]any{
			"ImageUri":            "",
			"ContainerEntrypoint": append(slices.Clone(f.Entrypoint), f.Program),
			"ContainerArguments":  append([]string{}, f.Args...), // [] and not null
		},
		"Environment":            environment,
		"ProcessingInputs":       f.processingInputs(),
		"ProcessingOutputConfig": map[string]any{"Outputs": f.processingOutputs()},
		"ProcessingResources": map[string]any{
			"ClusterConfig": map[string]any{"InstanceCount": len(f.Hosts), "InstanceType": f.machineType()},
		},
	}
}

func (f Facts) processingInputs() []any {
	all := []any{}
	for _, name := range slices.Sorted(maps.Keys(f.Inputs)) {
		all = append(all, map[string]any{
			"InputName":  name,
			"AppManaged": false,
			"S3Input": map[string]string{
				"LocalPath":              f.Inputs[name],
				"S3Uri":                  "",
				"S3DataType":             "S3Prefix",
				"S3InputMode":            "File",
				"S3DataDistributionType": f.distributed(name),
				"S3CompressionType":      "None",
				"S3DownloadMode":         "StartOfJob",
			},
		})
	}
	return all
}

func (f Facts) processingOutputs() []any {
	all := []any{}
	for _, r := range f.resultsOrDefault() {
		all = append(all, map[string]any{
			"OutputName": r.Name,
			"AppManaged": false,
			"S3Output":   map[string]string{"LocalPath": f.pathBelowRoot(r.From), "S3Uri": "", "S3UploadMode": "EndOfJob"},
		})
	}
	return all
}
