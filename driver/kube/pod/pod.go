// Package pod is drover inside a pod: the init container that makes the agent's folders, process
// 1, which keeps the time of a Stop and reports how the agent ended, and the agent's own Adopt.
//
// A pod has one volume of its own, mounted at Work, and in it
//
//	drover     the program
//	root/      opt/ml and state, which the program sees as /opt/ml and /state
//	home/ tmp/ hosts    the home folder, /tmp and /etc/hosts
//	state/ cache/       what the agent keeps
//	agent/     notes of the agent, and the warning that its machine goes
//
// What the submitter has to say lies in the ConfigMap of the placement, mounted at Orders, and its
// secrets at Secrets; kubelets bring newer contents in time. A pod asks the API server for nothing
// and has no token for it.
package pod

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/drover-run/drover/driver/folder"
)

// Where things are in the containers of a pod.
const (
	Work    = "/drover"
	Parts   = "/drover-parts" // the program, in parts of a compressed file: Part
	Orders  = "/drover-orders"
	Secrets = "/drover-secrets"
	Program = Work + "/drover"
)

// The variables that tell a process of drover what it is in its pod.
const (
	// Variables begins the name of each.
	Variables = "DROVER_KUBE_"
	// Role is one of the roles below.
	Role = "DROVER_KUBE_ROLE"
	// Index is the pod's in its Job, from Kubernetes itself.
	Index = "JOB_COMPLETION_INDEX"
	// Failed and Ignored count the pods of the same index before this one, by Kubernetes'
	// judgement of them; empty: none.
	Failed  = "DROVER_KUBE_FAILED"
	Ignored = "DROVER_KUBE_IGNORED"
	// Grace is the time between SIGTERM and SIGKILL of the pod.
	Grace = "DROVER_KUBE_GRACE"
	// Digest is that of the submitter's program, in hex; empty: the image of the agent decides.
	Digest = "DROVER_KUBE_SHA256"
	// Root is the folder that has the paths of a pod, where the pod is no container but a
	// process, as with a fake of Kubernetes; empty: the paths are those of the machine.
	Root = "DROVER_KUBE_ROOT"
)

// The roles.
const (
	Prepare   = "prepare"   // the init container
	Supervise = "supervise" // process 1
	Agent     = "agent"     // below it
)

// The keys of the ConfigMap and of the Secret.
const (
	OrdersKey     = "orders" // Order
	StopKey       = "stop"   // the grace of a Stop, as 30s
	SecretsKey    = "secrets"
	CredentialKey = "credential"
)

// Order is what a placement's pods are told of it.
type Order struct {
	Store     string   `json:"store"`
	Job       string   `json:"job"` // project/task/job
	Placement int      `json:"placement"`
	Agents    int      `json:"agents"`
	Env       []string `json:"env,omitempty"`
	Cores     float64  `json:"cores"`  // of each pod
	Memory    int64    `json:"memory"` // bytes, likewise, for the program
}

// Number is an agent's number: of those that Kubernetes starts in the place of another one, each
// has a number of its own. attempt is how many pods of the index there were before.
func Number(index, agents, attempt int) int { return index + agents*attempt }

// MessagePath is where a container leaves its last words.
const MessagePath = "/dev/termination-log"

// mostTail bounds the end of the agent's log in a Message, in bytes: Kubernetes keeps 4 KiB.
const mostTail = 2 << 10

// Message is what process 1 leaves when it ends.
type Message struct {
	Code    int    `json:"code"` // the agent's exit status; -1: it had none
	Reason  string `json:"reason"`
	Tail    string `json:"tail,omitempty"`    // of its log, when it ended badly
	Stopped bool   `json:"stopped,omitempty"` // by a Stop
	Warned  bool   `json:"warned,omitempty"`  // the pod was to go
	Lost    bool   `json:"lost,omitempty"`    // it was killed, and not by a Stop
	Unbegun bool   `json:"unbegun,omitempty"` // a Stop came before it began
}

// ReadMessage reads what a container left. ok is false for one that left something else.
func ReadMessage(text string) (m Message, ok bool) {
	if json.Unmarshal([]byte(text), &m) != nil || m.Reason == "" {
		return Message{}, false
	}
	return m, true
}

// note is a line of the agent's file.
type note struct {
	Up  bool `json:"up,omitempty"`
	End *end `json:"end,omitempty"`
}

type end struct {
	Code   int    `json:"code"`
	Reason string `json:"reason"`
}

// paths are where a pod's files are.
type paths struct{ work, orders, secrets, message string }

// inPod are the paths of this process's pod.
func inPod() paths {
	root := os.Getenv(Root)
	return paths{root + Work, root + Orders, root + Secrets, root + MessagePath}
}

func (p paths) notes() string      { return filepath.Join(p.work, "agent", "notes") }
func (p paths) warning() string    { return filepath.Join(p.work, "agent", "warning") }
func (p paths) root() string       { return filepath.Join(p.work, "root") }
func (p paths) state() string      { return filepath.Join(p.work, "state") }
func (p paths) cache() string      { return filepath.Join(p.work, "cache") }
func (p paths) home() string       { return filepath.Join(p.work, "home") }
func (p paths) hosts() string      { return filepath.Join(p.work, "hosts") }
func (p paths) stop() string       { return filepath.Join(p.orders, StopKey) }
func (p paths) order() string      { return filepath.Join(p.orders, OrdersKey) }
func (p paths) secretFile() string { return filepath.Join(p.secrets, SecretsKey) }
func (p paths) credential() string { return filepath.Join(p.secrets, CredentialKey) }

// readNotes joins the agent's notes.
func (p paths) readNotes() (all note) {
	for _, n := range folder.HearIn[note](p.notes()) {
		all.Up = all.Up || n.Up
		if n.End != nil {
			all.End = n.End
		}
	}
	return all
}
