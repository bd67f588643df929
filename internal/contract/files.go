package contract

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// group is the one instance group of a cluster of equal machines.
const group = "homogeneousCluster"

// Files gives the JSON files of the contract by absolute path, as the program
// sees it. hyperparameters.json holds text alone, as SageMaker's does: the toolkit
// and most scripts decode it. A processing job has none, and no channels.
func (f Facts) Files() map[string][]byte {
	documents := map[string]any{"resourceconfig.json": f.resources()}
	if f.Process {
		documents["processingjobconfig.json"] = f.processing()
	} else {
		documents["hyperparameters.json"] = f.StoredHyperparameters()
		documents["inputdataconfig.json"] = f.channelConfig()
	}
	files := map[string][]byte{}
	for name, document := range documents {
		files[filepath.Join(f.Paths().Config, name)] = []byte(compact(document) + "\n")
	}
	return files
}

// Write makes the folders of the contract, readable by all users, and writes its
// files, replacing older ones. It may be called again.
//
// at is the folder of this machine that the program sees as "/", where it has a
// view of its own: all is made below at, at the path that the program sees. With
// "" the program sees the machine as it is.
func (f Facts) Write(at string) error {
	for _, folder := range append(f.Paths().Folders(), f.customary()...) {
		if err := os.MkdirAll(filepath.Join(at, folder), 0o755); err != nil {
			return fmt.Errorf("write contract: %w", err)
		}
	}
	files := f.Files()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(at, path), files[path], 0o644); err != nil {
			return fmt.Errorf("write contract: %w", err)
		}
	}
	return nil
}

// resources is resourceconfig.json.
func (f Facts) resources() map[string]any {
	return map[string]any{
		"current_host":           f.ownHostname(),
		"current_instance_type":  f.machineType(),
		"current_group_name":     group,
		"hosts":                  f.Hosts,
		"instance_groups":        []any{f.instanceGroup()},
		"network_interface_name": f.networkInterface(),
	}
}

func (f Facts) instanceGroup() map[string]any {
	return map[string]any{"instance_group_name": group, "instance_type": f.machineType(), "hosts": f.Hosts}
}

// channelConfig is inputdataconfig.json.
func (f Facts) channelConfig() map[string]any {
	all := map[string]any{}
	for name := range f.Inputs {
		all[name] = map[string]string{
			"TrainingInputMode":  "File",
			"S3DistributionType": f.distributed(name),
			"RecordWrapperType":  "None",
		}
	}
	return all
}

// distributed is SageMaker's word for how an input is spread over the nodes.
func (f Facts) distributed(name string) string {
	if f.Shards[name] {
		return "ShardedByS3Key"
	}
	return "FullyReplicated"
}

// trainingEnv is SM_TRAINING_ENV: everything once more in one document.
func (f Facts) trainingEnv(module string) map[string]any {
	p := f.Paths()
	inputs := map[string]string{}
	maps.Copy(inputs, f.Inputs)
	hosts, groups := f.distribution()
	return map[string]any{
		"additional_framework_parameters": f.frameworkParams(),
		"channel_input_dirs":              inputs,
		"current_host":                    f.ownHostname(),
		"current_instance_group":          group,
		"current_instance_group_hosts":    f.Hosts,
		"current_instance_type":           f.machineType(),
		"distribution_hosts":              hosts,
		"distribution_instance_groups":    groups,
		"framework_module":                nil,
		"hosts":                           f.Hosts,
		"hyperparameters":                 f.hyperparameterValues(),
		"input_config_dir":                p.Config,
		"input_data_config":               f.channelConfig(),
		"input_dir":                       p.Input,
		"instance_groups":                 []string{group},
		"instance_groups_dict":            map[string]any{group: f.instanceGroup()},
		"is_hetero":                       false,
		"is_master":                       f.Rank == 0,
		"is_modelparallel_enabled":        nil,
		"is_smddpmprun_installed":         false,
		"is_smddprun_installed":           false,
		"job_name":                        f.Job,
		"log_level":                       20,
		"master_hostname":                 f.Hosts[0],
		"model_dir":                       p.Model,
		"module_dir":                      p.Code,
		"module_name":                     module,
		"network_interface_name":          f.networkInterface(),
		"num_cpus":                        f.CPUs,
		"num_gpus":                        f.GPUs,
		"num_neurons":                     0,
		"output_data_dir":                 p.OutputData,
		"output_dir":                      p.Output,
		"output_intermediate_dir":         p.intermediate(),
		"resource_config":                 f.resources(),
		"topology":                        []any{},
		"user_entry_point":                f.Program,
	}
}
