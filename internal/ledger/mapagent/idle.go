package mapagent

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/store"
)

// Idle agents put their name below idle/; an owner with items to give writes the
// id of a chunk there that it has handed over for them. All of it are hints. An agent
// that has found work overwrites its name, as it has no right to delete.
func (m *handoffs) IdleKey(agent string) string {
	return protocol.JobDir(m.Inventory.Path) + "/idle/" + agent
}

// IdleFlagKey is an object that the first idle agent of a job makes. Until then each owner
// asks for it, in vain, instead of a listing of idle/: far away that costs a tenth, and
// for most of a job no agent is idle.
func (m *handoffs) IdleFlagKey() string { return protocol.JobDir(m.Inventory.Path) + "/idle-flag" }

func (m *handoffs) announceIdle(ctx context.Context) error {
	if m.announced {
		return nil
	}
	m.announced = true
	if err := m.Inventory.World.Store.Put(ctx, m.IdleKey(m.ID), []byte{}); err != nil || m.o.Near {
		return err
	}
	rung, err := m.IdleFlagIsSet(ctx)
	if err != nil || rung {
		return err
	}
	m.IdleFlagSeen = true
	return m.Inventory.World.Store.Put(ctx, m.IdleFlagKey(), []byte{})
}

// IdleFlagIsSet says whether any agent has been idle in this job.
func (m *handoffs) IdleFlagIsSet(ctx context.Context) (bool, error) {
	if m.IdleFlagSeen || m.o.Near {
		return true, nil
	}
	_, err := m.Inventory.World.ReadObject(ctx, m.IdleFlagKey(), protocol.MaxRecord)
	m.IdleFlagSeen = err == nil
	return m.IdleFlagSeen, ignoreAbsent(err)
}

func (m *handoffs) withdrawIdle(ctx context.Context) error {
	if !m.announced {
		return nil
	}
	m.announced = false
	return m.Inventory.World.Store.Put(ctx, m.IdleKey(m.ID), []byte(Busy))
}

// Busy is what stands below an agent's name that wants no work. No chunk is called so.
const Busy = "-"

// IdleAgents lists agents that wait for work: some of a page of them, each owner others. Of
// thousands of agents it asks for those that come after a seat by chance, and for two
// pages at most: all of them would be ten, and the first thousand are not all.
func (m *handoffs) IdleAgents(ctx context.Context) (agents []string, err error) {
	const enough = 16
	placed := 0
	for _, p := range m.Inventory.Map.Placed {
		placed += p.Agents
	}
	if placed == 1 {
		return nil, nil // there is no other agent
	}
	if rung, err := m.IdleFlagIsSet(ctx); err != nil || !rung {
		return nil, err
	}
	m.asked++
	dice := hash(fmt.Sprintf("%s %d", m.ID, m.asked))
	folder, from := protocol.JobDir(m.Inventory.Path)+"/idle/", ""
	if placed > OnePage {
		from = folder + m.agentPrefix(int(dice>>1)%placed)
	}
	listed := 0
	look := func(after, to string) error {
		for o, err := range m.Inventory.World.Store.ListAfter(ctx, folder, after, OnePage) {
			if err != nil {
				return fmt.Errorf("find idle agents: %w", err)
			}
			if to != "" && o.Key > to {
				break
			}
			if agent := path.Base(o.Key); o.Size == 0 && agent != m.ID {
				agents = append(agents, agent)
			}
			if listed++; listed == OnePage {
				break
			}
		}
		return nil
	}
	err = look(from, "")
	if err == nil && from != "" && listed < OnePage && len(agents) < enough {
		err = look("", from) // after the last seat come the first
	}
	if n := len(agents); n > 1 && from == "" {
		at := int(dice % uint32(n))
		agents = append(agents[at:], agents[:at]...)
	}
	return agents[:min(enough, len(agents))], err
}

// agentPrefix is how the id of the agent begins that was placed as the nth, from 0.
func (m *handoffs) agentPrefix(n int) string {
	for _, p := range m.Inventory.Map.Placed {
		if n < p.Agents {
			return fmt.Sprintf("%d-%d", p.Placement, n)
		}
		n -= p.Agents
	}
	return ""
}

func ignoreAbsent(err error) error {
	if errors.Is(err, store.ErrNotExist) {
		return nil
	}
	return err
}
