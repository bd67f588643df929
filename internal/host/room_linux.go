package host

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Cores are the numbers of the cores that this process may run on.
func Cores() (all []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) == nil {
		for i := range 64 * len(set) {
			if set.IsSet(i) {
				all = append(all, i)
			}
		}
	}
	if len(all) == 0 { // more cores than the set has room for
		return firstCores(runtime.NumCPU())
	}
	return all
}
