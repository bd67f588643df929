package slurm

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/drover-run/drover/driver/slurm/commands"
)

// runCommand runs one of Slurm's commands, without a shell. The error's text is what the command
// printed to its standard error. It never waits longer than the driver's patience.
func (d *Driver) runCommand(ctx context.Context, name string, args ...string) (string, error) {
	return commands.Run(ctx, d.path, d.patience, commands.ClientEnv(os.Environ()), name, args...)
}

// queryJobs asks Slurm about jobs, by their ids or their names. Jobs that it does not know are left
// out.
func (d *Driver) queryJobs(ctx context.Context, by string, of ...string) ([]commands.Row, error) {
	args := []string{"--noheader", "--array", "--all", "--states=all", "--Format=" + commands.RowFields, by + "=" + strings.Join(of, ",")}
	out, err := d.runCommand(ctx, "squeue", args...)
	var no *commands.Refusal
	if errors.As(err, &no) && strings.Contains(no.Text, "Invalid job id") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return commands.ParseRows(out), nil
}

// accounted asks Slurm's accounting about jobs that slurmctld has forgotten; it gives none where
// accounting is off.
func (d *Driver) accounted(ctx context.Context, ids ...string) []commands.Row {
	out, err := d.runCommand(ctx, "sacct", "-X", "-P", "-n", "-j", strings.Join(ids, ","), "--format=JobID,State,ExitCode,NodeList,JobName")
	if err != nil {
		return nil
	}
	return commands.ParseAccounts(out)
}

// config is the part of slurm.conf that this driver needs.
type config struct {
	MaxArray int // the largest number of a task, and one
}

// configuration asks Slurm once; if it does not answer, Slurm's defaults are used.
func (d *Driver) configuration(ctx context.Context) (config, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conf != nil {
		return *d.conf, nil
	}
	out, err := d.runCommand(ctx, "scontrol", "show", "config")
	if err != nil {
		return config{}, err
	}
	c := config{MaxArray: 1001}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(name) == "MaxArraySize" {
			if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && n > 0 {
				c.MaxArray = n
			}
		}
	}
	d.conf = &c
	return c, nil
}
