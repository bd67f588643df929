package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

// printer writes what programs print: stdout to stdout, stderr to stderr. One
// node's comes byte for byte. Of several nodes it comes in whole lines that say
// whose they are, "[1] epoch=3", so that two never share one.
type printer struct {
	out, err io.Writer
	label    func(node int) string // nil: byte for byte
	rest     map[source][]byte     // the beginning of a line that has not ended
	fold     bool                  // of a progress bar, its last state alone
}

type source struct {
	attempt, node int
	stream        string
}

// longLine is where a line is cut that does not end: a program may print none.
const longLine = 64 << 10

// newPrinter prints for a job, or for some of its nodes.
func newPrinter(spec job.Spec, nodes []int) *printer {
	p := &printer{out: os.Stdout, err: os.Stderr, rest: map[source][]byte{}}
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
	if p.label == nil && !p.fold {
		_, err := p.to(s).Write(o.Data)
		return err
	}
	p.finish(func(old source) bool { return old.node == o.Node && old.attempt < o.Attempt })
	label := p.head(o.Node)
	var lines []byte
	text := append(p.rest[s], o.Data...)
	for {
		i := bytes.IndexByte(text, '\n') + 1
		if i == 0 && len(text) > longLine {
			i = len(text)
		}
		if i == 0 {
			break
		}
		lines = append(append(lines, label...), p.folded(text[:i])...)
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

func (p *printer) folded(text []byte) []byte {
	if !p.fold {
		return text
	}
	return record.Fold(text)
}

// finish prints what has begun and will not end.
func (p *printer) finish(which func(source) bool) {
	for s, text := range p.rest {
		if which(s) && len(text) > 0 {
			end := "\n"
			if p.label == nil {
				end = "" // it printed none
			}
			_, _ = fmt.Fprintf(p.to(s), "%s%s%s", p.head(s.node), p.folded(text), end) // who does not read on is found out by the next
			delete(p.rest, s)
		}
	}
}

// all is every source.
func all(source) bool { return true }

// closed says whether nobody reads on: drover run ... | head.
func closed(err error) bool { return errors.Is(err, syscall.EPIPE) }

// checkNodes refuses a node that a job does not have.
func (a *app) checkNodes(ctx context.Context, j *drover.Job, nodes []int) error {
	if len(nodes) == 0 {
		return nil
	}
	rec, err := j.Spec(ctx)
	if err != nil {
		return err
	}
	last := rec.Spec.Nodes - 1
	if i := slices.IndexFunc(nodes, func(n int) bool { return n < 0 || n > last }); i >= 0 {
		return fault.New(fault.Invalid, fmt.Sprintf("Its nodes are 0 to %d.", last), "read --node: job %s has no node %d", rec.Short, nodes[i])
	}
	return nil
}
