package maprunner

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/drover-run/drover/internal/agent/maprunner/stream"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/redact"
)

const (
	// MaxOutput is how much of each stream of a try is kept. One that prints more
	// has results that belong into a file.
	maxOutput = proc.DefaultMaxOutput
	// headSize and tailSize are how much of stdout stands in a result.
	headSize = 2 << 10
	tailSize = 2 << 10
	// lastSize is what is kept of stderr, for the line that says why a try failed.
	lastSize = 1 << 10
	lineSize = 200
)

// report is a batch of a group's events with their output recorded.
type report struct {
	group    *slotGroup
	batch    []proc.Spawned
	told     []stream.Event // instead of batch, of programs that stay
	excerpts []excerpt      // by those of either that tell of an end
	gone     bool           // the runner is; nothing follows
	why      error          // of programs that stay: nothing can be run; nil: it was lost, or closed
}

// excerpt is what a try printed, without secrets.
type excerpt struct {
	head, tail string // of stdout; tail is what does not stand in head, and "" when some was not kept
	last       string // line of stderr
	final      bool   // of a failure: it is not worth another try
	size       int    // of the answer of a program that stays
}

// recorder records what the tries of a group print: each frame names its item. It
// waits when the store is slow, and the programs with it; the loop does not.
type recorder struct {
	out    *record.Writer
	redact *redact.Redactor
	kept   map[uint64]*tryOutput // of tries that have printed something
	spare  []*tryOutput
	reader bytes.Reader
}

// tryOutput is what is kept of a try that prints.
type tryOutput struct {
	id        uint64
	head      []byte
	tail      []byte // of what came behind head
	last      []byte // of stderr
	forwarded [2]int64
	redact    [2]io.WriteCloser // nil: there are no secrets, or the stream has said nothing
}

func newRecorder(out *record.Writer, redact *redact.Redactor) *recorder {
	return &recorder{out: out, redact: redact, kept: map[uint64]*tryOutput{}}
}

// recordEvents ends with the runner's events; then it closes done. The loop takes its
// reports until quit is closed.
func (s *recorder) recordEvents(g *slotGroup, events <-chan []proc.Spawned, quit <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	pass := func(r report) {
		select {
		case g.c.reports <- r:
		case <-quit:
		}
	}
	for batch := range events {
		pass(report{group: g, batch: batch, excerpts: s.recordBatch(batch)})
	}
	pass(report{group: g, gone: true})
}

// recordBatch records the output in a batch, and gives what its ended tries have said.
func (s *recorder) recordBatch(batch []proc.Spawned) (all []excerpt) {
	ends := 0
	for i := range batch {
		if batch[i].Kind == proc.SpawnedEnded {
			ends++
		}
	}
	if ends > 0 {
		all = make([]excerpt, 0, ends)
	}
	for i := range batch {
		switch e := &batch[i]; e.Kind {
		case proc.SpawnedOutput:
			s.recordOutput(e)
		case proc.SpawnedEnded:
			all = append(all, s.endOfTry(e))
		}
	}
	return all
}

func (s *recorder) recordOutput(e *proc.Spawned) {
	p := s.kept[e.ID]
	if p == nil {
		if n := len(s.spare); n > 0 {
			p, s.spare = s.spare[n-1], s.spare[:n-1]
			*p = tryOutput{head: p.head[:0], tail: p.tail[:0], last: p.last[:0]}
		} else {
			p = new(tryOutput)
		}
		p.id = e.ID
		s.kept[e.ID] = p
	}
	stream := e.Stream - 1
	p.forwarded[stream] += int64(len(e.Data))
	if s.redact == nil {
		s.recordAndKeep(p, e.Stream, e.Data)
		return
	}
	if p.redact[stream] == nil {
		p.redact[stream] = s.redact.Writer(redacted{s, p, e.Stream})
	}
	_, _ = p.redact[stream].Write(e.Data) // kept takes everything
}

// redacted is where the redacted output of a try goes.
type redacted struct {
	s      *recorder
	p      *tryOutput
	stream int
}

func (k redacted) Write(b []byte) (int, error) {
	k.s.recordAndKeep(k.p, k.stream, b)
	return len(b), nil
}

// recordAndKeep records bytes, and remembers those that a result shows.
func (s *recorder) recordAndKeep(p *tryOutput, stream int, b []byte) {
	if len(b) == 0 {
		return
	}
	if stream == 2 {
		s.writeFrame(record.Stderr, itemOf(p.id), b)
		p.last = ending(p.last, b, lastSize)
		return
	}
	s.writeFrame(record.Stdout, itemOf(p.id), b)
	if room := headSize - len(p.head); room > 0 {
		n := min(room, len(b))
		p.head = append(p.head, b[:n]...)
		b = b[n:]
	}
	p.tail = ending(p.tail, b, tailSize)
}

// ending appends b to what is kept of a stream's end, and keeps it short.
func ending(end, b []byte, size int) []byte {
	if len(b) >= size {
		return append(end[:0], b[len(b)-size:]...)
	}
	if over := len(end) + len(b) - 4*size; over > 0 {
		end = end[:copy(end, end[len(end)-size:])]
	}
	return append(end, b...)
}

// writeFrame records a frame. The writer refuses it only when it is closed, because the
// store is lost: then the job's items will run again.
func (s *recorder) writeFrame(stream record.Stream, item uint64, b []byte) {
	s.reader.Reset(b)
	_, _ = s.out.Copy(stream, item, &s.reader)
}

// endOfTry is what a try has said in all.
func (s *recorder) endOfTry(e *proc.Spawned) (all excerpt) {
	p := s.kept[e.ID]
	if p == nil {
		return all
	}
	delete(s.kept, e.ID)
	for _, w := range p.redact {
		if w != nil {
			_ = w.Close() // kept takes everything
		}
	}
	cut := [2]bool{e.Output[0] > p.forwarded[0], e.Output[1] > p.forwarded[1]}
	for i, stream := range []record.Stream{record.Stdout, record.Stderr} {
		if cut[i] {
			note := fmt.Sprintf("%s cut: the first %d of %d bytes are kept\n", stream, p.forwarded[i], e.Output[i])
			s.writeFrame(record.Agent, itemOf(p.id), []byte(note))
		}
	}
	all.head = text(p.head)
	if !cut[0] {
		all.tail = text(p.tail[max(0, len(p.tail)-tailSize):])
	}
	if len(p.last) > 0 {
		all.last = lastLine(p.last[max(0, len(p.last)-lastSize):])
	}
	if len(s.spare) < 64 {
		s.spare = append(s.spare, p)
	}
	return all
}

// text is what was printed as a result shows it: a letter that was cut in half at
// either end is replaced like all that is no UTF-8.
func text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// lastLine is the last line that says anything.
func lastLine(b []byte) string {
	b = bytes.TrimRight(b, " \t\r\n\x00")
	if i := bytes.LastIndexAny(b, "\r\n"); i >= 0 {
		b = b[i+1:]
	}
	return oneLine(text(b))
}

// oneLine makes a sentence fit into a result.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) > lineSize {
		s = strings.ToValidUTF8(s[:lineSize-3], "") + "..."
	}
	return strings.TrimSpace(s)
}
