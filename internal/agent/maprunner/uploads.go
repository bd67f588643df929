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

// uploaders is how many there are: a far store takes long and bears many at once.
func uploaders(slots int) int { return min(max(4, slots), 32) }

// runUploader is a uploader's life.
func (c *mapRunner) runUploader() {
	for {
		t := c.queue.Next(c.life.Done())
		if t == nil {
			return
		}
		err := c.uploadOutputs(t)
		select {
		case c.stored <- uploaded{t, err}:
		case <-c.life.Done():
			return
		}
	}
}

// acceptUploaded takes a try back from the uploaders.
func (c *mapRunner) acceptUploaded(s uploaded) error {
	c.storing--
	c.waitingBytes -= s.try.outputBytes
	if errors.Is(s.err, upload.ErrStopped) {
		c.Note(fmt.Sprintf("item %d: %v", s.try.Item, s.err))
		s.try.discarded = true // as if it had been ended: its chunk says so
		s.err = nil
	}
	if s.err != nil {
		return s.err
	}
	c.handInResult(s.try)
	return nil
}

// outputsOf is what a try has left.
func (c *mapRunner) outputsOf(t *try) upload.Outputs {
	return upload.Outputs{Item: t.Item, Try: t.Name, Dir: t.staging, Names: t.outs, Bytes: t.outputBytes}
}

// countWaiting counts a try's outputs among those that wait.
func (c *mapRunner) countWaiting(t *try) {
	t.outputBytes = c.outputsOf(t).Size()
	c.storing, c.waitingBytes = c.storing+1, c.waitingBytes+t.outputBytes
	if c.usualBytes == 0 {
		c.usualBytes = t.outputBytes
	}
	c.usualBytes += (t.outputBytes - c.usualBytes) / 16
}

// uploadRoom is how many bytes of outputs there is room for beside those that wait.
func (c *mapRunner) uploadRoom() int64 { return int64(job.FetchRoom(c.Job.Spec.Disk)) - c.waitingBytes }

// uploadOutputs stores the outputs of a try that succeeded, and takes its folder away. A
// success that has not left what it should, or more than it may, is a failure.
func (c *mapRunner) uploadOutputs(t *try) error {
	var err error
	if !t.discarded && !t.result.Failed {
		ctx, why := c.deadline.Context(), c.uploader.ExceedsLimit(c.outputsOf(t))
		if why == "" {
			err = c.retryWhileFull(ctx, func() (err error) {
				t.result.Outputs, why, err = c.uploader.Upload(ctx, c.outputsOf(t))
				return err
			})
		}
		if err != nil && errors.Is(context.Cause(ctx), upload.ErrStopped) {
			err = upload.ErrStopped
		}
		if t.result.Try = t.Name; why != "" {
			t.result.Failed, t.result.Code, t.result.Why = true, 1, c.Redact.String(recorder.OneLine(why))
			t.result.Outputs, t.result.Try = nil, ""
		}
	}
	if err := tree.RemoveAll(t.staging); err != nil {
		c.Log.Warn("folder stays", "err", err)
	}
	if err != nil && !errors.Is(err, upload.ErrStopped) {
		err = fmt.Errorf("store outputs of item %d: %w", t.Item, err)
	}
	return err
}
