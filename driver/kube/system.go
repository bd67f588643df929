package kube

import (
	"fmt"
	"runtime"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/nodes"
	"github.com/drover-run/drover/driver/kube/program"
	"github.com/drover-run/drover/fault"
)

// thisSystem is that of this program.
const thisSystem = runtime.GOOS + "/" + runtime.GOARCH

// pushAgent is the next step for agents that need an image of the agent.
const pushAgent = "Push an image of the agent with `drover image agent REGISTRY`, and name it: `--target-arg agent-image=REF`."

// systemKey is where the system of agents with these needs is noted.
func systemKey(s site, n driver.Needs) string {
	return fmt.Sprint(s, n.Where, n.Machine)
}

// noteSystem is the system that agents are for, such as linux/arm64, by the nodes that may be
// listed. Where none tells, it is this machine's, or from a machine without Linux linux/amd64.
func (d *Driver) noteSystem(s site, n driver.Needs, m nodes.Cluster) string {
	own := runtime.GOARCH
	if runtime.GOOS != "linux" {
		own = "amd64"
	}
	system := "linux/" + m.Arch(own, n)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.systems[systemKey(s, n)] = system
	return system
}

// systemOf is the system that noteSystem has found for such agents, if it has.
func (d *Driver) systemOf(s site, n driver.Needs) (system string, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	system, known = d.systems[systemKey(s, n)]
	return system, known
}

// findProgram finds the agent's program for a system on this machine.
func findProgram(b driver.Boot, system string) (program.Program, error) {
	path := b.Binary
	if system != thisSystem {
		if b.ProgramFile == nil {
			return program.Program{}, fault.New(fault.Missing, pushAgent,
				"start agents: there is no program for %s here", system)
		}
		var err error
		if path, err = b.ProgramFile(system); err != nil {
			return program.Program{}, err
		}
	}
	return program.Find(path, system, labelManaged, managedBy)
}
