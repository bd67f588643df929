package process

import (
	"fmt"
	"os"
	"syscall"
)

// Identity names one process for ever: no other process, before or after, on
// this machine or another, has the same. It is kept as JSON.
type Identity struct {
	Boot      string // this start of the machine's kernel; "" where it cannot be known
	Namespace string // in which process numbers are counted; "": unknown
	PID       int
	Start     uint64 // when it began, in the system's own unit since its own origin; 0: unknown
}

// Self is the calling process.
func Self() Identity {
	id := Identity{Boot: Boot(), Namespace: namespace(), PID: os.Getpid()}
	if p, _, err := Find(id.PID); err == nil && p.PID == id.PID {
		id.Start = p.Start
	}
	return id
}

// Of is the process that bears a number now.
func Of(pid int) (Identity, error) {
	p, alive, err := Find(pid)
	if err == nil && !alive {
		err = syscall.ESRCH
	}
	if err != nil {
		return Identity{}, fmt.Errorf("find process %d: %w", pid, err)
	}
	return Identity{Boot: Boot(), Namespace: namespace(), PID: pid, Start: p.Start}, nil
}

// Lives says that the process of that number is the one that is meant, and has not
// ended. It is false where this process cannot tell.
func (id Identity) Lives() bool {
	gone, known := id.Gone()
	return known && !gone
}

// Gone says whether that process has ended. known is false where this process
// cannot tell: after another boot, in another PID namespace, or when the
// system hides that process. The caller then has to wait for other signs.
func (id Identity) Gone() (gone, known bool) {
	if id.Boot == "" || id.Namespace == "" || id.PID <= 0 || id.Start == 0 {
		return false, false
	}
	if id.Boot != Boot() || id.Namespace != namespace() {
		return false, false
	}
	p, alive, err := Find(id.PID)
	if err == nil {
		return !alive || p.Start != id.Start, true
	}
	// Not to be seen: either it is not there, or other users' are hidden.
	if syscall.Kill(id.PID, 0) == syscall.ESRCH {
		return true, true
	}
	return false, false
}
