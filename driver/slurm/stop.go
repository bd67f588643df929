package slurm

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/beside"
)

// Stop leaves the word that all have to stop, with their grace, and has Slurm signal
// what runs and cancel what waits. The agents' minders keep the time, and look for the
// word by themselves too, so Stop does not wait and its caller may go.
//
// With remove, whoever next calls Status, List or Stop after the last agent has gone
// takes everything away.
func (d *Driver) Stop(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
	const doing = "stop agents"
	folder, ok := d.folder(h)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !ok {
		return nil
	}
	d.forget(h)
	facts, err := readRequest(folder)
	if err == nil && remove {
		err = beside.Touch(removeFile(folder))
	}
	var s *look
	if err == nil {
		s, err = d.survey(ctx, h, folder, facts, nil)
	}
	if err == nil && anyAlive(s.members) {
		if err = beside.LeaveWord(stopFile(folder), grace); err == nil {
			err = d.signal(ctx, folder, facts, s, grace)
		}
	}
	if err == nil && remove {
		_, err = d.sweep(ctx, h, folder)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var file *fs.PathError
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist) && !exists(folder):
		return nil // it was never there, or somebody else has removed it
	case errors.As(err, &file):
		return d.refused(doing, err)
	}
	return said(doing, err)
}

// signal has Slurm pass the word on. That a task has ended meanwhile is no error.
func (d *Driver) signal(ctx context.Context, folder string, facts request, s *look, grace time.Duration) error {
	jobs, err := readJobs(folder, facts)
	if err != nil {
		return err
	}
	var ids, live []string
	for _, j := range jobs {
		if j.ID > 0 {
			ids = append(ids, itoa(j.ID))
		}
	}
	for _, r := range s.rows {
		if runs(r.State) {
			name := itoa(r.Slurm)
			if r.Task >= 0 {
				name += "_" + itoa(r.Task)
			}
			live = append(live, name)
		}
	}
	if len(ids) == 0 {
		return nil // who submits now sees the word
	}
	calls := [][]string{append([]string{"--state=PENDING"}, ids...)}
	switch {
	case len(live) == 0:
	case facts.Gang && grace <= 0:
		calls = append(calls, []string{"--signal=KILL", live[0] + ".0"}) // its step, the script lets go of it
	case facts.Gang:
		calls = append(calls, append([]string{"--signal=TERM"}, live...)) // to its step
	default: // a minder that hears of no grace kills
		calls = append(calls, append([]string{"--signal=TERM", "--batch"}, live...))
	}
	for _, args := range calls {
		_, err := d.call(ctx, "scancel", append([]string{"--quiet"}, args...)...)
		var no *refusal
		if errors.As(err, &no) {
			continue // it has ended, or starts or ends just now: its minder looks for the word
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweep takes a placement away that is to be removed and whose agents have all gone.
func (d *Driver) sweep(ctx context.Context, h driver.Handle, folder string) (gone bool, err error) {
	facts, err := readRequest(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // somebody else was quicker
	}
	if err != nil {
		return false, err
	}
	s, err := d.survey(ctx, h, folder, facts, nil)
	if err != nil || anyAlive(s.members) {
		return false, err
	}
	lock, err := hold(folder)
	switch {
	case errors.Is(err, errHeld):
		return false, nil // a starter, or somebody who sweeps
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	}
	defer lock.Close()
	grave := filepath.Join(d.dir, beside.Going+rand.Text())
	if err := os.Rename(folder, grave); err != nil {
		return false, err
	}
	d.forget(h)
	os.RemoveAll(grave) // what is left, the next List takes
	return true, nil
}

// isHeld says whether somebody holds a placement. It looks with a shared lock: looks
// do not disturb each other.
func (d *Driver) isHeld(folder string) bool {
	f, err := os.Open(requestFile(folder))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(beside.Flock(f, unix.LOCK_SH), unix.EWOULDBLOCK)
}

// why makes a sentence of Slurm's reason for a task that waits, and says what to do.
func why(reason string) (sentence, hint string) {
	code, _, _ := strings.Cut(strings.Trim(reason, "()"), ",")
	code = strings.TrimSpace(code)
	for _, r := range reasons {
		if code == r.code || strings.HasSuffix(r.code, "*") && strings.HasPrefix(code, strings.TrimSuffix(r.code, "*")) {
			return r.sentence + " (" + code + ")", r.hint
		}
	}
	return "Slurm has it wait: " + reason, "squeue --start --me says when it may begin."
}
