// Package podpatch changes a pod's template by a part of a pod's YAML, as a user gives it, and
// refuses what drover decides itself. Proved by its tests.
package podpatch

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/drover-run/drover/fault"
)

type object = map[string]any

// Patch is what --target-arg pod=@FILE changes of a pod: an object with metadata and spec, as in
// a Pod's own YAML. Objects are merged; lists of named things, such as containers, volumes and
// variables, by name; other lists replace.
type Patch struct{ metadata, spec object }

// Ours is what a template has of drover's.
type Ours struct {
	Container, InitContainer string   // by their names
	Labels                   []string // that are not changed
	// Volumes and Mounts (paths) are those that the agent lives by, and Variables begins the names
	// of what its process is told.
	Volumes, Mounts []string
	Variables       string
}

// decided are the fields that drover decides, of a pod and of its containers, and what to type for
// them; "": nothing.
var decided = map[string]string{
	"spec.restartPolicy":                 "",
	"spec.terminationGracePeriodSeconds": "`--grace`",
	"spec.activeDeadlineSeconds":         "`--timeout`",
	"spec.automountServiceAccountToken":  "",
	"spec.serviceAccountName":            "`--target-arg service-account=NAME`",
	"spec.priorityClassName":             "`--target-arg priority=NAME`",
	"spec.runtimeClassName":              "`--target-arg runtime-class=NAME`",
	"spec.nodeName":                      "`--where 'node == NAME'`",
	"spec.hostname":                      "",
	"spec.subdomain":                     "",
	"metadata.name":                      "",
	"metadata.namespace":                 "`--on kube/NAMESPACE`",
	"container.command":                  "the program after the options",
	"container.args":                     "the program after the options",
	"container.image":                    "`--image`",
	"container.workingDir":               "",
	"container.resources":                "`--cpus`, `--memory`, `--gpus`, `--disk`",
	"container.terminationMessagePath":   "",
	"container.terminationMessagePolicy": "",
	"container.livenessProbe":            "",
	"container.readinessProbe":           "",
	"container.startupProbe":             "",
	"container.lifecycle":                "",
}

// Parse reads a patch, in YAML or JSON. A field that drover decides is a fault of kind Invalid, with
// what to type instead.
func Parse(text string, ours Ours) (p Patch, err error) {
	const form = "Write it as a part of a pod: {spec: {hostNetwork: true}}."
	var whole map[string]any
	err = yaml.Unmarshal([]byte(text), &whole)
	if err == nil { // in the types of JSON
		var plain []byte
		if plain, err = json.Marshal(whole); err == nil {
			err = json.Unmarshal(plain, &whole)
		}
	}
	if err != nil {
		return p, fault.New(fault.Invalid, form, "read --target-arg pod: %s", strings.Join(strings.Fields(yaml.FormatError(err, false, false)), " "))
	}
	for _, key := range slices.Sorted(maps.Keys(whole)) {
		o, isObject := whole[key].(object)
		switch {
		case key == "metadata" && isObject:
			p.metadata = o
		case key == "spec" && isObject:
			p.spec = o
		case key == "apiVersion" || key == "kind":
		default:
			return p, fault.New(fault.Invalid, form, "read --target-arg pod: a pod has metadata and spec, and no %s that can be changed", key)
		}
	}
	return p, p.check(ours)
}

// check refuses what drover decides.
func (p Patch) check(ours Ours) error {
	if err := cmp.Or(refuseDecided("metadata", "metadata", p.metadata), refuseDecided("spec", "spec", p.spec)); err != nil {
		return err
	}
	for _, list := range []string{"containers", "initContainers"} {
		all, isList := p.spec[list].([]any)
		if p.spec[list] != nil && !isList {
			return notChanged("spec."+list, "")
		}
		own := map[string]string{"containers": ours.Container, "initContainers": ours.InitContainer}[list]
		for _, one := range all {
			c, _ := one.(object)
			if c["name"] == own {
				path := "spec." + list + "[" + own + "]"
				if err := cmp.Or(refuseDecided("container", path, c),
					refuseNamed(path+".env", "name", c, func(name string) bool { return strings.HasPrefix(name, ours.Variables) }),
					refuseNamed(path+".volumeMounts", "mountPath", c, func(at string) bool { return slices.Contains(ours.Mounts, at) })); err != nil {
					return err
				}
			} else if list == "containers" || c["restartPolicy"] != "Always" {
				return fault.New(fault.Invalid, "Name the container "+own+", or give a sidecar as one of initContainers with restartPolicy: Always.",
					"read --target-arg pod: a pod that has to end cannot have the container %v in %s", c["name"], list)
			}
		}
	}
	if err := refuseNamed("spec.volumes", "name", p.spec, func(name string) bool { return slices.Contains(ours.Volumes, name) }); err != nil {
		return err
	}
	for _, label := range ours.Labels {
		if l, ok := p.metadata["labels"].(object); ok && l[label] != nil {
			return notChanged("metadata.labels["+label+"]", "")
		}
	}
	return nil
}

func refuseDecided(kind, path string, o object) error {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if instead, is := decided[kind+"."+key]; is {
			return notChanged(path+"."+key, instead)
		}
	}
	return nil
}

// refuseNamed refuses a change of those things of the list at a path that are drover's, and one of
// the list as a whole.
func refuseNamed(path, by string, o object, is func(name string) bool) error {
	value, changed := o[path[strings.LastIndexByte(path, '.')+1:]]
	list, isList := value.([]any)
	if changed && !isList {
		return notChanged(path, "")
	}
	for _, one := range list {
		c, _ := one.(object)
		if name, _ := c[by].(string); is(name) {
			return notChanged(path+"["+name+"]", "")
		}
	}
	return nil
}

// notChanged refuses a field, with what to type for it; "": there is nothing.
func notChanged(field, instead string) error {
	hint := "Leave it out."
	if instead != "" {
		hint = "Leave it out, and use " + instead + "."
	}
	return fault.New(fault.Invalid, hint, "read --target-arg pod: drover decides %s", field)
}

// Applied is a pod's template with the changes.
func (p Patch) Applied(template object) object {
	if p.metadata == nil && p.spec == nil {
		return template
	}
	text, err := json.Marshal(template)
	if err == nil {
		template = nil
		err = json.Unmarshal(text, &template)
	}
	if err != nil {
		panic(err) // it is ours, and becomes JSON in any case
	}
	mergeObject(template, object{"metadata": p.metadata, "spec": p.spec})
	return template
}

// mergeObject merges a patch into an object: null takes a field away.
func mergeObject(o, change object) {
	for key, v := range change {
		switch v := v.(type) {
		case nil:
			delete(o, key)
		case object:
			if held, ok := o[key].(object); ok {
				mergeObject(held, v)
			} else if v != nil {
				o[key] = v
			}
		case []any:
			held, _ := o[key].([]any)
			o[key] = mergeList(key, held, v)
		default:
			o[key] = v
		}
	}
}

// mergeKeys are the lists of named things, by the field that names them.
var mergeKeys = map[string]string{"containers": "name", "initContainers": "name", "volumes": "name", "env": "name", "imagePullSecrets": "name",
	"volumeMounts": "mountPath", "tolerations": "key", "hostAliases": "ip", "topologySpreadConstraints": "topologyKey"}

func mergeList(name string, held, change []any) []any {
	by, ok := mergeKeys[name]
	if !ok {
		return change
	}
	for _, one := range change {
		c, _ := one.(object)
		at := slices.IndexFunc(held, func(h any) bool { o, _ := h.(object); return c[by] != nil && o[by] == c[by] })
		if at < 0 {
			held = append(held, one)
			continue
		}
		mergeObject(held[at].(object), c)
	}
	return held
}
