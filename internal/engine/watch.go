package engine

import (
	"github.com/drover-run/drover/internal/transfer"
)

// Sending is what Submit sends.
type Sending int

// What a plan's Watch hears of.
const (
	OfItems  Sending = iota // files that items name
	OfInputs                // those of the input that is stored just now, of which some may be there
)

// progressOf is a plan's Watch for one of them; nil: it is not watched.
func (p *Plan) progressOf(what Sending) func(transfer.Progress) {
	if p.Watch == nil {
		return nil
	}
	return func(now transfer.Progress) { p.Watch(what, now) }
}
