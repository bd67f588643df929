package engine

import (
	"github.com/drover-run/drover/report"
)

// progressOf is a plan's Watch for one of them; nil: it is not watched.
func (p *Plan) progressOf(what report.Sending) func(report.CopyProgress) {
	if p.Watch == nil {
		return nil
	}
	return func(now report.CopyProgress) { p.Watch(what, now) }
}
