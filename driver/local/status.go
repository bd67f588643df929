package local

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
)

// Status looks at every agent's lock. Agents that another machine started, in a folder that both
// share, count as running until they have noted that they ended: the locks of that machine cannot
// be read from here.
func (d *Driver) Status(ctx context.Context, h driver.Handle) ([]driver.Member, error) {
	dir, ok := d.placementFolder(h)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !ok {
		return nil, nil
	}
	gone, err := d.sweepPlacement(dir)
	if gone || err != nil {
		return nil, err
	}
	members, err := d.readMembers(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // removed meanwhile
	}
	if err != nil {
		return nil, d.wrapFileError("look at agents", err)
	}
	letIn(h, dir, members)
	return members, nil
}

// letIn fills in, for the agents that run, the command that opens a shell beside their program.
func letIn(h driver.Handle, dir string, members []driver.Member) {
	facts, err := readRequest(dir)
	if err != nil || facts.Binary == "" {
		return // it was just removed, or an older drover started it
	}
	for i := range members {
		if members[i].PID > 0 {
			members[i].Enter = h.Enter(facts.Binary, members[i].Index)
		}
	}
}

func (d *Driver) readMembers(dir string) ([]driver.Member, error) {
	facts, err := readRequest(dir)
	if err != nil {
		return nil, err
	}
	members := make([]driver.Member, facts.Agents)
	for i := range members {
		held, n, err := look(agentFile(dir, i))
		if err != nil {
			return nil, err
		}
		_, err = os.Lstat(stopFile(dir, i))
		m := judge(held, n, err == nil)
		if facts.Machine != d.machine {
			m = judgeAfar(facts.Host, n)
		}
		m.Index, m.Where = i, facts.Host
		if m.State == driver.Lost || m.State == driver.Ended && m.Code != 0 {
			m.Tail = folder.Tail(logFile(dir, i))
		}
		members[i] = m
	}
	return members, nil
}

// judge gives the state of an agent: from whether its lock is held, its notes, and whether it was
// asked to stop.
func judge(held bool, n note, asked bool) driver.Member {
	m := driver.Member{Code: -1}
	switch {
	case held && n.Up == nil:
		m.State = driver.Waiting
	case held:
		m.State, m.PID = driver.Running, n.Up.PID
	case n.End != nil:
		m.State, m.Code, m.Reason = driver.Ended, n.End.Code, n.End.Reason
	case asked:
		m.State, m.Reason = driver.Ended, "stopped"
	case n.Up == nil:
		m.State, m.Reason = driver.Lost, "never started"
	default:
		m.State, m.Reason = driver.Lost, "it died without reporting why, or was killed"
	}
	if n.Outcome != "" && !m.State.Alive() && n.End == nil {
		m.Reason += ": " + n.Outcome
	}
	return m
}

// judgeAfar is judge for an agent of another machine.
func judgeAfar(host string, n note) driver.Member {
	if n.End != nil {
		return judge(false, n, false)
	}
	return driver.Member{State: driver.Running, Code: -1, Reason: "it was started on " + host + ", and only that machine knows whether it runs"}
}

func readRequest(dir string) (facts request, err error) {
	err = folder.ReadJSON(folder.RequestFile(dir), &facts)
	return facts, err
}
