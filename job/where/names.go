package where

import (
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job/unit"
)

// kind is what the values of a name are.
type kind int

const (
	text    kind = iota // one text for each machine
	texts               // several for each machine
	number              // 0 or more
	size                // bytes
	bitrate             // Gbit/s
)

// about is what is known of a name.
type about struct {
	kind   kind
	values []string // all that there are; nil: any
}

// names are in the order in which a hint lists them.
var names = []Name{Type, Family, Zone, Region, Arch, CPUs, Memory, GPUName, GPUCount, GPUMemory, DiskLocal, Network, Purchase, Feature, Node}

var abouts = map[Name]about{
	Type: {}, Family: {}, Zone: {}, Region: {}, Node: {},
	Arch: {values: []string{"amd64", "arm64", "ppc64le", "riscv64", "s390x"}}, Purchase: {values: []string{OnDemand, Spot, Reserved}},
	GPUName: {kind: texts}, Feature: {kind: texts},
	CPUs: {kind: number}, GPUCount: {kind: number}, Memory: {kind: size}, GPUMemory: {kind: size}, DiskLocal: {kind: size}, Network: {kind: bitrate},
}

// The values of Purchase.
const (
	OnDemand = "on-demand" // nothing but a failure takes the machine away
	Spot     = "spot"      // cheaper: the provider may take the machine away
	Reserved = "reserved"  // paid for beforehand
)

// spelling is another name for one of ours, and what a bare number of its values is
// multiplied by to be in our unit.
type spelling struct {
	name  Name
	scale float64
}

// spellings are those of Amazon ECS, of Kubernetes, of the labels that Karpenter, Google's
// and Amazon's own clusters and NVIDIA's operator put on nodes.
var spellings = map[string]spelling{
	"attribute:ecs.instance-type": {Type, 1}, "attribute:ecs.availability-zone": {Zone, 1}, "attribute:ecs.cpu-architecture": {Arch, 1},

	"node.kubernetes.io/instance-type": {Type, 1}, "beta.kubernetes.io/instance-type": {Type, 1},
	"topology.kubernetes.io/zone": {Zone, 1}, "failure-domain.beta.kubernetes.io/zone": {Zone, 1},
	"topology.kubernetes.io/region": {Region, 1}, "failure-domain.beta.kubernetes.io/region": {Region, 1},
	"kubernetes.io/arch": {Arch, 1}, "beta.kubernetes.io/arch": {Arch, 1}, "kubernetes.io/hostname": {Node, 1},

	"karpenter.sh/capacity-type": {Purchase, 1}, "eks.amazonaws.com/capacityType": {Purchase, 1},
	"karpenter.k8s.aws/instance-family": {Family, 1}, "cloud.google.com/machine-family": {Family, 1},
	"karpenter.k8s.aws/instance-cpu": {CPUs, 1}, "karpenter.k8s.aws/instance-memory": {Memory, 1 << 20},
	"karpenter.k8s.aws/instance-gpu-name": {GPUName, 1}, "karpenter.k8s.aws/instance-gpu-count": {GPUCount, 1},
	"karpenter.k8s.aws/instance-gpu-memory": {GPUMemory, 1 << 20}, "karpenter.k8s.aws/instance-local-nvme": {DiskLocal, 1 << 30},
	"karpenter.k8s.aws/instance-network-bandwidth": {Network, 1e-3},
	"cloud.google.com/gke-accelerator":             {GPUName, 1}, "nvidia.com/gpu.product": {GPUName, 1},
	"nvidia.com/gpu.count": {GPUCount, 1}, "nvidia.com/gpu.memory": {GPUMemory, 1 << 20},
}

// archs are other names of processors.
var archs = map[string]string{"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64"}

// nameOf is the name that was typed, and the scale of its bare numbers.
func nameOf(typed string) (Name, float64, error) {
	if s, ok := spellings[typed]; ok {
		return s.name, s.scale, nil
	}
	if name := Name(strings.ToLower(typed)); slices.Contains(names, name) {
		return name, 1, nil
	}
	known := make([]string, 0, len(names)+len(spellings))
	for _, n := range names {
		known = append(known, string(n))
	}
	hint := "Use one of " + strings.Join(known, ", ") + "."
	for s := range spellings {
		known = append(known, s)
	}
	slices.Sort(known)
	if near := fault.Nearest(typed, known); near != "" {
		hint = "Did you mean " + near + "?"
	}
	return "", 0, fault.New(fault.Invalid, hint, "%q is not a property of machines", typed)
}

// canonical is a value of a name as it is kept, or why it cannot be one. glob is true for
// the value of =~.
func (n Name) canonical(typed string, scale float64, glob bool) (string, error) {
	switch a := abouts[n]; {
	case a.kind == number || a.kind == size || a.kind == bitrate:
		v, ok := n.parseNumber(typed, scale)
		switch {
		case !ok && a.kind == size:
			return "", fault.New(fault.Invalid, "Write it as 512M, 16G or 2T.", "%s is compared with a size, and %q is none", n, typed)
		case !ok:
			return "", fault.New(fault.Invalid, "Write it as 8 or 0.5.", "%s is compared with a number, and %q is none", n, typed)
		case a.kind == size && v > 0 && v < 1<<20:
			return "", fault.New(fault.Invalid, "Write the unit: "+typed+"G.", "%s is compared with %s bytes", n, typed)
		case a.kind == size:
			return unit.Bytes(v).String(), nil
		}
		return strconv.FormatFloat(v, 'g', -1, 64), nil
	case n == Arch && archs[strings.ToLower(typed)] != "":
		return archs[strings.ToLower(typed)], nil
	case n == GPUName:
		return GPU(typed), nil
	case a.values == nil:
		return typed, nil
	case n == Purchase:
		typed = strings.ReplaceAll(strings.ToLower(typed), "_", "-") // SPOT, ON_DEMAND
	}
	if values := abouts[n].values; !glob && !slices.Contains(values, typed) {
		hint := "Use one of " + strings.Join(values, ", ") + "."
		if near := fault.Nearest(typed, values); near != "" {
			hint = "Did you mean " + near + "?"
		}
		return "", fault.New(fault.Invalid, hint, "%q is not a value of %s", typed, n)
	}
	return typed, nil
}

// parseNumber reads a number, size or bit rate; a bare number is multiplied by scale.
func (n Name) parseNumber(typed string, scale float64) (float64, bool) {
	bare, err := strconv.ParseFloat(typed, 64)
	if err == nil && (!(bare >= 0 && bare < 1e18) || strings.ContainsAny(typed, "xX_")) { // no NaN, no Inf, no hexadecimal
		return 0, false
	}
	switch k := abouts[n].kind; {
	case err == nil && k == size:
		b, err := unit.ParseBytes(strconv.FormatFloat(bare*scale, 'f', -1, 64))
		return float64(b), err == nil
	case err == nil:
		return bare*scale + 0, true // -0 is 0
	case k == size:
		b, err := unit.ParseBytes(typed)
		return float64(b), err == nil
	case k == bitrate:
		word := strings.TrimRight(strings.ToLower(typed), "bitps/")
		body, giga := strings.CutSuffix(word, "g")
		body, mega := strings.CutSuffix(body, "m")
		v, err := strconv.ParseFloat(strings.TrimSpace(body), 64)
		if mega {
			v /= 1000
		}
		return v, err == nil && giga != mega && v >= 0 && v < 1e18
	}
	return 0, false
}

// GPU is how a GPU's name is kept, whatever reports it: "NVIDIA A100-SXM4-80GB" is
// "a100-sxm4-80gb".
func GPU(reported string) string {
	name := strings.Join(strings.Fields(strings.ToLower(reported)), "-")
	for {
		maker, model, several := strings.Cut(name, "-")
		if !several || maker != "nvidia" && maker != "tesla" && maker != "amd" {
			return name
		}
		name = model
	}
}
