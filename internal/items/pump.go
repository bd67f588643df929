package items

import (
	"context"
	"io"
)

// pump reads in a goroutine of its own, so that a pipe on which no process writes
// does not outlast ctx. There is no other way to leave a blocked read of
// standard input.
type pump struct {
	done  <-chan struct{} // the caller's ctx is done,
	cause func() error    // and why
	full  chan gulp
	free  chan []byte
	left  chan struct{} // closed by stop
	rest  []byte        // what Read has not given out yet,
	buf   []byte        // of this buffer
	err   error
}

// gulp is what one read gave.
type gulp struct {
	buf []byte
	n   int
	err error
}

func newPump(ctx context.Context, r io.Reader) *pump {
	p := &pump{
		done: ctx.Done(), cause: func() error { return context.Cause(ctx) },
		full: make(chan gulp), free: make(chan []byte, 2), left: make(chan struct{}),
	}
	for range cap(p.free) {
		p.free <- make([]byte, 128<<10)
	}
	go p.runReads(r)
	return p
}

func (p *pump) runReads(r io.Reader) {
	if f, is := r.(*lazyFile); is {
		defer func() { f.Close() }() // of what Read has opened
	}
	for {
		var buf []byte
		select {
		case buf = <-p.free:
		case <-p.left:
			return
		}
		n, err := r.Read(buf)
		select {
		case p.full <- gulp{buf, n, err}:
		case <-p.left:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read gives what the goroutine has read, or ctx's cause.
func (p *pump) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		if p.buf != nil {
			p.free <- p.buf
			p.buf = nil
		}
		if err := p.cause(); err != nil {
			return 0, err
		}
		select {
		case g := <-p.full:
			p.buf, p.rest, p.err = g.buf, g.buf[:g.n], g.err
		case <-p.done:
			return 0, p.cause()
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// stopReads has the goroutine leave as soon as its read returns.
func (p *pump) stopReads() { close(p.left) }

// while stops a long read when ctx is done.
func while(ctx context.Context, r io.Reader) io.Reader {
	return readFunc(func(b []byte) (int, error) {
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		return r.Read(b)
	})
}

type readFunc func(b []byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }
