package nodes

import (
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/job/where"
)

func TestAgentsAreForTheProcessorOfTheNodesThatTheyMayUse(t *testing.T) {
	node := func(arch, machine string) (n api.Node) {
		n.Metadata.Labels = map[string]string{labelArch: arch, labelType: machine}
		return n
	}
	mixed := Cluster{Listed: true, All: []api.Node{node("amd64", "m5.large"), node("arm64", "m7g.large"), node("arm64", "m7g.large")}}
	graviton := Cluster{Listed: true, All: mixed.All[1:]}
	for name, c := range map[string]struct {
		nodes   Cluster
		own     string
		where   string
		machine []string
		want    string
	}{
		"a node like this machine":      {nodes: mixed, own: "amd64", want: "amd64"},
		"none like this machine":        {nodes: graviton, own: "amd64", want: "arm64"},
		"the most":                      {nodes: mixed, own: "riscv64", want: "arm64"},
		"of a type":                     {nodes: mixed, own: "amd64", machine: []string{"m7g.*"}, want: "arm64"},
		"where":                         {nodes: mixed, own: "amd64", where: "arch == arm64", want: "arm64"},
		"not listed":                    {own: "arm64", want: "arm64"},
		"not listed, and asked for":     {own: "amd64", where: "arch == arm64", want: "arm64"},
		"of a node that is to be added": {nodes: graviton, own: "arm64", where: "arch == amd64", want: "amd64"},
		"of a type that is not known":   {nodes: mixed, own: "amd64", machine: []string{"p3.2xlarge"}, want: "amd64"},
	} {
		n := driver.Needs{Machine: c.machine}
		if c.where != "" {
			var err error
			if n.Where, err = where.Parse(c.where); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.nodes.Arch(c.own, n); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
