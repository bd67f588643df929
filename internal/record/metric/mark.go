package metric

import (
	"bytes"
	"io"
	"time"
)

// MetricMark begins what a program says of its metrics by itself, to the end of the
// line: name=number pairs, and maybe step=N. It is the escape sequence OSC
// "drover;metric" BEL, which no terminal shows. The module for Python writes it.
const MetricMark = "\x1b]drover;metric\a"

var metricMark = []byte(MetricMark)

// extractMarked takes what a program says is a metric, whatever else is looked for: every
// name but those of steps.
func (e *Extractor) extractMarked(at time.Time, b []byte) {
	if e.redact != nil {
		b = []byte(e.redact.String(string(b)))
	}
	var where position
	for _, field := range bytes.Fields(b) {
		name, value, ok := bytes.Cut(field, []byte{'='})
		v, n, _ := number(value)
		if !ok || n == 0 || n < len(value) || len(name) > maxName || stepWords[string(name)] != noStep {
			continue
		}
		e.addPoint(at, name, v, where.readPosition(b, &e.epochs))
	}
}

// Unmarked is what a program prints without its marks. It is read by slices that are
// longer than a mark.
type Unmarked struct {
	In   io.Reader
	held []byte // the beginning of a mark, maybe
}

// Read reads at least once, and no more than it has to.
func (u *Unmarked) Read(b []byte) (int, error) {
	for {
		n := copy(b, u.held)
		u.held = u.held[:0]
		more, err := u.In.Read(b[n:])
		text := b[:n+more]
		for {
			i := bytes.Index(text, metricMark)
			if i < 0 {
				break
			}
			text = append(text[:i], text[i+len(metricMark):]...)
		}
		if err == nil {
			begun := beginning(text)
			u.held = append(u.held, text[len(text)-begun:]...)
			text = text[:len(text)-begun]
		}
		if len(text) > 0 || err != nil {
			return len(text), err
		}
	}
}

// beginning is the length of what text ends with and a mark begins with.
func beginning(text []byte) int {
	i := bytes.LastIndexByte(text[max(0, len(text)-len(metricMark)+1):], metricMark[0])
	if i < 0 {
		return 0
	}
	rest := text[max(0, len(text)-len(metricMark)+1)+i:]
	if !bytes.HasPrefix(metricMark, rest) {
		return 0
	}
	return len(rest)
}
