package engine

import (
	"github.com/drover-run/drover/internal/transfer"
)

// Sending is what Submit sends.
type Sending int

// What a plan's Watch hears of.
const (
	SendingItems  Sending = iota // files that items name
	SendingInputs                // those of the input that is stored just now, of which some may be there
)

// progressOf is a plan's Watch for one of them; nil: it is not watched.
func (p *Plan) progressOf(what Sending) func(transfer.CopyProgress) {
	if p.Watch == nil {
		return nil
	}
	return func(now transfer.CopyProgress) { p.Watch(what, now) }
}
