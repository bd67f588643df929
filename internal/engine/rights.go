package engine

import (
	"slices"

	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/internal/engine/programs"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// AgentRights are what agents need of a store: for the jobs of one task, or of all tasks of a
// project where the path has none. They are those of the protocol, of a supervisor on a machine
// that does not see the submitter's, and what fetches the program there.
func AgentRights(p job.Path) store.Rights {
	return protocol.AgentRights(p).With(remote.AgentRights(p)).With(store.Rights{Read: []string{programs.Prefix}})
}

// SubmitterRights are what a user needs that submits and looks after the jobs of a project.
func SubmitterRights(project string) store.Rights {
	own := []string{programs.Prefix}
	r := protocol.SubmitterRights(project).With(remote.SubmitterRights()).With(store.Rights{Write: own, Delete: own})
	r.Read = slices.DeleteFunc(r.Read, func(prefix string) bool { return prefix != "" }) // the protocol's "" is all
	return r
}
