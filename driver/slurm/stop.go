package slurm

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/driver/slurm/commands"
	"github.com/drover-run/drover/driver/slurm/records"
)

// Stop writes the grace for all agents into the stop file, and makes Slurm signal running tasks and
// cancel waiting ones. The agents' supervisors keep the time, and also read the file by themselves,
// so Stop does not wait and its caller may exit.
//
// With remove, the next Status, List or Stop after the last agent has ended removes everything.
func (d *Driver) Stop(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
	const doing = "stop agents"
	dir, ok := d.placementFolder(h)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !ok {
		return nil
	}
	d.forgetStatus(h)
	facts, err := records.ReadRequest(dir)
	if err == nil && remove {
		err = folder.Touch(folder.RemoveFile(dir))
	}
	var s *look
	if err == nil {
		s, err = d.readPlacement(ctx, h, dir, facts, nil)
	}
	if err == nil && folder.AnyAlive(s.members) {
		if err = folder.LeaveWord(records.StopFile(dir), grace); err == nil {
			err = d.signalAgents(ctx, dir, facts, s, grace)
		}
	}
	if err == nil && remove {
		_, err = d.sweepPlacement(ctx, h, dir)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var file *fs.PathError
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist) && !folder.Exists(dir):
		return nil // it was never there, or another process has removed it
	case errors.As(err, &file):
		return d.wrapFileError(doing, err)
	}
	return said(doing, err)
}

// signalAgents makes Slurm signal the agents. It is no error if a task has ended meanwhile.
func (d *Driver) signalAgents(ctx context.Context, dir string, facts records.Request, s *look, grace time.Duration) error {
	jobs, err := readJobs(dir, facts)
	if err != nil {
		return err
	}
	var ids, live []string
	for _, j := range jobs {
		if j.ID > 0 {
			ids = append(ids, records.Itoa(j.ID))
		}
	}
	for _, r := range s.rows {
		if commands.Runs(r.State) {
			name := records.Itoa(r.Slurm)
			if r.Task >= 0 {
				name += "_" + records.Itoa(r.Task)
			}
			live = append(live, name)
		}
	}
	if len(ids) == 0 {
		return nil // a Start that submits now sees the message
	}
	calls := [][]string{append([]string{"--state=PENDING"}, ids...)}
	switch {
	case len(live) == 0:
	case facts.Gang && grace <= 0:
		calls = append(calls, []string{"--signal=KILL", live[0] + ".0"}) // its step: its script survives
	case facts.Gang:
		calls = append(calls, append([]string{"--signal=TERM"}, live...)) // to its step
	default: // a supervisor that reads a grace of 0 kills
		calls = append(calls, append([]string{"--signal=TERM", "--batch"}, live...))
	}
	for _, args := range calls {
		_, err := d.runCommand(ctx, "scancel", append([]string{"--quiet"}, args...)...)
		var no *commands.Refusal
		if errors.As(err, &no) {
			continue // the task has ended, or is just starting or ending: its supervisor reads the file
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweepPlacement removes a placement that is to be removed, once all its agents have ended.
func (d *Driver) sweepPlacement(ctx context.Context, h driver.Handle, dir string) (gone bool, err error) {
	return folder.Sweep(dir, records.Hold, func() (bool, error) {
		facts, err := records.ReadRequest(dir)
		if err != nil {
			return false, err
		}
		s, err := d.readPlacement(ctx, h, dir, facts, nil)
		return err == nil && folder.AnyAlive(s.members), err
	}, func() error {
		d.forgetStatus(h)
		return folder.TakeAway(dir)
	})
}

// why makes a sentence of Slurm's reason why a task waits, and says what to do.
func why(reason string) (sentence, hint string) {
	code, _, _ := strings.Cut(strings.Trim(reason, "()"), ",")
	code = strings.TrimSpace(code)
	for _, r := range reasons {
		if code == r.code || strings.HasSuffix(r.code, "*") && strings.HasPrefix(code, strings.TrimSuffix(r.code, "*")) {
			return r.sentence + " (" + code + ")", r.hint
		}
	}
	return "Slurm makes it wait: " + reason, "squeue --start --me says when it may begin."
}
