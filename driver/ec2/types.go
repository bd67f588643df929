package ec2

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

// machineType is a type of machines, as it is kept in a file.
type machineType struct {
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
	EFA     bool     `json:"efa,omitempty"`
	Zones   []string `json:"zones"`
}

// family is the type's, such as p3.
func (m machineType) family() string {
	family, _, _ := strings.Cut(m.Name, ".")
	return family
}

// typesGood is how long the types of a region are kept.
const typesGood = 24 * time.Hour

// readTypes gives the types of machines of a region that any zone has. They are kept in a file.
func (e *engine) readTypes(ctx context.Context, c *client) ([]machineType, error) {
	var kept struct {
		At    time.Time     `json:"at"`
		Types []machineType `json:"types"`
	}
	file := filepath.Join(e.state, "types-"+c.region+".json")
	if folder.ReadJSON(file, &kept) == nil && e.now().Sub(kept.At) < typesGood && !kept.At.After(e.now()) && len(kept.Types) > 0 {
		return kept.Types, nil
	}
	all, err := c.describeTypes(ctx)
	if err != nil {
		return nil, err
	}
	kept.At, kept.Types = e.now(), all
	if text, err := json.Marshal(kept); err == nil && os.MkdirAll(e.state, 0o700) == nil {
		part := file + ".new." + strconv.Itoa(os.Getpid())
		if os.WriteFile(part, text, 0o600) == nil {
			_ = os.Rename(part, file) // the next plan asks again
		}
	}
	return all, nil
}

// typeItem is what EC2 says of a type.
type typeItem struct {
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
	EFA       bool     `xml:"networkInfo>efaSupported"`
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

// architectures are Go's names of processors by EC2's.
var architectures = map[string]string{"x86_64": "amd64", "arm64": "arm64"}

// asType is the type as it is kept.
func (t typeItem) asType() (m machineType, ok bool) {
	for _, a := range t.Archs {
		m.Arch = cmp.Or(m.Arch, architectures[a])
	}
	m.Name, m.CPUs, m.Memory, m.Disk, m.Network, m.EFA = t.Name, t.CPUs, t.Memory, t.Disk, t.Network, t.EFA
	m.Spot = slices.Contains(t.Purchases, "spot")
	m.Plain = t.Current && !t.Bare && !t.Burstable && t.FPGA == nil && t.Neuron == nil && t.Media == nil && t.Infer == nil
	for _, g := range t.GPUs {
		m.GPUs += g.Count
		m.GPU, m.GPUMem = where.GPU(g.Maker+" "+g.Name), g.Memory
		m.Plain = m.Plain && strings.EqualFold(g.Maker, "NVIDIA") // of which containers know
	}
	return m, m.Arch != "" && m.CPUs > 0
}

// describeTypes asks for all types, and which zones have them.
func (c *client) describeTypes(ctx context.Context) (all []machineType, err error) {
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
		if err := c.read(ctx, c.machines, "ask which zones have which machines", "DescribeInstanceTypeOfferings", offers, &out); err != nil {
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
			All  []typeItem `xml:"instanceTypeSet>item"`
			Next string     `xml:"nextToken"`
		}
		if err := c.read(ctx, c.machines, "ask for the types of machines", "DescribeInstanceTypes", types, &out); err != nil {
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
			slices.SortFunc(all, func(a, b machineType) int {
				return cmp.Or(cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(a.Memory, b.Memory), strings.Compare(a.Name, b.Name))
			})
			return all, nil
		}
	}
}

// attributes are what --where asks of a type, but for its zone.
func (m machineType) attributes(region string, spot bool) where.Attributes {
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

// mostTypes is how many types a group may launch, and fewTypes how many it should, as AWS advises for spot capacity.
const (
	mostTypes = 30
	fewTypes  = 10
)

// choice is what a group may launch: any of the types in any of the zones.
type choice struct {
	types []machineType
	zones []string
}

// arch is the processor of all types.
func (k choice) arch() string { return k.types[0].Arch }

// gpus says whether the machines have GPUs.
func (k choice) gpus() bool { return k.types[0].GPUs > 0 }

// choose gives the types and zones for needs: of the types that fit, the smallest ones. zones are those that machines can be
// in; all nodes of a run that must reach each other are in one of them, unless the options say otherwise.
func choose(all []machineType, n driver.Needs, o options, region string, zones []string, spot bool) (k choice, err error) {
	if zones, err = o.chooseZones(zones); err != nil {
		return k, err
	}
	var fitting []machineType
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
	fitting = slices.DeleteFunc(fitting, func(m machineType) bool { // one program and one image are for all, and none is far too large
		return m.Arch != first.Arch || (m.GPUs > 0) != (first.GPUs > 0) || len(n.Machine) == 0 && !said.machines && m.CPUs > 4*first.CPUs
	})
	k.zones = zonesOf(fitting)
	if n.Place.Nodes > 1 && o.zones == "" {
		k.zones = []string{bestZone(fitting)}
	}
	for _, m := range fitting {
		// a group launches any of its types in any of its zones
		have := slices.DeleteFunc(slices.Clone(k.zones), func(z string) bool { return !slices.Contains(m.Zones, z) && slices.Contains(allZones(all, m.Name), z) })
		if len(have) == len(k.zones) && len(k.types) < mostTypes && slices.ContainsFunc(k.zones, func(z string) bool { return slices.Contains(m.Zones, z) }) {
			k.types = append(k.types, m)
		}
	}
	if len(k.types) == 0 { // the condition is on pairs: the zones of the first type alone
		k.types, k.zones = []machineType{first}, first.Zones
	}
	return k, nil
}

// zonesWhere are those of some zones that have the type and where a condition holds for it.
func (m machineType) zonesWhere(said condition, region string, zones []string, spot bool) (in []string) {
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
func allZones(all []machineType, name string) []string {
	i := slices.IndexFunc(all, func(m machineType) bool { return m.Name == name })
	return all[i].Zones
}

// chooseZones are those of all zones that the option names.
func (o options) chooseZones(all []string) ([]string, error) {
	if o.zones == "" || o.zones == "all" {
		return all, nil
	}
	named := strings.Split(o.zones, ",")
	for _, z := range named {
		if !slices.Contains(all, z) {
			return nil, fault.New(fault.Invalid, "The set-up has subnets in "+strings.Join(all, ", ")+".", "read --target-arg zones=%s: there is no subnet in zone %s", o.zones, z)
		}
	}
	return named, nil
}

func zonesOf(all []machineType) (zones []string) {
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
func bestZone(all []machineType) (best string) {
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
func (m machineType) fits(n driver.Needs) bool {
	return float64(m.CPUs) >= max(n.CPUs, float64(n.Slots)) && int64(m.Memory-agentMemory)<<20 >= n.Memory && m.GPUs >= n.GPUs
}

// isMeant says whether a type is one that was named, or, where none was, one that needs no name.
func (m machineType) isMeant(n driver.Needs, said condition) bool {
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
func noType(all []machineType, n driver.Needs, region string) error {
	for _, glob := range n.Machine {
		if !slices.ContainsFunc(all, func(m machineType) bool { ok, err := path.Match(glob, m.Name); return err == nil && ok }) {
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
	return fault.New(fault.Full, "Ask for less, with `--cpus`, `--memory`, `--gpus` or `--where`, or name other types with `--machine`.", "no machine of EC2's in %s has what an agent needs: %s", region, needWords(n))
}

// needWords say what an agent needs.
func needWords(n driver.Needs) string {
	var all []string
	add := func(is bool, text string) {
		if is {
			all = append(all, text)
		}
	}
	add(n.CPUs > 0 || n.Slots > 0, strconv.FormatFloat(max(n.CPUs, float64(n.Slots)), 'g', -1, 64)+" cores")
	add(n.Memory > 0, job.Bytes(n.Memory).Words()+" of memory")
	add(n.GPUs > 0, strconv.Itoa(n.GPUs)+" GPUs")
	add(len(n.Machine) > 0, "--machine "+strings.Join(n.Machine, ","))
	add(n.Where.String() != "", n.Where.String())
	return cmp.Or(strings.Join(all, ", "), "nothing")
}

// words are the types and zones, for people.
func (k choice) words() string {
	var all []string
	for _, m := range k.types {
		all = append(all, m.Name)
	}
	least := k.types[0]
	text := fmt.Sprintf("%s (%d cores, %.3g GB", names(all), least.CPUs, float64(least.Memory)/1024)
	if len(k.types) > 1 {
		text = fmt.Sprintf("%s (from %d cores, %.3g GB", names(all), least.CPUs, float64(least.Memory)/1024)
	}
	if least.GPUs > 0 {
		text += fmt.Sprintf(", %d GPU", least.GPUs)
	}
	return text + ") in " + strings.Join(k.zones, ", ")
}
