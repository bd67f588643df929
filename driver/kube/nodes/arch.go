package nodes

import (
	"cmp"
	"maps"
	"slices"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/job/where"
)

// Arch is the processor that agents are for, in Go's words, which are Kubernetes': own where a node of it
// meets what is asked of machines, else that of most nodes that do. Where no node is known that
// does, it is the first of own, amd64 and arm64 that may.
func (c Cluster) Arch(own string, n driver.Needs) string {
	expr, err := condition(n)
	if err != nil {
		return own // Select says what is wrong with it
	}
	count := map[string]int{}
	for _, node := range c.All {
		if arch := node.Metadata.Labels[labelArch]; arch != "" && expr.Eval(nodeAttributes(node)) == where.True {
			count[arch]++
		}
	}
	if count[own] > 0 {
		return own
	}
	if archs := slices.Sorted(maps.Keys(count)); len(archs) > 0 {
		return slices.MaxFunc(archs, func(a, b string) int { return cmp.Compare(count[a], count[b]) })
	}
	for _, arch := range []string{own, "amd64", "arm64"} {
		if expr.Eval(where.Attributes{where.Arch: {arch}}) != where.False {
			return arch
		}
	}
	return own
}
