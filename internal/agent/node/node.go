// Package node is what every part of an agent uses: what the agent was started with and what its machine
// knows, the job that it works for, its folder, and where its notes, records and heartbeats go. It
// decides nothing. Proved by the tests of package agent.
package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/launcher"
	"github.com/drover-run/drover/internal/agent/maprunner/stream"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/redact"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/secret"
)

// Node is what every part of an agent uses: what the agent was started with, the job
// that it works for, its folder, and where its notes, records and heartbeats go.
type Node struct {
	Config
	ID         string // the agent's, as heartbeats and entries name it
	Job        job.Job
	Place      int           // the job's submission number
	Poll       time.Duration // how often the job's log is read at least
	Own        string        // this agent's folder, which goes with it
	Root       string        // what the program has as "/": its opt/ml and state are in it; own, or the machine's
	Slots      int           // of a map: items at once
	Heartbeats *Heartbeats
	Out        *record.Writer

	Secrets map[string]string // values, by the name of their variable
	Redact  *redact.Redactor  // takes them out of all that is recorded

	Vanish context.CancelCauseFunc // ends all that waits for the store; with errRemoved
}

// LogNote writes one line of drover's own into the job's log.
func (n *Node) LogNote(format string, args ...any) { n.Out.Note(fmt.Sprintf(format, args...)) }

// CheckRemoved looks whether the job, or the whole store, was removed: then all that
// waits for the store ends, and nothing is written any more (E6).
func (n *Node) CheckRemoved(ctx context.Context) {
	if errors.Is(liveness.CheckExists(ctx, n.World, n.Path), liveness.ErrRemoved) {
		n.Vanish(ErrRemoved)
	}
}

// NewWriter makes a writer of records of one attempt.
func (n *Node) NewWriter(ctx context.Context, prefix string, attempt, rank int) (*record.Writer, error) {
	_, random, _ := strings.Cut(strings.TrimPrefix(n.ID, fmt.Sprintf("%d-", n.Placement)), "-")
	w, err := record.NewWriter(record.Options{Store: n.World.Store, Prefix: prefix,
		Attempt: attempt, Rank: rank, ID: random, Clock: n.World.Store.Clock(), Redact: n.Redact, Prompt: !n.IsMap(),
		OnError: func(err error) {
			n.Log.Warn("record not stored yet", "prefix", prefix, "err", err)
			n.CheckRemoved(ctx)
		}})
	if err != nil {
		return nil, err
	}
	w.Hurry(n.Machine.Near) // a lost agent takes what it has not stored with it
	return w, nil
}

// IsMap says whether the job is one.
func (n *Node) IsMap() bool { return n.Job.Spec.Verb == job.Map }

// CallerEnviron is what the program's environment begins with: what the caller has,
// without the folder the caller was in.
func (n *Node) CallerEnviron() []string {
	return slices.DeleteFunc(slices.Clone(n.Machine.Environ), func(kv string) bool {
		// A program that calls drover inside a job starts another one.
		return slices.ContainsFunc([]string{"PWD=", "OLDPWD=", "OMPI_", "PMIX_", "PMI_", "HYDI_", launcher.CallsVariable + "=",
			stream.Variable + "=", MarkVariable + "="},
			func(own string) bool { return strings.HasPrefix(kv, own) })
	})
}

// UsedDisk is what this agent and its program have written on the machine, in bytes: code,
// inputs, outputs and what the agent keeps itself.
func (n *Node) UsedDisk(ctx context.Context) (used int64) {
	used = FolderSize(ctx, n.Own)
	if n.Root == n.Own {
		return used
	}
	for _, top := range Owned {
		used += min(FolderSize(ctx, filepath.Join(n.Root, top)), math.MaxInt64-used)
	}
	return used
}

// FolderSize is the bytes of the files in a folder, holes and all, as they would be
// stored; a file with two names counts twice. What vanishes meanwhile, or may not be
// read, counts for nothing. It ends early with ctx.
func FolderSize(ctx context.Context, dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return fs.SkipAll
		}
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += min(info.Size(), math.MaxInt64-n)
			}
		}
		return nil
	})
	return n
}

// ErrRemoved is why storing ended when the job was removed: nothing is written for
// it any more, and the exit is not either (E6).
var ErrRemoved = errors.New("the job was removed")

// MaxStoredBytes is the most bytes that one of the program's folders may hold to be
// stored, holes and all: --disk, or the size of the file system that it lies on,
// which only holes and hard links can exceed. 0 is no limit.
func (n *Node) MaxStoredBytes() int64 {
	if disk := int64(n.Job.Spec.Disk); disk > 0 {
		return disk
	}
	if n.Machine.Disk > 0 {
		return n.Machine.Disk
	}
	var st syscall.Statfs_t
	if syscall.Statfs(n.Root, &st) != nil || st.Blocks > math.MaxInt64/uint64(max(st.Bsize, 1)) {
		return 0
	}
	return int64(st.Blocks) * int64(st.Bsize)
}

// SecretValues are what the target has brought, else what is here.
func (n *Node) SecretValues() (map[string]string, error) {
	brought := n.Machine.Secrets
	if brought == nil {
		return secret.Resolve(n.Job.Spec.Secrets, n.Machine.Environ, os.ReadFile)
	}
	values := map[string]string{}
	for name := range n.Job.Spec.Secrets {
		value, ok := brought[name]
		if !ok {
			return nil, fault.New(fault.Bug, "", "read secret %s: the target did not provide it", name)
		}
		values[name] = value
	}
	return values, nil
}

// NoteSecrets says which values are too short to be found in the output.
func (n *Node) NoteSecrets() {
	for _, name := range n.Redact.Short() {
		n.LogNote("secret %s is too short to be redacted from the output", name)
	}
}

// WithSecrets is the program's environment with its secrets, and without the
// variables that these were read from.
func (n *Node) WithSecrets(environ []string) []string {
	for name, ref := range n.Job.Spec.Secrets {
		if from, ok := strings.CutPrefix(ref, "env:"); ok && from != name {
			environ = without(environ, from)
		}
	}
	for name, value := range n.Secrets {
		environ = append(environ, name+"="+value)
	}
	return environ
}

func without(environ []string, name string) []string {
	var kept []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, name+"=") {
			kept = append(kept, kv)
		}
	}
	return kept
}

// RedactExit is an exit without secrets: reasons and traces are the program's words.
func (n *Node) RedactExit(e protocol.Exit) protocol.Exit {
	if n.Redact == nil {
		return e
	}
	e.Reason, e.Hint, e.Message, e.Trace = n.Redact.String(e.Reason), n.Redact.String(e.Hint), n.Redact.String(e.Message), n.Redact.String(e.Trace)
	for i, note := range e.Notes {
		e.Notes[i] = n.Redact.String(note)
	}
	return e
}

// MarkVariable says to the module that a line of metrics may begin with
// record.MetricMark: it is taken out again on its way to the log.
const MarkVariable = "DROVER_METRICS"

// Owned are the top folders of the contract that a view shows.
var Owned = []string{"/opt/ml", "/state"}
