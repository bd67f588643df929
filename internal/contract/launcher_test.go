package contract_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/job"
)

// TestWhatALauncherAdds shows what is there, and not without launcher and peers,
// on each node of one and of two. SM_TRAINING_ENV is long, and compared with the
// toolkit's.
func TestWhatALauncherAdds(t *testing.T) {
	var b strings.Builder
	for _, row := range []struct {
		launcher job.Launcher
		procs    int
	}{{job.Alone, 1}, {job.Torch, 1}, {job.Torch, 2}, {job.TorchRun, 2}, {job.MPI, 2}, {job.TF, 1}} {
		for _, place := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
			f := node(place[0], place[1])
			plain := f
			plain.Peers = nil
			f.Launcher, f.Procs = row.launcher, row.procs
			fmt.Fprintf(&b, "launcher %q, %d processes, node %d of %d\n", row.launcher, row.procs, f.Rank+1, len(f.Hosts))
			without := plain.Environ()
			for _, v := range f.Environ() {
				if !slices.Contains(without, v) && !strings.HasPrefix(v, "SM_TRAINING_ENV=") {
					b.WriteString("  " + v + "\n")
				}
			}
			for _, v := range f.Defaults() {
				b.WriteString("  by default " + v + "\n")
			}
			for local := range row.procs {
				if row.launcher == job.Torch {
					fmt.Fprintf(&b, "  process %d %s\n", local, strings.Join(contract.RankEnviron(f.Rank, f.Procs, local), " "))
				}
			}
		}
	}
	golden(t, "launchers", b.String())
}

// A plain script that finds these believes it has peers to wait for.
func TestALoneScriptFindsNoPeers(t *testing.T) {
	got := variables(t, node(0, 1))
	for _, name := range []string{"MASTER_ADDR", "MASTER_PORT", "DROVER_PEERS", "DROVER_PROCS_PER_NODE", "SM_MASTER_PORT",
		"RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "TF_CONFIG", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"} {
		if value, ok := got[name]; ok {
			t.Errorf("%s is %q", name, value)
		}
	}
	if got["SM_MASTER_ADDR"] != "algo-1" {
		t.Errorf("SM_MASTER_ADDR is %q, want what SageMaker says", got["SM_MASTER_ADDR"])
	}
}

func TestOnlyPeersThatAreAllKnownAreSaid(t *testing.T) {
	for name, peers := range map[string][]contract.Peer{
		"none":            nil,
		"one of two":      {{Address: "10.0.0.1", Port: 1}},
		"one too many":    {{Address: "a", Port: 1}, {Address: "b", Port: 1}, {Address: "c", Port: 1}},
		"without port":    {{Address: "10.0.0.1", Port: 1}, {Address: "10.0.0.2"}},
		"without address": {{Port: 1}, {Address: "10.0.0.2", Port: 1}},
	} {
		f := node(1, 2)
		f.Peers, f.Launcher = peers, job.TF
		got := variables(t, f)
		for _, v := range []string{"MASTER_ADDR", "MASTER_PORT", "DROVER_PEERS", "SM_MASTER_PORT", "TF_CONFIG"} {
			if value, ok := got[v]; ok {
				t.Errorf("%s: %s is %q", name, v, value)
			}
		}
		if got["SM_MASTER_ADDR"] != "algo-1" {
			t.Errorf("%s: SM_MASTER_ADDR is %q", name, got["SM_MASTER_ADDR"])
		}
	}
}

func TestAddressesOfIPv6AreWrittenAsEachReaderReadsThem(t *testing.T) {
	f := node(1, 2)
	f.Peers[0].Address, f.Launcher = "fd00::1", job.TF
	got := variables(t, f)
	for name, want := range map[string]string{
		"MASTER_ADDR": "fd00::1", "SM_MASTER_ADDR": "fd00::1",
		"DROVER_PEERS": `["[fd00::1]:40001","10.0.0.2:40002"]`,
		"TF_CONFIG":    `{"cluster":{"worker":["[fd00::1]:40001","10.0.0.2:40002"]},"task":{"type":"worker","index":1}}`,
	} {
		if got[name] != want {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
}

func TestEveryProcessHasOneRankAndTheWorldIsTheirNumber(t *testing.T) {
	for _, nodes := range []int{1, 2, 11} { // from 10 on hosts sort as text
		for _, procs := range []int{0, 1, 2, 8} {
			taken := map[string]string{}
			for node := range nodes {
				f := contract.Facts{Job: "j", Program: "p", Hosts: contract.Hosts(nodes), Rank: node, Launcher: job.Torch, Procs: procs}
				got := variables(t, f)
				if world := strconv.Itoa(nodes * max(1, procs)); got["WORLD_SIZE"] != world || got["NODE_RANK"] != strconv.Itoa(node) {
					t.Errorf("world %s, node %s; want %s, %d", got["WORLD_SIZE"], got["NODE_RANK"], world, node)
				}
				for local := range max(1, procs) {
					one := contract.RankEnviron(node, procs, local)
					taken[one[0]] += one[1]
					if _, ok := got["RANK"]; ok != (procs < 2) {
						t.Errorf("%d processes: the node itself has RANK %q", procs, got["RANK"])
					}
					if shared := []string{"RANK=" + got["RANK"], "LOCAL_RANK=" + got["LOCAL_RANK"]}; procs < 2 {
						if diff := cmp.Diff(one, shared); diff != "" {
							t.Errorf("the node says otherwise (-its one process +it):\n%s", diff)
						}
					}
				}
			}
			for rank := range nodes * max(1, procs) {
				if want := fmt.Sprintf("LOCAL_RANK=%d", rank%max(1, procs)); taken[fmt.Sprintf("RANK=%d", rank)] != want {
					t.Errorf("%d nodes, %d processes: rank %d is %q, want %q", nodes, procs, rank, taken[fmt.Sprintf("RANK=%d", rank)], want)
				}
			}
			if len(taken) != nodes*max(1, procs) {
				t.Errorf("%d nodes, %d processes: %d ranks", nodes, procs, len(taken))
			}
		}
	}
}

func TestDefaultsAreOnlyWhatIsKnownAndUsed(t *testing.T) {
	both := []string{"GLOO_SOCKET_IFNAME=ens5", "NCCL_SOCKET_IFNAME=ens5"}
	threads := "OMP_NUM_THREADS=1"
	for _, row := range []struct {
		launcher job.Launcher
		procs    int
		iface    string
		want     []string
	}{
		{job.Alone, 1, "ens5", []string{}},
		{job.TF, 1, "ens5", []string{}},
		{job.Torch, 0, "ens5", both},
		{job.Torch, 1, "", []string{}},
		{job.Torch, 2, "ens5", append(slices.Clone(both), threads)},
		{job.Torch, 2, "", []string{threads}},
		{job.TorchRun, 2, "ens5", both}, // it sets OMP_NUM_THREADS itself
		{job.MPI, 2, "ens5", both},
	} {
		f := node(0, 2)
		f.Launcher, f.Procs, f.Interface = row.launcher, row.procs, row.iface
		if diff := cmp.Diff(row.want, f.Defaults()); diff != "" {
			t.Errorf("%s, interface %q (-want +got):\n%s", kind(f), row.iface, diff)
		}
		got := variables(t, f)
		for _, v := range row.want {
			name, _, _ := strings.Cut(v, "=")
			if value, ok := got[name]; ok {
				t.Errorf("%s: %s is %q for good, though a default", kind(f), name, value)
			}
		}
	}
}
