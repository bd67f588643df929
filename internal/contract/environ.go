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
// DROVER_*, and those by which the processes of a launcher find each other; for a
// training job also all SM_* that SageMaker's toolkit sets, and those of its newer
// SDK that apply. A processing job has no SM_* there, so it has none here; what
// workers of simple-sagemaker find in either is ssm's. The
// user's own stand among them and win. What the machine has (PATH, HOME) is the
// caller's to add, and Defaults below that.
//
// Names with a dash, which no shell can say, are there a second time with "_"
// (SM_HP_BATCH-SIZE and SM_HP_BATCH_SIZE); DROVER_INPUT_ has "_" for dots too, and
// no other spelling. A variable of ours that grew too long for Linux is left out
// (hyperparameters.json stays whole).
func (f Facts) Environ() []string {
	set := map[string]string{"PYTHONUNBUFFERED": "1"} // or output shows when the program ends
	f.setDroverEnv(set)
	f.setLauncherEnv(set)
	if !f.Process {
		f.sagemaker(set)
		f.channelDirs(set)
		f.hyperparameters(set)
	}
	if f.SSM {
		f.setSSMEnv(set)
	}
	for name, value := range set {
		if len(name)+len("=")+len(value) > maxVariable {
			delete(set, name)
		}
	}
	maps.Copy(set, f.Env)
	return lines(set)
}

// lines are variables as "NAME=value", sorted by name.
func lines(set map[string]string) []string {
	all := make([]string, 0, len(set))
	for _, name := range slices.Sorted(maps.Keys(set)) {
		all = append(all, name+"="+set[name])
	}
	return all
}

// CodeVariable names the folder of the program's code, on its own node.
const CodeVariable = "DROVER_CODE_DIR"

// NoticeVariable names the file that appears when a program is to end.
const NoticeVariable = "DROVER_NOTICE"

// setDroverEnv are the variables no other system has.
func (f Facts) setDroverEnv(set map[string]string) {
	p := f.Paths()
	maps.Copy(set, map[string]string{
		"DROVER_ATTEMPT":        strconv.Itoa(f.Attempt),
		"DROVER_RANK":           strconv.Itoa(f.Rank),
		"DROVER_NODES":          strconv.Itoa(len(f.Hosts)),
		CodeVariable:            p.Code,
		"DROVER_OUTPUT_DIR":     p.OutputData,
		"DROVER_CHECKPOINT_DIR": p.Checkpoints,
		"DROVER_STATE_DIR":      p.State,
		"DROVER_FAILURE_FILE":   p.Failure,
		"DROVER_MESSAGE_FILE":   p.Message,
		NoticeVariable:          p.Notice,
	})
	for name, value := range map[string]string{
		"DROVER_JOB": f.ID, "DROVER_PROJECT": f.Project, "DROVER_TASK": f.Task, "AWS_REGION": f.Region,
		"DROVER_MODEL_DIR": p.Model,
	} {
		if value != "" {
			set[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Inputs)) {
		spelt := "DROVER_INPUT_" + strings.ToUpper(name)
		plain := strings.ReplaceAll(underscored(spelt), ".", "_")
		if plain == spelt || set[plain] == "" { // that spelling was meant
			set[plain] = f.Inputs[name]
		}
	}
}

// sagemaker are the toolkit's variables of fixed names, and below them the newer
// SDK's.
func (f Facts) sagemaker(set map[string]string) {
	p, resources := f.Paths(), f.resources()
	module := strings.TrimSuffix(f.Program, ".py")
	_, groups := f.distribution()
	maps.Copy(set, map[string]string{
		"TRAINING_JOB_NAME":               f.Job,
		"SM_HOSTS":                        compact(f.Hosts),
		"SM_CURRENT_HOST":                 f.ownHostname(),
		"SM_CURRENT_INSTANCE_TYPE":        f.machineType(),
		"SM_CURRENT_INSTANCE_GROUP":       group,
		"SM_CURRENT_INSTANCE_GROUP_HOSTS": compact(f.Hosts),
		"SM_INSTANCE_GROUPS":              compact([]string{group}),
		"SM_INSTANCE_GROUPS_DICT":         compact(map[string]any{group: f.instanceGroup()}),
		"SM_DISTRIBUTION_INSTANCE_GROUPS": compact(groups),
		"SM_IS_HETERO":                    "false",
		"SM_NETWORK_INTERFACE_NAME":       f.networkInterface(),
		"SM_USER_ENTRY_POINT":             f.Program,
		"SM_MODULE_NAME":                  module,
		"SM_MODULE_DIR":                   p.Code,
		"SM_USER_ARGS":                    compact(append([]string{}, f.Args...)), // [] and not null
		"SM_FRAMEWORK_MODULE":             "",
		"SM_FRAMEWORK_PARAMS":             compact(f.frameworkParams()),
		"SM_LOG_LEVEL":                    "20",
		"SM_RESOURCE_CONFIG":              compact(resources),
		"SM_INPUT_DATA_CONFIG":            compact(f.channelConfig()),
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
		"SM_MASTER_ADDR":       f.Hosts[0],

		"SM_CHECKPOINT_DIR": p.Checkpoints, // SageMaker has the folder and no name for it
	})
	if peers := f.rendezvousPeers(); peers != nil { // names may not resolve here, addresses do
		set["SM_MASTER_ADDR"] = peers[0].Address
		set["SM_MASTER_PORT"] = strconv.Itoa(peers[0].Port)
	}
}

// channelDirs are one variable for each input, and their names.
func (f Facts) channelDirs(set map[string]string) {
	names := slices.Sorted(maps.Keys(f.Inputs))
	set["SM_CHANNELS"] = compact(append([]string{}, names...)) // [] and not null
	for _, name := range names {
		both(set, "SM_CHANNEL_"+strings.ToUpper(name), f.Inputs[name])
	}
}

// hyperparameters are one variable for each, and all in one.
func (f Facts) hyperparameters(set map[string]string) {
	values := f.hyperparameterValues()
	all := compact(values)
	set["SM_HPS"] = all
	if len(all) > maxVariable {
		return // together they would be too long for Linux, if not each alone
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if text := variable(values[name]); !strings.ContainsRune(text, 0) && !strings.ContainsAny(name, "=\x00") {
			both(set, "SM_HP_"+strings.ToUpper(name), text)
		}
	}
}

// both sets a name as SageMaker spells it and as a shell can say it. One that
// was given in that spelling itself is left alone. Version 3 of SageMaker's SDK
// has no dashes either.
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

// ascii writes what is not printable ASCII as JSON escapes; of that, text from
// the encoder has only DEL left.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < 0x7f:
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
