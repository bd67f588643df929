package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/moby/moby/api/types/container"
	"golang.org/x/term"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// Status asks docker about every agent's container, and reads the agent's notes.
func (d *Driver) Status(ctx context.Context, h driver.Handle) ([]driver.Member, error) {
	const doing = "look at agents"
	dir, ok := d.placementFolder(h)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !ok {
		return nil, nil
	}
	facts, err := readRequest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, d.wrapFileError(doing, err)
	}
	gone, err := d.sweepPlacement(ctx, h, dir)
	if gone {
		return nil, nil
	}
	if err != nil {
		return nil, said(doing, err, fault.Lost)
	}
	members := make([]driver.Member, facts.Agents)
	for i := range members {
		if members[i], err = d.agentMember(ctx, h, dir, i); err != nil {
			return nil, said(doing, err, fault.Lost)
		}
	}
	if !folder.Exists(dir) {
		return nil, nil // removed meanwhile
	}
	return members, nil
}

// agentMember is the member for one agent.
func (d *Driver) agentMember(ctx context.Context, h driver.Handle, base string, i int) (driver.Member, error) {
	// In this order: the process that starts it holds the folder from before until after.
	starting := folder.IsHeld(base)
	c, err := d.daemon.inspectContainer(ctx, containerName(h, i))
	if err != nil {
		return driver.Member{}, err
	}
	if c != nil && c.Config.Labels[labelFolder] != d.dir {
		c = nil // it has that name, and belongs to something else
	}
	dir := agentDir(base, i)
	_, asked := folder.ReadWord(stopFile(dir))
	m := judge(c, heard(dir), asked, starting)
	m.Index, m.Where = i, "docker"
	if c != nil {
		m.Where = c.ID[:min(len(c.ID), 12)]
		m.Enter = enter(h, i, m.State)
	}
	if m.State == driver.Lost || m.State == driver.Ended && m.Code != 0 {
		m.Tail = folder.Tail(logFile(dir))
	}
	return m, nil
}

// enter is docker's own command, which passes on the terminal's size and keys; it asks for a
// terminal in the container if there is one here.
func enter(h driver.Handle, i int, s driver.State) []string {
	if s != driver.Running {
		return nil
	}
	keys := "-i"
	if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) {
		keys = "-it"
	}
	return append([]string{"docker", "exec", keys, containerName(h, i)}, h.Enter(program, i)...)
}

// judge gives the state of an agent: from what docker says of its container (nil: there is none),
// its notes, whether it was asked to stop, and whether a command is just starting it.
func judge(c *container.InspectResponse, n note, asked, starting bool) driver.Member {
	m := driver.Member{Code: -1}
	switch {
	case c != nil && runs(c.State.Status):
		m.State, m.Reason = driver.Running, unusual(c.State.Status)
		return m
	case n.End != nil:
		m.State, m.Code, m.Reason = driver.Ended, n.End.Code, n.End.Reason
		return m
	case c == nil || c.State.Status == container.StateCreated:
		return judgeUnstarted(m, c, n, asked, starting)
	}
	s := c.State
	switch {
	case asked:
		m.State, m.Reason = driver.Ended, "stopped"
	case s.OOMKilled && s.ExitCode == folder.KilledStatus:
		m.State, m.Code = driver.Ended, s.ExitCode
		m.Reason = "the container needed more memory than its limit"
		if host := c.HostConfig; host != nil && host.Memory > 0 {
			m.Reason += ", " + folder.Gigabytes(float64(host.Memory))
		}
	case s.Status == container.StateExited && s.ExitCode >= 0 && s.ExitCode < 128:
		m.State, m.Code, m.Reason = driver.Ended, s.ExitCode, s.Error
		if m.Reason == "" && !n.Up && n.Outcome == "" {
			m.Reason = "its container ended before the agent had started: docker logs shows why"
		}
	case s.Status == container.StateExited:
		m.State, m.Reason = driver.Lost, "it died without reporting why, or was killed"
	default:
		m.State, m.Reason = driver.Lost, "docker calls it "+string(s.Status)
	}
	switch {
	case n.Outcome != "":
		m.Reason += ": " + n.Outcome
	case s.ExitCode > 128 && m.State == driver.Lost:
		m.Reason += fmt.Sprintf(": exit status %d", s.ExitCode)
	}
	return m
}

// judgeUnstarted is judge for a container that has never run, or is not there.
func judgeUnstarted(m driver.Member, c *container.InspectResponse, n note, asked, starting bool) driver.Member {
	switch {
	case c == nil && n.Up: // it has run
		m.State, m.Reason = driver.Lost, "its container was removed"
		if asked {
			m.State, m.Reason = driver.Ended, "stopped"
		}
	case starting:
		m.State = driver.Waiting
	case asked:
		m.State, m.Reason = driver.Ended, "stopped"
	default:
		m.State, m.Reason = driver.Lost, "never started"
		if c != nil && c.State.Error != "" {
			m.Reason += ": " + c.State.Error
		}
	}
	return m
}

// runs says whether a container lives. A paused one does: this driver neither pauses nor resumes.
func runs(s container.ContainerState) bool {
	return s == container.StateRunning || s == container.StatePaused || s == container.StateRestarting
}

func unusual(s container.ContainerState) string {
	if s == container.StateRunning {
		return ""
	}
	return "docker calls it " + string(s)
}
