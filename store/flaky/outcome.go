package flaky

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// landing is the chance that a late write takes effect during a later call of its handle: so
// it does after the next few calls, and not at once.
const landing = 0.25

// outcome is the outcome of a write that a plan has drawn.
type outcome struct {
	name   string
	reach  bool  // the write is done
	err    error // the answer when the write succeeded; nil: its true result
	always bool  // err is the answer whatever the write's result: the reply was lost
}

// delayRequest delays a request: late ones may overtake it.
func (b *Bucket) delayRequest(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	b.applyLateWrites(ctx, false)
	return b.delayOnce(ctx)
}

func (b *Bucket) delayOnce(ctx context.Context) error {
	b.mu.Lock()
	var d time.Duration
	if b.plan.MaxDelay > 0 && b.drawFault("Delay", b.plan.Delay) {
		d = time.Duration(b.plan.Rand(int(b.plan.MaxDelay)))
	}
	b.mu.Unlock()
	if d == 0 {
		return nil
	}
	return b.clock.Sleep(ctx, d)
}

// drawFault draws whether one fault happens, and counts it. The caller holds mu.
func (b *Bucket) drawFault(name string, chance float64) bool {
	const parts = 1 << 20
	if chance <= 0 || float64(b.plan.Rand(parts)) >= chance*parts {
		return false
	}
	b.counts[name]++
	return true
}

func (b *Bucket) judgeWrite(r request) outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &b.plan
	switch {
	case b.drawFault("Busy", p.Busy):
		return outcome{name: "throttled", err: store.ErrBusy}
	case b.drawFault("LoseRequest", p.LoseRequest):
		return outcome{name: "request lost", err: store.ErrUnclear}
	case b.drawFault("LoseReply", p.LoseReply):
		return outcome{name: "reply lost", reach: true, err: store.ErrUnclear, always: true}
	case r.create && b.drawFault("Conflict", p.Conflict):
		return outcome{name: "conflict", err: store.ErrUnclear}
	case b.drawFault("Late", p.Late):
		b.late = append(b.late, r)
		return outcome{name: "time-out", err: store.ErrUnclear}
	case r.create && b.drawFault("Echo", p.Echo):
		return outcome{name: "sent twice", reach: true, err: store.ErrExists}
	case r.create && b.drawFault("FailSync", p.FailSync):
		return outcome{name: "sync failed", reach: p.Rand(2) == 0, err: store.ErrUnclear, always: true}
	case p.Room > 0 && b.used+int64(len(r.body)) > p.Room:
		b.counts["Room"]++
		return outcome{name: "write", err: fault.New(fault.Full, "", "no space left on device")}
	}
	b.used += int64(len(r.body))
	return outcome{reach: true}
}

func (b *Bucket) judgeDelete() outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.drawFault("Busy", b.plan.Busy):
		return outcome{name: "throttled", err: store.ErrBusy}
	case b.drawFault("LoseRequest", b.plan.LoseRequest):
		return outcome{name: "request lost", err: store.ErrUnclear}
	case b.drawFault("LoseReply", b.plan.LoseReply):
		return outcome{name: "reply lost", reach: true, err: store.ErrUnclear}
	}
	return outcome{reach: true}
}

// readLoss is the error of a read that gets no answer.
func (b *Bucket) readLoss(doing string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	why := ""
	switch {
	case b.drawFault("Busy", b.plan.Busy):
		why = "throttled"
	case b.drawFault("LoseRequest", b.plan.LoseRequest):
		why = "request lost"
	case b.drawFault("LoseReply", b.plan.LoseReply):
		why = "reply lost"
	default:
		return nil
	}
	return fmt.Errorf("%s%s: %s: %w", doing, b, why, store.ErrBusy)
}

// applyLateWrites does the late writes that are due. Their senders have returned, so no ctx
// stops them and no caller learns how they ended.
func (b *Bucket) applyLateWrites(ctx context.Context, all bool) {
	b.mu.Lock()
	var now []request
	// Two writes under way may change places: a chance is drawn for each.
	b.late = slices.DeleteFunc(b.late, func(r request) bool {
		due := all || float64(b.plan.Rand(100)) < landing*100
		if due {
			now = append(now, r)
		}
		return due
	})
	b.mu.Unlock()
	for _, r := range now {
		name := "Landed"
		if err := b.passWriteOn(context.WithoutCancel(ctx), r); err != nil {
			name = "Refused"
		}
		b.mu.Lock()
		b.counts[name]++
		b.mu.Unlock()
	}
}

func folder(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }

// believesAbsent says whether this handle still answers that key is absent.
func (b *Bucket) believesAbsent(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	since, known := b.absent[folder(key)][key]
	return known && b.clock.Boot()-since < b.plan.Absence && b.drawFault("StaleAbsent", b.plan.StaleAbsent)
}

// rememberAbsent remembers that key was absent when it was requested.
func (b *Bucket) rememberAbsent(key string, asked time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !errors.Is(err, store.ErrNotExist) || b.plan.StaleAbsent <= 0 {
		delete(b.absent[folder(key)], key)
		return
	}
	if b.absent[folder(key)] == nil {
		b.absent[folder(key)] = make(map[string]time.Duration)
	}
	b.absent[folder(key)][key] = asked
}

// shortenPage leaves out the end of a page. A page that says that there is more keeps an
// object, as the contract demands.
func (b *Bucket) shortenPage(page []store.Object, more bool) ([]store.Object, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(page) > 0 && b.drawFault("ShortList", b.plan.ShortList) {
		return page[:b.plan.Rand(len(page))], false
	}
	if len(page) > 0 && b.drawFault("StaleList", b.plan.StaleList) {
		last := page[len(page)-1]
		page = slices.DeleteFunc(page, func(store.Object) bool { return b.plan.Rand(2) == 0 })
		if len(page) == 0 && more {
			page = append(page, last)
		}
	}
	return page, more
}

// corruptByte changes one byte of what is read.
func (b *Bucket) corruptByte(r io.ReadCloser) (io.ReadCloser, error) {
	b.mu.Lock()
	off := b.plan.Corrupt <= 0
	b.mu.Unlock()
	if off {
		return r, nil
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(body) > 0 && b.drawFault("Corrupt", b.plan.Corrupt) {
		body[b.plan.Rand(len(body))] ^= 0x55
	}
	return io.NopCloser(bytes.NewReader(body)), nil
}
