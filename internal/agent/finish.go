package agent

import (
	"context"
	"fmt"
	"os"

	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/runs"
)

// archives are the files of output/, as SageMaker names them.
var archives = map[string]string{"model": "model.tar.gz", "output": "output.tar.gz"}

// assembleOutputs makes output/ from the attempt that settled names (R5). Any agent may, and
// what is there already is left alone; rank 0 does. A reader of the outputs goes
// to attempts/ as long as output/ is missing, so a failure here costs nothing
// but the archive.
func (a *agent) assembleOutputs(ctx context.Context, o runagent.Order) error {
	a.Heartbeats.ChangeNow(func(b *protocol.Heartbeat) { b.Phase = "leaving" })
	if o.Settled.Attempt == 0 || o.Rank != 0 || o.Attempt != o.Settled.Attempt {
		return nil
	}
	for name, file := range archives {
		if err := a.archiveOutput(ctx, o.Settled.Attempt, name, file); err != nil {
			a.Log.Warn("archive not made", "file", file, "err", err)
		}
	}
	return nil
}

// archiveOutput merges one output of all ranks into a tar.gz, by way of a file: a
// store wants to know what it is given.
func (a *agent) archiveOutput(ctx context.Context, attempt int, name, file string) error {
	trees, err := a.outputTrees(ctx, attempt, name)
	if err != nil || len(trees) == 0 {
		return err
	}
	tmp, err := os.CreateTemp(a.Own, "archive-*")
	if err != nil {
		return fmt.Errorf("make %s: %w", file, err)
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	collisions, err := tree.TarGz(ctx, a.World.Store, trees, tmp)
	if err != nil {
		return fmt.Errorf("make %s: %w", file, err)
	}
	for _, c := range collisions {
		a.Log.Warn("two nodes wrote the same name", "path", c.Path, "kept", c.Kept, "left", c.Left)
	}
	return a.World.Store.CreateFile(ctx, protocol.OutputPrefix(a.Path)+"/"+file, tmp)
}

// outputTrees are the lists of one output, by rank.
func (a *agent) outputTrees(ctx context.Context, attempt int, name string) ([]tree.Named, error) {
	exits, err := runs.ReadExits(ctx, a.World, a.Path, a.Job.Spec.Nodes, attempt)
	if err != nil {
		return nil, err
	}
	var trees []tree.Named
	for rank := range a.Job.Spec.Nodes {
		d, ok := exits[rank].Outputs[name]
		if !ok {
			continue
		}
		t, err := tree.LoadTree(ctx, a.World.Store, d)
		if err != nil {
			return nil, err
		}
		trees = append(trees, tree.Named{Name: fmt.Sprintf("node %d", rank), Tree: t})
	}
	return trees, nil
}
