package gcs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/drover-run/drover/cloud/google"
)

// watch ends a request in which no byte has moved for d.
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	d      time.Duration
}

func newWatch(ctx context.Context, d time.Duration) *watch {
	w := &watch{d: d}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(d, func() { w.cancel(errStalled) })
	return w
}

func (w *watch) restartTimer() { w.timer.Reset(w.d) }
func (w *watch) pauseTimer()   { w.timer.Stop() }
func (w *watch) endWatch()     { w.timer.Stop(); w.cancel(nil) }

// stallReason returns the reason of the stall in place of the error that it caused.
func (w *watch) stallReason(err error) error {
	if errors.Is(context.Cause(w.ctx), errStalled) {
		return fmt.Errorf("%w for %v", errStalled, w.d)
	}
	return google.Bare(err)
}

// sending is the body of a request. The transport may go on reading it after an
// answer has come; wait says when it no longer does.
type sending struct {
	w      *watch
	closed chan struct{}

	mu   sync.Mutex // held while r is read
	r    io.Reader  // nil: closed
	left int64      // bytes not handed out yet
	err  error      // r's own
}

func (s *sending) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.r == nil:
		return 0, errors.New("body is closed")
	case s.err != nil:
		return 0, s.err
	case s.left == 0:
		return 0, io.EOF
	}
	s.w.restartTimer()
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	if err == io.EOF && s.left > 0 {
		err = fmt.Errorf("read body: %d bytes are missing: %w", s.left, io.ErrUnexpectedEOF)
	}
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

func (s *sending) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.r != nil {
		s.r = nil
		close(s.closed)
	}
	return nil
}

// waitClosed returns when the body is read no more. By then the request is over.
func (s *sending) waitClosed() {
	if s != nil {
		<-s.closed
	}
}

// watched is the body of an answer. The time counts only while a Read waits: a slow reader
// here is no slow server.
type watched struct {
	io.ReadCloser
	w    *watch
	body *sending
}

func (r *watched) Read(p []byte) (int, error) {
	r.w.restartTimer()
	n, err := r.ReadCloser.Read(p)
	r.w.pauseTimer()
	if err != nil && err != io.EOF {
		err = r.w.stallReason(err)
	}
	return n, err
}

func (r *watched) Close() error {
	r.w.endWatch() // before net/http reads the rest of a long body to use the connection again
	err := r.ReadCloser.Close()
	r.body.waitClosed()
	return err
}
