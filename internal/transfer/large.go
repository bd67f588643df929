package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/drover-run/drover/store"
)

const (
	// pieceSize is how much of a large object is asked for at once: a request's latency
	// (some 30 ms) is small beside its time, and what a run that is ended loses of an
	// object is at most perFile of them.
	pieceSize = 16 << 20
	// large is the size from which on an object comes in pieces.
	large = 2 * pieceSize
	// maxPieces is of one object: above 128 GiB pieces grow. S3 has up to 10,000 parts.
	maxPieces = 10_000
	mostGrown = 8192
	// perFile is how many pieces of one object come at once, and atOnce of all: a
	// connection to S3 carries less than 100 MB a second.
	perFile = 8
	atOnce  = 16
)

// errWhole says that an object has to come in one stream.
var errWhole = errors.New("it cannot be fetched in parts")

// fetchLarge brings an object in pieces, side by side, and goes on with what an earlier
// run has left of it.
func (d *down) fetchLarge(ctx context.Context, b bringing) (err error) {
	for range fetchTries {
		err = d.assembleOnce(ctx, b)
		again := errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrReplaced)
		if err == nil || !again || ctx.Err() != nil {
			break
		}
	}
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, store.ErrCorrupt) {
		// One stream is checked by the bucket, as far as it can be.
		return errWhole
	}
	return err
}

// assembleOnce is large, once.
func (d *down) assembleOnce(ctx context.Context, b bringing) error {
	w, err := d.from.Store.Look(ctx, b.Key)
	if err != nil {
		return gone(err, b.Key)
	}
	id := identity{From: d.from.Store.String(), Key: w.Key, Tag: w.Tag, Size: w.Size, Sum: w.Sum, Piece: w.Sum.Piece(d.pieceSize(w.Size))}
	p, err := d.own.openPart(id)
	if err != nil {
		return err
	}
	defer p.closeFiles()
	var brought, found atomic.Int64
	err = d.fetchPieces(ctx, p, w.Object, &brought, &found)
	if err == nil && !id.Sum.Holds(p.sums, id.Piece, id.Size) {
		err = fmt.Errorf("bring %q: its %s is not %s: %w", b.Key, id.Sum.Of, id.Sum.Text, store.ErrCorrupt)
	}
	if err == nil {
		err = d.publishFile(p.dir+"/data", b)
	}
	if err == nil {
		_ = d.own.in.RemoveAll(p.dir) // or the end does
		return nil
	}
	d.bytes.Add(-brought.Load())
	d.sameBytes.Add(-found.Load())
	if errors.Is(err, store.ErrReplaced) || errors.Is(err, store.ErrCorrupt) {
		_ = d.own.in.RemoveAll(p.dir)
	} else {
		d.own.keepPart(id, d.own.name+"/"+p.dir)
	}
	return err
}

// pieceSize is the size of the pieces of an object that is not divided yet.
func (d *down) pieceSize(size int64) int64 {
	if d.o.piece > 0 {
		return d.o.piece
	}
	const step = 1 << 20
	return max(pieceSize, (size/mostGrown+step-1)/step*step)
}

// fetchPieces brings all that are not here. It counts the bytes it brought, and those it
// found.
func (d *down) fetchPieces(ctx context.Context, p *part, o store.Object, brought, found *atomic.Int64) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(perFile, p.pieceCount()) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < p.pieceCount() && ctx.Err() == nil; i = next.Add(1) - 1 {
				select {
				case d.lanes <- struct{}{}:
				case <-ctx.Done():
					return
				}
				err := d.fetchPiece(ctx, p, o, i, brought, found)
				<-d.lanes
				if err != nil {
					stop(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// fetchPiece brings a piece, unless its bytes are here.
func (d *down) fetchPiece(ctx context.Context, p *part, o store.Object, i int64, brought, found *atomic.Int64) (err error) {
	off, n := p.pieceSpan(i)
	if told := p.recordedSum(i); told != nil {
		h := p.Sum.New()
		if _, err := io.Copy(h, stopped{ctx, io.NewSectionReader(p.data, off, n)}); err != nil {
			return err
		}
		if bytes.Equal(h.Sum(nil), told) {
			p.markWhole(i, told)
			d.sameBytes.Add(n)
			found.Add(n)
			return nil
		}
	}
	for range fetchTries {
		var sum []byte
		var came int64
		if sum, came, err = d.streamPiece(ctx, p, o, off, n); err == nil {
			brought.Add(n)
			return p.recordPiece(i, sum)
		}
		d.bytes.Add(-came)
		if !errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrReplaced) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// streamPiece writes n bytes of an object from off to their place.
func (d *down) streamPiece(ctx context.Context, p *part, o store.Object, off, n int64) (sum []byte, came int64, err error) {
	body, err := d.from.Store.OpenOf(ctx, o, off, n)
	if err != nil {
		return nil, 0, err
	}
	defer body.Close()
	h := p.Sum.New()
	came, err = d.copyCounted(ctx, io.MultiWriter(h, io.NewOffsetWriter(p.data, off)), body)
	if errors.Is(err, store.ErrNotExist) {
		err = fmt.Errorf("%w: %w", err, store.ErrReplaced)
	}
	if err == nil && came != n {
		err = fmt.Errorf("bring %q: %d bytes from %d came as %d: %w", o.Key, n, off, came, store.ErrBusy)
	}
	return h.Sum(nil), came, err
}
