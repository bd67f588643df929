package kube

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/driver/kube/nodes"
	"github.com/drover-run/drover/driver/kube/pod"
	"github.com/drover-run/drover/driver/kube/program"
	"github.com/drover-run/drover/fault"
)

// object is a part of an object as it is sent.
type object = map[string]any

// The labels and annotations of our objects. People's own words stand in annotations alone, as
// labels allow few letters.
const (
	labelManaged   = "app.kubernetes.io/managed-by"
	managedBy      = "drover"
	labelJob       = "drover.run/job"
	labelPlacement = "drover.run/placement"
	labelRemove    = "drover.run/remove" // the placement goes once nothing of it runs
	labelQueue     = "kueue.x-k8s.io/queue-name"
	annotationTag  = "drover.run/tag-"    // and a tag's name
	annotationRead = "drover.run/touched" // changed to have kubelets read the ConfigMap
	// annotationStarting is on a Job that has no pods yet, as what they wait for is still being sent
	annotationStarting = "drover.run/starting"
)

// What a pod gets where the job does not say it. Namespaces with a quota refuse pods without.
const (
	defaultCores  = 1.0
	defaultMemory = 1 << 30
	// agentMemory is what a container may have beyond what its program was promised, for the
	// agent and process 1.
	agentMemory = 256 << 20
	// initMemory and initCores are what the init container needs at least.
	initMemory, initCores = 128 << 20, 0.1
)

const (
	defaultUID = 10001
	// overGrace is how long a pod may take beyond its program's grace, to save and to report.
	overGrace    = 15 * time.Second
	defaultGrace = 30 * time.Second
	// mostReplaced is how often Kubernetes starts a lost agent of an index again.
	mostReplaced = 5
	// nodeSilence is how long a node may be silent before its pods are given up, in seconds.
	nodeSilence = 30
)

// placed is a placement that was checked and is about to be sent.
type placed struct {
	request driver.Request
	handle  driver.Handle
	options options
	image   string
	program program.Program
	on      nodes.Selection
}

// objectName is the name of a placement's Job, ConfigMap and Secret.
func objectName(h driver.Handle) string { return fmt.Sprintf("drover-%s-%d", h.Job, h.Placement) }

// labels are those of a placement's objects.
func labels(h driver.Handle) map[string]string {
	return map[string]string{labelManaged: managedBy, labelJob: h.Job, labelPlacement: strconv.Itoa(h.Placement)}
}

// cores and memory are what a pod gets for the program.
func (p placed) cores() float64 {
	switch n := p.request.Needs; {
	case n.CPUs > 0:
		return n.CPUs
	case n.Slots > 1:
		return float64(n.Slots)
	}
	return defaultCores
}

func (p placed) memory() int64 {
	if m := p.request.Needs.Memory; m > 0 {
		return m
	}
	return defaultMemory
}

// grace is the time between SIGTERM and SIGKILL of a pod.
func (p placed) grace() time.Duration {
	g := p.request.Needs.Grace
	if g <= 0 {
		g = defaultGrace
	}
	return g + overGrace
}

// shm is the size of /dev/shm, which counts as memory.
func (p placed) shm() int64 {
	if s := p.request.Needs.Place.Shm; s > 0 {
		return s
	}
	return max(p.memory()/2, 64<<20)
}

// job is the Job of a placement. It has no pods at first: a kubelet that does not find what a pod
// mounts looks again after half a second, one second, two. A Job for Kueue, which holds the pods
// back itself, has them from the beginning, as Kueue counts them.
func (p placed) job() object {
	n, parallelism := p.request.Agents, 0
	template := object{"metadata": object{"labels": labels(p.handle), "annotations": p.podAnnotations()}, "spec": p.podSpec()}
	annotations := map[string]string{}
	for name, value := range p.request.Needs.Labels {
		annotations[annotationTag+name] = value
	}
	if p.options.queue != "" {
		parallelism = n
	} else {
		annotations[annotationStarting] = "yes"
	}
	return object{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": object{"name": objectName(p.handle), "labels": p.jobLabels(), "annotations": annotations},
		"spec": object{
			"completions": n, "parallelism": parallelism, "completionMode": "Indexed",
			"backoffLimitPerIndex": mostReplaced,
			"podReplacementPolicy": "Failed",
			"podFailurePolicy":     object{"rules": failureRules()},
			"template":             p.options.patch.Applied(template),
		},
	}
}

func (p placed) jobLabels() map[string]string {
	all := labels(p.handle)
	if p.options.queue != "" {
		all[labelQueue] = p.options.queue
	}
	return all
}

// failureRules tell a machine that was taken away, and an agent that leaves work behind, from an
// agent that died, and that from one that has ended for good.
func failureRules() []object {
	var signals []int
	for code := 129; code <= 165; code++ {
		signals = append(signals, code)
	}
	// Of any container: one that could not be prepared is not tried again either.
	codes := func(action, operator string, values ...int) object {
		return object{"action": action, "onExitCodes": object{"operator": operator, "values": values}}
	}
	return []object{
		{"action": "Ignore", "onPodConditions": []object{{"type": conditionTaken, "status": "True"}}},
		codes("Ignore", "In", fault.ExitLater),
		codes("Count", "In", signals...),
		codes("FailIndex", "NotIn", 0),
	}
}

// podAnnotations keep meshes out, as their sidecars never end, and autoscalers from moving the nodes
// of a run, of which one that moves stops all.
func (p placed) podAnnotations() map[string]string {
	all := map[string]string{"sidecar.istio.io/inject": "false", "linkerd.io/inject": "disabled"}
	if p.request.Needs.Place.Nodes > 1 {
		all["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "false"
		all["karpenter.sh/do-not-disrupt"] = "true"
	}
	return all
}

// The containers of a pod.
const (
	initContainer  = "prepare"
	agentContainer = "agent"
)

func (p placed) podSpec() object {
	spec := object{
		"restartPolicy":                 "Never",
		"terminationGracePeriodSeconds": int(math.Ceil(p.grace().Seconds())),
		"automountServiceAccountToken":  false,
		"enableServiceLinks":            false,
		"securityContext":               p.podSecurity(),
		"nodeSelector":                  p.nodeSelector(),
		"tolerations":                   p.allTolerations(),
		"volumes":                       p.volumes(),
		"initContainers":                []object{p.initContainer()},
		"containers":                    []object{p.agentContainer()},
	}
	if a := p.affinity(); len(a) > 0 {
		spec["affinity"] = a
	}
	set := func(key, value string) {
		if value != "" {
			spec[key] = value
		}
	}
	set("serviceAccountName", p.options.serviceAccount)
	set("priorityClassName", p.options.priority)
	set("runtimeClassName", p.options.runtimeClass)
	if len(p.options.pullSecrets) > 0 {
		var all []object
		for _, name := range p.options.pullSecrets {
			all = append(all, object{"name": name})
		}
		spec["imagePullSecrets"] = all
	}
	return spec
}

// nodeSelector keeps pods to the nodes that can run the agent's program. Images of it may be for several.
func (p placed) nodeSelector() map[string]string {
	if p.options.agentImage != "" {
		return map[string]string{"kubernetes.io/os": "linux"}
	}
	return map[string]string{"kubernetes.io/os": p.program.OS(), "kubernetes.io/arch": p.program.Arch()}
}

// podSecurity is what a namespace that enforces "restricted" asks for.
func (p placed) podSecurity() object {
	s := object{"runAsNonRoot": true, "fsGroup": defaultUID, "seccompProfile": object{"type": "RuntimeDefault"}}
	switch p.options.user {
	case userImage:
	case userRoot:
		s["runAsNonRoot"], s["runAsUser"], s["runAsGroup"] = false, 0, 0
	case "":
		s["runAsUser"], s["runAsGroup"] = defaultUID, defaultUID
	default:
		uid, _ := strconv.Atoi(p.options.user) // it was checked
		s["runAsUser"], s["runAsGroup"], s["fsGroup"] = uid, uid, uid
	}
	return s
}

// lastOutput has Kubernetes keep the end of what a container wrote, where it failed and left no
// message itself.
const lastOutput = "FallbackToLogsOnError"

var containerSecurity = object{"allowPrivilegeEscalation": false, "capabilities": object{"drop": []string{"ALL"}}}

func (p placed) allTolerations() []object {
	var all []object
	for _, taint := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		all = append(all, object{"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": nodeSilence})
	}
	if p.request.Needs.GPUs > 0 { // nodes with GPUs are often kept for pods that want some
		all = append(all, object{"key": nodes.GPUs, "operator": "Exists", "effect": "NoSchedule"})
	}
	return slices.Concat(all, p.on.Tolerations, p.options.tolerations)
}

// affinity says on which nodes a pod may be: those of the conditions, and the pods of a run on
// different nodes of one zone where that can be.
func (p placed) affinity() object {
	a := object{}
	node := p.on.Affinity()
	if len(node) > 0 {
		a["nodeAffinity"] = node
	}
	if p.request.Needs.Place.Nodes > 1 {
		same := object{"matchLabels": labels(p.handle)}
		near := func(topology string, weight int) object {
			return object{"weight": weight, "podAffinityTerm": object{"labelSelector": same, "topologyKey": topology}}
		}
		a["podAffinity"] = object{"preferredDuringSchedulingIgnoredDuringExecution": []object{near("topology.kubernetes.io/zone", 50)}}
		a["podAntiAffinity"] = object{"preferredDuringSchedulingIgnoredDuringExecution": []object{near("kubernetes.io/hostname", 100)}}
	}
	return a
}

// The names of the volumes.
const (
	workVolume   = "work"
	ordersVolume = "orders"
	secretVolume = "secrets"
	shmVolume    = "shm"
	partsVolume  = "parts"
)

func (p placed) volumes() []object {
	name := objectName(p.handle)
	work := object{}
	if d := p.request.Needs.Disk; d > 0 {
		work["sizeLimit"] = strconv.FormatInt(d, 10)
	}
	all := []object{
		{"name": workVolume, "emptyDir": work},
		{"name": ordersVolume, "configMap": object{"name": name}},
		{"name": secretVolume, "secret": object{"secretName": name, "defaultMode": 0o440}},
		{"name": shmVolume, "emptyDir": object{"medium": "Memory", "sizeLimit": strconv.FormatInt(p.shm(), 10)}},
	}
	if p.options.agentImage == "" {
		var sources []object
		for k := range p.program.Parts {
			sources = append(sources, object{"configMap": object{"name": p.program.PartName(k)}})
		}
		all = append(all, object{"name": partsVolume, "projected": object{"sources": sources}})
	}
	for i, v := range p.options.volumes {
		source := object{"name": fmt.Sprintf("own-%d", i)}
		if v.kind == claimVolume {
			source["persistentVolumeClaim"] = object{"claimName": v.name}
		} else {
			source["hostPath"] = object{"path": v.name}
		}
		all = append(all, source)
	}
	return all
}

func mount(volume, path string) object { return object{"name": volume, "mountPath": path} }

func mountPart(path, part string) object {
	return object{"name": workVolume, "mountPath": path, "subPath": part}
}

// initContainer has the program put into the pod's volume, out of the image of the agent or of
// the parts.
func (p placed) initContainer() object {
	c := object{
		"name": initContainer, "image": p.image, "imagePullPolicy": "IfNotPresent", "securityContext": containerSecurity,
		"env":                      []object{{"name": pod.Role, "value": pod.Prepare}},
		"resources":                resources(max(initCores, p.cores()), initMemory, 0, 0), // the pod has these cores anyway
		"terminationMessagePolicy": lastOutput,
	}
	if p.options.agentImage != "" {
		c["image"], c["command"] = p.options.agentImage, []string{driver.AgentImageProgram, "agent"}
		c["volumeMounts"] = []object{mount(workVolume, pod.Work)}
		return c
	}
	c["env"] = []object{{"name": pod.Role, "value": pod.Prepare}, {"name": pod.Digest, "value": p.program.Digest}}
	c["command"] = []string{"sh", "-c", "set -e; cat " + pod.Parts + "/* | gzip -dc > " + pod.Program + "; chmod 755 " + pod.Program + "; exec " + pod.Program + " agent"}
	c["volumeMounts"] = []object{mount(workVolume, pod.Work), mount(partsVolume, pod.Parts)}
	return c
}

func (p placed) agentContainer() object {
	n := p.request.Needs
	mounts := []object{
		mount(workVolume, pod.Work), mount(ordersVolume, pod.Orders), mount(secretVolume, pod.Secrets), mount(shmVolume, "/dev/shm"),
		mountPart("/opt/ml", "root/opt/ml"), mountPart("/state", "root/state"), mountPart("/tmp", "tmp"), mountPart("/etc/hosts", "hosts"),
	}
	for i, v := range p.options.volumes {
		mounts = append(mounts, mount(fmt.Sprintf("own-%d", i), v.path))
	}
	counter := func(name, annotation string) object {
		return object{"name": name, "valueFrom": object{"fieldRef": object{"fieldPath": "metadata.annotations['" + annotation + "']"}}}
	}
	return object{
		"name": agentContainer, "image": p.image, "imagePullPolicy": "IfNotPresent", "securityContext": containerSecurity,
		"workingDir": "/", "command": []string{pod.Program, "agent"},
		"env": []object{
			{"name": pod.Role, "value": pod.Supervise}, {"name": pod.Grace, "value": pod.GraceText(p.grace())}, {"name": "HOME", "value": pod.Work + "/home"},
			counter(pod.Failed, annotationFailed), counter(pod.Ignored, annotationIgnored),
		},
		"resources":              resources(p.cores(), p.memory()+agentMemory, n.GPUs, n.Disk),
		"terminationMessagePath": pod.MessagePath, "terminationMessagePolicy": lastOutput,
		"volumeMounts": mounts,
	}
}

// resources are requests and limits, which are the same: what a pod was promised is what it may
// use.
func resources(cores float64, memory int64, gpus int, disk int64) object {
	all := map[string]string{"cpu": fmt.Sprintf("%dm", int(math.Ceil(cores*1000))), "memory": strconv.FormatInt(memory, 10)}
	if gpus > 0 {
		all[nodes.GPUs] = strconv.Itoa(gpus)
	}
	if disk > 0 {
		all["ephemeral-storage"] = strconv.FormatInt(disk, 10)
	}
	return object{"requests": all, "limits": all}
}

// orders is the ConfigMap of a placement, which goes with its Job.
func (p placed) orders(owner api.Owner) (api.ConfigMap, error) {
	text, err := jsonText(pod.Order{Store: p.request.Run.Store, Job: p.request.Run.Job, Placement: p.request.Placement, Agents: p.request.Agents,
		Env: p.request.Run.Env, Cores: p.cores(), Memory: p.memory()})
	return api.ConfigMap{Metadata: api.Meta{Name: objectName(p.handle), Labels: labels(p.handle), OwnerReferences: []api.Owner{owner}},
		Data: map[string]string{pod.OrdersKey: text}}, err
}

// secret is the Secret of a placement.
func secret(h driver.Handle, owner api.Owner, secrets, credential []byte) object {
	return object{"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
		"metadata": api.Meta{Name: objectName(h), Labels: labels(h), OwnerReferences: []api.Owner{owner}},
		"data":     secretData(secrets, credential)}
}

func secretData(secrets, credential []byte) map[string][]byte {
	data := map[string][]byte{}
	if secrets != nil {
		data[pod.SecretsKey] = secrets
	}
	if credential != nil {
		data[pod.CredentialKey] = credential
	}
	return data
}
