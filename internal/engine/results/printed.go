package results

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/unit"
	"github.com/drover-run/drover/report"
)

const (
	// batchBytes and batchItems bound what is read from the logs at once, and so held.
	batchBytes = 16 << 20
	batchItems = 1000
	// inHead is how much of stdout stands in a result at least, if there is so much.
	inHead = 2 << 10
)

// inResult gives what a try printed to stdout, where its result holds all of that.
func inResult(t report.Try) (text string, all bool) {
	switch {
	case strings.Contains(t.Stdout, "\uFFFD") || strings.Contains(t.Tail, "\uFFFD"):
		return "", false // other bytes may have stood there
	case t.StdoutBytes <= int64(len(t.Stdout)+len(t.Tail)), t.Tail == "" && len(t.Stdout) < inHead:
		return t.Stdout + t.Tail, true
	}
	return "", false
}

// withWholeOutput completes the results that do not hold all that was printed.
func (x *Reader) withWholeOutput(ctx context.Context, results iter.Seq2[report.ItemResult, error]) iter.Seq2[report.ItemResult, error] {
	return func(yield func(report.ItemResult, error) bool) {
		var batch []report.ItemResult
		var bytes int64
		flush := func() bool {
			err := x.completeOutput(ctx, batch)
			for _, r := range batch {
				if !yield(r, err) || err != nil {
					return false
				}
			}
			batch, bytes = nil, 0
			return true
		}
		for r, err := range results {
			if err != nil {
				if flush() {
					yield(r, err)
				}
				return
			}
			if text, all := inResult(r.Try); all {
				r.Stdout, r.Tail, r.Cut = text, "", false
			} else if r.StdoutBytes > report.MaxStdout {
				r.Cut = true
			} else if r.Code != nil {
				r.Cut = true // until it is read
				bytes += r.StdoutBytes
			}
			if len(batch) == 0 && !r.Cut { // nothing waits
				if !yield(r, nil) {
					return
				}
				continue
			}
			if batch = append(batch, r); (bytes >= batchBytes || len(batch) >= batchItems) && !flush() {
				return
			}
		}
		flush()
	}
}

// completeOutput reads the outputs that are cut in a batch of results, in one pass over their logs.
func (x *Reader) completeOutput(ctx context.Context, batch []report.ItemResult) error {
	var wanted []printing
	for _, r := range batch {
		if r.Cut && r.StdoutBytes <= report.MaxStdout {
			wanted = append(wanted, printingOf(r.Item, r.Try))
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	texts, err := x.readPrinted(ctx, wanted)
	if err != nil {
		return err
	}
	for i := range batch {
		r := &batch[i]
		if text := texts[r.Item]; r.Cut && int64(len(text)) >= r.StdoutBytes && len(text) > 0 {
			r.Stdout, r.Tail, r.Cut = string(text), "", false
		}
	}
	return nil
}

// printing is a try with an output that is looked for in the logs.
type printing struct {
	item  int
	began time.Time
	bytes int64 // to stdout
}

func printingOf(item int, t report.Try) printing {
	began := time.Time{}
	if !t.Ended.IsZero() {
		began = t.Ended.Add(-time.Duration(t.Seconds * float64(time.Second)))
	}
	return printing{item, began, t.StdoutBytes}
}

// readPrinted reads what tries printed to stdout, by item, as far as it is stored. Tries of one
// item are told apart by the times of their frames; of a try that was lost before it was
// recorded there may be more.
func (x *Reader) readPrinted(ctx context.Context, wanted []printing) (map[int][]byte, error) {
	type found struct{ before, since []byte } // the try began
	of, all := map[int]printing{}, map[int]map[string]*found{}
	f := record.Filter{Streams: record.Stdout, Item: uint64(wanted[0].item)}
	for _, w := range wanted {
		of[w.item] = w
		f.Item, f.LastItem = min(f.Item, uint64(w.item)), max(f.LastItem, uint64(w.item))
	}
	for fr, err := range record.Read(ctx, x.session.World.Store, protocol.LogsPrefix(x.path), f) {
		if err != nil {
			return nil, fmt.Errorf("read output of items: %w", err)
		}
		w, is := of[int(fr.Item)]
		if !is {
			continue
		}
		writers := all[w.item]
		if writers == nil {
			writers = map[string]*found{}
			all[w.item] = writers
		}
		by := writers[fr.Writer]
		if by == nil {
			by = &found{}
			writers[fr.Writer] = by
		}
		if fr.Time.Before(w.began) {
			// Kept to its length: a clock may have been set.
			if by.before = append(by.before, fr.Data...); int64(len(by.before)) > 2*w.bytes {
				by.before = bytes.Clone(by.before[int64(len(by.before))-w.bytes:])
			}
			continue
		}
		by.since = append(by.since, fr.Data...)
	}
	texts := map[int][]byte{}
	for item, writers := range all {
		w := of[item]
		for _, by := range writers {
			text := by.since
			if missing := w.bytes - int64(len(text)); missing > 0 && len(text) > 0 && int64(len(by.before)) >= missing {
				text = slices.Concat(by.before[int64(len(by.before))-missing:], text)
			}
			if had := texts[item]; int64(len(had)) != w.bytes && (int64(len(text)) == w.bytes || len(text) > len(had)) {
				texts[item] = text
			}
		}
	}
	return texts, nil
}

// PrintInOrder writes to w what the items of a map printed to stdout, in the order of the
// items and nothing else: each item's when it and all those before it have ended, also when
// it failed. What programs that stay have answered is written as a line. It holds no more
// than some items at once, however long the first one takes: the rest is in the store.
func (x *Reader) PrintInOrder(ctx context.Context, w io.Writer, o report.PrintOptions) error {
	p := &inOrder{x: x, to: w, o: o, stream: x.rec.Spec.Stream, secrets: len(x.rec.Spec.Secrets) > 0, next: 1}
	for {
		over := false
		select {
		case <-o.Settled:
			over = true
		default:
		}
		if err := p.printRound(ctx, over); err != nil || over {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-o.Settled:
		case <-time.After(4 * x.session.PollInterval()):
		}
	}
}

// inOrder is one PrintInOrder.
type inOrder struct {
	x       *Reader
	to      io.Writer
	o       report.PrintOptions
	stream  bool
	secrets bool // lengths in results are those before secrets were taken out
	next    int  // item
	had     int  // how many had ended at the last round
	waited  time.Duration
}

var errNotYet = errors.New("the next item has not ended")

// printRound prints what can be printed now.
func (p *inOrder) printRound(ctx context.Context, over bool) error {
	r, err := p.x.view.Refresh(ctx)
	if err != nil {
		return err
	}
	ended := r.Tally.Items - r.Tally.Open()
	if ended == p.had && !over && p.waited == 0 {
		return nil
	}
	p.had = ended
	var batch []views.ItemReport
	var size int64
	err = p.x.view.EachFrom(ctx, p.next, func(r views.ItemReport) error {
		if !hasEnded(r.State) {
			if !over {
				return errNotYet
			}
			return nil // it will not end: it is left out
		}
		batch = append(batch, r)
		if _, all := inResult(p.tryOfReport(r)); !all {
			size += r.Result.Size
		}
		if size < batchBytes && len(batch) < batchItems {
			return nil
		}
		err := p.printItems(ctx, batch, over)
		batch, size = nil, 0
		return err
	})
	if err == nil || errors.Is(err, errNotYet) {
		err = p.printItems(ctx, batch, over)
	}
	if errors.Is(err, errNotYet) {
		return nil
	}
	return err
}

func hasEnded(s job.ItemState) bool {
	return s == job.ItemSucceeded || s == job.ItemFailed || s == job.ItemQuarantined || s == job.ItemCancelled
}

// tryOfReport is what counts of an item; of one that never ran nothing was printed.
func (p *inOrder) tryOfReport(r views.ItemReport) report.Try {
	if r.Result == nil {
		return report.Try{}
	}
	return TryOf(r.Agent, *r.Result)
}

// printItems prints items in order, up to the first with an output that is not stored yet.
func (p *inOrder) printItems(ctx context.Context, batch []views.ItemReport, over bool) error {
	var wanted []printing
	for _, r := range batch {
		if t := p.tryOfReport(r); !p.stream && t.StdoutBytes <= batchBytes {
			if _, all := inResult(t); !all {
				wanted = append(wanted, printingOf(r.N, t))
			}
		}
	}
	var texts map[int][]byte
	if len(wanted) > 0 {
		for {
			var err error
			if texts, err = p.x.readPrinted(ctx, wanted); err != nil {
				return err
			}
			if !over || !p.outputIsMissing(wanted, texts) || !p.mayWait() {
				break
			}
			if err := p.waitForMore(ctx); err != nil {
				return err
			}
		}
	}
	for _, r := range batch {
		if err := p.printItem(ctx, r, texts, over); err != nil {
			return err
		}
		p.next, p.waited = r.N+1, 0
	}
	return nil
}

// keptBytes is how much of an item's output the logs have in the end.
func (p *inOrder) keptBytes(bytes int64) int64 {
	if p.secrets {
		return min(bytes, 1)
	}
	return min(bytes, proc.DefaultMaxOutput)
}

func (p *inOrder) outputIsMissing(wanted []printing, texts map[int][]byte) bool {
	return slices.ContainsFunc(wanted, func(w printing) bool { return int64(len(texts[w.item])) < p.keptBytes(w.bytes) })
}

// patience is how long output is waited for that is not stored though its item has ended,
// once the job has: agents store what they have before they go.
const patience = 65 * time.Second

func (p *inOrder) mayWait() bool {
	return p.waited < patience && (!p.x.session.Near || p.waited < patience/10)
}

func (p *inOrder) waitForMore(ctx context.Context) error {
	d := 4 * p.x.session.PollInterval()
	p.waited += d
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// printItem prints one.
func (p *inOrder) printItem(ctx context.Context, r views.ItemReport, texts map[int][]byte, over bool) error {
	t := p.tryOfReport(r)
	text, all := inResult(t)
	switch {
	case p.stream:
		if text = t.Stdout; text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		_, err := io.WriteString(p.to, text)
		return err
	case all:
		_, err := io.WriteString(p.to, text)
		return err
	case t.StdoutBytes > batchBytes:
		return p.printLargeOutput(ctx, r.N, t, over)
	}
	stored := texts[r.N]
	if int64(len(stored)) < p.keptBytes(t.StdoutBytes) {
		if !over {
			p.waited += 1 // look again, though no other item has ended
			return errNotYet
		}
		p.noteCutOutput(r.N, int64(len(stored)), t.StdoutBytes)
	}
	_, err := p.to.Write(stored)
	return err
}

func (p *inOrder) noteCutOutput(item int, has, of int64) {
	if p.o.Note != nil && !p.secrets {
		p.o.Note(fmt.Sprintf("item %d printed %s bytes, and the first %s of them were kept", item, unit.Comma(int(of)), unit.Comma(int(has))))
	}
}

// printLargeOutput prints what is too much to hold, frame by frame, once all of it is stored.
func (p *inOrder) printLargeOutput(ctx context.Context, item int, t report.Try, over bool) error {
	w := printingOf(item, t)
	f := record.Filter{Streams: record.Stdout, Item: uint64(item), Since: w.began}
	for {
		sizes, best := map[string]int64{}, ""
		for fr, err := range record.Read(ctx, p.x.session.World.Store, protocol.LogsPrefix(p.x.path), f) {
			if err != nil {
				return fmt.Errorf("read output of item %d: %w", item, err)
			}
			if sizes[fr.Writer] += int64(len(fr.Data)); best == "" || sizes[fr.Writer] > sizes[best] {
				best = fr.Writer
			}
		}
		if sizes[best] < p.keptBytes(w.bytes) && !over {
			p.waited++
			return errNotYet
		}
		if sizes[best] < p.keptBytes(w.bytes) && p.mayWait() {
			if err := p.waitForMore(ctx); err != nil {
				return err
			}
			continue
		}
		if sizes[best] < w.bytes {
			p.noteCutOutput(item, sizes[best], w.bytes)
		}
		for fr, err := range record.Read(ctx, p.x.session.World.Store, protocol.LogsPrefix(p.x.path), f) {
			if err != nil {
				return fmt.Errorf("read output of item %d: %w", item, err)
			}
			if fr.Writer != best {
				continue
			}
			if _, err := p.to.Write(fr.Data); err != nil {
				return err
			}
		}
		return nil
	}
}
