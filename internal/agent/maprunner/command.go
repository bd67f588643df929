package maprunner

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/maprunner/source"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/proc"
)

// commands makes the commands of tries, and the folders for their outputs.
type commands struct {
	*shared
}

// tryCommand is the command of a try. What no program could be given is fault.Invalid.
func (c *commands) tryCommand(ctx context.Context, t *try, it manifest.Item) (e proc.SpawnCommand, err error) {
	s, spec := t.chunk.source, &c.Job.Spec
	var stored, files []source.ProvidedFile
	if t.share != nil {
		stored, files = s.ProvidedFiles(it, t.share.Files)
	}
	told := it // what variables say: where its files are from, of those that were asked for
	if spec.Fetch {
		files = append(stored, files...)
	} else if told, err = s.ItemWithStored(it, stored); err != nil {
		return e, err
	}
	named := s.ItemWithFiles(it, files) // what its outputs are named by
	it = s.ItemWithFiles(told, files)
	var places []string
	if len(spec.Out) > 0 {
		if t.outs, err = s.Command.Outputs(named); err != nil {
			return e, err
		}
		if places, err = c.stageOutputs(ctx, t); err != nil {
			return e, err
		}
	}
	if spec.Stream {
		line, err := s.Message(told, t.N, places, files)
		t.timeout = c.order.Timeout
		return proc.SpawnCommand{ID: t.id, Stdin: line, Timeout: t.timeout}, err
	}
	args, err := s.Command.Fill(it, places)
	if err != nil {
		return e, err
	}
	tooLong := len(told.Text) > source.MaxVariable && !spec.Stdin
	if tooLong && !s.Command.Uses() {
		return e, fault.New(fault.Invalid, "", "run item %d: it is too long for a variable: use --stdin", it.N)
	}
	t.timeout = c.order.Timeout
	e = proc.SpawnCommand{ID: t.id, Path: c.prepared.Path, Timeout: t.timeout, Env: s.Environ(told, t.N, places, files), Memory: int64(c.memoryOfTry(t))}
	e.Args = append(make([]string, 0, 1+len(args)), c.prepared.Name)
	if c.prepared.Name == "" {
		e.Args[0] = c.prepared.Path
	}
	e.Args = append(e.Args, args...)
	if spec.Stdin {
		if len(told.Text) >= proc.MaxStdin {
			return e, fault.New(fault.Invalid, "", "run item %d: its %d bytes are too long for standard input", it.N, len(told.Text))
		}
		e.Stdin = append(append(make([]byte, 0, len(told.Text)+1), told.Text...), '\n')
	}
	return e, nil
}

// stagingName is the folder of all staged outputs, below the agent's.
const stagingName = "out"

// stageOutputs makes a folder for a try's outputs, and the folders that they lie in.
func (c *commands) stageOutputs(ctx context.Context, t *try) (places []string, err error) {
	t.staging = filepath.Join(c.Root, stagingName, t.Name)
	err = c.retryWhileFull(ctx, func() error {
		places = places[:0]
		err := os.MkdirAll(filepath.Dir(t.staging), 0o700)
		if err == nil {
			err = os.Mkdir(t.staging, 0o700)
		}
		if errors.Is(err, fs.ErrExist) { // it began once, and its runner was lost
			if err = tree.RemoveAll(t.staging); err == nil {
				err = os.Mkdir(t.staging, 0o700)
			}
		}
		for _, name := range t.outs {
			place := filepath.Join(t.staging, filepath.FromSlash(name))
			folder := filepath.Dir(place)
			if strings.HasSuffix(name, "/") {
				folder = place
			}
			if err == nil && folder != t.staging {
				err = os.MkdirAll(folder, 0o755)
			}
			places = append(places, place)
		}
		if err != nil {
			return fault.Wrap(err, fault.Full, "Free some space, or set XDG_STATE_HOME to a folder with room.", "make folder for outputs")
		}
		return nil
	})
	return slices.Clip(places), err
}

// removeStaged removes what is left of staged outputs.
func (c *commands) removeStaged() {
	if err := tree.RemoveAll(filepath.Join(c.Root, stagingName)); err != nil {
		c.Log.Warn("folder stays", "err", err)
	}
}
