package echo

import (
	"io"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/internal/record/screen"
)

const (
	pageSize = 64 << 10
	// soonest is below what a person notices.
	soonest = 50 * time.Millisecond
)

// Page holds lines back to print many at once: a search may find a million. None waits
// for longer than soonest, so that a user that follows sees each line soon. Close prints the rest.
type Page struct {
	to io.Writer

	mu    sync.Mutex
	held  []byte
	timer *time.Timer // rings while something is held
	err   error       // what printing came to; it is kept
}

// NewPage returns a page in front of an output.
func NewPage(to io.Writer) *Page { return &Page{to: to} }

func (p *Page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) == 0 && p.err == nil {
		p.waitForPrint()
	}
	if p.held = append(p.held, b...); len(p.held) >= pageSize {
		p.printHeld()
	}
	return len(b), p.err
}

func (p *Page) waitForPrint() {
	if p.timer != nil {
		p.timer.Reset(soonest)
		return
	}
	p.timer = time.AfterFunc(soonest, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.printHeld()
	})
}

// printHeld prints what is held, which may be nothing. p.mu is held.
func (p *Page) printHeld() {
	if len(p.held) > 0 && p.err == nil {
		_, p.err = p.to.Write(p.held)
	}
	p.held = p.held[:0]
}

// Close prints what is held, and nothing later.
func (p *Page) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.printHeld()
	return p.err
}

// AppendShown appends a line as it was, but of a progress bar its last state. Where escape is
// true, as for lines that were searched and for a terminal, control sequences become visible.
func AppendShown(dst []byte, text string, escape bool) []byte {
	switch {
	case escape && printable(text), !escape && strings.IndexByte(text, '\r') < 0: // nearly all
		return append(dst, text...)
	case escape:
		return append(dst, screen.Escape(screen.Fold([]byte(text)), true)...)
	}
	return append(dst, screen.Fold([]byte(text))...)
}

// printable says that a text is plain ASCII.
func printable(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}
