// Package instancetype knows the types of machines of EC2, and which of them a job may have: what fits, in which zones, and by the
// condition of --where.
//
// It asks EC2 by a function that it is given, and keeps nothing. Tables prove it.
package instancetype

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job/where"
)

// Type is a type of machines, as it can be kept in a file.
type Type struct {
	Name    string   `json:"name"`
	Arch    string   `json:"arch"` // amd64, arm64
	CPUs    int      `json:"cpus"`
	Memory  int      `json:"memory"` // MiB
	GPUs    int      `json:"gpus,omitempty"`
	GPU     string   `json:"gpu,omitempty"`        // its name
	GPUMem  int      `json:"gpu_memory,omitempty"` // MiB of each
	Disk    int      `json:"disk,omitempty"`       // GB that only the machine has
	Network string   `json:"network,omitempty"`
	Spot    bool     `json:"spot,omitempty"`
	Plain   bool     `json:"plain,omitempty"` // of the current generation, with all of its processor all the time, and no device but GPUs
	Zones   []string `json:"zones"`
}

// family is the type's, such as p3.
func (m Type) family() string {
	family, _, _ := strings.Cut(m.Name, ".")
	return family
}

// item is what EC2 says of a type.
type item struct {
	Name      string   `xml:"instanceType"`
	Current   bool     `xml:"currentGeneration"`
	Bare      bool     `xml:"bareMetal"`
	Burstable bool     `xml:"burstablePerformanceSupported"`
	Purchases []string `xml:"supportedUsageClasses>item"`
	Archs     []string `xml:"processorInfo>supportedArchitectures>item"`
	CPUs      int      `xml:"vCpuInfo>defaultVCpus"`
	Memory    int      `xml:"memoryInfo>sizeInMiB"`
	Disk      int      `xml:"instanceStorageInfo>totalSizeInGB"`
	Network   string   `xml:"networkInfo>networkPerformance"`
	GPUs      []struct {
		Name   string `xml:"name"`
		Maker  string `xml:"manufacturer"`
		Count  int    `xml:"count"`
		Memory int    `xml:"memoryInfo>sizeInMiB"`
	} `xml:"gpuInfo>gpus>item"`
	FPGA   *struct{} `xml:"fpgaInfo"`
	Neuron *struct{} `xml:"neuronInfo"`
	Media  *struct{} `xml:"mediaAcceleratorInfo"`
	Infer  *struct{} `xml:"inferenceAcceleratorInfo"`
}

// Architectures are Go's names of processors by EC2's.
var Architectures = map[string]string{"x86_64": "amd64", "arm64": "arm64"}

// asType is the type as it is kept.
func (t item) asType() (m Type, ok bool) {
	for _, a := range t.Archs {
		m.Arch = cmp.Or(m.Arch, Architectures[a])
	}
	m.Name, m.CPUs, m.Memory, m.Disk, m.Network = t.Name, t.CPUs, t.Memory, t.Disk, t.Network
	m.Spot = slices.Contains(t.Purchases, "spot")
	m.Plain = t.Current && !t.Bare && !t.Burstable && t.FPGA == nil && t.Neuron == nil && t.Media == nil && t.Infer == nil
	for _, g := range t.GPUs {
		m.GPUs += g.Count
		m.GPU, m.GPUMem = where.GPU(g.Maker+" "+g.Name), g.Memory
		m.Plain = m.Plain && strings.EqualFold(g.Maker, "NVIDIA") // of which containers know
	}
	return m, m.Arch != "" && m.CPUs > 0
}

// Ask sends an operation that changes nothing; doing names it in errors.
type Ask func(ctx context.Context, doing, operation string, in, out any) error

// Describe asks for all types that any zone has, the smaller ones first.
func Describe(ctx context.Context, ask Ask) (all []Type, err error) {
	zones := map[string][]string{}
	offers := struct {
		LocationType string
		MaxResults   int
		NextToken    string
	}{"availability-zone", 1000, ""}
	for {
		var out struct {
			All []struct {
				Type string `xml:"instanceType"`
				Zone string `xml:"location"`
			} `xml:"instanceTypeOfferingSet>item"`
			Next string `xml:"nextToken"`
		}
		if err := ask(ctx, "ask which zones have which machines", "DescribeInstanceTypeOfferings", offers, &out); err != nil {
			return nil, err
		}
		for _, o := range out.All {
			zones[o.Type] = append(zones[o.Type], o.Zone)
		}
		if offers.NextToken = out.Next; out.Next == "" {
			break
		}
	}
	types := struct {
		MaxResults int
		NextToken  string
	}{100, ""}
	for {
		var out struct {
			All  []item `xml:"instanceTypeSet>item"`
			Next string `xml:"nextToken"`
		}
		if err := ask(ctx, "ask for the types of machines", "DescribeInstanceTypes", types, &out); err != nil {
			return nil, err
		}
		for _, t := range out.All {
			if m, ok := t.asType(); ok && len(zones[t.Name]) > 0 {
				m.Zones = zones[t.Name]
				slices.Sort(m.Zones)
				all = append(all, m)
			}
		}
		if types.NextToken = out.Next; out.Next == "" {
			slices.SortFunc(all, func(a, b Type) int {
				return cmp.Or(cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(a.Memory, b.Memory), strings.Compare(a.Name, b.Name))
			})
			return all, nil
		}
	}
}

// attributes are what --where asks of a type, but for its zone.
func (m Type) attributes(region string, spot bool) where.Attributes {
	purchase := where.OnDemand
	if spot {
		purchase = where.Spot
	}
	all := where.Attributes{where.Arch: {m.Arch}, where.Region: {region}, where.Purchase: {purchase}, where.Type: {m.Name}, where.Family: {m.family()}, where.Feature: {},
		where.CPUs: {strconv.Itoa(m.CPUs)}, where.Memory: {strconv.Itoa(m.Memory << 20)}, where.GPUCount: {strconv.Itoa(m.GPUs)}, where.GPUName: {}, where.GPUMemory: {},
		where.DiskLocal: {strconv.Itoa(m.Disk * 1e9)}, where.Network: {m.Network}}
	if m.GPUs > 0 {
		all[where.GPUName], all[where.GPUMemory] = []string{m.GPU}, []string{strconv.Itoa(m.GPUMem << 20)}
	}
	return all
}

// What a machine has at least where nothing was said: Python and its packages need so much.
const (
	leastCPUs   = 2
	leastMemory = 3_500 // MiB
	agentMemory = 300   // MiB beside the program's, for the agent and the system
)

// mostTypes is how many types a group may launch.
const mostTypes = 30

// Wish is what machines are wanted for.
type Wish struct {
	Needs  driver.Needs
	Spot   bool
	Region string
	Zones  []string // that machines can be in
	// Named are the zones that were asked for, with commas, or "all"; "": one for nodes that must reach each other, and else all.
	Named string
}

// Choice is what a group may launch: any of the types, of which there is one at least, in any of the zones.
type Choice struct {
	Types []Type
	Zones []string
}

// Arch is the processor of all types.
func (k Choice) Arch() string { return k.Types[0].Arch }

// GPUs says whether the machines have GPUs.
func (k Choice) GPUs() bool { return k.Types[0].GPUs > 0 }

// Choose gives the types and zones for a wish: of the types that fit, the smallest ones.
func Choose(all []Type, w Wish) (k Choice, err error) {
	zones, err := w.zones()
	if err != nil {
		return k, err
	}
	n, region, spot := w.Needs, w.Region, w.Spot
	var fitting []Type
	said := readCondition(n.Where)
	for _, m := range all {
		if (!spot || m.Spot) && m.fits(n) && m.isMeant(n, said) {
			if m.Zones = m.zonesWhere(said, region, zones, spot); len(m.Zones) > 0 {
				fitting = append(fitting, m)
			}
		}
	}
	if len(fitting) == 0 {
		return k, noType(all, n, region)
	}
	first := fitting[0]
	fitting = slices.DeleteFunc(fitting, func(m Type) bool { // one program and one image are for all, and none is far too large
		return m.Arch != first.Arch || (m.GPUs > 0) != (first.GPUs > 0) || len(n.Machine) == 0 && !said.machines && m.CPUs > 4*first.CPUs
	})
	k.Zones = zonesOf(fitting)
	if n.Place.Nodes > 1 && w.Named == "" {
		k.Zones = []string{bestZone(fitting)}
	}
	for _, m := range fitting {
		// a group launches any of its types in any of its zones
		have := slices.DeleteFunc(slices.Clone(k.Zones), func(z string) bool { return !slices.Contains(m.Zones, z) && slices.Contains(allZones(all, m.Name), z) })
		if len(have) == len(k.Zones) && len(k.Types) < mostTypes && slices.ContainsFunc(k.Zones, func(z string) bool { return slices.Contains(m.Zones, z) }) {
			k.Types = append(k.Types, m)
		}
	}
	if len(k.Types) == 0 { // the condition is on pairs: the zones of the first type alone
		k.Types, k.Zones = []Type{first}, first.Zones
	}
	return k, nil
}

// zonesWhere are those of some zones that have the type and where a condition holds for it.
func (m Type) zonesWhere(said condition, region string, zones []string, spot bool) (in []string) {
	attributes := m.attributes(region, spot)
	whole := said.expr.Eval(attributes) // where the zone is not known yet
	for _, z := range m.Zones {
		if whole == where.False || !slices.Contains(zones, z) {
			continue
		}
		if attributes[where.Zone] = []string{z}; whole == where.True || said.expr.Eval(attributes) == where.True {
			in = append(in, z)
		}
	}
	return in
}

// allZones are the zones that have a type.
func allZones(all []Type, name string) []string {
	i := slices.IndexFunc(all, func(m Type) bool { return m.Name == name })
	return all[i].Zones
}

// zones are those that machines may be in, as far as zones were asked for.
func (w Wish) zones() ([]string, error) {
	if w.Named == "" || w.Named == "all" {
		return w.Zones, nil
	}
	named := strings.Split(w.Named, ",")
	for _, z := range named {
		if !slices.Contains(w.Zones, z) {
			return nil, fault.New(fault.Invalid, "The set-up has subnets in "+strings.Join(w.Zones, ", ")+".", "read --target-arg zones=%s: there is no subnet in zone %s", w.Named, z)
		}
	}
	return named, nil
}

func zonesOf(all []Type) (zones []string) {
	for _, m := range all {
		for _, z := range m.Zones {
			if !slices.Contains(zones, z) {
				zones = append(zones, z)
			}
		}
	}
	slices.Sort(zones)
	return zones
}

// bestZone is the zone that has the most of some types.
func bestZone(all []Type) (best string) {
	count := map[string]int{}
	for _, m := range all {
		for _, z := range m.Zones {
			count[z]++
		}
	}
	for _, z := range zonesOf(all) {
		if best == "" || count[z] > count[best] {
			best = z
		}
	}
	return best
}

// fits says whether an agent fits on a machine of the type.
func (m Type) fits(n driver.Needs) bool {
	return float64(m.CPUs) >= max(n.CPUs, float64(n.Slots)) && int64(m.Memory-agentMemory)<<20 >= n.Memory && m.GPUs >= n.GPUs
}

// isMeant says whether a type is one that was named, or, where none was, one that needs no name.
func (m Type) isMeant(n driver.Needs, said condition) bool {
	if len(n.Machine) > 0 {
		return slices.ContainsFunc(n.Machine, func(glob string) bool {
			matches, err := path.Match(strings.TrimPrefix(glob, "ml."), m.Name)
			return err == nil && matches
		})
	}
	if said.machines {
		return true
	}
	arch := "amd64"
	if said.arch {
		arch = m.Arch
	}
	return m.Plain && m.Arch == arch && (m.GPUs > 0) == (n.GPUs > 0) && m.CPUs >= leastCPUs && m.Memory >= leastMemory
}

// condition is that of --where, with what it is about.
type condition struct {
	expr           where.Expr
	machines, arch bool
}

func readCondition(e where.Expr) condition {
	said := condition{expr: e}
	for _, n := range e.Names() {
		switch n {
		case where.Type, where.Family, where.GPUName, where.GPUCount, where.GPUMemory:
			said.machines = true
		case where.Arch:
			said.arch = true
		}
	}
	return said
}

// noType is the refusal of needs that no type meets.
func noType(all []Type, n driver.Needs, region string) error {
	for _, glob := range n.Machine {
		if !slices.ContainsFunc(all, func(m Type) bool { ok, err := path.Match(glob, m.Name); return err == nil && ok }) {
			names := make([]string, len(all))
			for i, m := range all {
				names[i] = m.Name
			}
			hint := "Name a type that the region has: `aws ec2 describe-instance-type-offerings --region " + region + "`."
			if near := fault.Nearest(glob, names); near != "" {
				hint = "Do you mean `--machine " + near + "`?"
			}
			return fault.New(fault.Invalid, hint, "no zone of %s has machines of type %s", region, glob)
		}
	}
	return fault.New(fault.Full, "Ask for less, with `--cpus`, `--memory`, `--gpus` or `--where`, or name other types with `--machine`.", "no machine of EC2's in %s has what an agent needs: %s", region, n.Words())
}

// Words are the types and zones, for people.
func (k Choice) Words() string {
	var all []string
	for _, m := range k.Types {
		all = append(all, m.Name)
	}
	least := k.Types[0]
	text := fmt.Sprintf("%s (%d cores, %.3g GB", names(all), least.CPUs, float64(least.Memory)/1024)
	if len(k.Types) > 1 {
		text = fmt.Sprintf("%s (from %d cores, %.3g GB", names(all), least.CPUs, float64(least.Memory)/1024)
	}
	if least.GPUs > 0 {
		text += fmt.Sprintf(", %d GPU", least.GPUs)
	}
	return text + ") in " + strings.Join(k.Zones, ", ")
}

// names is a list for people.
func names(all []string) string {
	if len(all) > 4 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:3], ", "), len(all)-3)
	}
	return strings.Join(all, ", ")
}
