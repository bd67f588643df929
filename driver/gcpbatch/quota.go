package gcpbatch

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-run/drover/cloud/google/rest"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// quota is what a project may have of something in a region at the same time, and what it has.
type quota struct {
	Metric       string
	Limit, Usage float64
}

// quotas are those of a region by their metrics, as CPUS; nil where they cannot be read: Google Batch says later for what a job waits.
func (e *engine) quotas(ctx context.Context, at site) map[string]quota {
	ctx, cancel := context.WithTimeout(ctx, besideTime)
	defer cancel()
	caller := e.caller()
	var out struct{ Quotas []quota }
	if caller.Do(ctx, rest.Call{Doing: "look at the region's quotas", Method: http.MethodGet, URL: caller.Address("compute") + "/compute/v1/projects/" + at.project + "/regions/" + at.region, Out: &out}) != nil {
		return nil
	}
	all := map[string]quota{}
	for _, q := range out.Quotas {
		all[q.Metric] = q
	}
	return all
}

// gpuMetrics are the quotas of GPUs. Source: the enumeration of Quota.metric in Compute Engine's discovery document, revision 20261026.
var gpuMetrics = map[string]string{"l4": "NVIDIA_L4_GPUS", "a100": "NVIDIA_A100_GPUS", "a100 80": "NVIDIA_A100_80GB_GPUS", "h100": "NVIDIA_H100_GPUS"}

// wanted is what an agent needs of each quota: cores are of the type's family, where the region knows such a quota, and else of CPUS; spot capacity has
// what is preemptible where the project was given some. Source: "Allocation quotas", Compute Engine, 2026-11.
func (m machine) wanted(n driver.Needs, o options, have map[string]quota) map[string]float64 {
	all := map[string]float64{}
	add := func(metric string, value float64) {
		if preemptible := "PREEMPTIBLE_" + metric; isSpot(n) && have[preemptible].Limit > 0 {
			metric = preemptible
		}
		if _, known := have[metric]; known && value > 0 {
			all[metric] = value
		}
	}
	family, _, _ := strings.Cut(m.name, "-")
	cores := float64(m.cpuMilli(n)) / 1000
	if m.cpus > 0 {
		cores = float64(m.cpus) // each agent has a machine alone
	}
	switch own := strings.ToUpper(family) + "_CPUS"; {
	case isSpot(n) && have["PREEMPTIBLE_CPUS"].Limit > 0, have[own].Metric == "":
		add("CPUS", cores)
	default:
		add(own, cores)
	}
	gpu := m.gpu
	if m.gpuMiB >= 80<<10 && gpu == "a100" {
		gpu += " 80"
	}
	add(gpuMetrics[gpu], float64(m.gpus))
	if m.name != "" && !o.noExternal {
		all["IN_USE_ADDRESSES"] = 1
	}
	return all
}

// checkQuotas holds needs against what the project may have at once: an agent of a type that it may not have is refused, and the notes say how many of several
// it may. Where Google Batch chooses the type, it may find one with another quota.
func (e *engine) checkQuotas(ctx context.Context, at site, n driver.Needs, o options, m machine) (notes []string, err error) {
	have := e.quotas(ctx, at)
	wanted := m.wanted(n, o, have)
	for _, metric := range slices.Sorted(maps.Keys(wanted)) {
		q, known := have[metric]
		each := wanted[metric]
		if !known {
			continue
		}
		if q.Limit < each && m.name != "" {
			return nil, fault.New(fault.Full, quotaHint, "the project's quota %s is %g in %s, and an agent needs %g", metric, q.Limit, at.region, each)
		}
		if room := int((q.Limit - q.Usage) / each); room < n.Agents {
			notes = append(notes, fmt.Sprintf("the project's quota %s is %g in %s, and %g is used: at most %d of %d agents run at once", metric, q.Limit, at.region, q.Usage, max(room, 0), n.Agents))
		}
	}
	return notes, nil
}

// quotaHint says what to do about a quota.
const quotaHint = "Ask Google for more at https://console.cloud.google.com/iam-admin/quotas, or use another region: --on gcp/REGION."
