// Package pace says how many tries are sent ahead to what runs them. It knows nothing but how long
// tries take. Proved by the tests of package maprunner.
package pace

import (
	"time"

	"github.com/drover-run/drover/job"
)

// Pace says how many tries a group is sent at once: of short ones so many that it
// never waits for the loop, of others as many as it has slots, for what waits in a
// runner cannot be handed to another agent.
type Pace struct {
	wall time.Duration // of a try, lately; 0: none has ended
}

const (
	shortTry   = 50 * time.Millisecond
	fastWindow = 128 // at 8,000 tries a second it lasts longer than a sync of the disk
)

// NoteWallTime takes in how long a try took.
func (p *Pace) NoteWallTime(wall time.Duration) {
	wall = max(wall, time.Microsecond)
	if p.wall == 0 {
		p.wall = wall
		return
	}
	p.wall += (wall - p.wall) / 16
}

// NoteSlowTries is said when tries turned out not to be short.
func (p *Pace) NoteSlowTries() { p.wall = max(p.wall, shortTry) }

// StreamWindow is ProcessWindow for programs that stay: what waits for them is given to them many
// at a time.
func (p *Pace) StreamWindow(slots int) int {
	if p.wall > 0 && p.wall < shortTry {
		return max(aheadLeast, min(aheadMost, int(time.Duration(slots)*aheadTime/p.wall)))
	}
	return 2 * slots
}

// aheadTime is several times the longest batch that a program is given (stream's
// patientTime), so that no slot waits while others are asked for.
const (
	aheadTime  = 250 * time.Millisecond
	aheadLeast = 128
	aheadMost  = 8192
)

// Risk is how many tries of programs that stay may be unrecorded: as many as end
// while the store is written to.
func Risk(s job.Spec) int {
	if s.Stream {
		return 2 * aheadMost
	}
	return 0
}

// ProcessWindow is how many tries a group of so many slots is sent at once.
func (p *Pace) ProcessWindow(slots int) int {
	if p.wall > 0 && p.wall < shortTry {
		return max(fastWindow, 4*slots)
	}
	return slots
}
