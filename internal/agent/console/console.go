// Package console is what an engine shows of a job in its own console: that it has failed, and why, and archives of its outputs.
//
// It refuses to know which engines do so: a target says it (driver.Allocation). Its test proves it, and those of package agent.
package console

import (
	"os"
	"path/filepath"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/job"
)

// FailedStatus is the exit status by which an engine sees that the job has failed.
const FailedStatus = 1

// Console is one agent's part in it.
type Console struct {
	*node.Node
	failure string // why the job has failed; "": it has not, or another agent tells it
}

// NoteEnd keeps how the job has ended, if this agent is the one that the engine asks for it.
func (c *Console) NoteEnd(o runagent.Order) {
	if c.Machine.Failure != "" && o.Rank == 0 && o.Settled != nil && o.Settled.State == job.Failed {
		c.failure = o.Settled.Reason
	}
}

// Status is the exit status of an agent that has done its work.
func (c *Console) Status() int {
	if c.failure == "" {
		return 0
	}
	return FailedStatus
}

// StatusAfter is the exit status of an agent that leaves with a status, after its last look at the job: another process may have settled it.
func (c *Console) StatusAfter(o runagent.Order, status int) int {
	c.NoteEnd(o)
	return max(status, c.Status())
}

// Archived are the folders of outputs that stay when the agent ends, for the engine to store.
func (c *Console) Archived(p contract.Paths) []string {
	if !c.Machine.Archives || c.Job.Spec.Rules != job.SSM {
		return nil
	}
	return []string{p.Model, p.OutputData}
}

// WriteEnd tells the engine why the job has failed. It is the last thing that an agent writes, as it empties the folder of the
// file before.
func (c *Console) WriteEnd() error {
	if c.failure == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(c.Machine.Failure), 0o755); err != nil {
		return err
	}
	return os.WriteFile(c.Machine.Failure, []byte(c.failure), 0o644)
}
