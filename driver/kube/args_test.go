package kube

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver/kube/nodes"
	"github.com/drover-run/drover/driver/kube/podpatch"
	"github.com/drover-run/drover/fault"
)

func TestOptionsAreRead(t *testing.T) {
	got, err := parseOptions([]string{"agent-image=x.test/d:1", "service-account=s", "queue=q", "priority=p", "pull-secret=a", "pull-secret=b", "runtime-class=r", "user=1000",
		"node=disk=ssd,nvme", "node=zone!=a", "node=gpu", "tolerate=dedicated=gpu", "tolerate=any", "volume=pvc/data:/data", "volume=hostPath/srv/x:/x"})
	want := options{agentImage: "x.test/d:1", serviceAccount: "s", queue: "q", priority: "p", pullSecrets: []string{"a", "b"}, runtimeClass: "r", user: "1000",
		nodes:       []nodes.Requirement{{Key: "disk", Operator: "In", Values: []string{"ssd", "nvme"}}, {Key: "zone", Operator: "NotIn", Values: []string{"a"}}, {Key: "gpu", Operator: "Exists"}},
		tolerations: []object{{"operator": "Equal", "key": "dedicated", "value": "gpu"}, {"operator": "Exists", "key": "any"}},
		volumes:     []volume{{claimVolume, "data", "/data"}, {hostVolume, "/srv/x", "/x"}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(options{}, volume{}, podpatch.Patch{})); err != nil || diff != "" {
		t.Errorf("%v, difference:\n%s", err, diff)
	}
}

func TestAnOptionThatCannotBeIsRefused(t *testing.T) {
	for arg, c := range map[string][2]string{
		"queu=x":             {`read --target-arg "queu=x": Kubernetes has no such option here`, "Do you mean --target-arg queue=gpus?"},
		"partition=x":        {`read --target-arg "partition=x": Kubernetes has no such option here`, "There are agent-image, node, pod, priority, pull-secret, queue, runtime-class, service-account, tolerate, user, volume: docs/how-to/kube.md."},
		"queue=":             {`read --target-arg "queue=": it has no value`, "Write it as --target-arg queue=gpus."},
		"queue=a\nb":         {`read --target-arg "queue=a\nb": it has no value`, "Write it as --target-arg queue=gpus."},
		"user=ann":           {`read --target-arg "user=ann": it is no number of a user, and neither image nor root`, "Write it as --target-arg user=1000."},
		"node==a":            {`read --target-arg "node==a": it is no label and value`, "Write it as --target-arg node=disk=ssd."},
		"volume=data:/data":  {`read --target-arg "volume=data:/data": it is no volume and path`, "Write it as --target-arg volume=pvc/data:/data."},
		"volume=nfs/a:/data": {`read --target-arg "volume=nfs/a:/data": there are claims (pvc) and folders of nodes (hostPath)`, "Write it as --target-arg volume=pvc/data:/data."},
	} {
		_, err := parseOptions([]string{arg})
		refusedWith(t, err, fault.Invalid, c[0], c[1])
	}
	if _, err := parseOptions(strings.Fields("user=image user=root")); err != nil {
		t.Error(err)
	}
}

func TestQuantitiesAreRead(t *testing.T) {
	for text, want := range map[string]float64{"250m": 0.25, "4": 4, "16Gi": 16 << 30, "2e3": 2000, "1500M": 1.5e9, "x": 0, "": 0} {
		if got := nodes.Quantity(text); got != want {
			t.Errorf("%s: %g, want %g", text, got, want)
		}
	}
}
