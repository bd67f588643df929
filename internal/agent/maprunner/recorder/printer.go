package recorder

import (
	"bytes"
	"io"
	"sync"

	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/redact"
)

// Printer records what programs print, each stream with its secrets taken out.
type Printer struct {
	out     *record.Writer
	redact  *redact.Redactor
	mu      sync.Mutex
	streams map[[2]int]*programStream // by slot and number
}

// programStream is one of the two streams of a slot's program.
type programStream struct {
	item   int
	writer io.WriteCloser // takes secrets out of what one item says; nil: there are none
	reader bytes.Reader
}

func NewPrinter(out *record.Writer, redact *redact.Redactor) *Printer {
	return &Printer{out: out, redact: redact, streams: map[[2]int]*programStream{}}
}

// PrintFrame records bytes of one stream (1 or 2) of a slot's program; item is 0 where it
// is not known.
func (p *Printer) PrintFrame(slot, number, item int, b []byte) {
	p.mu.Lock()
	s := p.streams[[2]int{slot, number}]
	if s == nil {
		s = &programStream{}
		p.streams[[2]int{slot, number}] = s
	}
	p.mu.Unlock()
	kind := record.Stdout
	if number == 2 {
		kind = record.Stderr
	}
	if p.redact == nil {
		s.reader.Reset(b)
		_, _ = p.out.Copy(kind, uint64(item), &s.reader)
		return
	}
	if s.writer != nil && s.item != item {
		_ = s.writer.Close()
		s.writer = nil
	}
	if s.writer == nil {
		s.item, s.writer = item, p.redact.Writer(framed{p.out, kind, uint64(item)})
	}
	_, _ = s.writer.Write(b)
}

// framed is an item's stream in the job's log.
type framed struct {
	out  *record.Writer
	kind record.Stream
	item uint64
}

func (f framed) Write(b []byte) (int, error) {
	_, _ = f.out.Copy(f.kind, f.item, bytes.NewReader(b))
	return len(b), nil
}
