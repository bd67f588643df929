package driver

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/drover-run/drover/job"
)

// Words say what an agent needs of a machine, for a target that chooses among types of machines and has none that fits: "8 cores, 2 GPUs".
func (n Needs) Words() string {
	var all []string
	add := func(is bool, text string) {
		if is {
			all = append(all, text)
		}
	}
	add(n.CPUs > 0 || n.Slots > 0, strconv.FormatFloat(max(n.CPUs, float64(n.Slots)), 'g', -1, 64)+" cores")
	add(n.Memory > 0, job.Bytes(n.Memory).Words()+" of memory")
	add(n.GPUs == 1, "1 GPU")
	add(n.GPUs > 1, strconv.Itoa(n.GPUs)+" GPUs")
	add(len(n.Machine) > 0, "--machine "+strings.Join(n.Machine, ","))
	add(n.Where.String() != "", n.Where.String())
	return cmp.Or(strings.Join(all, ", "), "nothing")
}
