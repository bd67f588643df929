package maprunner

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/items/template"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// manifests finds what an item's number stands for: the job's manifest, or one that
// extended it.
type manifests struct {
	store   *store.Store
	job     job.Job
	args    []string // of the program, with placeholders
	sources []*itemSource
}

// itemSource is one manifest, and the command for its items.
type itemSource struct {
	*manifest.Reader
	command *template.Template
	format  string // lines, csv or jsonl
	fields  []string
	vars    []string // by field, the beginning of its variable; "": it has none
	fetches []int    // the fields that may name a file to fetch, or wholeItem; nil: nothing is fetched
	places  []string // of the manifest, then of the job's: the first that names a bucket opens it
}

// sourceOfItem is the source of item n.
func (h *manifests) sourceOfItem(ctx context.Context, m *chunks.Map, n int) (*itemSource, error) {
	for _, s := range h.sources {
		if s.First() <= n && n <= s.Last() {
			return s, nil
		}
	}
	list, first := m.Base, 1
	for _, x := range m.Extensions {
		if x.Fact.First <= n {
			list, first = x.Fact.Manifest, x.Fact.First
		}
	}
	r, err := manifest.OpenStored(ctx, h.store, list, first)
	if err != nil {
		return nil, err
	}
	spec := h.job.Spec
	t, err := template.Parse(h.args, template.TemplateOptions{Fields: list.Fields, Shell: spec.ByShell, Out: spec.Out})
	if err != nil {
		return nil, err
	}
	s := &itemSource{Reader: r, command: t, format: list.Format, fields: list.Fields, vars: variables(list.Fields, spec.Fetch)}
	if spec.Fetch {
		s.fetches = fetches(list.Fields, t.Fields())
		s.places = slices.Concat(list.Places, m.Base.Places)
	}
	h.sources = append(h.sources, s)
	return s, nil
}

// variables are what items' fields are called in their environment. A name that no
// shell can say, or that is taken, has none.
func variables(fields []string, fetch bool) []string {
	taken := map[string]bool{"": true, "N": true, "TRY": true, "FILE": fetch}
	vars := make([]string, len(fields))
	for i, name := range fields {
		name = strings.ToUpper(name)
		plain := !strings.ContainsFunc(name, func(r rune) bool {
			return (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_'
		})
		if plain && !taken[name] {
			taken[name] = true
			vars[i] = itemVariable + "_" + name + "="
		}
	}
	return vars
}

const (
	itemVariable = "DROVER_ITEM"
	fileVariable = "DROVER_ITEM_FILE"
	slotVariable = "DROVER_SLOT"
	// maxVariable is where a text is left out of the environment: Linux takes
	// 128 KiB with its name.
	maxVariable = 100 << 10
)

// tryCommand is the command of a try. What no program could be given is fault.Invalid.
func (c *mapRunner) tryCommand(ctx context.Context, t *try, it manifest.Item) (e proc.Errand, err error) {
	s, spec := t.chunk.source, &c.Job.Spec
	stored, files := s.providedFiles(it, t.share)
	told := it // what variables say: where its files are from, of those that were asked for
	if spec.Fetch {
		files = append(stored, files...)
	} else if told, err = s.itemWithStored(it, stored); err != nil {
		return e, err
	}
	named := s.itemWithFiles(it, files) // what its outputs are named by
	it = s.itemWithFiles(told, files)
	var places []string
	if len(spec.Out) > 0 {
		if t.outs, err = s.command.Outputs(named); err != nil {
			return e, err
		}
		if places, err = c.stageOutputs(ctx, t); err != nil {
			return e, err
		}
	}
	if spec.Stream {
		line, err := message(t, told, s, places, files)
		t.timeout = c.order.Timeout
		return proc.Errand{ID: t.id, Stdin: line, Timeout: t.timeout}, err
	}
	args, err := s.command.Fill(it, places)
	if err != nil {
		return e, err
	}
	tooLong := len(told.Text) > maxVariable && !spec.Stdin
	if tooLong && !s.command.Uses() {
		return e, fault.New(fault.Invalid, "", "run item %d: it is too long for a variable: use --stdin", it.N)
	}
	t.timeout = c.order.Timeout
	e = proc.Errand{ID: t.id, Path: c.prepared.Path, Timeout: t.timeout, Env: environ(t, s, told, places, files), Memory: int64(c.memoryOfTry(t))}
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

// environ are a try's own variables.
func environ(t *try, s *itemSource, it manifest.Item, places []string, files []provision) []string {
	env := make([]string, 0, 5+len(it.Fields)+len(files))
	if len(it.Text) <= maxVariable {
		env = append(env, itemVariable+"="+it.Text)
	}
	env = append(env, itemVariable+"_N="+strconv.Itoa(it.N), itemVariable+"_TRY="+strconv.Itoa(t.N))
	for i, value := range it.Fields {
		if i < len(s.vars) && s.vars[i] != "" && len(value) <= maxVariable && strings.IndexByte(value, 0) < 0 {
			env = append(env, s.vars[i]+value)
		}
	}
	if len(places) > 0 {
		env = append(env, "DROVER_OUT="+places[0])
	}
	for i, f := range files {
		if i == 0 {
			env = append(env, fileVariable+"="+f.file)
		}
		if f.field >= 0 && s.vars[f.field] != "" {
			env = append(env, strings.TrimSuffix(s.vars[f.field], "=")+"_FILE="+f.file)
		}
	}
	return env
}

// stagingName is the folder of all staged outputs, below the agent's.
const stagingName = "out"

// stageOutputs makes a folder for a try's outputs, and the folders that they lie in.
func (c *mapRunner) stageOutputs(ctx context.Context, t *try) (places []string, err error) {
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
func (c *mapRunner) removeStaged() {
	if err := tree.RemoveAll(filepath.Join(c.Root, stagingName)); err != nil {
		c.Log.Warn("folder stays", "err", err)
	}
}
