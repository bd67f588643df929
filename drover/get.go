package drover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/ledger"
)

// Got says what Get brought, and where it is.
type Got struct {
	Dir   string
	Parts []Part
	Notes []string // what a person should know: names that two nodes both wrote
}

// Part is one of the folders in Got.Dir.
type Part struct {
	Name  string // model, output, files, logs
	Path  string
	Files int
	Bytes int64
}

// layout is what Get brings, in the order in which it is told.
var layout = []string{"model", "output", "files"}

// Get brings the job's outputs into dir: model/, output/, files/ (what the
// program wrote beside itself) and logs/logs0, one for each node. Of a job that
// has not settled it brings what its newest attempt has stored. Files that an
// earlier Get has put there and that are not among them any more are removed;
// others are left alone.
func (j *Job) Get(ctx context.Context, dir string) (Got, error) {
	rep, err := j.look(ctx)
	if err != nil {
		return Got{}, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return Got{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Got{}, fault.Wrap(err, fault.Denied, "Choose another folder with -o.", "get outputs: make %s", dir)
	}
	was := readReceipt(dir)
	now := receipt{Job: rep.Path.String()}
	got := Got{Dir: dir}
	for _, name := range layout {
		part, notes, err := j.getPart(ctx, rep, dir, name, &now)
		if err != nil {
			return got, fmt.Errorf("get %s: %w", name, err)
		}
		got.Notes = append(got.Notes, notes...)
		if part.Path != "" {
			got.Parts = append(got.Parts, part)
		}
	}
	logs, err := j.getLogs(ctx, rep, dir, &now)
	if err != nil {
		return got, fmt.Errorf("get logs: %w", err)
	}
	got.Parts = append(got.Parts, logs)
	for _, name := range was.Files {
		if !slices.Contains(now.Files, name) {
			removeOurs(dir, name)
		}
	}
	return got, now.write(dir)
}

// getPart merges one output of all ranks into its folder. model and output are
// always there, as SageMaker's are; files only when there are some.
func (j *Job) getPart(ctx context.Context, rep ledger.Report, dir, name string, now *receipt) (Part, []string, error) {
	part := Part{Name: name, Path: filepath.Join(dir, name)}
	attempt := rep.Run.Attempt()
	if s := rep.Run.Settled; s != nil {
		attempt = s.Attempt
	}
	var merged bundle.Tree
	from := map[string]int{}
	var notes []string
	if attempt > 0 {
		exits, err := j.c.world.ExitsOf(ctx, j.path, rep.Run.Nodes, attempt)
		if err != nil {
			return part, nil, err
		}
		for rank := range rep.Run.Nodes {
			d, ok := exits[rank].Outputs[name]
			if !ok {
				continue
			}
			t, err := bundle.LoadTree(ctx, j.c.world.Store, d)
			if err != nil {
				return part, nil, err
			}
			notes = append(notes, merge(&merged, t, from, rank, name)...)
		}
	}
	part.Files, part.Bytes = len(merged.Files), merged.Bytes()
	if name == "files" && len(merged.Files)+len(merged.Links) == 0 {
		return Part{}, nil, nil
	}
	if err := os.MkdirAll(part.Path, 0o755); err != nil {
		return part, nil, err
	}
	for _, f := range merged.Files {
		now.Files = append(now.Files, name+"/"+f.Path)
	}
	for _, l := range merged.Links {
		now.Files = append(now.Files, name+"/"+l.Path)
	}
	return part, notes, bundle.Restore(ctx, j.c.world.Store, merged, part.Path)
}

// merge adds a rank's files. A name that another rank wrote with other contents
// keeps the lower rank's, and is named.
func merge(into *bundle.Tree, t bundle.Tree, from map[string]int, rank int, name string) (notes []string) {
	for _, f := range t.Files {
		other, taken := from[f.Path]
		if !taken {
			from[f.Path] = rank
			into.Files = append(into.Files, f)
			continue
		}
		i := slices.IndexFunc(into.Files, func(g bundle.File) bool { return g.Path == f.Path })
		if i >= 0 && into.Files[i].SHA256 != f.SHA256 {
			notes = append(notes, fmt.Sprintf("nodes %d and %d both wrote %s/%s: node %d's is here", other, rank, name, f.Path, other))
		}
	}
	for _, l := range t.Links {
		if _, taken := from[l.Path]; !taken {
			from[l.Path] = rank
			into.Links = append(into.Links, l)
		}
	}
	for _, d := range t.Dirs {
		if !slices.Contains(into.Dirs, d) {
			into.Dirs = append(into.Dirs, d)
		}
	}
	return notes
}

// getLogs writes what each node's program printed into logs/logsN.
func (j *Job) getLogs(ctx context.Context, rep ledger.Report, dir string, now *receipt) (Part, error) {
	part := Part{Name: "logs", Path: filepath.Join(dir, "logs")}
	if err := os.MkdirAll(part.Path, 0o755); err != nil {
		return part, err
	}
	for rank := range rep.Run.Nodes {
		name := fmt.Sprintf("logs%d", rank)
		n, err := j.getLog(ctx, filepath.Join(part.Path, name), rank)
		if err != nil {
			return part, err
		}
		part.Files++
		part.Bytes += n
		now.Files = append(now.Files, "logs/"+name)
	}
	return part, nil
}

func (j *Job) getLog(ctx context.Context, file string, rank int) (n int64, err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".logs-*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(tmp.Name()) // gone after the rename
	defer tmp.Close()
	for out, err := range j.Logs(ctx, LogOptions{Nodes: []int{rank}}) {
		if err != nil {
			return n, err
		}
		m, err := tmp.Write(out.Data)
		if err != nil {
			return n, err
		}
		n += int64(m)
	}
	if err := tmp.Chmod(0o644); err != nil {
		return n, err
	}
	if err := tmp.Close(); err != nil {
		return n, err
	}
	return n, os.Rename(tmp.Name(), file)
}

// receipt is kept in the folder, so that the next Get knows which files are
// ours to take away.
type receipt struct {
	Job   string   `json:"job"`
	Files []string `json:"files"`
}

const receiptName = ".drover.json"

func readReceipt(dir string) (r receipt) {
	b, err := os.ReadFile(filepath.Join(dir, receiptName))
	if err == nil {
		_ = json.Unmarshal(b, &r) // one that is damaged names nothing
	}
	return r
}

func (r receipt) write(dir string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, receiptName), append(b, '\n'), 0o644)
}

// removeOurs removes a file that an earlier Get wrote, and folders it leaves
// empty. Names are taken below dir only.
func removeOurs(dir, name string) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	for d := filepath.Dir(name); d != "." && d != "/" && filepath.Dir(d) != "."; d = filepath.Dir(d) {
		if root.Remove(d) != nil {
			return
		}
	}
}
