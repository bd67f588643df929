package input

import (
	"cmp"
	"slices"
)

// Shard says which of keys a node gets, from 0, when each goes to one of nodes
// alone: sorted by their bytes, key i goes to node i mod nodes, as SageMaker does
// with ShardedByS3Key. The answer is indices into keys, in the order of the keys;
// with fewer keys than nodes some nodes get none. Every node finds the same
// without asking the others.
func Shard(keys []string, node, nodes int) []int {
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	if nodes <= 1 {
		return order
	}
	var mine []int
	for i := node; i >= 0 && i < len(order); i += nodes {
		mine = append(mine, order[i])
	}
	return mine
}
