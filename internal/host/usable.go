package host

import (
	"strings"

	"github.com/drover-run/drover/fault"
)

// Usable are those of all from which n may be given to one program: CUDA shows a
// process whole GPUs, or one MIG device, never both and never two of the latter.
// n 0 asks what a program sees that was given nothing of its own. More MIG
// devices than one are fault.Invalid; too few GPUs are not refused here.
func Usable(all []GPU, n int) ([]GPU, error) {
	var whole, parts []GPU
	for _, g := range all {
		if strings.HasPrefix(g.UUID, "MIG-") {
			parts = append(parts, g)
		} else {
			whole = append(whole, g)
		}
	}
	switch {
	case len(parts) == 0 || len(whole) > 0 && n <= len(whole):
		return whole, nil
	case n == 0:
		return parts[:1], nil
	case n == 1:
		return parts, nil
	}
	return nil, fault.New(fault.Invalid, "Use `--gpus 1`, or turn MIG off.", "reserve %d GPUs: this machine has %d whole ones, and a program can use one MIG device only", n, len(whole))
}
