package main_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-run/drover/driver/kube/kubetest"
)

// Scripts with Kubernetes as their target, each with a cluster of its own: a fake, of which pods are
// processes of this machine. What a real cluster does is asked by make test-kube.
func TestScriptsOnAFakeOfKubernetes(t *testing.T) {
	scriptsOnAFake(t, "kube", func(t *testing.T) fakeTarget {
		fake := kubetest.New(t)
		return fakeTarget{map[string]string{"KUBECONFIG": fake.Kubeconfig(t), "APISERVER": fake.URL()}, map[string]func(*testscript.TestScript, bool, []string){
			"cluster": func(ts *testscript.TestScript, neg bool, args []string) { changeCluster(ts, fake, neg, args) },
		}}
	})
}

// changeCluster changes a script's cluster:
//
//	cluster old               it is Kubernetes 1.28
//	cluster hold              no pod is scheduled
//	cluster deny VERB KIND    the user may not do that
//	cluster quota NAME VALUE  what the namespace may use in all, such as requests.cpu 3
//	cluster node NAME LABEL=VALUE...   a node more
//	cluster gone NAME         that node is there no more
//	cluster empty KIND        fails unless no object of the kind is there
func changeCluster(ts *testscript.TestScript, fake *kubetest.Server, neg bool, args []string) {
	need(ts, neg, args, 1, "cluster WHAT...")
	switch what := strings.Join(args[:1], ""); {
	case what == "old":
		fake.Age()
	case what == "hold":
		fake.Hold()
	case what == "deny" && len(args) == 3:
		fake.Deny(args[1], args[2])
	case what == "quota" && len(args) == 3:
		fake.Put("resourcequotas", "train", kubetest.Object{"metadata": kubetest.Object{"name": "compute"}, "status": kubetest.Object{"hard": kubetest.Object{args[1]: args[2]}}})
	case what == "node" && len(args) > 1:
		labels := kubetest.Object{"kubernetes.io/hostname": args[1], "kubernetes.io/arch": runtime.GOARCH}
		for _, label := range args[2:] {
			name, value, _ := strings.Cut(label, "=")
			labels[name] = value
		}
		fake.Put("nodes", "", kubetest.Object{"metadata": kubetest.Object{"name": args[1], "labels": labels}, "status": kubetest.Object{"allocatable": kubetest.Object{"cpu": "8", "memory": "32Gi"}}})
	case what == "gone" && len(args) == 2:
		fake.Remove("nodes", "", args[1])
	case what == "empty" && len(args) == 2:
		if left := fake.Objects(args[1]); len(left) > 0 {
			ts.Fatalf("there are %d %s: %v", len(left), args[1], left)
		}
	default:
		ts.Fatalf("cluster: %q is not known", args)
	}
}
