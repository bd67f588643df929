// Package echo writes what programs print: byte for byte, in whole lines of several nodes,
// or made harmless for a terminal. It reads no logs.
// Proved by the scripts logs_* and run_*.
package echo

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/internal/record/screen"
	"github.com/drover-run/drover/job"
)

// Printer writes what programs print: stdout to stdout, stderr to stderr. One
// node's comes byte for byte. Of several nodes it comes in whole lines that begin
// with their node, "[1] epoch=3", so that two never share one.
//
// A file or pipe gets every byte. A terminal gets no byte of a program that acts on more
// than the program's own lines: control sequences are shown escaped, but for colours. Of
// a program that this command follows for the user that submitted it, those of progress
// bars work too, and all others are dropped (screen.TerminalFilter).
type Printer struct {
	Out, Err io.Writer
	Label    func(node int) string // nil: byte for byte
	rest     map[Source][]byte     // the beginning of a line that has not ended
	Fold     bool                  // of a progress bar, its last state alone
	Own      bool                  // the user's own program, which is followed
	Filters  map[Source]Filter     // of what a terminal shows; nil for other outputs
}

// Filter makes a stream of output harmless, piece by piece: screen.Escaper or
// screen.TerminalFilter.
type Filter interface {
	Next(dst, b []byte) []byte
}

// Source is a stream of a node in an attempt.
type Source struct {
	attempt, node int
	stream        string
}

// longLine is where a line is cut that does not end: a program may print none.
const longLine = 64 << 10

// NewPrinter prints for a job, or for some of its nodes.
func NewPrinter(spec job.Spec, nodes []int) *Printer {
	p := &Printer{Out: os.Stdout, Err: os.Stderr, rest: map[Source][]byte{}, Filters: map[Source]Filter{}}
	if spec.Nodes > 1 && len(nodes) != 1 {
		p.Label = func(node int) string {
			if node == 0 && spec.Launcher == job.MPI {
				return "" // mpiexec speaks for all of them there
			}
			return fmt.Sprintf("[%d] ", node)
		}
	}
	return p
}

func (p *Printer) outputFor(s Source) io.Writer {
	if s.stream == "stderr" {
		return p.Err
	}
	return p.Out
}

// Print writes the next piece of output.
func (p *Printer) Print(o drover.Output) error {
	s := Source{o.Attempt, o.Node, o.Stream}
	data := p.filteredText(s, o.Data)
	if p.Label == nil && !p.Fold {
		_, err := p.outputFor(s).Write(data)
		return err
	}
	p.Finish(func(old Source) bool { return old.node == o.Node && old.attempt < o.Attempt })
	label := p.linePrefix(o.Node)
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
		lines = append(append(lines, label...), p.foldedText(s, text[:i])...)
		if text[i-1] != '\n' && p.Label != nil {
			lines = append(lines, '\n')
		}
		text = text[i:]
	}
	p.rest[s] = text
	_, err := p.outputFor(s).Write(lines)
	return err
}

func (p *Printer) linePrefix(node int) string {
	if p.Label == nil {
		return ""
	}
	return p.Label(node)
}

func (p *Printer) foldedText(s Source, text []byte) []byte {
	if !p.Fold {
		return text
	}
	if text = screen.Fold(text); p.streamFilter(s) != nil {
		text = screen.Escape(text, true) // folding has to see the sequences, so it comes first
	}
	return text
}

// filteredText returns what may be written of the next piece of a stream.
func (p *Printer) filteredText(s Source, data []byte) []byte {
	if f := p.streamFilter(s); f != nil && !p.Fold {
		return f.Next(nil, data)
	}
	return data
}

// streamFilter returns the filter of a stream, or nil where its output is no terminal.
func (p *Printer) streamFilter(s Source) Filter {
	if f, ok := p.Filters[s]; ok {
		return f
	}
	var f Filter
	switch {
	case !terminal.IsTerminal(p.outputFor(s)):
	case p.Own:
		f = &screen.TerminalFilter{}
	default:
		f = &screen.Escaper{Colour: true, Return: true}
	}
	p.Filters[s] = f
	return f
}

// Finish prints what has begun and will not end.
func (p *Printer) Finish(which func(Source) bool) {
	for s, f := range p.Filters {
		if e, ok := f.(*screen.Escaper); ok && which(s) {
			if rest := e.Rest(); p.Label != nil {
				p.rest[s] = append(p.rest[s], rest...)
			} else {
				_, _ = p.outputFor(s).Write(rest)
			}
		}
	}
	for s, text := range p.rest {
		if which(s) && len(text) > 0 {
			end := "\n"
			if p.Label == nil {
				end = "" // it printed none
			}
			_, _ = fmt.Fprintf(p.outputFor(s), "%s%s%s", p.linePrefix(s.node), p.foldedText(s, text), end) // a reader that has left is noticed at the next write
			delete(p.rest, s)
		}
	}
}

// All is every source.
func All(Source) bool { return true }
