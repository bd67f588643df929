package job

import "slices"

// State is where a job stands.
type State string

// The states of a job. The first three are live, the next three have ended for
// good, and of the last two resume goes on.
const (
	Pending     State = "PENDING"     // accepted; no agent has joined yet
	Starting    State = "STARTING"    // agents are there and prepare
	Running     State = "RUNNING"     // the program runs
	Succeeded   State = "SUCCEEDED"   // every rank ended with 0, outputs are stored
	Failed      State = "FAILED"      // the program's own failure, or a limit
	Cancelled   State = "CANCELLED"   // a user asked for it
	Interrupted State = "INTERRUPTED" // stopped half-way, no agent is working on it: resume goes on
	Paused      State = "PAUSED"      // of a map: a user asked that nothing new begins; resume goes on
)

// moves is every legal change of a job's state, as a reader may see it. A job
// may be seen to skip states between two looks, never to take a step that is
// not a chain of these.
var moves = map[State][]State{
	Pending:     {Starting, Cancelled, Interrupted, Failed, Paused},
	Starting:    {Running, Pending, Interrupted, Failed, Cancelled, Paused},
	Running:     {Succeeded, Failed, Cancelled, Interrupted, Starting, Pending, Paused},
	Paused:      {Pending, Starting, Running, Interrupted, Cancelled, Failed, Succeeded},
	Interrupted: {Pending, Starting, Running, Cancelled, Failed, Succeeded},
}

// Settled says whether a job in this state can change no more.
func (s State) Settled() bool { return s == Succeeded || s == Failed || s == Cancelled }

// CanBecome says whether a reader that saw s may later see t.
func (s State) CanBecome(t State) bool {
	if s == t {
		return true
	}
	seen := []State{s}
	for i := 0; i < len(seen); i++ {
		for _, next := range moves[seen[i]] {
			if next == t {
				return true
			}
			if !slices.Contains(seen, next) {
				seen = append(seen, next)
			}
		}
	}
	return false
}

// Symbol is the sign beside a state, so that a state never shows by colour alone.
func (s State) Symbol() string {
	switch s {
	case Succeeded:
		return "✓"
	case Failed:
		return "✗"
	case Cancelled:
		return "–"
	case Interrupted:
		return "‖"
	case Paused:
		return "="
	case Running:
		return "●"
	}
	return "◌"
}
