package drover

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/ledger"
	"github.com/drover-run/drover/job"
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
// program wrote beside itself) and logs/logs0, one for each node. Files have the modes
// that the program gave them, less this process's umask, and no set-user-ID bits. Of a job that
// has not settled it brings what its newest attempt has stored. Files that an
// earlier Get has put there and that are not among them any more are removed;
// others are left alone.
//
// parts names what is wanted of model, output, files and logs; none: all. What an
// earlier Get has put there of other parts stays.
func (j *Job) Get(ctx context.Context, dir string, parts ...string) (Got, error) {
	wanted := func(name string) bool { return len(parts) == 0 || slices.Contains(parts, name) }
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
	trees := map[string]bundle.Tree{}
	for _, name := range layout {
		if !wanted(name) {
			continue
		}
		tree, collisions, err := j.c.engine.OutputsOf(ctx, rep, name)
		if err != nil {
			return got, fmt.Errorf("get %s: %w", name, err)
		}
		trees[name] = tree
		now.add(name, tree)
		for _, c := range collisions {
			got.Notes = append(got.Notes, fmt.Sprintf("%s and %s both wrote %s/%s: %s's is here", c.Kept, c.Left, name, c.Path, c.Kept))
		}
	}
	for rank := range rep.Run.Nodes {
		if wanted("logs") {
			now.Files = append(now.Files, fmt.Sprintf("logs/logs%d", rank))
		}
	}
	for _, name := range was.Files {
		if part, _, _ := strings.Cut(name, "/"); !wanted(part) {
			now.Files = append(now.Files, name)
		}
	}
	// The receipt is there before the first file: what an interrupted Get leaves is no
	// code of a later command, and the next Get's to take away.
	both := receipt{Job: now.Job, Files: slices.Concat(was.Files, now.Files)}
	if err := both.write(dir); err != nil {
		return got, fault.Wrap(err, fault.Denied, "Choose another folder with -o.", "get outputs: write into %s", dir)
	}
	// First of all, or a file of an earlier job could stand where a folder is to be.
	for _, name := range was.without(now) {
		removeOurs(dir, name)
	}
	for _, name := range layout {
		if !wanted(name) {
			continue
		}
		// model and output are always there, as SageMaker's are.
		optional := name == "files" || name == "model" && rep.Job.Spec.Verb == job.Process
		if t := trees[name]; optional && len(t.Files)+len(t.Links) == 0 {
			continue
		}
		part := Part{Name: name, Path: filepath.Join(dir, name), Files: len(trees[name].Files), Bytes: trees[name].Bytes()}
		if err := bundle.RestoreWith(ctx, j.c.world.Store, trees[name], part.Path, bundle.RestoreOptions{Umask: true}); err != nil {
			return got, fmt.Errorf("get %s: %w", name, err)
		}
		got.Parts = append(got.Parts, part)
	}
	if wanted("logs") {
		logs, err := j.getLogs(ctx, rep, dir)
		if err != nil {
			return got, fmt.Errorf("get logs: %w", err)
		}
		got.Parts = append(got.Parts, logs)
	}
	return got, now.write(dir)
}

// getLogs writes what each node's program printed into logs/logsN.
func (j *Job) getLogs(ctx context.Context, rep ledger.Report, dir string) (Part, error) {
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
	}
	return part, nil
}

func (j *Job) getLog(ctx context.Context, file string, rank int) (n int64, err error) {
	tmp, err := os.OpenFile(filepath.Join(filepath.Dir(file), ".logs-"+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666) // less the umask
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

const receiptName = bundle.Receipt

// add names what a part of the folder is to hold.
func (r *receipt) add(name string, t bundle.Tree) {
	for _, f := range t.Files {
		r.Files = append(r.Files, name+"/"+f.Path)
	}
	for _, l := range t.Links {
		r.Files = append(r.Files, name+"/"+l.Path)
	}
}

// without are the files of r that are not among those of o: there may be millions of both.
func (r receipt) without(o receipt) (gone []string) {
	stays := make(map[string]bool, len(o.Files))
	for _, name := range o.Files {
		stays[name] = true
	}
	for _, name := range r.Files {
		if !stays[name] {
			gone = append(gone, name)
		}
	}
	return gone
}

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
