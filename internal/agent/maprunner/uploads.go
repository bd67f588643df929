package maprunner

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/agent/maprunner/upload"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/job"
)

// uploaded is a try with which the uploaders have done.
type uploaded struct {
	try *try
	err error // the store's
}

// uploads are the outputs of tries that wait to be stored, and what stores them.
type uploads struct {
	*shared
	storing      int   // tries with outputs that are being stored
	usualBytes   int64 // bytes that one leaves, lately
	waitingBytes int64 // bytes of these outputs
	stored       chan uploaded
	deadline     upload.Deadline
	uploader     upload.Uploader
	queue        *upload.Queue[try] // to the uploaders
}

func newUploads(s *shared) *uploads {
	u := &uploads{shared: s, stored: make(chan uploaded), queue: upload.NewQueue[try](),
		uploader: upload.Uploader{Store: s.World.Store, Job: s.Job.Path(), MaxStored: s.MaxStored, Disk: s.Job.Spec.Disk}}
	u.deadline.Open(s.life)
	return u
}

// uploaders is how many there are: a far store takes long and bears many at once.
func uploaders(slots int) int { return min(max(4, slots), 32) }

// runUploader is an uploader's life.
func (u *uploads) runUploader() {
	for {
		t := u.queue.Next(u.life.Done())
		if t == nil {
			return
		}
		err := u.uploadOutputs(t)
		select {
		case u.stored <- uploaded{t, err}:
		case <-u.life.Done():
			return
		}
	}
}

// acceptUploaded takes a try back from the uploaders.
func (a *attempts) acceptUploaded(s uploaded) error {
	a.uploads.storing--
	a.uploads.waitingBytes -= s.try.outputBytes
	if errors.Is(s.err, upload.ErrStopped) {
		a.Note(fmt.Sprintf("item %d: %v", s.try.Item, s.err))
		s.try.discarded = true // as if it had been ended: its chunk says so
		s.err = nil
	}
	if s.err != nil {
		return s.err
	}
	a.handInResult(s.try)
	return nil
}

// outputsOf is what a try has left.
func (u *uploads) outputsOf(t *try) upload.Outputs {
	return upload.Outputs{Item: t.Item, Try: t.Name, Dir: t.staging, Names: t.outs, Bytes: t.outputBytes}
}

// countWaiting counts a try's outputs among those that wait.
func (u *uploads) countWaiting(t *try) {
	t.outputBytes = u.outputsOf(t).Size()
	u.storing, u.waitingBytes = u.storing+1, u.waitingBytes+t.outputBytes
	if u.usualBytes == 0 {
		u.usualBytes = t.outputBytes
	}
	u.usualBytes += (t.outputBytes - u.usualBytes) / 16
}

// uploadRoom is how many bytes of outputs there is room for beside those that wait.
func (u *uploads) uploadRoom() int64 { return int64(job.FetchRoom(u.Job.Spec.Disk)) - u.waitingBytes }

// uploadOutputs stores the outputs of a try that succeeded, and takes its folder away. A
// success that has not left what it should, or more than it may, is a failure.
func (u *uploads) uploadOutputs(t *try) error {
	var err error
	if !t.discarded && !t.result.Failed {
		ctx, why := u.deadline.Context(), u.uploader.ExceedsLimit(u.outputsOf(t))
		if why == "" {
			err = u.retryWhileFull(ctx, func() (err error) {
				t.result.Outputs, why, err = u.uploader.Upload(ctx, u.outputsOf(t))
				return err
			})
		}
		if err != nil && errors.Is(context.Cause(ctx), upload.ErrStopped) {
			err = upload.ErrStopped
		}
		if t.result.Try = t.Name; why != "" {
			t.result.Failed, t.result.Code, t.result.Why = true, 1, u.Redact.String(recorder.OneLine(why))
			t.result.Outputs, t.result.Try = nil, ""
		}
	}
	if err := tree.RemoveAll(t.staging); err != nil {
		u.Log.Warn("folder stays", "err", err)
	}
	if err != nil && !errors.Is(err, upload.ErrStopped) {
		err = fmt.Errorf("store outputs of item %d: %w", t.Item, err)
	}
	return err
}
