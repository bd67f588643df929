package host

import "runtime"

// Cores are the numbers of this machine's cores. macOS binds no process to some
// of them: they count, and mean nothing else.
func Cores() []int { return firstCores(runtime.NumCPU()) }
