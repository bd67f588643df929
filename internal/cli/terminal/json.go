package terminal

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/drover-run/drover/internal/record/screen"
)

// JSONPrinter prints values as JSON, one a line. Everything that --json shows goes through
// it: text of programs and of other users is in most values, and control characters that
// package json leaves as they are, such as U+009B and U+202E, act on the terminal that
// shows them. Here they are \u escapes, which say the same to a program.
type JSONPrinter struct {
	out io.Writer
	buf bytes.Buffer
	enc *json.Encoder
}

// NewJSON prints JSON to an output.
func NewJSON(out io.Writer) *JSONPrinter {
	p := &JSONPrinter{out: out}
	p.enc = json.NewEncoder(&p.buf)
	return p
}

// PlainHTML leaves <, > and & as they are, which results of programs often hold.
func (p *JSONPrinter) PlainHTML() *JSONPrinter {
	p.enc.SetEscapeHTML(false)
	return p
}

// Encode prints one value in one write.
func (p *JSONPrinter) Encode(v any) error {
	p.buf.Reset()
	if err := p.enc.Encode(v); err != nil {
		return err
	}
	_, err := p.out.Write(screen.EscapeJSON(p.buf.Bytes()))
	return err
}
