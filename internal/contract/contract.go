// Package contract is what user code sees of drover: SageMaker's training
// contract (its folders, three JSON files and SM_* variables) or its processing
// contract (folders and two JSON files), plus a few DROVER_* variables, and those
// by which the processes of a launcher find each other. It is the same on every
// target. So a script written for SageMaker runs anywhere, and one that runs here
// runs there.
//
// It is plain data: Facts go in, paths, files and variables come out, nothing is
// looked up, and only Write touches the disk. It refuses to know how the program
// is started, where inputs came from or what becomes of the outputs. Where "/" is
// a folder (no private mounts), every path and variable points below that folder.
//
// Its tests compare it, variable by variable, with what sagemaker-training 5.1.4
// gave for the same facts (testdata/toolkit-*.json).
package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/job"
)

// Facts is what one node of one attempt is told. The zero value of a field that
// is not marked as needed means "not known": its variables are left out, or hold
// what the comment says.
type Facts struct {
	Job     string // needed: training job name, as by JobName: "demo-digits-7fk2"
	ID      string // the job's id
	Project string
	Task    string
	Attempt int // as the job's log counts

	Program string   // script or command, as its path below the code folder
	Args    []string // what it is given, verbatim

	Hosts     []string // needed: all nodes in the order of their ranks, as by Hosts
	Rank      int      // needed: this node's place in Hosts
	Peers     []Peer   // where all nodes listen, by rank; needed with several nodes or a launcher, all or none
	Machine   string   // machine type; "" reads "local"
	Interface string   // network interface that reaches the peers; "" reads "eth0" in what SageMaker always says
	Region    string   // cloud region

	Root   string            // folder that stands for "/"; "" and "/" are the real one
	Inputs map[string]string // folder of each input, by name, where the program sees it
	Shards map[string]bool   // inputs of which this node has its share alone
	CPUs   int               // cores of this node
	GPUs   int               // of this node
	Pinned string            // CUDA_VISIBLE_DEVICES, where GPUs were set apart for this node; "": as the machine has it

	Launcher job.Launcher // how processes find each other
	Procs    int          // processes on each node below a launcher; 0 reads 1

	// Process is SageMaker's processing contract instead of the one for training.
	// Results are its folders that come back; none reads one, "output".
	Process bool
	Results []job.Result

	// SSM is what workers of simple-sagemaker find beside the rest: see ssm.go.
	SSM bool
	// Hyperparameters are all there are, as text; nil: what Args say,
	// but in a job of simple-sagemaker none.
	Hyperparameters map[string]string
	// Entrypoint are the words before the program of a processing job.
	Entrypoint []string

	Env map[string]string // the user's own variables: they win
}

// Peer is one node as the others reach it.
type Peer struct {
	Address string // an address or name
	Port    int    // free on that node, fresh for each attempt
}

// Hosts names n nodes as SageMaker does: algo-1, algo-2, ..., in the order of
// their ranks. Like SageMaker's the list is sorted as text (algo-1, algo-10,
// algo-2), so that a script that sorts it, or takes its own place in it, finds
// the rank that DROVER_RANK says.
func Hosts(n int) []string {
	hosts := make([]string, n)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("algo-%d", i+1)
	}
	slices.Sort(hosts)
	return hosts
}

// maxJobName is SageMaker's and DNS's.
const maxJobName = 63

// JobName makes a training job name out of valid names and a short id, which
// stays whole: "demo-digits-7fk2".
func JobName(project, task, short string) string {
	head := project + "-" + strings.Map(func(r rune) rune {
		if r == '_' || r == '.' {
			return '-' // SageMaker's names of jobs have neither
		}
		return r
	}, task)
	if room := maxJobName - len(short) - 1; len(head) > room {
		head = strings.TrimRight(head[:room], "-")
	}
	return head + "-" + short
}

func (f Facts) ownHostname() string { return f.Hosts[f.Rank] }

func (f Facts) machineType() string { return cmp.Or(f.Machine, "local") }

func (f Facts) networkInterface() string { return cmp.Or(f.Interface, "eth0") }

func (f Facts) processCount() int { return max(1, f.Procs) }
