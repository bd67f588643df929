package batch

import "github.com/drover-run/drover/driver/folder"

// readPlaces gives the queues in which this machine has started something.
func (e *engine) readPlaces() (all []site) {
	for _, line := range folder.ReadPlaces(e.state) {
		if at, err := parseSite(line); err == nil && at.queue != "" {
			all = append(all, at)
		}
	}
	return all
}

// notePlace adds one, before anything is started there.
func (e *engine) notePlace(at site) error { return folder.NotePlace(e.state, at.String()) }
