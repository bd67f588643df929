package api

import (
	"slices"
	"strconv"
	"strings"
)

// Indexes is a set of indexes as a Job's status has it: "1,3-5,7".
type Indexes [][2]int

// ParseIndexes reads it, and passes over what it does not know.
func ParseIndexes(text string) (all Indexes) {
	for _, part := range strings.Split(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		b := a
		if isRange {
			if b, err = strconv.Atoi(last); err != nil {
				continue
			}
		}
		all = append(all, [2]int{a, b})
	}
	return all
}

// Has says whether an index is in the set.
func (x Indexes) Has(i int) bool {
	_, ok := slices.BinarySearchFunc(x, i, func(r [2]int, i int) int {
		switch {
		case r[1] < i:
			return -1
		case r[0] > i:
			return 1
		}
		return 0
	})
	return ok
}
