// Package recorder is a map runner's output recorder: it records what the tries of items
// print, each frame with its item's number, and keeps the excerpts that results show. A
// Recorder takes the output of processes, a Printer that of programs that stay.
//
// It refuses to know how tries are started and what follows from their end. Proved by the
// tests of package maprunner: programs that print too much, secrets, broken letters.
package recorder

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/redact"
)

const (
	// MaxOutput is how much of each stream of a try is kept. One that prints more
	// has results that belong into a file.
	MaxOutput = proc.DefaultMaxOutput
	// HeadSize and TailSize are how much of stdout stands in a result.
	HeadSize = 2 << 10
	TailSize = 2 << 10
	// lastSize is what is kept of stderr, for the line that says why a try failed.
	lastSize = 1 << 10
	LineSize = 200
)

// CommandID is the id of a command that is a try of an item: serial makes it unique.
func CommandID(item int, serial uint32) uint64 { return uint64(item)<<32 | uint64(serial) }

// ItemOf is the item that a command is about.
func ItemOf(id uint64) uint64 { return id >> 32 }

// Excerpt is what a try printed, without secrets.
type Excerpt struct {
	Head, Tail string // of stdout; tail is what does not stand in head, and "" when some was not kept
	Last       string // line of stderr
	Final      bool   // of a failure: it is not worth another try
	Size       int    // of the answer of a program that stays
}

// Recorder records what the tries of a group print: each frame names its item. It
// waits when the store is slow, and the programs with it; the loop does not.
type Recorder struct {
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

func New(out *record.Writer, redact *redact.Redactor) *Recorder {
	return &Recorder{out: out, redact: redact, kept: map[uint64]*tryOutput{}}
}

// RecordBatch records the output in a batch, and gives what its ended tries have said.
func (s *Recorder) RecordBatch(batch []proc.Spawned) (all []Excerpt) {
	ends := 0
	for i := range batch {
		if batch[i].Kind == proc.SpawnedEnded {
			ends++
		}
	}
	if ends > 0 {
		all = make([]Excerpt, 0, ends)
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

func (s *Recorder) recordOutput(e *proc.Spawned) {
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
	s      *Recorder
	p      *tryOutput
	stream int
}

func (k redacted) Write(b []byte) (int, error) {
	k.s.recordAndKeep(k.p, k.stream, b)
	return len(b), nil
}

// recordAndKeep records bytes, and remembers those that a result shows.
func (s *Recorder) recordAndKeep(p *tryOutput, stream int, b []byte) {
	if len(b) == 0 {
		return
	}
	if stream == 2 {
		s.writeFrame(record.Stderr, ItemOf(p.id), b)
		p.last = ending(p.last, b, lastSize)
		return
	}
	s.writeFrame(record.Stdout, ItemOf(p.id), b)
	if room := HeadSize - len(p.head); room > 0 {
		n := min(room, len(b))
		p.head = append(p.head, b[:n]...)
		b = b[n:]
	}
	p.tail = ending(p.tail, b, TailSize)
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
func (s *Recorder) writeFrame(stream record.Stream, item uint64, b []byte) {
	s.reader.Reset(b)
	_, _ = s.out.Copy(stream, item, &s.reader)
}

// endOfTry is what a try has said in all.
func (s *Recorder) endOfTry(e *proc.Spawned) (all Excerpt) {
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
			s.writeFrame(record.Agent, ItemOf(p.id), []byte(note))
		}
	}
	all.Head = text(p.head)
	if !cut[0] {
		all.Tail = text(p.tail[max(0, len(p.tail)-TailSize):])
	}
	if len(p.last) > 0 {
		all.Last = lastLine(p.last[max(0, len(p.last)-lastSize):])
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
	return OneLine(text(b))
}

// OneLine makes a sentence fit into a result.
func OneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if len(s) > LineSize {
		s = strings.ToValidUTF8(s[:LineSize-3], "") + "..."
	}
	return strings.TrimSpace(s)
}

// Middle shortens a sentence in its middle: its end says what is wrong.
func Middle(text string) string {
	const half = LineSize/2 - 2
	if len(text) <= 2*half {
		return text
	}
	return text[:half] + "..." + text[len(text)-half:]
}
