package slurm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/slurm/records"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job/where"
)

// The conditions of Needs.Where and Needs.Machine are evaluated for each node, and expressed in
// options of sbatch: features by --constraint, the kind of GPUs by --gres, all else by the list of
// nodes that do not match (--exclude), or by the one that does (--nodelist). Slurm has no types of
// machines. A node's features often are its type, as ParallelCluster and others set them up, and
// so they count as its type.

// restriction is the condition for nodes; the zero Expr: none.
func restriction(n driver.Needs) (where.Expr, error) {
	types, err := where.OneOf(where.Type, n.Machine...)
	if err != nil {
		return types, err
	}
	return where.All(n.Where, types)
}

// nodeFields follow groupFields in the lines of single nodes.
const nodeFields = groupFields + "|%N|%f|%d"

// nodeFacts are what is known of the one node of a group; the zero value: the group has several.
type nodeFacts struct {
	name     string
	features []string
	gres     string
	disk     int64 // bytes of its own
}

// parseNode reads the fields from a group's GRES on.
func parseNode(f []string) nodeFacts {
	n := nodeFacts{gres: f[0], name: f[1]}
	if f[2] != "(null)" {
		n.features = strings.Split(f[2], ",")
	}
	mb, _ := strconv.ParseInt(strings.TrimSuffix(f[3], "+"), 10, 64)
	n.disk = mb << 20
	return n
}

// attributes are what Slurm knows of a node. It has no zones and no prices.
func (g group) attributes() where.Attributes {
	a := where.Attributes{
		where.Node: {g.node.name}, where.Feature: g.node.features, where.CPUs: {strconv.Itoa(g.cpus)}, where.Memory: {strconv.FormatInt(g.memory, 10)},
		where.GPUCount: {strconv.Itoa(g.gpus)}, where.GPUName: gpuKinds(g.node.gres), where.DiskLocal: {strconv.FormatInt(g.node.disk, 10)},
		where.Purchase: {where.OnDemand},
	}
	if len(g.node.features) > 0 {
		a[where.Type] = g.node.features
	}
	if g.gpus == 0 {
		a[where.GPUMemory] = nil
	}
	return a
}

// gpuKinds are the kinds of a node's GPUs, in gpu:a100:4(S:0-1),gpu:2,nvme:1 one.
func gpuKinds(gres string) (kinds []string) {
	for _, word := range gresWords(gres) {
		if f := strings.Split(word, ":"); f[0] == "gpu" && len(f) == 3 && !slices.Contains(kinds, f[1]) {
			kinds = append(kinds, f[1])
		}
	}
	return kinds
}

// match notes for single nodes why they do not match.
func match(groups []group, asked where.Expr) []group {
	for i, g := range groups {
		if why := asked.Unmet(g.attributes()); why != "" {
			groups[i].unmet = fmt.Sprintf("no node is what is asked for: of node %s, %s", g.node.name, why)
		}
	}
	return groups
}

// listNodeGroups asks for the groups of nodes of all partitions. With a condition on nodes, or a disk,
// each node is a group of its own.
func (d *Driver) listNodeGroups(ctx context.Context, asked where.Expr, disk int64) ([]group, error) {
	args := []string{"--noheader", "--exact", "--format=" + groupFields}
	if !asked.IsZero() || disk > 0 {
		args = []string{"--noheader", "--exact", "--Node", "--format=" + nodeFields}
	}
	out, err := d.runCommand(ctx, "sinfo", args...)
	if err != nil {
		return nil, err
	}
	if asked.IsZero() {
		return parseGroups(out), nil
	}
	return match(parseGroups(out), asked), nil
}

// restrictNodes makes a Start ask for nodes that match, and for a partition that has some. It
// evaluates the nodes for each Start, as they change.
func (d *Driver) restrictNodes(ctx context.Context, p *plan) error {
	n := p.request.Needs
	asked, err := restriction(n)
	if err != nil || asked.IsZero() {
		return err
	}
	if err := clash(asked, n.Args); err != nil {
		return err
	}
	groups, err := d.listNodeGroups(ctx, asked, n.Disk)
	if err != nil {
		return said("start agents", err)
	}
	all := choices(groups, n)
	at, reason, hint := choose(all, n)
	if reason == "" && all[at].Reason != "" {
		reason, hint = all[at].Reason, "Ask for less, or choose another: drover offers."
	}
	if reason != "" {
		return fault.New(fault.Full, hint, "start agents: %s", reason)
	}
	name := all[at].Detail
	if partition(n) == "" {
		p.request.Needs.Detail = name
	}
	groups = slices.DeleteFunc(groups, func(g group) bool { return g.partition != name })
	p.match = matchArgs(asked, groups, n)
	return nil
}

// clashing are options that choose nodes; sbatch uses only the last of them.
var clashing = []string{"--exclude", "-x", "--nodelist", "-w", "--nodefile", "-F"}

// clash refuses options and conditions that both choose nodes.
func clash(asked where.Expr, args []string) error {
	if asked.IsZero() {
		return nil
	}
	for _, name := range clashing {
		if option(args, name) != "" {
			return fault.New(fault.Invalid, "Say it in one of them: `--where 'node != n3'`.", "place job on slurm: --where and %s both choose nodes", name)
		}
	}
	return nil
}

// matchArgs are the options of sbatch that restrict a job to the nodes of a partition that match.
// Where the user's own options name features or GPUs, they would replace ours: then nodes are
// excluded by name.
func matchArgs(asked where.Expr, nodes []group, n driver.Needs) (args []string) {
	var constraints []string
	rest := where.Expr{}
	own := option(n.Args, "--constraint", "-C") != "" || slices.ContainsFunc(n.Args, func(a string) bool { return strings.HasPrefix(a, "--prefer") })
	ownGPUs := slices.ContainsFunc(n.Args, func(a string) bool { return kin(a) == "--gres" || strings.HasPrefix(a, "-G") })
	for _, part := range asked.Conjuncts() {
		if text, ok := constraint(part, nodes); ok && !own {
			constraints = append(constraints, text)
			continue
		}
		if kind, ok := gpuKind(part, nodes); ok && n.GPUs > 0 && !ownGPUs {
			args = append(args, "--gres=gpu:"+kind+":"+records.Itoa(n.GPUs))
			continue
		}
		rest, _ = where.All(rest, part) // a part of what is no contradiction is none
	}
	if len(constraints) > 0 {
		args = append(args, "--constraint="+strings.Join(constraints, "&"))
	}
	if rest.IsZero() {
		return args
	}
	var match, not []string
	for _, g := range nodes {
		if rest.Eval(g.attributes()) == where.True {
			match = append(match, g.node.name)
		} else {
			not = append(not, g.node.name)
		}
	}
	switch {
	case len(not) == 0:
	case len(match) == 1:
		args = append(args, "--nodelist="+match[0])
	default:
		args = append(args, "--exclude="+hostlist(not))
	}
	return args
}

// constraint is a part of an expression in the language of --constraint, if it is about features that
// nodes must have: Slurm's language has no negation.
func constraint(part where.Expr, nodes []group) (string, bool) {
	var ways []string
	for _, clause := range part.Normal() {
		var all []string
		for _, t := range clause {
			names, ok := featuresOf(t, nodes)
			if !ok {
				return "", false
			}
			all = append(all, alternatives(names))
		}
		ways = append(ways, strings.Join(all, "&"))
	}
	return alternatives(ways), true
}

// alternatives are in parentheses where they are several.
func alternatives(ways []string) string {
	slices.Sort(ways)
	ways = slices.Compact(ways)
	if len(ways) == 1 {
		return ways[0]
	}
	return "(" + strings.Join(ways, "|") + ")"
}

// featuresOf are the features of which a node must have one to meet a term; ok is false if the term is
// about something else, or has a value that cannot be a feature's name.
func featuresOf(t where.Term, nodes []group) (names []string, ok bool) {
	if t.Name != where.Feature && t.Name != where.Type {
		return nil, false
	}
	switch t.Op {
	case where.Equal, where.In:
		names = t.Values
	case where.Match:
		for _, g := range nodes {
			for _, f := range g.node.features {
				if t.Holds(f) {
					names = append(names, f)
				}
			}
		}
	}
	plain := func(name string) bool { return !strings.ContainsAny(name, "&|()[]{}*,!\"' ") }
	return names, len(names) > 0 && !slices.ContainsFunc(names, func(f string) bool { return !plain(f) })
}

// gpuKind is the kind of GPUs that a part of an expression asks for, as Slurm spells it;
// ok is false where it asks for something else.
func gpuKind(part where.Expr, nodes []group) (kind string, ok bool) {
	clauses := part.Normal()
	if len(clauses) != 1 || len(clauses[0]) != 1 || clauses[0][0].Name != where.GPUName || clauses[0][0].Op != where.Equal {
		return "", false
	}
	for _, g := range nodes {
		for _, k := range gpuKinds(g.node.gres) {
			if clauses[0][0].Holds(k) {
				return k, true
			}
		}
	}
	return "", false
}

// hostlist is names of nodes as Slurm shortens them: gpu-[01-03,7],login.
func hostlist(names []string) string {
	type run struct{ prefix, first, last string }
	var runs []run
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		prefix := strings.TrimRight(name, "0123456789")
		number := name[len(prefix):]
		if len(runs) > 0 {
			r := &runs[len(runs)-1]
			was, err1 := strconv.Atoi(r.last)
			is, err2 := strconv.Atoi(number)
			if err1 == nil && err2 == nil && r.prefix == prefix && len(r.last) == len(number) && is == was+1 {
				r.last = number
				continue
			}
		}
		runs = append(runs, run{prefix, number, number})
	}
	var words []string
	for i := 0; i < len(runs); {
		var ranges []string
		prefix := runs[i].prefix
		for ; i < len(runs) && runs[i].prefix == prefix; i++ {
			text := runs[i].first
			if runs[i].last != text {
				text += "-" + runs[i].last
			}
			ranges = append(ranges, text)
		}
		if len(ranges) == 1 && !strings.Contains(ranges[0], "-") {
			words = append(words, prefix+ranges[0])
		} else {
			words = append(words, prefix+"["+strings.Join(ranges, ",")+"]")
		}
	}
	return strings.Join(words, ",")
}
