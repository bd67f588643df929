package kube

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

// The labels of nodes that Kubernetes and its providers set.
const (
	labelType     = "node.kubernetes.io/instance-type"
	labelZone     = "topology.kubernetes.io/zone"
	labelRegion   = "topology.kubernetes.io/region"
	labelArch     = "kubernetes.io/arch"
	labelHostname = "kubernetes.io/hostname"
)

// labelOf is the label that holds an attribute of a placement expression, where one does.
var labelOf = map[where.Name]string{where.Type: labelType, where.Zone: labelZone, where.Region: labelRegion, where.Arch: labelArch, where.Node: labelHostname}

// provider is a kind of node pool, with the label of its spot capacity.
type provider struct {
	pool     string // a label that nodes of such pools have: an autoscaler may add some
	label    string
	spot, on string // its values
	taint    object // that its spot nodes may have; nil: none
}

var providers = []provider{
	{pool: "karpenter.sh/nodepool", label: "karpenter.sh/capacity-type", spot: "spot", on: "on-demand"},
	{pool: "eks.amazonaws.com/nodegroup", label: "eks.amazonaws.com/capacityType", spot: "SPOT", on: "ON_DEMAND"},
	{pool: "cloud.google.com/gke-nodepool", label: "cloud.google.com/gke-spot", spot: "true",
		taint: object{"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}},
	{pool: "kubernetes.azure.com/agentpool", label: "kubernetes.azure.com/scalesetpriority", spot: "spot",
		taint: object{"key": "kubernetes.azure.com/scalesetpriority", "operator": "Equal", "value": "spot", "effect": "NoSchedule"}},
}

// machines are the nodes of a cluster, as far as the user may see them.
type machines struct {
	listed bool // the user may list nodes
	all    []api.Node
}

// readMachines lists the nodes. A user without the right to do so is no error.
func readMachines(ctx context.Context, c *api.Client) (m machines, err error) {
	m.all, err = c.Nodes(ctx)
	if api.IsCode(err, http.StatusForbidden) {
		return machines{}, nil
	}
	m.listed = err == nil
	return m, err
}

// grows says whether an autoscaler may add nodes that are not there now.
func (m machines) grows() bool {
	return !m.listed || slices.ContainsFunc(m.all, func(n api.Node) bool {
		return slices.ContainsFunc(providers, func(p provider) bool { return n.Metadata.Labels[p.pool] != "" })
	})
}

// match turns what is asked of machines into conditions on nodes.
func (p *placed) match(ctx context.Context, c *api.Client) error {
	n := p.request.Needs
	if len(n.Machine) == 0 && n.Where.IsZero() && n.Spot == job.SpotAny {
		p.terms = alternatives(nil, p.options.nodes)
		return nil
	}
	m, err := readMachines(ctx, c)
	if err != nil {
		return err
	}
	return p.matchNodes(m)
}

// matchNodes is match with the nodes at hand.
func (p *placed) matchNodes(m machines) error {
	n := p.request.Needs
	expr := n.Where
	if len(n.Machine) > 0 {
		types, err := where.OneOf(where.Type, n.Machine...)
		if err != nil {
			return err
		}
		if expr, err = where.All(expr, types); err != nil {
			return err
		}
	}
	var terms []term
	for _, clause := range expr.Normal() {
		t, possible, err := m.requirements(clause)
		if err != nil {
			return err
		}
		if possible {
			terms = append(terms, t)
		}
	}
	if !expr.IsZero() && len(terms) == 0 {
		return fault.New(fault.Full, "Ask for less with `--where`, or see the nodes: `drover offers kube`.", "no node is what --where says: %s", expr)
	}
	p.terms = alternatives(terms, p.options.nodes)
	p.matchSpot()
	return nil
}

// alternatives adds conditions to each of some terms.
func alternatives(terms []term, more []requirement) (all []term) {
	if len(terms) == 0 && len(more) > 0 {
		return []term{more}
	}
	for _, t := range terms {
		all = append(all, slices.Concat(t, more))
	}
	return all
}

// requirements are one clause of an expression as conditions on labels. possible is false where no
// node can meet the clause.
func (m machines) requirements(clause where.Clause) (t term, possible bool, err error) {
	numbers := false
	for _, part := range clause {
		label, ok := labelOf[part.Name]
		if !ok {
			numbers = true // of the whole machine: only the nodes themselves tell
			continue
		}
		switch part.Op {
		case where.Equal, where.In:
			t = append(t, requirement{label, "In", part.Values})
		case where.NotEqual, where.NotIn:
			t = append(t, requirement{label, "Exists", nil}, requirement{label, "NotIn", part.Values})
		default: // a glob
			if !m.listed {
				return nil, false, fault.New(fault.Denied, "Name them without a star, or ask for the right to list nodes.",
					"match --where: %s is a pattern, and this user may not list the cluster's nodes", part)
			}
			values := m.valuesOf(label, part)
			if len(values) == 0 {
				return nil, false, nil
			}
			t = append(t, requirement{label, "In", values})
		}
	}
	if !numbers {
		return t, m.grows() || m.anyMeets(clause), nil
	}
	if !m.listed {
		return nil, false, fault.New(fault.Denied, "Ask for types of machines instead: `--machine TYPE`.", "match --where: this user may not list the cluster's nodes, and so cannot tell which have %s", clause)
	}
	var fitting []string
	for _, n := range m.all {
		if meets(clause, nodeAttributes(n)) {
			fitting = append(fitting, n.Metadata.Labels[labelHostname])
		}
	}
	if len(fitting) == 0 {
		return nil, false, nil
	}
	slices.Sort(fitting)
	return append(t, requirement{labelHostname, "In", slices.Compact(fitting)}), true, nil
}

// anyMeets says whether a node that is there meets a clause.
func (m machines) anyMeets(clause where.Clause) bool {
	return slices.ContainsFunc(m.all, func(n api.Node) bool { return meets(clause, nodeAttributes(n)) })
}

func meets(clause where.Clause, a where.Attributes) bool {
	return !slices.ContainsFunc(clause, func(t where.Term) bool { return !slices.ContainsFunc(a[t.Name], t.Holds) })
}

// valuesOf are the values of a label for which a term is true.
func (m machines) valuesOf(label string, t where.Term) (all []string) {
	for _, n := range m.all {
		if v := n.Metadata.Labels[label]; v != "" && t.Holds(v) {
			all = append(all, v)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// nodeAttributes are what is known of a node.
func nodeAttributes(n api.Node) where.Attributes {
	a := where.Attributes{where.Feature: {}, where.Purchase: {where.OnDemand}}
	for name, label := range labelOf {
		if v := n.Metadata.Labels[label]; v != "" {
			a[name] = []string{v}
		}
	}
	if t := n.Metadata.Labels[labelType]; t != "" {
		family, _, _ := strings.Cut(t, ".")
		a[where.Family] = []string{family}
	}
	a[where.CPUs] = []string{strconv.FormatFloat(quantity(n.Status.Allocatable["cpu"]), 'f', -1, 64)}
	a[where.Memory] = []string{strconv.FormatInt(int64(quantity(n.Status.Allocatable["memory"])), 10)}
	a[where.GPUCount] = []string{cmp.Or(n.Status.Allocatable[gpuResource], "0")}
	if isSpot(n) {
		a[where.Purchase] = []string{where.Spot}
	}
	return a
}

func isSpot(n api.Node) bool {
	return slices.ContainsFunc(providers, func(p provider) bool { return n.Metadata.Labels[p.label] == p.spot })
}

// matchSpot adds how machines are bought: the labels and taints of all providers, any of which a
// node may have.
func (p *placed) matchSpot() {
	spot := p.request.Needs.Spot
	if spot == job.SpotOnly || spot == job.SpotFirst {
		for _, v := range providers {
			if v.taint != nil {
				p.tolerations = append(p.tolerations, v.taint)
			}
		}
	}
	var bought []term
	for _, v := range providers {
		switch spot {
		case job.SpotOnly, job.SpotFirst:
			bought = append(bought, term{{v.label, "In", []string{v.spot}}})
		}
	}
	switch spot {
	case job.SpotFirst:
		p.preferred = bought
	case job.SpotOnly:
		p.terms = product(p.terms, bought)
	case job.SpotNever:
		var t term
		for _, v := range providers {
			t = append(t, requirement{v.label, "NotIn", []string{v.spot}})
		}
		p.terms = product(p.terms, []term{t})
	}
}

// product are all pairs of two sets of alternatives, of which the first may be empty.
func product(a, b []term) (all []term) {
	if len(a) == 0 {
		return b
	}
	for _, x := range a {
		for _, y := range b {
			all = append(all, slices.Concat(x, y))
		}
	}
	return all
}

// quantity is a number as Kubernetes writes it: 250m, 16Gi, 2e3.
func quantity(text string) float64 {
	units := []struct {
		suffix string
		factor float64
	}{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50}, {"m", 1e-3}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}}
	factor := 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			text, factor = rest, u.factor
			break
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return v * factor
}

// nodeWords describe a node.
func nodeWords(n api.Node) string {
	s := fmt.Sprintf("%g cores, %s", quantity(n.Status.Allocatable["cpu"]), job.Bytes(int64(quantity(n.Status.Allocatable["memory"]))).Words())
	if g := int(quantity(n.Status.Allocatable[gpuResource])); g > 0 {
		s += fmt.Sprintf(", %d GPUs", g)
	}
	return s
}
