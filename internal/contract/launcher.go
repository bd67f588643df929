package contract

import (
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/drover-run/drover/job"
)

// RankEnviron is what tells the processes of one node apart below job.Torch, as
// "NAME=value": RANK among all, LOCAL_RANK among the procs of its node, from 0.
// Environ says the rest, which they share. A node with one process has these two
// from Environ as well.
func RankEnviron(nodeRank, procs, local int) []string {
	return []string{
		"RANK=" + strconv.Itoa(nodeRank*max(1, procs)+local),
		"LOCAL_RANK=" + strconv.Itoa(local),
	}
}

// Defaults are variables as "NAME=value", sorted by name, that apply only where
// the machine's environment says nothing: the machine's administrator knows its network
// and its cores better. The user's own win here too. They are
//
//   - GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME, the interface that reaches the
//     peers, for launchers with processes that use one of the two: both guess, and
//     on a machine with several interfaces guess wrong;
//   - OMP_NUM_THREADS=1 for several processes of job.Torch, as torchrun does: else
//     each of them starts a thread for every core.
func (f Facts) Defaults() []string {
	set := map[string]string{}
	switch f.Launcher {
	case job.Torch, job.TorchRun, job.MPI:
		if f.Interface != "" {
			set["GLOO_SOCKET_IFNAME"] = f.Interface
			set["NCCL_SOCKET_IFNAME"] = f.Interface
		}
	}
	if f.Launcher == job.Torch && f.processCount() > 1 {
		set["OMP_NUM_THREADS"] = "1"
	}
	for name := range f.Env {
		delete(set, name)
	}
	return lines(set)
}

// rendezvousPeers is where the nodes reach each other. It is nil when no launcher asked for
// it (a plain script that finds MASTER_ADDR waits for peers), and when it is not
// known of all: half a list would be waited for.
func (f Facts) rendezvousPeers() []Peer {
	asked := len(f.Hosts) > 1 || f.Launcher != job.Alone
	unknown := func(p Peer) bool { return p.Address == "" || p.Port == 0 }
	if !asked || len(f.Peers) != len(f.Hosts) || slices.ContainsFunc(f.Peers, unknown) {
		return nil
	}
	return f.Peers
}

// addresses are the peers as "address:port", by rank.
func addresses(peers []Peer) []string {
	all := make([]string, len(peers))
	for i, p := range peers {
		all[i] = net.JoinHostPort(p.Address, strconv.Itoa(p.Port)) // brackets for IPv6
	}
	return all
}

// setLauncherEnv are the variables by which processes find each other and their GPUs.
func (f Facts) setLauncherEnv(set map[string]string) {
	if f.Pinned != "" {
		set["CUDA_VISIBLE_DEVICES"] = f.Pinned
		set["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID" // or CUDA counts the fastest first, and the numbers mean other GPUs
	}
	if f.Launcher != job.Alone {
		set["DROVER_PROCS_PER_NODE"] = strconv.Itoa(f.processCount())
	}
	peers := f.rendezvousPeers()
	if peers != nil {
		set["MASTER_ADDR"] = peers[0].Address
		set["MASTER_PORT"] = strconv.Itoa(peers[0].Port)
		set["DROVER_PEERS"] = compact(addresses(peers))
	}
	switch {
	case f.Launcher == job.Torch:
		f.setTorchEnv(set)
	case f.Launcher == job.TF && peers != nil:
		set["TF_CONFIG"] = f.tensorflow(peers)
	}
	// Nothing more for TorchRun and MPI: what starts their processes says it.
}

// setTorchEnv are the variables that torch.distributed reads, as torchrun sets them.
func (f Facts) setTorchEnv(set map[string]string) {
	maps.Copy(set, map[string]string{
		"WORLD_SIZE":       strconv.Itoa(len(f.Hosts) * f.processCount()),
		"LOCAL_WORLD_SIZE": strconv.Itoa(f.processCount()),
		"NODE_RANK":        strconv.Itoa(f.Rank),
		"GROUP_RANK":       strconv.Itoa(f.Rank), // torchrun's name for the same
	})
	if f.processCount() == 1 {
		set["RANK"], set["LOCAL_RANK"] = strconv.Itoa(f.Rank), "0"
	}
}

// tensorflow is TF_CONFIG. TensorFlow's MultiWorkerMirroredStrategy knows its
// peers, and which of them it is, from this variable alone; it must be there
// before the strategy is made. One node has it too: it is a cluster of one, and a
// script that reads the variable runs on any number of nodes unchanged.
func (f Facts) tensorflow(peers []Peer) string {
	type cluster struct {
		Worker []string `json:"worker"`
	}
	type task struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	return compact(struct {
		Cluster cluster `json:"cluster"`
		Task    task    `json:"task"`
	}{cluster{addresses(peers)}, task{"worker", f.Rank}})
}

// frameworkParams are the settings that SageMaker's SDK hands to its toolkit when
// a launcher is chosen there. A script reads from them how it was started.
func (f Facts) frameworkParams() map[string]any {
	switch f.Launcher {
	case job.MPI:
		return map[string]any{"sagemaker_mpi_enabled": true, "sagemaker_mpi_num_of_processes_per_host": f.processCount()}
	case job.Torch, job.TorchRun:
		return map[string]any{"sagemaker_torch_distributed_enabled": true}
	case job.TF:
		return map[string]any{"sagemaker_multi_worker_mirrored_strategy_enabled": true}
	}
	return map[string]any{}
}

// distribution is the hosts and the instance groups that a launcher's processes
// run on, as the toolkit says it: all, or without a launcher none.
func (f Facts) distribution() (hosts, groups []string) {
	if f.Launcher == job.Alone {
		return []string{}, []string{}
	}
	return f.Hosts, []string{group}
}
