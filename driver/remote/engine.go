package remote

import (
	"context"

	"github.com/drover-run/drover/driver"
)

// Engine is the control plane of a target, in its own words. No call has to be idempotent. An
// error of the kinds fault.Full, Denied and Invalid says that nothing was done; after any
// other error the call may have happened.
type Engine interface {
	// Submit starts the agents of a placement under a name that follows from its handle, and
	// gives the engine's ids of what it has started: one, or several. The processes of each id
	// have indexes from 0. Each process gets its claimant's id, index and attempt, and where
	// the store is, and calls Supervise.
	Submit(ctx context.Context, s Submission) (ids []string, err error)

	// Find gives the ids of everything that the engine has under a handle's name, oldest
	// first. What was submitted a moment ago may be missing.
	Find(ctx context.Context, h driver.Handle) (ids []string, err error)

	// Processes gives all processes of the ids, each attempt apart, also those that have ended.
	// An id that the engine has forgotten has none; one that it does not show yet is Waiting. An engine that tells attempts by
	// costly requests alone need not make them for attempts that are known; one that still has to make some of what was submitted makes nothing once
	// there is an order to stop, and says of it that Terminate has ended it.
	Processes(ctx context.Context, h driver.Handle, ids []string, k Known) ([]Process, error)

	// Terminate ends processes at once, also those that have not begun. It returns when the
	// request was delivered. What has ended is not touched.
	Terminate(ctx context.Context, h driver.Handle, p []Process) error

	// Remove takes away all that the engine keeps under a handle's name, once nothing of it
	// runs: ids, secrets, credentials. What is not there is not an error.
	Remove(ctx context.Context, h driver.Handle, ids []string) error

	// Held names what the engine has under names of drover's, whether it lives or not. Beside an error are the names that were read.
	Held(ctx context.Context) ([]driver.Handle, error)
}

// Known is what the records say of a placement, as far as they were read.
type Known struct {
	Up      []Claimant // those that have become agents
	Stopped bool       // there is an order to stop
}

// Submission is what an engine starts.
type Submission struct {
	Handle  driver.Handle
	Request driver.Request
	// Secrets are the values of the job's secrets by variable, for the engine's own store of
	// secrets: no other field of a request may hold one.
	Secrets map[string]string
	// Pass holds the credential with which an agent opens the store, a secret too; nil: none
	// is needed.
	Pass []byte
}

// Process is one attempt of one process of a submission, as the engine sees it.
type Process struct {
	Claimant
	State  driver.State
	Code   int    // its exit status, once ended; -1: not known
	Reason string // the engine's own words
	Hint   string // as in driver.Member
	Where  string // machine, for people; "": none yet
	Tail   string // the end of its output, as far as the engine kept it
	// Enter is the command that, typed on the caller's machine, runs the words after it on
	// the process's machine while the process runs; nil: there is no way. Program is the path
	// of drover there.
	Enter   []string
	Program string
	// Terminated is true when Terminate has ended the process, and nothing else has.
	Terminated bool
}

// Unsure is an error after which a Submit may have been done, with the words of cause.
func Unsure(cause error) error { return &unsure{cause} }

type unsure struct{ cause error }

func (u *unsure) Error() string { return u.cause.Error() }

// Undo is the error of a Submit that has failed with cause. Where the engine has refused it, undo first takes away what Submit had made, and
// says whether nothing is left: a refusal says that nothing was done. Else it may have been.
func Undo(cause error, undo func() bool) error {
	if Refused(cause) && !undo() {
		return Unsure(cause)
	}
	return cause
}
