package kube

import (
	"errors"
	"strconv"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/nodes"
	"github.com/drover-run/drover/driver/kube/pod"
	"github.com/drover-run/drover/driver/kube/podpatch"
	"github.com/drover-run/drover/fault"
)

// options are what --target-arg says.
type options struct {
	agentImage     string // has the agent at driver.AgentImageProgram
	serviceAccount string
	queue          string // of Kueue
	priority       string
	pullSecrets    []string
	runtimeClass   string
	user           string // a uid; userImage, userRoot; "": defaultUID
	nodes          []nodes.Requirement
	tolerations    []object
	volumes        []volume
	patch          podpatch.Patch
}

// The values of the option user that are no number.
const (
	userImage = "image" // the image's own
	userRoot  = "root"
)

// volume is a claim, or a folder of the node, that the containers see.
type volume struct{ kind, name, path string }

// The kinds of a volume.
const (
	claimVolume = "pvc"
	hostVolume  = "hostPath"
)

// optionNames are the names that --target-arg knows, with a value that shows the form.
var optionNames = map[string]string{
	"agent-image": "ghcr.io/me/drover:1", "service-account": "trainer", "queue": "gpus", "priority": "batch", "pull-secret": "registry",
	"runtime-class": "nvidia", "user": "1000", "node": "disk=ssd", "tolerate": "dedicated=gpu", "volume": "pvc/data:/data",
	"pod": "@patch.yaml",
}

// ours is what a pod has of drover's.
var ours = podpatch.Ours{Container: agentContainer, InitContainer: initContainer, Labels: []string{labelManaged, labelJob, labelPlacement},
	Volumes: []string{workVolume, ordersVolume, secretVolume, partsVolume}, Mounts: []string{pod.Work, pod.Orders, pod.Secrets, pod.Parts}, Variables: pod.Variables}

// parseOptions reads --target-arg NAME=VALUE.
func parseOptions(args []string) (o options, err error) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		form, known := optionNames[name]
		switch {
		case !known:
			return o, driver.UnknownOption("Kubernetes", arg, optionNames, "docs/how-to/kube.md")
		case value == "" || name != "pod" && strings.ContainsFunc(value, isControl):
			return o, fault.New(fault.Invalid, "Write it as `--target-arg "+name+"="+form+"`.", "read --target-arg %q: it has no value", arg)
		}
		if name == "pod" {
			if o.patch, err = podpatch.Parse(value, ours); err != nil {
				return o, err
			}
			continue
		}
		if err := o.set(name, value); err != nil {
			return o, fault.Wrap(err, fault.Invalid, "Write it as `--target-arg "+name+"="+form+"`.", "read --target-arg %q", arg)
		}
	}
	return o, nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// set sets one option. Its errors are words for the end of a sentence.
func (o *options) set(name, value string) error {
	switch name {
	case "agent-image":
		o.agentImage = value
	case "service-account":
		o.serviceAccount = value
	case "queue":
		o.queue = value
	case "priority":
		o.priority = value
	case "pull-secret":
		o.pullSecrets = append(o.pullSecrets, value)
	case "runtime-class":
		o.runtimeClass = value
	case "user":
		if uid, err := strconv.ParseInt(value, 10, 32); value != userImage && value != userRoot && (err != nil || uid < 1) {
			return errors.New("it is no number of a user, and neither image nor root")
		}
		o.user = value
	case "node":
		r, err := nodes.ParseRequirement(value)
		if err != nil {
			return err
		}
		o.nodes = append(o.nodes, r)
	case "tolerate":
		t := object{"operator": "Exists", "key": value}
		if key, text, ok := strings.Cut(value, "="); ok {
			t = object{"operator": "Equal", "key": key, "value": text}
		}
		o.tolerations = append(o.tolerations, t)
	case "volume":
		v, err := parseVolume(value)
		if err != nil {
			return err
		}
		o.volumes = append(o.volumes, v)
	}
	return nil
}

// parseVolume reads pvc/NAME:/PATH or hostPath/FOLDER:/PATH.
func parseVolume(text string) (v volume, err error) {
	source, path, ok := strings.Cut(text, ":")
	kind, name, ok2 := strings.Cut(source, "/")
	switch {
	case !ok || !ok2 || name == "" || !strings.HasPrefix(path, "/") || path == "/":
		return v, errors.New("it is no volume and path")
	case kind == claimVolume:
		return volume{kind, name, path}, nil
	case kind == hostVolume:
		return volume{kind, "/" + strings.TrimLeft(name, "/"), path}, nil
	}
	return v, errors.New("there are claims (pvc) and folders of nodes (hostPath)")
}
