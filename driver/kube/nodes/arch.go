package nodes

import (
	"cmp"
	"maps"
	"slices"

	"github.com/drover-run/drover/job/where"
)

// Arch is the processor that agents are for, in Go's words, which are Kubernetes': own where a node of it
// meets the expression, else that of most nodes that do. "": no such node is known.
func (c Cluster) Arch(own string, e where.Expr) string {
	count := map[string]int{}
	for _, n := range c.All {
		if arch := n.Metadata.Labels[labelArch]; arch != "" && e.Eval(nodeAttributes(n)) == where.True {
			count[arch]++
		}
	}
	if count[own] > 0 {
		return own
	}
	archs := slices.Sorted(maps.Keys(count))
	if len(archs) == 0 {
		return ""
	}
	return slices.MaxFunc(archs, func(a, b string) int { return cmp.Compare(count[a], count[b]) })
}
