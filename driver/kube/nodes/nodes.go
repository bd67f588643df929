// Package nodes knows the machines of a Kubernetes cluster: which there are, whether something may
// add others, and the conditions on their labels that a placement expression becomes.
//
// It refuses to know Jobs and pods. Proved by its own tests and by the offers of package kube.
package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

// Object is a part of an object as it is sent.
type Object = map[string]any

// GPUs is the resource of a pod or node that counts GPUs.
const GPUs = "nvidia.com/gpu"

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
	pool  string // a label that nodes of such pools have: an autoscaler may add some
	label string
	spot  string // its value
	taint Object // that its spot nodes may have; nil: none
}

var providers = []provider{
	{pool: "karpenter.sh/nodepool", label: "karpenter.sh/capacity-type", spot: "spot"},
	{pool: "eks.amazonaws.com/nodegroup", label: "eks.amazonaws.com/capacityType", spot: "SPOT"},
	{pool: "cloud.google.com/gke-nodepool", label: "cloud.google.com/gke-spot", spot: "true",
		taint: Object{"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}},
	{pool: "kubernetes.azure.com/agentpool", label: "kubernetes.azure.com/scalesetpriority", spot: "spot",
		taint: Object{"key": "kubernetes.azure.com/scalesetpriority", "operator": "Equal", "value": "spot", "effect": "NoSchedule"}},
}

// Cluster is the nodes of a cluster, as far as the user may see them.
type Cluster struct {
	Listed bool // the user may list nodes
	All    []api.Node
}

// Read lists the nodes. A user without the right to do so is no error.
func Read(ctx context.Context, client *api.Client) (c Cluster, err error) {
	c.All, err = client.Nodes(ctx)
	if api.IsCode(err, http.StatusForbidden) {
		return Cluster{}, nil
	}
	c.Listed = err == nil
	return c, err
}

// grows says whether an autoscaler may add nodes that are not there now.
func (c Cluster) grows() bool {
	return !c.Listed || slices.ContainsFunc(c.All, func(n api.Node) bool {
		return slices.ContainsFunc(providers, func(p provider) bool { return n.Metadata.Labels[p.pool] != "" })
	})
}

// Term is one alternative: all requirements hold.
type Term []Requirement

// Requirement is a condition on a node's label.
type Requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// ParseRequirement reads KEY=VALUE, KEY!=VALUE or KEY.
func ParseRequirement(text string) (Requirement, error) {
	for _, form := range []struct{ sign, operator string }{{"!=", "NotIn"}, {"=", "In"}} {
		if key, value, ok := strings.Cut(text, form.sign); ok {
			if key == "" || value == "" {
				return Requirement{}, errors.New("it is no label and value")
			}
			return Requirement{key, form.operator, strings.Split(value, ",")}, nil
		}
	}
	return Requirement{Key: text, Operator: "Exists"}, nil
}

// requirements are one clause of an expression as conditions on labels. possible is false where no
// node can meet the clause.
func (c Cluster) requirements(clause where.Clause) (t Term, possible bool, err error) {
	numbers := false
	for _, part := range clause {
		label, ok := labelOf[part.Name]
		if !ok {
			numbers = true // of the whole machine: only the nodes themselves tell
			continue
		}
		switch part.Op {
		case where.Equal, where.In:
			t = append(t, Requirement{label, "In", part.Values})
		case where.NotEqual, where.NotIn:
			t = append(t, Requirement{label, "Exists", nil}, Requirement{label, "NotIn", part.Values})
		default: // a glob
			if !c.Listed {
				return nil, false, fault.New(fault.Denied, "Name them without a star, or ask for the right to list nodes.",
					"match --where: %s is a pattern, and this user may not list the cluster's nodes", part)
			}
			values := c.valuesOf(label, part)
			if len(values) == 0 {
				return nil, false, nil
			}
			t = append(t, Requirement{label, "In", values})
		}
	}
	if !numbers {
		return t, c.grows() || c.anyMeets(clause), nil
	}
	if !c.Listed {
		return nil, false, fault.New(fault.Denied, "Ask for types of machines instead: `--machine TYPE`.", "match --where: this user may not list the cluster's nodes, and so cannot tell which have %s", clause)
	}
	var fitting []string
	for _, n := range c.All {
		if meets(clause, nodeAttributes(n)) {
			fitting = append(fitting, n.Metadata.Labels[labelHostname])
		}
	}
	if len(fitting) == 0 {
		return nil, false, nil
	}
	slices.Sort(fitting)
	return append(t, Requirement{labelHostname, "In", slices.Compact(fitting)}), true, nil
}

// anyMeets says whether a node that is there meets a clause.
func (c Cluster) anyMeets(clause where.Clause) bool {
	return slices.ContainsFunc(c.All, func(n api.Node) bool { return meets(clause, nodeAttributes(n)) })
}

func meets(clause where.Clause, a where.Attributes) bool {
	return !slices.ContainsFunc(clause, func(t where.Term) bool { return !slices.ContainsFunc(a[t.Name], t.Holds) })
}

// valuesOf are the values of a label for which a term is true.
func (c Cluster) valuesOf(label string, t where.Term) (all []string) {
	for _, n := range c.All {
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
	a[where.CPUs] = []string{strconv.FormatFloat(Quantity(n.Status.Allocatable["cpu"]), 'f', -1, 64)}
	a[where.Memory] = []string{strconv.FormatInt(int64(Quantity(n.Status.Allocatable["memory"])), 10)}
	a[where.GPUCount] = []string{cmp.Or(n.Status.Allocatable[GPUs], "0")}
	if isSpot(n) {
		a[where.Purchase] = []string{where.Spot}
	}
	return a
}

func isSpot(n api.Node) bool {
	return slices.ContainsFunc(providers, func(p provider) bool { return n.Metadata.Labels[p.label] == p.spot })
}

// product are all pairs of two sets of alternatives, of which the first may be empty.
func product(a, b []Term) (all []Term) {
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

// Quantity is a number as Kubernetes writes it: 250m, 16Gi, 2e3.
func Quantity(text string) float64 {
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
	s := fmt.Sprintf("%g cores, %s", Quantity(n.Status.Allocatable["cpu"]), job.Bytes(int64(Quantity(n.Status.Allocatable["memory"]))).Words())
	if g := int(Quantity(n.Status.Allocatable[GPUs])); g > 0 {
		s += fmt.Sprintf(", %d GPUs", g)
	}
	return s
}

// largest is the node with most GPUs, then cores, then memory.
func (c Cluster) largest() (n api.Node, ok bool) {
	if len(c.All) == 0 {
		return n, false
	}
	return slices.MaxFunc(c.All, func(a, b api.Node) int {
		x, y := a.Status.Allocatable, b.Status.Allocatable
		return cmp.Or(cmp.Compare(Quantity(x[GPUs]), Quantity(y[GPUs])), cmp.Compare(Quantity(x["cpu"]), Quantity(y["cpu"])), cmp.Compare(Quantity(x["memory"]), Quantity(y["memory"])))
	}), true
}

// Words describe the nodes, for a plan.
func (c Cluster) Words() string {
	n, ok := c.largest()
	switch {
	case !c.Listed:
		return ", nodes not listed"
	case !ok:
		return ", no nodes"
	case len(c.All) == 1:
		return ", one node, " + nodeWords(n)
	}
	return fmt.Sprintf(", %d nodes of up to %s", len(c.All), nodeWords(n))
}

// Choices are the kinds of node that there are.
func (c Cluster) Choices(n driver.Needs, leastCores float64) (all []driver.Choice) {
	count := map[string]int{}
	of := map[string]api.Node{}
	for _, node := range c.All {
		name := cmp.Or(node.Metadata.Labels[labelType], "node")
		count[name]++
		of[name] = node
	}
	for name, nodes := range count {
		one := driver.Choice{Machine: fmt.Sprintf("%s: %d with %s", name, nodes, nodeWords(of[name]))}
		a := of[name].Status.Allocatable
		each := int(Quantity(a["cpu"]) / max(n.CPUs, leastCores))
		if n.GPUs > 0 {
			each = min(each, int(Quantity(a[GPUs]))/n.GPUs)
		}
		one.All = each * nodes
		if one.All == 0 {
			one.Reason = "they do not fit"
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b driver.Choice) int { return strings.Compare(a.Machine, b.Machine) })
	return all
}

func expressions(terms []Term) (all []Object) {
	for _, t := range terms {
		all = append(all, Object{"matchExpressions": t})
	}
	return all
}

// Selection says on which nodes a pod may be.
type Selection struct {
	Required    []Term // alternatives; none: any node
	Preferred   []Term // that come first
	Tolerations []Object
}

// Select turns what is asked of machines, and conditions of the user's own, into conditions on nodes.
// It refuses what no node can meet, where nothing adds nodes.
func (c Cluster) Select(n driver.Needs, own []Requirement) (s Selection, err error) {
	expr, err := condition(n)
	if err != nil {
		return s, err
	}
	var terms []Term
	clauses := expr.Normal()
	if expr.IsZero() { // any node, which is no condition
		clauses = nil
	}
	for _, clause := range clauses {
		t, possible, err := c.requirements(clause)
		if err != nil {
			return s, err
		}
		if possible {
			terms = append(terms, t)
		}
	}
	if !expr.IsZero() && len(terms) == 0 {
		return s, fault.New(fault.Full, "Ask for less with `--where`, or see the nodes: `drover offers kube`.", "no node is what --where says: %s", expr)
	}
	if len(own) > 0 {
		terms = product(terms, []Term{own})
	}
	s.Required = terms
	s.buy(n.Spot)
	return s, nil
}

// condition is what each machine must meet.
func condition(n driver.Needs) (where.Expr, error) {
	if len(n.Machine) == 0 {
		return n.Where, nil
	}
	types, err := where.OneOf(where.Type, n.Machine...)
	if err != nil {
		return n.Where, err
	}
	return where.All(n.Where, types)
}

// AsksFor says whether needs ask for particular machines: only then are the nodes looked at.
func AsksFor(n driver.Needs) bool {
	return len(n.Machine) > 0 || !n.Where.IsZero() || n.Spot != job.SpotAny
}

// Affinity is the selection as a pod's node affinity.
func (s Selection) Affinity() Object {
	node := Object{}
	if len(s.Required) > 0 {
		node["requiredDuringSchedulingIgnoredDuringExecution"] = Object{"nodeSelectorTerms": expressions(s.Required)}
	}
	if len(s.Preferred) > 0 {
		var all []Object
		for _, e := range expressions(s.Preferred) {
			all = append(all, Object{"weight": 100, "preference": e})
		}
		node["preferredDuringSchedulingIgnoredDuringExecution"] = all
	}
	return node
}

// buy adds how machines are bought: the labels and taints of all providers, any of which a node may
// have.
func (s *Selection) buy(spot job.Spot) {
	wanted := spot == job.SpotOnly || spot == job.SpotFirst
	var bought []Term
	var never Term
	for _, v := range providers {
		if wanted && v.taint != nil {
			s.Tolerations = append(s.Tolerations, v.taint)
		}
		bought = append(bought, Term{{v.label, "In", []string{v.spot}}})
		never = append(never, Requirement{v.label, "NotIn", []string{v.spot}})
	}
	switch spot {
	case job.SpotFirst:
		s.Preferred = bought
	case job.SpotOnly:
		s.Required = product(s.Required, bought)
	case job.SpotNever:
		s.Required = product(s.Required, []Term{never})
	}
}

// HasSpot says whether there may be spot capacity.
func (c Cluster) HasSpot() bool { return c.grows() || slices.ContainsFunc(c.All, isSpot) }

// Fits says whether a node that is there could hold an agent, with memory in bytes, where no
// autoscaler could add one. The error says what the largest has.
func (c Cluster) Fits(cores float64, memory int64, gpus int) error {
	if c.grows() {
		return nil
	}
	for _, n := range c.All {
		a := n.Status.Allocatable
		if Quantity(a["cpu"]) >= cores && Quantity(a["memory"]) >= float64(memory) && int(Quantity(a[GPUs])) >= gpus {
			return nil
		}
	}
	largest := "the cluster has no nodes"
	if n, ok := c.largest(); ok {
		largest = "the largest node has " + nodeWords(n)
	}
	return fault.New(fault.Full, "Ask for less: `--cpus`, `--memory`, `--gpus`.", "no node is large enough, and nothing here adds nodes: %s", largest)
}
