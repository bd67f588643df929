package sagemaker

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/drover-run/drover/fault"
)

// The options that give members of a request, as AWS's own tool takes them.
const (
	mergesTraining   = "create-training-job"
	mergesProcessing = "create-processing-job"
)

// option is the name of the option that adds members to requests for jobs of the kind.
func (k kind) option() string {
	if k == processing {
		return mergesProcessing
	}
	return mergesTraining
}

// decided are members of requests that drover decides, with what else says them.
var decided = map[string]string{
	"TrainingJobName": "Leave it out: drover names jobs.", "ProcessingJobName": "Leave it out: drover names jobs.", "RoleArn": "Use `--target-arg role=ARN`.",
	"AlgorithmSpecification.TrainingImage": "Use `--image`.", "AppSpecification.ImageUri": "Use `--image`.",
	"AlgorithmSpecification.ContainerEntrypoint": "Type the program: it begins the agent.", "AlgorithmSpecification.ContainerArguments": "Type the program: it begins the agent.",
	"AppSpecification.ContainerEntrypoint": "Type the program: it begins the agent.", "AppSpecification.ContainerArguments": "Type the program: it begins the agent.",
	"ResourceConfig.InstanceType": "Use `--machine`.", "ResourceConfig.InstanceCount": "Use `--nodes` or `--workers`.", "ProcessingResources.ClusterConfig.InstanceType": "Use `--machine`.", "ProcessingResources.ClusterConfig.InstanceCount": "Use `--nodes` or `--workers`.",
	"InputDataConfig": "Use `-i`: agents bring inputs.", "ProcessingInputs": "Use `-i`: agents bring inputs.", "CheckpointConfig": "Leave it out: /state and /opt/ml/checkpoints are saved.",
	"EnableNetworkIsolation": "Leave it out: agents need the store.", "NetworkConfig.EnableNetworkIsolation": "Leave it out: agents need the store.", "EnableManagedSpotTraining": "Use `--spot` or `--on-demand`.",
}

// parseMembers reads an option that adds members to requests.
func parseMembers(option, text string) (said map[string]any, err error) {
	if err := json.Unmarshal([]byte(text), &said); err != nil {
		return nil, fault.New(fault.Invalid, "Give it as AWS's own tool takes it: `--target-arg "+option+"=@FILE`.", "read --target-arg %s: it is no JSON object: %v", option, err)
	}
	if member, hint := findDecided("", said); member != "" {
		return nil, fault.New(fault.Invalid, hint, "read --target-arg %s: %s is not to be set there", option, member)
	}
	return said, nil
}

// findDecided gives the first member that drover decides; "": there is none.
func findDecided(prefix string, said map[string]any) (member, hint string) {
	for _, name := range slices.Sorted(maps.Keys(said)) {
		path := prefix + name
		if hint := decided[path]; hint != "" {
			return path, hint
		}
		if below, ok := said[name].(map[string]any); ok {
			if member, hint := findDecided(path+".", below); member != "" {
				return member, hint
			}
		}
	}
	return "", ""
}

// merge adds members to a request. Objects are merged and tags are added; all else is replaced.
func merge(request any, said map[string]any) (all map[string]any) {
	text, err := json.Marshal(request)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		panic("sagemaker: " + err.Error()) // only our own shapes come here
	}
	mergeObject(all, said)
	return all
}

func mergeObject(into, said map[string]any) {
	for name, value := range said {
		below, object := value.(map[string]any)
		has, is := into[name].(map[string]any)
		list, tags := value.([]any)
		switch {
		case object && is:
			mergeObject(has, below)
		case tags && name == "Tags":
			before, _ := into[name].([]any)
			into[name] = append(before, list...)
		default:
			into[name] = value
		}
	}
}
