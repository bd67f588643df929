package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

// printer writes what programs print: stdout to stdout, stderr to stderr. One
// node's comes byte for byte. Of several nodes it comes in whole lines that say
// whose they are, "[1] epoch=3", so that two never share one.
//
// A file or pipe gets every byte. A terminal gets no byte of a program that acts on more
// than the program's own lines: control sequences are shown escaped, but for colours. Of
// a program that this command follows for the user who submitted it, those of progress
// bars work too, and all others are dropped (record.TerminalFilter).
type printer struct {
	out, err io.Writer
	label    func(node int) string // nil: byte for byte
	rest     map[source][]byte     // the beginning of a line that has not ended
	fold     bool                  // of a progress bar, its last state alone
	own      bool                  // the user's own program, which is followed
	filters  map[source]filter     // of what a terminal shows; nil for other outputs
}

// filter makes a stream of output harmless, piece by piece: record.Escaper or
// record.TerminalFilter.
type filter interface {
	Next(dst, b []byte) []byte
}

type source struct {
	attempt, node int
	stream        string
}

// longLine is where a line is cut that does not end: a program may print none.
const longLine = 64 << 10

// newPrinter prints for a job, or for some of its nodes.
func newPrinter(spec job.Spec, nodes []int) *printer {
	p := &printer{out: os.Stdout, err: os.Stderr, rest: map[source][]byte{}, filters: map[source]filter{}}
	if spec.Nodes > 1 && len(nodes) != 1 {
		p.label = func(node int) string {
			if node == 0 && spec.Launcher == job.MPI {
				return "" // mpiexec speaks for all of them there
			}
			return fmt.Sprintf("[%d] ", node)
		}
	}
	return p
}

func (p *printer) to(s source) io.Writer {
	if s.stream == "stderr" {
		return p.err
	}
	return p.out
}

func (p *printer) print(o drover.Output) error {
	s := source{o.Attempt, o.Node, o.Stream}
	data := p.filtered(s, o.Data)
	if p.label == nil && !p.fold {
		_, err := p.to(s).Write(data)
		return err
	}
	p.finish(func(old source) bool { return old.node == o.Node && old.attempt < o.Attempt })
	label := p.head(o.Node)
	var lines []byte
	text := append(p.rest[s], data...)
	for {
		i := bytes.IndexByte(text, '\n') + 1
		if i == 0 && len(text) > longLine {
			i = len(text)
		}
		if i == 0 {
			break
		}
		lines = append(append(lines, label...), p.folded(s, text[:i])...)
		if text[i-1] != '\n' && p.label != nil {
			lines = append(lines, '\n')
		}
		text = text[i:]
	}
	p.rest[s] = text
	_, err := p.to(s).Write(lines)
	return err
}

func (p *printer) head(node int) string {
	if p.label == nil {
		return ""
	}
	return p.label(node)
}

func (p *printer) folded(s source, text []byte) []byte {
	if !p.fold {
		return text
	}
	if text = record.Fold(text); p.filterOf(s) != nil {
		text = record.Escape(text, true) // folding has to see the sequences, so it comes first
	}
	return text
}

// filtered returns what may be written of the next piece of a stream.
func (p *printer) filtered(s source, data []byte) []byte {
	if f := p.filterOf(s); f != nil && !p.fold {
		return f.Next(nil, data)
	}
	return data
}

// filterOf returns the filter of a stream, or nil where its output is no terminal.
func (p *printer) filterOf(s source) filter {
	if f, ok := p.filters[s]; ok {
		return f
	}
	var f filter
	switch {
	case !isTerminal(p.to(s)):
	case p.own:
		f = &record.TerminalFilter{}
	default:
		f = &record.Escaper{Colour: true, Return: true}
	}
	p.filters[s] = f
	return f
}

// finish prints what has begun and will not end.
func (p *printer) finish(which func(source) bool) {
	for s, f := range p.filters {
		if e, ok := f.(*record.Escaper); ok && which(s) {
			if rest := e.Rest(); p.label != nil {
				p.rest[s] = append(p.rest[s], rest...)
			} else {
				_, _ = p.to(s).Write(rest)
			}
		}
	}
	for s, text := range p.rest {
		if which(s) && len(text) > 0 {
			end := "\n"
			if p.label == nil {
				end = "" // it printed none
			}
			_, _ = fmt.Fprintf(p.to(s), "%s%s%s", p.head(s.node), p.folded(s, text), end) // who does not read on is found out by the next
			delete(p.rest, s)
		}
	}
}

// all is every source.
func all(source) bool { return true }
