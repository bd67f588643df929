package sagemaker

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

// machine is a type of machines that SageMaker has for jobs.
type machine struct {
	name   string
	cpus   int
	memory int // GiB
	gpus   int
}

// machines are the types that are chosen by what is asked for, the smaller ones first; a type that is not among them can be named. Source: the
// sizes of the EC2 types of the same names, https://aws.amazon.com/ec2/instance-types/, 2026-11.
var machines = []machine{
	{"ml.m5.large", 2, 8, 0}, {"ml.c5.xlarge", 4, 8, 0}, {"ml.m5.xlarge", 4, 16, 0}, {"ml.r5.xlarge", 4, 32, 0}, {"ml.c5.2xlarge", 8, 16, 0}, {"ml.m5.2xlarge", 8, 32, 0}, {"ml.r5.2xlarge", 8, 64, 0},
	{"ml.c5.4xlarge", 16, 32, 0}, {"ml.m5.4xlarge", 16, 64, 0}, {"ml.r5.4xlarge", 16, 128, 0}, {"ml.c5.9xlarge", 36, 72, 0}, {"ml.m5.12xlarge", 48, 192, 0}, {"ml.r5.12xlarge", 48, 384, 0}, {"ml.c5.18xlarge", 72, 144, 0},
	{"ml.m5.24xlarge", 96, 384, 0}, {"ml.r5.24xlarge", 96, 768, 0},
	{"ml.g4dn.xlarge", 4, 16, 1}, {"ml.g5.xlarge", 4, 16, 1}, {"ml.g4dn.2xlarge", 8, 32, 1}, {"ml.g5.2xlarge", 8, 32, 1}, {"ml.p3.2xlarge", 8, 61, 1}, {"ml.g4dn.4xlarge", 16, 64, 1}, {"ml.g5.4xlarge", 16, 64, 1},
	{"ml.g4dn.8xlarge", 32, 128, 1}, {"ml.g5.8xlarge", 32, 128, 1}, {"ml.g4dn.16xlarge", 64, 256, 1}, {"ml.g5.16xlarge", 64, 256, 1},
	{"ml.p3.8xlarge", 32, 244, 4}, {"ml.g4dn.12xlarge", 48, 192, 4}, {"ml.g5.12xlarge", 48, 192, 4}, {"ml.g5.24xlarge", 96, 384, 4},
	{"ml.p3.16xlarge", 64, 488, 8}, {"ml.p3dn.24xlarge", 96, 768, 8}, {"ml.g5.48xlarge", 192, 768, 8}, {"ml.p4d.24xlarge", 96, 1152, 8}, {"ml.p5.48xlarge", 192, 2048, 8},
}

// gpuKinds are the GPUs of families of types, with the names that people give them, and their memory in GiB each. Source as above.
var gpuKinds = map[string]struct {
	names  []string
	memory int
}{
	"g4dn": {[]string{"t4"}, 16}, "g5": {[]string{"a10g"}, 24}, "p3": {[]string{"v100", "v100-sxm2-16gb"}, 16}, "p3dn": {[]string{"v100", "v100-sxm2-32gb"}, 32},
	"p4d": {[]string{"a100", "a100-sxm4-40gb"}, 40}, "p5": {[]string{"h100", "h100-80gb-hbm3"}, 80},
}

// typeName is a type's name as SageMaker has it: g5.xlarge means ml.g5.xlarge.
func typeName(name string) string {
	if strings.HasPrefix(name, "ml.") {
		return name
	}
	return "ml." + name
}

// fits says whether an agent fits on a machine of the type. A type of which no size is known fits.
func (m machine) fits(n driver.Needs) bool {
	return m.cpus == 0 || float64(m.cpus) >= max(n.CPUs, float64(n.Slots)) && int64(m.memory)<<30 >= n.Memory && m.gpus >= n.GPUs
}

// attributes are what --where asks of the type.
func (m machine) attributes(region string, spot bool) where.Attributes {
	purchase := where.OnDemand
	if spot {
		purchase = where.Spot
	}
	family, _, _ := strings.Cut(strings.TrimPrefix(m.name, "ml."), ".")
	all := where.Attributes{where.Arch: {"amd64"}, where.Region: {region}, where.Purchase: {purchase}, where.Type: {m.name, strings.TrimPrefix(m.name, "ml.")}, where.Family: {family}, where.Feature: {}}
	if m.cpus > 0 {
		all[where.CPUs], all[where.Memory] = []string{strconv.Itoa(m.cpus)}, []string{strconv.Itoa(m.memory << 30)}
		all[where.GPUCount], all[where.GPUName], all[where.GPUMemory] = []string{strconv.Itoa(m.gpus)}, []string{}, []string{}
	}
	if g, ok := gpuKinds[family]; ok && m.cpus > 0 {
		all[where.GPUName], all[where.GPUMemory] = g.names, []string{strconv.Itoa(g.memory << 30)}
	}
	return all
}

// namesMachines says whether a condition is one on types or GPUs.
func namesMachines(e where.Expr) bool {
	return slices.ContainsFunc(e.Names(), func(n where.Name) bool {
		return n == where.Type || n == where.Family || n == where.GPUName || n == where.GPUCount || n == where.GPUMemory
	})
}

// chooseMachine is the type that a job gets: of those that --machine and --where name the first that an agent fits on, and one without GPUs where
// nothing speaks of them.
func chooseMachine(n driver.Needs, region string, spot bool) (machine, error) {
	all, err := fittingMachines(n, region, spot)
	if err != nil {
		return machine{}, err
	}
	return all[0], nil
}

// machineOf is the type of a placement: where --machine names several, a later placement has the next one, as SageMaker may have had none of the
// type before.
func machineOf(n driver.Needs, region string, spot bool, placement int) (machine, error) {
	all, err := fittingMachines(n, region, spot)
	if err != nil {
		return machine{}, err
	}
	all = slices.DeleteFunc(all, func(m machine) bool { return (m.gpus > 0) != (all[0].gpus > 0) }) // one image is for all
	if len(n.Machine) < 2 {
		return all[0], nil
	}
	return all[(placement-1)%len(all)], nil
}

// fittingMachines are the types that will do, the first choice first; there is one at least.
func fittingMachines(n driver.Needs, region string, spot bool) (fitting []machine, err error) {
	candidates := machines
	if len(n.Machine) > 0 {
		candidates = nil
		for _, glob := range n.Machine {
			known := slices.DeleteFunc(slices.Clone(machines), func(m machine) bool {
				matches, err := path.Match(typeName(glob), m.name)
				return err != nil || !matches
			})
			if len(known) == 0 && !strings.ContainsAny(glob, "*?[") {
				known = []machine{{name: typeName(glob)}}
			}
			candidates = append(candidates, known...)
		}
		if len(candidates) == 0 {
			return nil, fault.New(fault.Invalid, "Name a type, such as `--machine ml.g5.xlarge`.", "no type of machines of SageMaker's that drover knows is %s", strings.Join(n.Machine, ","))
		}
	}
	for _, m := range candidates {
		if m.fits(n) && n.Where.Unmet(m.attributes(region, spot)) == "" && (m.gpus == 0 || n.GPUs > 0 || len(n.Machine) > 0 || namesMachines(n.Where)) {
			fitting = append(fitting, m)
		}
	}
	if len(fitting) > 0 {
		return fitting, nil
	}
	return nil, fault.New(fault.Full, "Ask for less, with `--cpus`, `--memory` or `--gpus`, or name another type with `--machine`.", "no machine of SageMaker's has what an agent needs: %s", n.Words())
}

// words are the type and its size, for people.
func (m machine) words() string {
	if m.cpus == 0 {
		return m.name
	}
	text := m.name + ": " + strconv.Itoa(m.cpus) + " cores, " + strconv.Itoa(m.memory) + " GB"
	if m.gpus == 1 {
		text += ", 1 GPU"
	} else if m.gpus > 1 {
		text += ", " + strconv.Itoa(m.gpus) + " GPUs"
	}
	return text
}

// isSpot says whether a job's machines are spot capacity: those of training jobs are where nothing was said, but for
// machines that are kept.
func isSpot(n driver.Needs, k kind) bool {
	return k == training && n.Spot != job.SpotNever && (n.Spot != job.SpotAny || n.Keep == 0)
}
