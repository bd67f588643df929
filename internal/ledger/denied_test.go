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
	w := World{Store: store.New(denied{mem.New()}, store.Options{}), Rand: rand.Reader}
	p := job.Path{Project: "p", Task: "t", Job: "abcd2345abcd2345"}
	j := job.Job{V: 1, ID: p.Job, Short: "abcd", Spec: job.Spec{Project: "p", Task: "t", Verb: job.Run, Program: "x", Nodes: 1}}
	all := func(Saved) (bool, error) { return true, nil }
	var said faulttest.Sayings
	for what, do := range map[string]func(ctx context.Context) error{
		"call":      func(ctx context.Context) error { _, err := w.Call(ctx, p, 1, 0, 0, "1-0-a", "true"); return err },
		"answer":    func(ctx context.Context) error { return w.Answer(ctx, p, 1, 0, 0, "1-0-a", 0) },
		"answer to": func(ctx context.Context) error { _, _, err := w.AnswerTo(ctx, p, 1, 0, 0); return err },
		"outputs": func(ctx context.Context) error {
			return w.NameOutputs(ctx, p, 1, 0, "1-0-a", map[string]store.Digest{})
		},
		"folders": func(ctx context.Context) error { _, err := w.Folders(ctx, p); return err },
		"tidy":    func(ctx context.Context) error { return w.Tidy(ctx, time.Now()) },
		"clock":   func(ctx context.Context) error { _, err := w.Now(ctx); return err },
		"version": func(ctx context.Context) error { return w.AddVersion(ctx, p, "data", Version{}, "cli-1") },
		"inputs": func(ctx context.Context) (err error) {
			for _, e := range w.Inputs(ctx, p) {
				err = e
			}
			return err
		},
		"load":   func(ctx context.Context) error { _, err := w.Load(ctx, p); return err },
		"look":   func(ctx context.Context) error { _, err := w.Look(ctx, p); return err },
		"newest": func(ctx context.Context) error { _, _, err := w.Newest(ctx, "p"); return err },
		"all":    func(ctx context.Context) error { _, err := w.All(ctx, "p"); return err },
		"remove": func(ctx context.Context) error { return w.Remove(ctx, p, 1, Place{}, "cli-1") },
		"state":  func(ctx context.Context) error { _, err := w.State(ctx, p, 0, all); return err },
		"put state": func(ctx context.Context) error {
			return w.PutState(ctx, p, 0, "cli-1", all, func(*Saved) {})
		},
		"shared":     func(ctx context.Context) error { _, err := w.Shared(ctx, p, all); return err },
		"put shared": func(ctx context.Context) error { return w.PutShared(ctx, p, "cli-1", "", 0) },
		"sweep": func(ctx context.Context) error {
			_, err := w.Sweep(ctx, "cli-1", Host{}, []store.Digest{store.Digest(strings.Repeat("ab", 32))}, time.Minute)
			return err
		},
		"sweeps":  func(ctx context.Context) error { _, err := w.Sweeps(ctx); return err },
		"task":    func(ctx context.Context) error { _, err := w.Task(ctx, p); return err },
		"name":    func(ctx context.Context) error { j := j; return w.NameJob(ctx, &j) },
		"propose": func(ctx context.Context) error { return w.Propose(ctx, j) },
		"submit":  func(ctx context.Context) error { _, _, err := w.Submit(ctx, j, "cli-1"); return err },
		"close":   func(ctx context.Context) error { return w.Close(ctx, p, "a") },
		"find":    func(ctx context.Context) error { _, err := w.Find(ctx, "abcd"); return err },
		"beat":    func(ctx context.Context) error { return w.Beat(ctx, p, Beat{Agent: "1-0-a"}) },
		"pause":   func(ctx context.Context) error { _, err := w.Pause(ctx, p, "cli-1", Paused{}); return err },
		"cancel":  func(ctx context.Context) error { _, err := w.Cancel(ctx, p, "cli-1", ""); return err },
		"census":  func(ctx context.Context) error { return w.NewCensus().Look(ctx) },
	} {
		err := do(t.Context())
		said.Error(what, err)
		if fault.KindOf(err) != fault.Denied || fault.Hint(err) != "Ask its owner." {
			t.Errorf("%s: %v", what, err)
		}
	}
	said.Compare(t, "denied")
}
