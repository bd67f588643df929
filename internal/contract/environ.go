package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// maxVariable is the longest "NAME=value" that Linux starts a program with: 32
// pages of 4 KiB, less the NUL. Arguments have the same limit each, but
// SM_USER_ARGS holds them all: the program must not fail to start because it was
// given many.
const maxVariable = 128<<10 - 1

// Environ gives the variables of the contract as "NAME=value", sorted by name:
// all SM_* that SageMaker's toolkit sets for a training job, those of its newer
// SDK that apply, and DROVER_*. The user's own stand among them and win. What the
// machine has (PATH, HOME) is the caller's to add.
//
// Names with a dash, which no shell can say, are there a second time with "_"
// (SM_HP_BATCH-SIZE and SM_HP_BATCH_SIZE). A variable of ours that grew too long
// for Linux is left out (hyperparameters.json stays whole).
func (f Facts) Environ() []string {
	set := map[string]string{"PYTHONUNBUFFERED": "1"} // or output shows when the program ends
	f.ours(set)
	f.sagemaker(set)
	f.inputs(set)
	f.hyperparameters(set)
	for name, value := range set {
		if len(name)+len("=")+len(value) > maxVariable {
			delete(set, name)
		}
	}
	maps.Copy(set, f.Env)
	all := make([]string, 0, len(set))
	for _, name := range slices.Sorted(maps.Keys(set)) {
		all = append(all, name+"="+set[name])
	}
	return all
}

// ours are the variables no other system has.
func (f Facts) ours(set map[string]string) {
	p := f.Paths()
	maps.Copy(set, map[string]string{
		"DROVER_ATTEMPT":        strconv.Itoa(f.Attempt),
		"DROVER_RANK":           strconv.Itoa(f.Rank),
		"DROVER_NODES":          strconv.Itoa(len(f.Hosts)),
		"DROVER_CODE_DIR":       p.Code,
		"DROVER_MODEL_DIR":      p.Model,
		"DROVER_OUTPUT_DIR":     p.OutputData,
		"DROVER_CHECKPOINT_DIR": p.Checkpoints,
		"DROVER_STATE_DIR":      p.State,
		"DROVER_FAILURE_FILE":   p.Failure,
		"SM_CHECKPOINT_DIR":     p.Checkpoints, // SageMaker has the folder and no name for it
	})
	for name, value := range map[string]string{
		"DROVER_JOB": f.ID, "DROVER_PROJECT": f.Project, "DROVER_TASK": f.Task, "AWS_REGION": f.Region,
	} {
		if value != "" {
			set[name] = value
		}
	}
}

// sagemaker are the toolkit's variables of fixed names, and below them the newer
// SDK's.
func (f Facts) sagemaker(set map[string]string) {
	p, resources := f.Paths(), f.resources()
	module := strings.TrimSuffix(f.Program, ".py")
	maps.Copy(set, map[string]string{
		"TRAINING_JOB_NAME":               f.Job,
		"SM_HOSTS":                        compact(f.Hosts),
		"SM_CURRENT_HOST":                 f.host(),
		"SM_CURRENT_INSTANCE_TYPE":        f.machine(),
		"SM_CURRENT_INSTANCE_GROUP":       group,
		"SM_CURRENT_INSTANCE_GROUP_HOSTS": compact(f.Hosts),
		"SM_INSTANCE_GROUPS":              compact([]string{group}),
		"SM_INSTANCE_GROUPS_DICT":         compact(map[string]any{group: f.group()}),
		"SM_DISTRIBUTION_INSTANCE_GROUPS": "[]",
		"SM_IS_HETERO":                    "false",
		"SM_NETWORK_INTERFACE_NAME":       f.network(),
		"SM_USER_ENTRY_POINT":             f.Program,
		"SM_MODULE_NAME":                  module,
		"SM_MODULE_DIR":                   p.Code,
		"SM_USER_ARGS":                    compact(append([]string{}, f.Args...)), // [] and not null
		"SM_FRAMEWORK_MODULE":             "",
		"SM_FRAMEWORK_PARAMS":             "{}",
		"SM_LOG_LEVEL":                    "20",
		"SM_RESOURCE_CONFIG":              compact(resources),
		"SM_INPUT_DATA_CONFIG":            compact(f.channels()),
		"SM_TRAINING_ENV":                 compact(f.trainingEnv(module)),
		"SM_INPUT_DIR":                    p.Input,
		"SM_INPUT_CONFIG_DIR":             p.Config,
		"SM_OUTPUT_DIR":                   p.Output,
		"SM_OUTPUT_DATA_DIR":              p.OutputData,
		"SM_OUTPUT_INTERMEDIATE_DIR":      p.intermediate(),
		"SM_MODEL_DIR":                    p.Model,
		"SM_NUM_CPUS":                     strconv.Itoa(f.CPUs),
		"SM_NUM_GPUS":                     strconv.Itoa(f.GPUs),
		"SM_NUM_NEURONS":                  "0",

		"SM_SOURCE_DIR":        p.Code,
		"SM_ENTRY_SCRIPT":      f.Program,
		"SM_HOST_COUNT":        strconv.Itoa(len(f.Hosts)),
		"SM_CURRENT_HOST_RANK": strconv.Itoa(f.Rank),
		"SM_OUTPUT_FAILURE":    p.Failure,
	})
}

// inputs are one variable for each channel.
func (f Facts) inputs(set map[string]string) {
	set["SM_CHANNELS"] = compact(append([]string{}, slices.Sorted(maps.Keys(f.Inputs))...))
	for _, name := range slices.Sorted(maps.Keys(f.Inputs)) {
		both(set, "SM_CHANNEL_"+strings.ToUpper(name), f.Inputs[name])
		set["DROVER_INPUT_"+underscored(strings.ToUpper(name))] = f.Inputs[name]
	}
}

// hyperparameters are one variable for each, and all in one.
func (f Facts) hyperparameters(set map[string]string) {
	values := Hyperparameters(f.Args)
	all := compact(values)
	set["SM_HPS"] = all
	if len(all) > maxVariable {
		return // together they would be too long for Linux, if not each alone
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		both(set, "SM_HP_"+strings.ToUpper(name), variable(values[name]))
	}
}

// both sets a name as SageMaker spells it and as a shell can say it. One that
// was given in that spelling itself is left alone.
func both(set map[string]string, name, value string) {
	set[name] = value
	if plain := underscored(name); plain != name {
		if _, ok := set[plain]; !ok {
			set[plain] = value
		}
	}
}

func underscored(name string) string { return strings.ReplaceAll(name, "-", "_") }

// variable is a value as the toolkit writes it: text as it is, null as nothing,
// the rest as JSON.
func variable(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return compact(v)
}

// ascii writes what is not ASCII as JSON escapes.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.String()
}
