package gcpbatch

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/drover-run/drover/driver/gcpbatch/batchapi"
	"github.com/drover-run/drover/fault"
)

// decided are the members of a request for a job that are drover's: what of it runs, how often, by which account, and how it is found again.
var decided = []string{"name", "uid", "status", "labels.drover", "taskGroups.name", "taskGroups.taskCount", "taskGroups.parallelism", "taskGroups.taskEnvironments", "taskGroups.taskSpec.runnables",
	"taskGroups.taskSpec.maxRetryCount", "taskGroups.taskSpec.lifecyclePolicies", "taskGroups.taskSpec.environment.variables.DROVER_", "allocationPolicy.serviceAccount", "allocationPolicy.labels.drover", "allocationPolicy.instances.instanceTemplate"}

// parsePatch reads --target-arg job=JSON: members of a job as Google Batch's reference has them.
func parsePatch(text string) (map[string]any, error) {
	const hint = "Give it as Google Batch's reference has a job: `--target-arg job=@FILE`, with {\"priority\": 50}."
	var said map[string]any
	if err := json.Unmarshal([]byte(text), &said); err != nil || said == nil {
		return nil, fault.New(fault.Invalid, hint, "read --target-arg job: it is no JSON object")
	}
	return said, checkPatch("", said)
}

// checkPatch refuses what is decided in a value at a path and in all below it. The members of lists have the path of their list.
func checkPatch(at string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			path := strings.TrimPrefix(at+"."+name, ".")
			if err := cmp.Or(checkMember(path, x), checkPatch(path, x)); err != nil {
				return err
			}
		}
	case []any:
		for _, x := range v {
			if err := checkPatch(at, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkMember refuses a member that is decided, and one that would replace such a member.
func checkMember(path string, v any) error {
	for _, own := range decided {
		prefix := strings.HasSuffix(own, "drover") || strings.HasSuffix(own, "_")
		if path == own || strings.HasPrefix(path, own+".") || prefix && strings.HasPrefix(path, own) {
			return fault.New(fault.Invalid, "Leave it out.", "read --target-arg job: drover decides %s", path)
		}
		if strings.HasPrefix(own, path+".") && !inner(v) {
			return fault.New(fault.Invalid, "Give it as an object, with the members that are to change.", "read --target-arg job: drover decides %s, and %s would replace it", own, path)
		}
	}
	return nil
}

// inner says whether a value is merged into another: an object, or a list of one.
func inner(v any) bool {
	list, isList := v.([]any)
	if isList && len(list) == 1 {
		v = list[0]
	}
	_, is := v.(map[string]any)
	return is
}

// amend is the request for a job with the members of a patch: objects are merged, so are lists of one object, disks and volumes are added, and all else is
// replaced.
func amend(in batchapi.Job, patch map[string]any) (any, error) {
	if patch == nil {
		return in, nil
	}
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	return merged(all, patch), nil
}

func merged(into, said any) any {
	switch said := said.(type) {
	case map[string]any:
		all, ok := into.(map[string]any)
		if !ok {
			return said
		}
		for name, v := range said {
			more, isList := v.([]any)
			if have, _ := all[name].([]any); isList && (name == "disks" || name == "volumes") {
				all[name] = append(have, more...)
				continue
			}
			all[name] = merged(all[name], v)
		}
		return all
	case []any:
		if all, ok := into.([]any); ok && len(all) == 1 && len(said) == 1 {
			return []any{merged(all[0], said[0])}
		}
	}
	return said
}
