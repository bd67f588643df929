package engine

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// spoken is a script reader that knows two words: N=3, and many.
func spoken(head []byte, n driver.Needs) (driver.Said, error) {
	said := driver.Said{Mark: "#X"}
	for line := range strings.Lines(string(head)) {
		for _, w := range strings.Fields(strings.TrimPrefix(line, "#X")) {
			switch {
			case !strings.HasPrefix(line, "#X "):
			case w == "three":
				said.Nodes = 3
			case w == "many":
				said.Many = fault.New(fault.Invalid, "Use drover map.", "read script: it is many")
			default:
				said.Args = append(said.Args, w, "detail="+n.Detail)
			}
		}
	}
	return said, nil
}

// spokenTo is a target that reads scripts.
func spokenTo(t driver.Opened, read driver.Script) driver.Opened {
	t.Script = read
	return t
}

// What a script says to its target is in the job, before what was typed, and the
// script is not asked again.
func TestAScriptSaysWhatItNeeds(t *testing.T) {
	d := newDesk(t)
	d.Drivers[mem.Name] = spokenTo(d.Drivers[mem.Name], spoken)
	d.Targets = map[string]job.Target{"mine": {On: mem.Name + "/big", Args: []string{"set"}}}
	d.write(map[string]string{"train.sh": "#!/bin/sh\n#X a three\n"})
	heard := make(chan driver.Request, 1)
	d.Drivers[mem.Name] = spokenTo(mem.Open(optional{listening{d.mem, heard}}), spoken)
	typed := map[string][]string{mem.Name: {"typed"}}
	p, err := d.Plan(t.Context(), job.Spec{Project: "demo", Program: "train.sh", On: "mine", TargetArgs: typed}, false)
	d.check(err)
	if diff := cmp.Diff(driver.Said{Mark: "#X", Args: []string{"a", "detail=big"}, Nodes: 3}, p.Said); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(typed[mem.Name], []string{"typed"}) {
		t.Errorf("the caller's own options are now %v", typed)
	}
	path, err := d.Submit(t.Context(), &p)
	d.check(err)
	d.write(map[string]string{"train.sh": "#!/bin/sh\n#X other\n"})
	_, err = d.other("cli-2").Attend(t.Context(), path)
	d.check(err)
	n := (<-heard).Needs
	if diff := cmp.Diff([]string{"set", "a", "detail=big", "typed"}, n.Args); diff != "" || n.Agents != 3 {
		t.Errorf("%d agents\n%s", n.Agents, diff)
	}
}

func TestWhatWasTypedStandsAgainstAScript(t *testing.T) {
	d := newDesk(t)
	d.Drivers[mem.Name] = spokenTo(d.Drivers[mem.Name], spoken)
	d.write(map[string]string{"train.sh": "#!/bin/sh\n#X three\n", "many.sh": "#!/bin/sh\n#X many\n", "plain.sh": "#!/bin/sh\ntrue\n"})
	plan := func(s job.Spec) (Plan, error) {
		s.Project = "demo"
		return d.Plan(t.Context(), s, false)
	}
	p, err := plan(job.Spec{Program: "train.sh", On: mem.Name, Nodes: 2})
	d.check(err)
	if diff := cmp.Diff(driver.Said{Mark: "#X", Left: []string{"--nodes=3: The command says 2."}}, p.Said); diff != "" || p.Spec.Nodes != 2 {
		t.Errorf("%d nodes\n%s", p.Spec.Nodes, diff)
	}
	p, err = plan(job.Spec{Program: "train.sh", On: mem.Name, Verb: job.Map, Items: job.Items{From: "1-4"}, Args: []string{"{}"}})
	d.check(err)
	if len(p.Said.Left) != 1 || p.Spec.Nodes != 1 || p.Spec.TargetArgs != nil {
		t.Errorf("a map has %d nodes, %+v", p.Spec.Nodes, p.Said)
	}
	d.check(p.Close())
	if _, err = plan(job.Spec{Program: "many.sh", On: mem.Name}); fault.Hint(err) != "Use drover map." {
		t.Errorf("an array is run: %v", err)
	}
	p, err = plan(job.Spec{Program: "many.sh", On: mem.Name, Verb: job.Map, Items: job.Items{From: "1-4"}, Args: []string{"{}"}})
	d.check(err)
	d.check(p.Close())
	p, err = plan(job.Spec{Program: "plain.sh", On: mem.Name})
	d.check(err)
	if diff := cmp.Diff(driver.Said{}, p.Said); diff != "" {
		t.Error(diff)
	}
	d.Drivers[mem.Name] = spokenTo(d.Drivers[mem.Name], nil)
	p, err = plan(job.Spec{Program: "train.sh", On: mem.Name})
	d.check(err)
	if p.Spec.Nodes != 1 {
		t.Errorf("on a target that reads nothing it has %d nodes", p.Spec.Nodes)
	}
}

// optional is a place that has options of its own, whatever they are.
type optional struct{ driver.Driver }

func (o optional) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	n.Args = nil
	return o.Driver.Offer(ctx, n)
}
