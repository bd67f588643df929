package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/bundle/union"
	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/store"
)

// Under the rules of ssm all nodes share one state: each works on a copy of its own
// and saves that, and what they begin with is made of all copies
// (docs/design/008-the-seeds-rules.md).

// sharedState agrees with the other nodes on what all begin with.
func (s *rankState) sharedState(ctx context.Context, o runagent.Order) (protocol.Saved, error) {
	sweeps, err := removal.ReadSweeps(ctx, s.World)
	if err != nil {
		return protocol.Saved{}, err
	}
	var listing tree.Tree
	unite := func(all states.Shared) (d store.Digest, bytes int64, err error) {
		if listing, err = s.unitedState(ctx, all); err != nil || len(listing.Files)+len(listing.Links) == 0 {
			return "", 0, err
		}
		d, err = tree.PutTree(ctx, s.World.Store, listing)
		return d, listing.Bytes(), err
	}
	me := protocol.Begun{Job: s.Job.ID, Submission: s.Place, Attempt: o.Attempt, Agent: s.ID, Own: contract.Own(s.Job.Spec.Nodes)}
	complete := removal.Lasting(ctx, s.World, func(saved protocol.Saved) ([]store.Digest, bool, error) { return s.allBlobsExist(ctx, saved) })
	b, err := states.BeginShared(ctx, s.World, s.Path, me, s.stateSince(), complete, unite)
	if err != nil || b.State == "" {
		return protocol.Saved{}, err
	}
	if b.Agent != s.ID {
		return protocol.Saved{State: b.State}, s.awaitList(ctx, b.State)
	}
	need := func() ([]store.Digest, error) {
		all := []store.Digest{b.State}
		for _, f := range listing.Files {
			all = append(all, f.SHA256)
		}
		return all, nil
	}
	return protocol.Saved{State: b.State}, sweeps.Assure(ctx, need, func(ctx context.Context, _ []store.Digest) error {
		_, err := tree.PutTree(ctx, s.World.Store, listing) // its files are named by the generations it was made of
		return err
	})
}

// unitedState is a state as one folder.
func (s *rankState) unitedState(ctx context.Context, all states.Shared) (tree.Tree, error) {
	var copies []union.Copy
	base := all.Copies(func(rank int, own string, list store.Digest) {
		copies = append(copies, union.Copy{Rank: rank, Own: own, List: list})
	})
	return union.Unite(ctx, s.World.Store, base, copies, contract.IsHost)
}

// awaitList waits for a list of files that another node has named: if gc has taken it
// in that moment, that node stores it again.
func (s *rankState) awaitList(ctx context.Context, d store.Digest) error {
	const most = 2 * time.Minute // gc's own time for one sweep is shorter
	clock := s.World.Store.Clock()
	for begin := clock.Boot(); ; {
		_, err := tree.LoadTree(ctx, s.World.Store, d)
		if !errors.Is(err, store.ErrNotExist) {
			return err
		}
		if clock.Boot()-begin > most {
			return fmt.Errorf("restore state: %w", err)
		}
		if err := clock.Sleep(ctx, nearPoll); err != nil {
			return err
		}
	}
}
