package host

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Use is what one GPU is doing. What it does not tell is 0.
type Use struct {
	Index       int     // nvidia-smi's, from 0
	Util        float64 // percent of the time in which something ran on it
	Memory      int64   // bytes in use, by all users
	MemoryTotal int64   // bytes
	Power       float64 // watts
}

// GPUUse asks nvidia-smi what the GPUs are doing. named are those that are meant,
// as CUDA_VISIBLE_DEVICES names them; "" are all. Of a GPU that is cut into MIG
// devices nothing is known.
func GPUUse(ctx context.Context, environ []string, named string) ([]Use, error) {
	path := find("nvidia-smi", environ)
	if path == "" {
		return nil, nil
	}
	within, cancel := context.WithTimeout(ctx, gpuPatience)
	defer cancel()
	a := ask(within, path, environ, "--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total,power.draw", "--format=csv,noheader,nounits")
	if a.hasNoGPU() {
		return nil, nil
	}
	if err := a.whyUseless(gpuPatience); err != nil {
		return nil, err
	}
	var wanted []string
	for name := range strings.SplitSeq(named, ",") {
		if name = strings.TrimSpace(name); name != "" {
			wanted = append(wanted, name)
		}
	}
	return parseUse(string(a.out), wanted)
}

// parseUse reads the table; a value in brackets is one that the GPU does not tell.
func parseUse(text string, wanted []string) (all []Use, err error) {
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), ",")
		if len(cells) < 6 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		index, err := strconv.Atoi(cells[0])
		if err != nil {
			return nil, fmt.Errorf("read use of GPUs: %q is not an index", cells[0])
		}
		if len(wanted) > 0 && !slices.Contains(wanted, cells[0]) && !slices.Contains(wanted, cells[1]) {
			continue
		}
		number := func(cell string) float64 {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil || v < 0 || v > 1e12 {
				return 0
			}
			return v
		}
		const mib = 1 << 20
		all = append(all, Use{Index: index, Util: number(cells[2]), Memory: int64(number(cells[3])) * mib,
			MemoryTotal: int64(number(cells[4])) * mib, Power: number(cells[5])})
	}
	return all, nil
}
