package api

import (
	"slices"
	"time"
)

// Meta is an object's metadata, as far as the driver reads or writes it.
type Meta struct {
	Name              string            `json:"name,omitempty"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	CreationTimestamp time.Time         `json:"creationTimestamp,omitzero"`
	// DeletionTimestamp is when a deleted object is to be gone: the end of its grace.
	DeletionTimestamp time.Time `json:"deletionTimestamp,omitzero"`
	OwnerReferences   []Owner   `json:"ownerReferences,omitempty"`
	// Continue, of a list, is where its next page begins; "": it has no more.
	Continue string `json:"continue,omitempty"`
}

// Owner is an object with which another one goes.
type Owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// Condition is one condition of an object's status.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// Find gives the condition of a type that is true.
func Find(all []Condition, name string) (c Condition, ok bool) {
	for _, c := range all {
		if c.Type == name && c.Status == "True" {
			return c, true
		}
	}
	return c, false
}

// Since is when the condition of a type became true; the zero time: it is not.
func Since(all []Condition, name string) time.Time {
	c, _ := Find(all, name)
	return c.LastTransitionTime
}

// Job is what is read of a Job.
type Job struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		Parallelism          int       `json:"parallelism"`
		Completions          int       `json:"completions"`
		Suspend              bool      `json:"suspend"`
		BackoffLimitPerIndex *int      `json:"backoffLimitPerIndex"`
		PodFailurePolicy     *struct{} `json:"podFailurePolicy"`
	} `json:"spec"`
	Status struct {
		StartTime        time.Time   `json:"startTime,omitzero"` // since when it is not suspended
		CompletedIndexes string      `json:"completedIndexes"`   // "1,3-5,7"
		FailedIndexes    string      `json:"failedIndexes"`
		Conditions       []Condition `json:"conditions"`
	} `json:"status"`
}

// Pod is what is read of a pod.
type Pod struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase                 string      `json:"phase"`
		Reason                string      `json:"reason"`
		Message               string      `json:"message"`
		Conditions            []Condition `json:"conditions"`
		InitContainerStatuses []Container `json:"initContainerStatuses"`
		ContainerStatuses     []Container `json:"containerStatuses"`
	} `json:"status"`
}

// Container is the status of a pod's container.
type Container struct {
	Name  string `json:"name"`
	State struct {
		Waiting *struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"waiting"`
		Running    *struct{}   `json:"running"`
		Terminated *Terminated `json:"terminated"`
	} `json:"state"`
}

// Terminated is how a container ended.
type Terminated struct {
	ExitCode   int       `json:"exitCode"`
	Reason     string    `json:"reason"`
	Message    string    `json:"message"`
	FinishedAt time.Time `json:"finishedAt"`
}

// ConfigMap holds texts and files.
type ConfigMap struct {
	Metadata   Meta              `json:"metadata"`
	Data       map[string]string `json:"data,omitempty"`
	BinaryData map[string][]byte `json:"binaryData,omitempty"`
	Immutable  bool              `json:"immutable,omitempty"`
}

// Event is what Kubernetes reports of an object.
type Event struct {
	About struct {
		Name string `json:"name"`
	} `json:"involvedObject"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Last    time.Time `json:"lastTimestamp,omitzero"` // when it was last seen
}

// Quota is a ResourceQuota.
type Quota struct {
	Metadata Meta `json:"metadata"`
	Status   struct {
		Hard map[string]string `json:"hard"`
		Used map[string]string `json:"used"`
	} `json:"status"`
}

// LimitRange is what a namespace asks of each of its containers.
type LimitRange struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		Limits []struct {
			Type string            `json:"type"`
			Max  map[string]string `json:"max"`
		} `json:"limits"`
	} `json:"spec"`
}

// Node is a machine of the cluster.
type Node struct {
	Metadata Meta `json:"metadata"`
	Status   struct {
		Allocatable map[string]string `json:"allocatable"`
	} `json:"status"`
}

// Rule is what a user may do in a namespace.
type Rule struct {
	Verbs         []string `json:"verbs"`
	APIGroups     []string `json:"apiGroups"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames"`
}

// Allows says whether the rule grants a verb on all objects of a resource.
func (r Rule) Allows(group, resource, verb string) bool {
	has := func(all []string, one string) bool { return slices.Contains(all, one) || slices.Contains(all, "*") }
	return has(r.APIGroups, group) && has(r.Resources, resource) && has(r.Verbs, verb) && len(r.ResourceNames) == 0
}

// List is one page of a list.
type List[T any] struct {
	Metadata Meta `json:"metadata"`
	Items    []T  `json:"items"`
}
