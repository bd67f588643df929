package gcpbatch

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job/where"
)

// machine is a type of machines of Compute Engine. The zero value is Google Batch's own choice, by what a task needs.
type machine struct {
	name   string
	arch   string
	cpus   int
	memory int // MiB
	gpus   int
	gpu    string
	gpuMiB int
}

// families are the families of types that drover knows the sizes of, those without GPUs first. Source: "Machine families resource and comparison guide" and "GPU
// machine types", Compute Engine, 2026-11.
var families = []struct {
	name, arch string
	perCPU     int // MiB of memory for each core
	cpus       []int
}{
	{"e2-standard", "amd64", 4096, []int{2, 4, 8, 16, 32}}, {"e2-highmem", "amd64", 8192, []int{2, 4, 8, 16}}, {"e2-highcpu", "amd64", 1024, []int{2, 4, 8, 16, 32}},
	{"n2-standard", "amd64", 4096, []int{2, 4, 8, 16, 32, 48, 64, 80, 96, 128}}, {"n2-highmem", "amd64", 8192, []int{2, 4, 8, 16, 32, 48, 64, 80, 96, 128}}, {"n2d-standard", "amd64", 4096, []int{2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 224}},
	{"c3-standard", "amd64", 4096, []int{4, 8, 22, 44, 88, 176}}, {"t2a-standard", "arm64", 4096, []int{1, 2, 4, 8, 16, 32, 48}},
}

// gpuMachines are the types that bring GPUs. Source: "GPU machine types", Compute Engine, 2026-11.
var gpuMachines = []machine{
	{"g2-standard-4", "amd64", 4, 16 << 10, 1, "l4", 24 << 10}, {"g2-standard-8", "amd64", 8, 32 << 10, 1, "l4", 24 << 10}, {"g2-standard-24", "amd64", 24, 96 << 10, 2, "l4", 24 << 10}, {"g2-standard-48", "amd64", 48, 192 << 10, 4, "l4", 24 << 10},
	{"g2-standard-96", "amd64", 96, 384 << 10, 8, "l4", 24 << 10}, {"a2-highgpu-1g", "amd64", 12, 85 << 10, 1, "a100", 40 << 10}, {"a2-highgpu-2g", "amd64", 24, 170 << 10, 2, "a100", 40 << 10}, {"a2-highgpu-4g", "amd64", 48, 340 << 10, 4, "a100", 40 << 10},
	{"a2-highgpu-8g", "amd64", 96, 680 << 10, 8, "a100", 40 << 10}, {"a2-ultragpu-1g", "amd64", 12, 170 << 10, 1, "a100", 80 << 10}, {"a2-ultragpu-8g", "amd64", 96, 1360 << 10, 8, "a100", 80 << 10}, {"a3-highgpu-8g", "amd64", 208, 1872 << 10, 8, "h100", 80 << 10},
}

// machines are all types of which the size is known, the smaller ones of a family first.
var machines = func() (all []machine) {
	for _, f := range families {
		for _, n := range f.cpus {
			all = append(all, machine{name: f.name + "-" + strconv.Itoa(n), arch: f.arch, cpus: n, memory: n * f.perCPU})
		}
	}
	return append(all, gpuMachines...)
}()

// typeForm is the form of a type's name.
var typeForm = regexp.MustCompile(`^[a-z][a-z0-9]*-[a-z0-9-]+$`)

// attributes are what is known of a type, as a condition asks for it.
func (m machine) attributes(region string, spot bool) where.Attributes {
	purchase := where.OnDemand
	if spot {
		purchase = where.Spot
	}
	family, _, _ := strings.Cut(m.name, "-")
	all := where.Attributes{where.Region: {region}, where.Purchase: {purchase}, where.Type: {m.name}, where.Family: {family}}
	if m.cpus > 0 {
		all[where.Arch] = []string{m.arch}
		all[where.CPUs], all[where.Memory] = []string{strconv.Itoa(m.cpus)}, []string{strconv.Itoa(m.memory << 20)}
		all[where.GPUCount], all[where.GPUName], all[where.GPUMemory] = []string{strconv.Itoa(m.gpus)}, []string{}, []string{}
	}
	if m.gpus > 0 {
		all[where.GPUName], all[where.GPUMemory] = []string{m.gpu}, []string{strconv.Itoa(m.gpuMiB << 20)}
	}
	return all
}

// fits says whether an agent fits on a machine of the type; of one of which the size is not known it is believed.
func (m machine) fits(n driver.Needs) bool {
	return m.cpus == 0 || float64(m.cpus) >= max(n.CPUs, float64(n.Slots)) && int64(m.memory)<<20 >= n.Memory && m.gpus >= n.GPUs
}

// chooseMachine is the type that a job gets: of those that --machine and --where name the first on which an agent fits. Where neither is said, and
// no GPU, Google Batch chooses.
func chooseMachine(n driver.Needs, region string) (machine, error) {
	spot := isSpot(n)
	fits := slices.ContainsFunc(machines, func(m machine) bool { return m.fits(n) }) // Google Batch would wait for ever for one that there is not
	if fits && len(n.Machine) == 0 && n.GPUs == 0 && n.Where.Unmet(where.Attributes{where.Region: {region}, where.Purchase: machine{}.attributes(region, spot)[where.Purchase], where.Arch: {"amd64"}}) == "" {
		return machine{}, nil
	}
	candidates := machines
	if len(n.Machine) > 0 {
		candidates = nil
	}
	for _, glob := range n.Machine {
		known := slices.DeleteFunc(slices.Clone(machines), func(m machine) bool {
			matches, err := path.Match(glob, m.name)
			return err != nil || !matches
		})
		if len(known) == 0 && typeForm.MatchString(glob) {
			known = []machine{{name: glob}}
		}
		candidates = append(candidates, known...)
	}
	for _, m := range candidates {
		if m.fits(n) && n.Where.Unmet(m.attributes(region, spot)) == "" && (m.gpus == 0 || n.GPUs > 0 || len(n.Machine) > 0 || !n.Where.IsZero()) {
			return m, nil
		}
	}
	return machine{}, fault.New(fault.Full, "Ask for less, with `--cpus`, `--memory` or `--gpus`, or name a type with `--machine`.", "no machine of Compute Engine's that drover knows has what an agent needs: %s", n.Words())
}

const (
	usualCPUs   = 2
	usualMemory = 4096 // MiB
)

// cpuMilli is what a task asks of its machine, in thousandths of a core: all of one that was chosen.
func (m machine) cpuMilli(n driver.Needs) int64 {
	switch cpus := max(n.CPUs, float64(n.Slots)); {
	case cpus > 0:
		return int64(cpus * 1000)
	case m.cpus > 0:
		return int64(m.cpus) * 1000
	}
	return usualCPUs * 1000
}

// memoryMiB is the same of memory; of a chosen machine's own the system takes some.
func (m machine) memoryMiB(n driver.Needs) int64 {
	switch {
	case n.Memory > 0:
		return (n.Memory + 1<<20 - 1) >> 20
	case m.memory > 0:
		return int64(m.memory) * 9 / 10
	}
	return usualMemory
}

// words are the type and its size, for people.
func (m machine) words() string {
	if m.name == "" {
		return "machines of Google's choice"
	}
	text := m.name
	if m.cpus > 0 {
		text += ": " + strconv.Itoa(m.cpus) + " cores, " + strconv.Itoa(m.memory>>10) + " GB"
	}
	switch {
	case m.gpus == 1:
		text += ", 1 GPU"
	case m.gpus > 1:
		text += ", " + strconv.Itoa(m.gpus) + " GPUs"
	}
	return text
}
