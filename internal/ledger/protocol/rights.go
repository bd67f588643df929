package protocol

import (
	"slices"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// AgentRights are what agents need of a store: for the jobs of one task, or of
// all tasks of a project when p.Task is "". They read what is shared, what gc was
// about to take, and the other tasks of the project: their outputs may be
// inputs. They delete nothing: an attacker that breaks into one cannot take a fact away. Blobs,
// which all tasks share, they do not even replace.
func AgentRights(p job.Path) store.Rights {
	project := p.Project + "/"
	own := project
	if p.Task != "" {
		own += p.Task + "/"
	}
	return store.Rights{Read: []string{"blobs/", SweepDir + "/", project}, Create: []string{"blobs/"}, Write: []string{own}}
}

// SubmitterRights are what a user needs that submits and looks after the jobs of
// a project. The names of jobs and the trial of the store are open to all; "last"
// and "gc" look at the jobs of all projects, and gc deletes.
func SubmitterRights(project string) store.Rights {
	write := []string{"blobs/", "ids/", "probe/", SweepDir + "/", project + "/"}
	return store.Rights{Read: []string{""}, Write: write, Delete: slices.Clone(write)}
}
