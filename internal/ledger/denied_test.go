package ledger

import (
	"context"
	"crypto/rand"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// denied is a bucket that lets this user do nothing.
type denied struct{ *mem.Bucket }

var errDenied = fault.New(fault.Denied, "Ask its owner.", "ask the bucket: forbidden")

func (denied) Create(context.Context, string, io.ReadSeeker) error { return errDenied }
func (denied) Put(context.Context, string, io.ReadSeeker) error    { return errDenied }
func (denied) Delete(context.Context, string) error                { return errDenied }
func (denied) Get(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return nil, errDenied
}

func (denied) List(context.Context, string, string, int) ([]store.Object, bool, error) {
	return nil, false, errDenied
}

// Whatever is done with a store that denies it names what was to be done, keeps the
// store's own words, and its next step.
func TestWhatAStoreDeniesNamesWhatWasToBeDone(t *testing.T) {
	w := protocol.World{Store: store.New(denied{mem.New()}, store.Options{}), Rand: rand.Reader}
	p := job.Path{Project: "p", Task: "t", Job: "abcd2345abcd2345"}
	j := job.Job{V: job.Format, ID: p.Job, Short: "abcd", Spec: job.Spec{Project: "p", Task: "t", Verb: job.Run, Program: "x", Nodes: 1}}
	all := func(protocol.Saved) (bool, error) { return true, nil }
	var said faulttest.Sayings
	for what, do := range map[string]func(ctx context.Context) error{
		"call": func(ctx context.Context) error {
			_, err := runagent.PostCall(ctx, w, p, 1, 0, 0, "1-0-a", "true")
			return err
		},
		"answer":    func(ctx context.Context) error { return runagent.PostAnswer(ctx, w, p, 1, 0, 0, "1-0-a", 0) },
		"answer to": func(ctx context.Context) error { _, _, err := runagent.ReadAnswer(ctx, w, p, 1, 0, 0); return err },
		"outputs": func(ctx context.Context) error {
			return removal.NameOutputs(ctx, w, p, 1, 0, "1-0-a", map[string]store.Digest{})
		},
		"folders": func(ctx context.Context) error { _, err := removal.ListFolders(ctx, w, p); return err },
		"tidy":    func(ctx context.Context) error { return removal.RemoveProbes(ctx, w, time.Now()) },
		"clock":   func(ctx context.Context) error { _, err := removal.StoreTime(ctx, w); return err },
		"version": func(ctx context.Context) error {
			return tasks.AddVersion(ctx, w, p, "data", protocol.Version{}, "cli-1")
		},
		"inputs": func(ctx context.Context) (err error) {
			for _, e := range tasks.ListInputs(ctx, w, p) {
				err = e
			}
			return err
		},
		"load":   func(ctx context.Context) error { _, err := tasks.LoadJob(ctx, w, p); return err },
		"look":   func(ctx context.Context) error { _, err := views.ReadReport(ctx, w, p); return err },
		"newest": func(ctx context.Context) error { _, _, err := views.FindNewest(ctx, w, "p"); return err },
		"all":    func(ctx context.Context) error { _, err := views.ListJobs(ctx, w, "p"); return err },
		"remove": func(ctx context.Context) error { return removal.RemoveJob(ctx, w, p, 1, tasks.Place{}, "cli-1") },
		"state":  func(ctx context.Context) error { _, err := states.ReadState(ctx, w, p, 0, all); return err },
		"put state": func(ctx context.Context) error {
			return states.PutState(ctx, w, p, 0, "cli-1", all, func(*protocol.Saved) {})
		},
		"shared":     func(ctx context.Context) error { _, err := states.ReadShared(ctx, w, p, all); return err },
		"put shared": func(ctx context.Context) error { return states.PutShared(ctx, w, p, "cli-1", "", 0) },
		"sweep": func(ctx context.Context) error {
			_, err := removal.BeginSweep(ctx, w, "cli-1", protocol.Host{}, []store.Digest{store.Digest(strings.Repeat("ab", 32))}, time.Minute)
			return err
		},
		"sweeps":  func(ctx context.Context) error { _, err := removal.ReadSweeps(ctx, w); return err },
		"task":    func(ctx context.Context) error { _, err := tasks.ReadTask(ctx, w, p); return err },
		"name":    func(ctx context.Context) error { j := j; return tasks.NameJob(ctx, w, &j) },
		"propose": func(ctx context.Context) error { return tasks.ProposeJob(ctx, w, j) },
		"submit":  func(ctx context.Context) error { _, _, err := tasks.SubmitJob(ctx, w, j, "cli-1"); return err },
		"chunk": func(ctx context.Context) error {
			_, err := chunks.NewInventory(w, j, "a").ReadChunk(ctx, chunks.NewChunk("000000", protocol.Seed{Items: protocol.Spans{{1, 2}}}), nil)
			return err
		},
		"close": func(ctx context.Context) error { return tasks.CloseJob(ctx, w, p, "a") },
		"find":  func(ctx context.Context) error { _, err := tasks.FindJob(ctx, w, "abcd"); return err },
		"beat": func(ctx context.Context) error {
			return liveness.WriteHeartbeat(ctx, w, p, protocol.Heartbeat{Agent: "1-0-a"})
		},
		"pause": func(ctx context.Context) error {
			_, err := control.PauseMap(ctx, w, p, "cli-1", protocol.Paused{})
			return err
		},
		"cancel": func(ctx context.Context) error { _, err := control.CancelJob(ctx, w, p, "cli-1", ""); return err },
		"census": func(ctx context.Context) error { return removal.NewInventory(w).Look(ctx) },
	} {
		err := do(t.Context())
		said.Error(what, err)
		if fault.KindOf(err) != fault.Denied || fault.Hint(err) != "Ask its owner." {
			t.Errorf("%s: %v", what, err)
		}
	}
	said.Compare(t, "denied")
}
