package slurm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/slurm/commands"
	"github.com/drover-run/drover/job"
)

// Offer says whether Slurm has machines for the needs, in the partition that was named or in the
// default one, and what its partitions have free. It knows the nodes, and not what the user is
// allowed to use: Start finds that out.
func (d *Driver) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	const doing = "ask Slurm"
	o := driver.Offer{Machine: "slurm"}
	if ctx.Err() != nil {
		return driver.Offer{}, context.Cause(ctx)
	}
	n.Args = longArgs(n.Args)
	if err := checkArgs(n.Args); err != nil {
		return driver.Offer{}, err
	}
	asked, err := restriction(n)
	if err != nil {
		return driver.Offer{}, err
	}
	if err := clash(asked, n.Args); err != nil {
		return driver.Offer{}, err
	}
	groups, err := d.listNodeGroups(ctx, asked, n.Disk)
	if err != nil {
		return driver.Offer{}, said(doing, err)
	}
	o.Choices = choices(groups, n)
	at, reason, hint := choose(o.Choices, n)
	if reason != "" {
		o.Reason, o.Hint = reason, hint
		return o, nil
	}
	c := o.Choices[at]
	o.Machine = fmt.Sprintf("slurm, partition %s: %s", c.Detail, c.Machine)
	bySlots := n.CPUs == 0 && cores(n) > 0
	if bySlots {
		o.Machine += fmt.Sprintf("; each worker is asked %d cores, one for each item at once", cores(n))
	}
	if n.Agents > 0 {
		o.Machine += fmt.Sprintf("; %d could begin now", min(c.Free, n.Agents))
	}
	o.Reason = c.Reason
	if o.Reason != "" {
		o.Hint = "Ask for less, or choose another: drover offers, sinfo -o '%P %D %c %m %G %l'."
		if bySlots {
			o.Hint = "Run fewer items at once with -j, or say what each needs: --cpus 0.5."
		}
		for _, other := range o.Choices {
			if other.All > 0 && other.Reason == "" {
				o.Hint = "It would fit elsewhere: --on slurm/" + other.Detail + "."
				break
			}
		}
	}
	o.Fits = o.Reason == ""
	return o, nil
}

// choose is the partition that a job goes to: the one that was asked for, or the default one. If no
// node of the default one matches, it is the first partition with a node that does. reason and
// hint say why there is none.
func choose(all []driver.Choice, n driver.Needs) (at int, reason, hint string) {
	if n.Spot == job.SpotOnly || n.Spot == job.SpotFirst {
		return 0, "Slurm has no spot capacity", "Leave --spot out, or choose another target with --on."
	}
	named := "Use --on slurm/" + strings.Join(names(all), ", --on slurm/") + "."
	if name := partition(n); name != "" {
		at = slices.IndexFunc(all, func(c driver.Choice) bool { return c.Detail == name })
		if at < 0 {
			return at, fmt.Sprintf("Slurm has no partition %q", name), named
		}
		return at, "", ""
	}
	at = slices.IndexFunc(all, func(c driver.Choice) bool { return c.Default })
	if len(n.Machine) > 0 || !n.Where.IsZero() {
		fits := func(c driver.Choice) bool { return c.All > 0 && c.Reason == "" }
		if other := slices.IndexFunc(all, fits); other >= 0 && (at < 0 || !fits(all[at])) {
			at = other
		}
	}
	switch {
	case len(all) == 0:
		return at, "Slurm has no partition that you may use", "sinfo -a shows all."
	case at < 0:
		return at, "Slurm has no default partition", named
	}
	return at, "", ""
}

// partition is the one that was asked for; "": the default one.
func partition(n driver.Needs) string {
	if p := option(n.Args, "--partition", "-p"); p != "" {
		p, _, _ = strings.Cut(p, ",")
		return p
	}
	return n.Detail
}

func names(all []driver.Choice) (names []string) {
	for _, c := range all {
		names = append(names, c.Detail)
	}
	return names
}

// group is nodes of a partition with the same properties and state.
type group struct {
	partition string
	standard  bool // the default partition
	up        bool
	limit     time.Duration // 0: none
	nodes     int
	state     string
	cpus      int
	memory    int64 // bytes
	gpus      int
	idle      int // unused cores, on all nodes
	node      nodeFacts
	unmet     string // why a single node does not meet the conditions; "": it does
}

const groupFields = "%P|%a|%l|%D|%t|%c|%m|%C|%G"

// parseGroups reads the output of sinfo. It ignores lines that are not about nodes.
func parseGroups(out string) (all []group) {
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 9 && len(f) != 12 {
			continue
		}
		g := group{partition: strings.TrimSuffix(f[0], "*"), standard: strings.HasSuffix(f[0], "*"), up: f[1] == "up",
			state: strings.TrimRight(f[4], "*~#!%$@^-+"), gpus: countGPUs(f[8])}
		g.limit, _ = commands.ParseTime(f[2])
		var err error
		if g.nodes, err = strconv.Atoi(f[3]); err != nil {
			continue
		}
		g.cpus, _ = strconv.Atoi(strings.TrimSuffix(f[5], "+"))
		mb, _ := strconv.ParseInt(strings.TrimSuffix(f[6], "+"), 10, 64)
		g.memory = mb << 20
		if c := strings.Split(f[7], "/"); len(c) == 4 { // allocated/idle/other/total
			g.idle, _ = strconv.Atoi(c[1])
		}
		if len(f) == 12 {
			g.node = parseNode(f[8:])
		}
		if strings.HasSuffix(f[4], "*") { // does not answer
			g.state = "down"
		}
		all = append(all, g)
	}
	return all
}

// countGPUs reads gpu:a100:4(S:0-1),gpu:2,nvme:1.
func countGPUs(gres string) (n int) {
	for _, word := range gresWords(gres) {
		if f := strings.Split(word, ":"); f[0] == "gpu" && len(f) > 1 {
			c, _ := strconv.Atoi(f[len(f)-1])
			n += c
		}
	}
	return n
}

// gresWords are the words between commas, without what is in parentheses.
func gresWords(gres string) (words []string) {
	depth, word := 0, ""
	for _, r := range gres {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case depth > 0:
		case r == ',':
			words, word = append(words, word), ""
		default:
			word += string(r)
		}
	}
	return append(words, word)
}

// usable says whether nodes in a state take jobs, now or once they are free.
func usable(state string) bool {
	switch state {
	case "idle", "mix", "alloc", "comp", "resv", "plnd", "planned", "maint", "blocked", "pow_dn", "pow_up":
		return true
	}
	return false
}

// agentsPerNode is how many agents one node of a group has room for; why is what it lacks.
func (g group) agentsPerNode(n driver.Needs) (agents int, why string) {
	cpus := max(cores(n), 1)
	memory := int64(0)
	if n.Memory > 0 {
		memory = n.Memory + agentMemory
	}
	switch {
	case cpus > g.cpus:
		return 0, fmt.Sprintf("its nodes have %s, and %d are needed", count(g.cpus, "core"), cpus)
	case memory > g.memory:
		return 0, fmt.Sprintf("its nodes have %s of memory, and %s is needed, of which %d MB is for drover itself",
			folder.Gigabytes(float64(g.memory)), folder.Gigabytes(float64(memory)), agentMemory>>20)
	case g.node.disk > 0 && n.Disk > g.node.disk: // 0: Slurm is not told of it
		return 0, fmt.Sprintf("its nodes have %s of temporary disk, and %s is needed", folder.Gigabytes(float64(g.node.disk)), folder.Gigabytes(float64(n.Disk)))
	case n.GPUs > g.gpus:
		return 0, fmt.Sprintf("its nodes have %s, and %d are needed", count(g.gpus, "GPU"), n.GPUs)
	}
	agents = g.cpus / cpus
	if memory > 0 {
		agents = min(agents, int(g.memory/memory))
	}
	if n.GPUs > 0 {
		agents = min(agents, g.gpus/n.GPUs)
	}
	if n.Place.Nodes > 1 {
		agents = 1
	}
	return agents, ""
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// choices are the partitions, in Slurm's order.
func choices(groups []group, n driver.Needs) (all []driver.Choice) {
	for _, g := range groups {
		if !slices.ContainsFunc(all, func(c driver.Choice) bool { return c.Detail == g.partition }) {
			all = append(all, choice(g.partition, groups, n))
		}
	}
	return all
}

// choice is one partition.
func choice(name string, groups []group, n driver.Needs) driver.Choice {
	c := driver.Choice{Detail: name}
	nodes, lack, unmet, up := 0, "", "", false
	var largest group
	for _, g := range groups {
		if g.partition != name {
			continue
		}
		c.Default, c.Time, up = g.standard, g.limit, g.up
		if g.unmet != "" {
			unmet = cmp.Or(unmet, g.unmet)
			continue
		}
		nodes += g.nodes
		if g.gpus > largest.gpus || g.gpus == largest.gpus && g.cpus > largest.cpus || largest.nodes == 0 {
			largest = g
		}
		each, why := g.agentsPerNode(n)
		if each == 0 {
			lack = why
			continue
		}
		if !usable(g.state) {
			continue
		}
		c.All += each * g.nodes
		switch g.state {
		case "idle":
			c.Free += each * g.nodes
		case "mix":
			free := g.idle / max(cores(n), 1)
			if n.Place.Nodes > 1 {
				free = min(free, g.nodes)
			}
			c.Free += min(free, each*g.nodes)
		}
	}
	c.Machine = count(nodes, "node")
	if largest.nodes > 0 {
		c.Machine += fmt.Sprintf(" with %s, %s", count(largest.cpus, "core"), folder.Gigabytes(float64(largest.memory)))
		if largest.gpus > 0 {
			c.Machine += ", " + count(largest.gpus, "GPU")
		}
	}
	if nodes == 0 && unmet != "" {
		lack = unmet
	}
	c.Reason = refusal1(name, c, n, up, lack)
	return c
}

// hours is a time as people write it: 1h30m, not 1h30m0s.
func hours(t time.Duration) string {
	text := t.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// refusal1 says why a partition does not do; "": it does.
func refusal1(name string, c driver.Choice, n driver.Needs, up bool, lack string) string {
	limit := n.Time
	if t, ok := commands.ParseTime(option(n.Args, "--time", "-t")); ok {
		limit = t
	} else if limit > 0 {
		limit += aroundTime
	}
	switch {
	case !up:
		return fmt.Sprintf("partition %s of Slurm is not up", name)
	case c.All == 0 && lack != "":
		return fmt.Sprintf("partition %s of Slurm: %s", name, lack)
	case c.All == 0:
		return fmt.Sprintf("partition %s of Slurm has no node that accepts jobs", name)
	case n.Place.Nodes > 1 && c.All < n.Agents:
		return fmt.Sprintf("partition %s of Slurm has %s for it, and %d are needed", name, count(c.All, "node"), n.Agents)
	case c.Time > 0 && limit > c.Time:
		return fmt.Sprintf("partition %s of Slurm allows %s, and %s is asked for, of which %s is to start and to save", name, hours(c.Time), hours(limit), hours(aroundTime))
	}
	return ""
}
