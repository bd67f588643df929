package program

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/cli"
	"github.com/drover-run/drover/internal/host"
	"github.com/drover-run/drover/job"
)

// reservations is the folder where this user's processes of drover reserve parts of the
// machine. There are as many cores and as much memory to reserve as the target that runs
// programs in place offers. Machines that share home folders have a folder each.
func (p *program) reservations() host.Room {
	r := host.Room{Folder: reservationsFolder(p.dirs)}
	for _, t := range p.openedTargets(nil) { // what this machine has is in no store
		if !t.InPlace {
			continue
		}
		if o, err := t.Offer(context.Background(), driver.Needs{}); err == nil {
			r.CPUs, r.Memory = float64(o.Cores), o.Memory
		}
	}
	return r
}

func reservationsFolder(d cli.Dirs) string {
	name, _ := os.Hostname()
	return filepath.Join(d.State, "claims", cmp.Or(job.Label(name), "here"))
}

// room finds the machine's GPUs and reserves what a node asks for.
func room(whole host.Room, environ []string) func(context.Context, node.Wish, func(string)) (node.Room, error) {
	return func(ctx context.Context, w node.Wish, told func(string)) (node.Room, error) {
		gpus, err := host.GPUs(ctx, environ)
		if err == nil {
			gpus, err = host.Usable(gpus, w.GPUs)
		}
		if err != nil && w.GPUs > 0 {
			return node.Room{}, err
		}
		if err != nil { // no GPU was requested: another command reports what is broken
			gpus = nil
		}
		held, err := whole.Take(ctx, host.Wish{Label: w.Label, Group: w.Job, Members: w.Nodes,
			Each:  host.Amount{CPUs: w.CPUs, Memory: w.Memory, GPUs: w.GPUs},
			Queue: w.Queue, Priority: w.Priority, Now: w.Now,
			Share: host.Amount{CPUs: w.Share.CPUs, Memory: int64(w.Share.Memory), GPUs: w.Share.GPUs}}, gpus, told)
		if err != nil {
			return node.Room{}, err
		}
		r := node.Room{Cores: held.Cores, GPUs: len(gpus), Release: held.Release}
		if w.GPUs > 0 {
			r.GPUs, r.Pinned = w.GPUs, pinned(held.GPUs)
		}
		return r, nil
	}
}

// pinned is the value of CUDA_VISIBLE_DEVICES.
func pinned(gpus []host.GPU) string {
	ids := make([]string, len(gpus))
	for i, g := range gpus {
		ids[i] = strconv.Itoa(g.Index) // much code reads numbers here
		if strings.HasPrefix(g.UUID, "MIG-") {
			ids[i] = g.UUID // a part of a GPU has no number
		}
	}
	return strings.Join(ids, ",")
}

// queues lists the queues of this machine, for the command line.
type queues struct{ reservations func() host.Room }

var _ cli.Queues = queues{}

func (q queues) Pause(queue string) error  { return q.reservations().Pause(queue) }
func (q queues) Resume(queue string) error { return q.reservations().Resume(queue) }

// Lines gives the requests of this machine's queues, with the nodes of a job together.
func (q queues) Lines() ([]cli.Line, error) {
	room := q.reservations()
	all, err := room.Look()
	if err != nil {
		return nil, err
	}
	paused, err := room.Paused()
	if err != nil {
		return nil, err
	}
	lines := map[string]*cli.Line{}
	line := func(queue string) *cli.Line {
		if lines[queue] == nil {
			lines[queue] = &cli.Line{Queue: queue, Claims: []cli.Claim{}}
		}
		return lines[queue]
	}
	for _, queue := range paused {
		line(queue).Paused = true
	}
	for _, c := range all {
		l := line(cmp.Or(c.Queue, host.DefaultQueue))
		i := slices.IndexFunc(l.Claims, func(o cli.Claim) bool { return o.Who == c.Label && o.Waits == !c.Holds })
		if i < 0 {
			nodes := max(c.Members, 1)
			l.Claims = append(l.Claims, cli.Claim{Who: c.Label, Waits: !c.Holds, Nodes: nodes, CPUs: c.Each.CPUs * float64(nodes),
				Memory: c.Each.Memory * int64(nodes), GPUs: c.Each.GPUs * nodes, Priority: c.Priority, Why: c.Why})
		}
	}
	var sorted []cli.Line
	for _, l := range lines {
		sorted = append(sorted, *l)
	}
	slices.SortFunc(sorted, func(a, b cli.Line) int { return cmp.Compare(a.Queue, b.Queue) })
	return sorted, nil
}
