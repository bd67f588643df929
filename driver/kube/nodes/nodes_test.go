package nodes

import (
	"encoding/json"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

// cluster has these nodes, each a name with labels.
func cluster(nodes map[string]map[string]string) (c Cluster) {
	c.Listed = true
	for name, labels := range nodes {
		n := api.Node{Metadata: api.Meta{Name: name, Labels: map[string]string{labelHostname: name}}}
		for k, v := range labels {
			n.Metadata.Labels[k] = v
		}
		n.Status.Allocatable = map[string]string{"cpu": "8", "memory": "32Gi"}
		c.All = append(c.All, n)
	}
	return c
}

func TestWhatIsAskedOfMachinesBecomesConditionsOnNodes(t *testing.T) {
	four := map[string]map[string]string{
		"karpenter": {"karpenter.sh/capacity-type": "spot", labelType: "p3.2xlarge"},
		"eks":       {"eks.amazonaws.com/capacityType": "SPOT", labelType: "p3.8xlarge"},
		"gke":       {"cloud.google.com/gke-spot": "true", labelType: "n2-standard-8"},
		"aks":       {"kubernetes.azure.com/scalesetpriority": "spot", labelType: "m5.large"},
	}
	const gkeTaint = `{"effect":"NoSchedule","key":"cloud.google.com/gke-spot","operator":"Equal","value":"true"}`
	const aksTaint = `{"effect":"NoSchedule","key":"kubernetes.azure.com/scalesetpriority","operator":"Equal","value":"spot"}`
	const spot = `[{"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]}],[{"key":"eks.amazonaws.com/capacityType","operator":"In","values":["SPOT"]}],` +
		`[{"key":"cloud.google.com/gke-spot","operator":"In","values":["true"]}],[{"key":"kubernetes.azure.com/scalesetpriority","operator":"In","values":["spot"]}]`
	for name, c := range map[string]struct {
		needs driver.Needs
		expr  string
		own   []Requirement
		want  string
	}{
		"nothing":           {want: `{"Required":null,"Preferred":null,"Tolerations":null}`},
		"a label":           {own: []Requirement{{Key: "disk", Operator: "Exists"}}, want: `{"Required":[[{"key":"disk","operator":"Exists"}]],"Preferred":null,"Tolerations":null}`},
		"a pattern":         {expr: "attribute:ecs.instance-type =~ p3.*", want: `{"Required":[[{"key":"node.kubernetes.io/instance-type","operator":"In","values":["p3.2xlarge","p3.8xlarge"]}]],"Preferred":null,"Tolerations":null}`},
		"types":             {needs: driver.Needs{Machine: []string{"m5.large"}}, want: `{"Required":[[{"key":"node.kubernetes.io/instance-type","operator":"In","values":["m5.large"]}]],"Preferred":null,"Tolerations":null}`},
		"spot alone":        {needs: driver.Needs{Spot: job.SpotOnly}, want: `{"Required":[` + spot + `],"Preferred":null,"Tolerations":[` + gkeTaint + `,` + aksTaint + `]}`},
		"spot first":        {needs: driver.Needs{Spot: job.SpotFirst}, want: `{"Required":null,"Preferred":[` + spot + `],"Tolerations":[` + gkeTaint + `,` + aksTaint + `]}`},
		"on demand, a size": {needs: driver.Needs{Spot: job.SpotNever}, expr: "purchase == on-demand", want: ``},
	} {
		if c.expr != "" {
			var err error
			if c.needs.Where, err = where.Parse(c.expr); err != nil {
				t.Fatal(err)
			}
		}
		s, err := cluster(four).Select(c.needs, c.own)
		if c.want == "" {
			if err == nil {
				t.Errorf("%s: %+v, and all nodes are spot capacity", name, s)
			}
			continue
		}
		got, _ := json.Marshal(s)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, got, c.want)
		}
	}
}
