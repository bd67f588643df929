package host

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/drover-run/drover/fault"
)

// Claim is one node's claim as Look finds it.
type Claim struct {
	Wish
	PID   int       `json:"pid"`
	Since time.Time `json:"since"` // when it came, by the clock of its process
	// Holds says that it was granted; Cores and GPUs, as CUDA_VISIBLE_DEVICES names
	// them, are then what it was given by name.
	Holds bool     `json:"holds"`
	Cores []int    `json:"cores,omitempty"`
	GPUs  []string `json:"gpus,omitempty"`
	// Place in the line of those that wait, over all queues, is from 1; 0 holds.
	Place int    `json:"place,omitempty"`
	Why   string `json:"why,omitempty"` // what it waits for; "": nothing, it is about to be granted
}

// Look lists the claims: those that hold, in the order in which they came, and
// then those that wait, in the order of the line. Of r only the folder counts.
// None is no error, and makes no folder.
func (r Room) Look() ([]Claim, error) {
	const doing = "list reservations of this machine"
	if _, err := os.Stat(r.Folder); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var l line
	err := r.behindGate(func(g *gate) (err error) {
		l, err = g.readLine()
		return err
	})
	if err != nil {
		return nil, r.faultOfClaim(context.Background(), err, doing)
	}
	var holding, waiting []Claim
	for _, e := range l.entries {
		c := Claim{Wish: e.Wish, PID: e.PID, Since: e.Since}
		if e.isWaiting() {
			v := l.judgeClaim(e)
			c.Place, c.Why = v.place, v.why
			waiting = append(waiting, c)
			continue
		}
		c.Holds, c.Cores = true, e.Parts[e.Part].Cores
		for _, d := range e.Parts[e.Part].GPUs {
			c.GPUs = append(c.GPUs, d.visibleName())
		}
		holding = append(holding, c)
	}
	slices.SortStableFunc(waiting, func(a, b Claim) int { return a.Place - b.Place })
	return append(holding, waiting...), nil
}

// behindGate does something while no other process does.
func (r Room) behindGate(do func(*gate) error) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), gatePatience,
		fault.New(fault.Full, "Look for a stopped drover: `ps -C drover -o pid,stat,args`.", "open %s: another process holds it", filepath.Join(r.Folder, gateFile)))
	defer cancel()
	g, err := r.openGate(ctx)
	if err != nil {
		return err
	}
	defer g.closeGate()
	return do(g)
}

// Pause keeps what waits in a queue, or comes to it, from being granted, until
// Resume, over restarts of the machine, too. What holds goes on.
func (r Room) Pause(queue string) error { return r.setPaused(queue, true) }

// Resume ends Pause. A queue that is not paused is no error.
func (r Room) Resume(queue string) error { return r.setPaused(queue, false) }

// Paused are the queues that are paused, by name.
func (r Room) Paused() ([]string, error) {
	queues, err := readPaused(r.Folder)
	if err != nil {
		return nil, r.faultOfClaim(context.Background(), err, "list paused queues")
	}
	return queues, nil
}

func (r Room) setPaused(queue string, paused bool) error {
	doing := "resume queue " + queue
	if paused {
		doing = "pause queue " + queue
	}
	err := r.makeFolder()
	if err == nil {
		err = r.behindGate(func(g *gate) error {
			queues, err := readPaused(r.Folder)
			if err != nil || slices.Contains(queues, queue) == paused {
				return err
			}
			if paused {
				queues = append(queues, queue)
			} else {
				queues = slices.DeleteFunc(queues, func(q string) bool { return q == queue })
			}
			if err := writePaused(r.Folder, queues); err != nil {
				return err
			}
			_ = g.announceChange() // see there
			return nil
		})
	}
	if err != nil {
		return r.faultOfClaim(context.Background(), err, doing)
	}
	return nil
}

// readPaused reads the names of the queues. They are in a file, not names of
// files: what a person types becomes no path.
func readPaused(folder string) (queues []string, err error) {
	data, err := os.ReadFile(filepath.Join(folder, pausedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if json.Unmarshal(data, &queues) != nil {
		return nil, nil // it was moved here whole, so a power cut has emptied it
	}
	slices.Sort(queues)
	return slices.Compact(queues), nil
}

// writePaused is called behind the gate. The file is whole at any moment.
func writePaused(folder string, queues []string) error {
	data, err := json.Marshal(queues)
	if err != nil {
		return err
	}
	next := filepath.Join(folder, pausedFile+".next")
	if err := os.WriteFile(next, append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(folder, pausedFile))
}
