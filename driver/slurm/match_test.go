package slurm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

// cluster is what sinfo prints of three partitions, node by node.
const cluster = `main*|up|1:00:00|1|idle|4|4096|0/4/0/4|(null)|n1|ssd|0
main*|up|1:00:00|1|idle|8|8192|0/8/0/8|(null)|n2|(null)|1024
gpu|up|infinite|1|idle|16|65536|0/16/0/16|gpu:A100:4(S:0-1)|gpu-01|ib,p4d.24xlarge|0
gpu|up|infinite|1|mix|16|65536|8/8/0/16|gpu:A100:4(S:0-1)|gpu-02|ib,p4d.24xlarge|0
gpu|up|infinite|1|idle|16|32768|0/16/0/16|gpu:v100:2,gpu:t4:1|gpu-03|p3.8xlarge,old|0
gpu|up|infinite|1|down*|16|32768|0/0/16/16|gpu:v100:2|gpu-10|p3.8xlarge|0
`

func placement(t *testing.T, text string) where.Expr {
	t.Helper()
	e, err := where.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A disk that no node has is refused, where Slurm is told of its nodes' disks.
func TestADiskThatNoNodeHasIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		lines string
		disk  int64
		free  int
		why   string
	}{
		"small enough": {"main*|up|infinite|1|idle|8|8192|0/8/0/8|(null)|n2|(null)|20480\n", 10 << 30, 8, ""},
		"not known":    {"main*|up|infinite|1|idle|8|8192|0/8/0/8|(null)|n2|(null)|0\n", 1 << 50, 8, ""},
		"too large": {"main*|up|infinite|1|idle|8|8192|0/8/0/8|(null)|n2|(null)|20480\n", 100 << 30, 0,
			"partition main of Slurm: its nodes have 20 GB of temporary disk, and 100 GB is needed"},
		"on one of two": {"main*|up|infinite|1|idle|8|8192|0/8/0/8|(null)|n1|(null)|20480\nmain*|up|infinite|1|idle|4|8192|0/4/0/4|(null)|n2|(null)|204800\n", 100 << 30, 4, ""},
	} {
		got := choices(parseGroups(c.lines), driver.Needs{Agents: 1, Disk: c.disk})
		if len(got) != 1 || got[0].Free != c.free || got[0].Reason != c.why {
			t.Errorf("%s: %+v, want %d free and %q", name, got, c.free, c.why)
		}
	}
}

// What is asked of machines, in the words of sbatch.
func TestWhatIsAskedOfNodesIsMapped(t *testing.T) {
	for _, row := range []struct {
		where   string
		machine []string
		args    []string
		gpus    int
		want    string
	}{
		{where: "feature == ib", want: "--constraint=ib"},
		{where: "feature == ib and feature == p4d.24xlarge", want: "--constraint=ib&p4d.24xlarge"},
		{where: "feature in (ib, old)", want: "--constraint=(ib|old)"},
		{where: "feature == ib or feature == old and type == p3.8xlarge", want: "--constraint=(ib|old&p3.8xlarge)"},
		{where: "type =~ p*", want: "--constraint=(p3.8xlarge|p4d.24xlarge)"},
		{machine: []string{"p3.*"}, want: "--constraint=p3.8xlarge"},
		{machine: []string{"p4d.24xlarge", "p3.*"}, where: "memory >= 64G", want: "--constraint=(p3.8xlarge|p4d.24xlarge) --exclude=gpu-[03,10]"},
		{where: "feature != old", want: "--exclude=gpu-03"},
		{where: "feature != ib", want: "--exclude=gpu-[01-02]"},
		{where: "memory >= 64G", want: "--exclude=gpu-[03,10]"},
		{where: "cpus >= 16", want: ""},
		{where: "node == gpu-02", want: "--nodelist=gpu-02"},
		{where: "node in (gpu-02, gpu-03)", want: "--exclude=gpu-[01,10]"},
		{where: "gpu.name == a100", gpus: 2, want: "--gres=gpu:A100:2"},
		{where: "gpu.name == a100", want: "--exclude=gpu-[03,10]"},
		{where: "gpu.name in (a100, t4)", gpus: 1, want: "--exclude=gpu-10"},
		{where: "gpu.name == a100 and feature == ib and node != gpu-01", gpus: 1, want: "--gres=gpu:A100:1 --constraint=ib --exclude=gpu-01"},
		{where: "feature == ib", args: []string{"--constraint=old"}, want: "--exclude=gpu-[03,10]"},
		{where: "feature == ib", args: []string{"-Cold"}, want: "--exclude=gpu-[03,10]"},
		{where: "gpu.name == a100", gpus: 1, args: []string{"--gpus-per-node=1"}, want: "--exclude=gpu-[03,10]"},
		{where: `feature == "a&b" or feature == ib`, want: "--exclude=gpu-[03,10]"},
	} {
		n := driver.Needs{Machine: row.machine, Args: row.args, GPUs: row.gpus, Detail: "gpu"}
		n.Where = placement(t, row.where)
		asked, err := restriction(n)
		if err != nil {
			t.Fatal(err)
		}
		var nodes []group
		for _, g := range parseGroups(cluster) {
			if g.partition == "gpu" {
				nodes = append(nodes, g)
			}
		}
		if got := strings.Join(matchArgs(asked, nodes, n), " "); got != row.want {
			t.Errorf("--where %q --machine %v %v:\n got %s\nwant %s", row.where, row.machine, row.args, got, row.want)
		}
	}
}

// A partition is chosen by the nodes that match; the one that was named stands.
func TestThePartitionIsOneWithNodesThatMatch(t *testing.T) {
	for _, row := range []struct{ where, named, want, reason string }{
		{where: "feature == ssd", want: "main"},
		{where: "feature == ib", want: "gpu"},
		{where: "cpus >= 8", want: "main"},
		{where: "gpu.name == v100", want: "gpu"},
		{where: "feature == ib", named: "main", want: "main",
			reason: "partition main of Slurm: no node is what is asked for: of node n1, feature == ib is asked for, and feature is ssd"},
		{where: "zone == a", want: "main",
			reason: "partition main of Slurm: no node is what is asked for: of node n1, zone == a is asked for, and zone is not known"},
		{where: "node == gpu-10", want: "main", reason: "partition main of Slurm: no node is what is asked for: of node n1, node == gpu-10 is asked for, and node is n1"},
		{where: "node == gpu-10", named: "gpu", want: "gpu", reason: "partition gpu of Slurm has no node that accepts jobs"},
	} {
		n := driver.Needs{Agents: 1, Where: placement(t, row.where), Detail: row.named}
		all := choices(match(parseGroups(cluster), n.Where), n)
		at, reason, _ := choose(all, n)
		if reason != "" || all[at].Detail != row.want || all[at].Reason != row.reason {
			t.Errorf("--where %s: partition %s, %q %q, want %s, %q", row.where, all[at].Detail, reason, all[at].Reason, row.want, row.reason)
		}
	}
	n := driver.Needs{Agents: 4, Where: placement(t, "feature == ib")}
	if c := choice("gpu", match(parseGroups(cluster), n.Where), n); c.All != 32 || c.Free != 24 || c.Machine != "2 nodes with 16 cores, 64 GB, 4 GPUs" {
		t.Errorf("of the nodes that match it says %+v", c)
	}
	if _, reason, hint := choose(nil, driver.Needs{Spot: job.SpotOnly}); reason != "Slurm has no spot capacity" || hint != "Leave --spot out, or choose another target with --on." {
		t.Errorf("of spot capacity it says %q, %q", reason, hint)
	}
}

func TestNodesAreChosenInOnePlace(t *testing.T) {
	for _, arg := range []string{"--exclude=n1", "-xn1", "--nodelist=n1", "-wn1", "--nodefile=f"} {
		err := clash(placement(t, "cpus > 1"), []string{"--qos=a", arg})
		if fault.KindOf(err) != fault.Invalid || !strings.HasSuffix(err.Error(), "both choose nodes") || fault.Hint(err) != "Say it in one of them: --where 'node != n3'." {
			t.Errorf("%s: %v (%s)", arg, err, fault.Hint(err))
		}
		if err := clash(where.Expr{}, []string{arg}); err != nil {
			t.Errorf("%s alone: %v", arg, err)
		}
	}
}

func TestOptionsAreLong(t *testing.T) {
	if diff := cmp.Diff([]string{"--account=bio", "--exclusive", "--qos=a", "-c4"}, longArgs([]string{"account=bio", "exclusive", "--qos=a", "-c4"})); diff != "" {
		t.Error(diff)
	}
}

func TestNamesOfNodesAreShortened(t *testing.T) {
	for want, names := range map[string]string{
		"a":                 "a",
		"n1":                "n1",
		"n[1-3]":            "n2 n1 n3",
		"gpu-[01-02,07],x9": "gpu-07 x9 gpu-01 gpu-02 gpu-01",
		"n[09-10]":          "n09 n10",
		"n[10,9]":           "n9 n10",
		"a-1-b,login":       "login a-1-b",
	} {
		if got := hostlist(strings.Fields(names)); got != want {
			t.Errorf("%s is %s, want %s", names, got, want)
		}
	}
}
