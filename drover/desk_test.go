package drover

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	storemem "github.com/drover-run/drover/store/mem"
)

// desk is a client with jobs that the test itself writes, instead of agents.
type desk struct {
	*Client
	t   *testing.T
	mem *mem.Driver
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, mem: mem.New(func(ctx context.Context, _ driver.Request, _ int) error { <-ctx.Done(); return context.Cause(ctx) })}
	t.Cleanup(d.mem.Close)
	c, err := Open(t.Context(), Options{Bucket: storemem.New(), Drivers: map[string]driver.Opened{mem.Name: mem.Open(d.mem)},
		Folder: t.TempDir(), Cache: t.TempDir(), Near: true})
	d.check(err)
	d.Client = c
	return d
}

func (d *desk) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// submit makes a job the live one of its task.
func (d *desk) submit(project, task string, nodes int) *Job {
	d.t.Helper()
	spec, err := job.Spec{Project: project, Task: task, Program: "train.py", Nodes: nodes, On: mem.Name}.Normal()
	d.check(err)
	j := job.Job{V: job.Format, Spec: spec}
	d.check(tasks.NameJob(d.t.Context(), d.world, &j))
	_, mine, err := tasks.SubmitJob(d.t.Context(), d.world, j, "cli-1")
	if d.check(err); !mine {
		d.t.Fatal("another job is live")
	}
	return d.newJob(j.Path())
}

func (d *desk) short(j *Job) string {
	d.t.Helper()
	rec, err := j.Spec(d.t.Context())
	d.check(err)
	return rec.Short
}

// members are agents of a job that have joined its current attempt, by rank.
func (d *desk) members(j *Job) []*runagent.Member {
	d.t.Helper()
	rec, err := j.Spec(d.t.Context())
	d.check(err)
	agents := make([]*runagent.Member, rec.Spec.Nodes)
	for i := range rec.Spec.Nodes {
		m := runagent.NewMember(d.world, rec, liveness.NewAgentID(d.world, 1, i), protocol.Join{Name: "desk"})
		m.Ready()
		_, err := m.Poll(d.t.Context())
		d.check(err)
		_, rank := m.Joined()
		agents[rank] = m
	}
	return agents
}

// fileTree is one output of a rank: texts by name. A name with a slash at its end is
// an empty folder.
type fileTree map[string]string

// outputs are what one rank has stored, by name.
type outputs map[string]fileTree

// end lets every rank end with an exit, and gives it outputs.
func (d *desk) end(j *Job, exit protocol.Exit, ranks ...outputs) {
	d.t.Helper()
	agents := d.members(j)
	for rank, outs := range ranks {
		e := exit
		e.Outputs = map[string]store.Digest{}
		for name, files := range outs {
			e.Outputs[name] = d.put(files)
		}
		d.check(agents[rank].Ended(d.t.Context(), e))
	}
	_, err := agents[0].Poll(d.t.Context())
	d.check(err)
}

func (d *desk) put(files fileTree) store.Digest {
	d.t.Helper()
	var list tree.Tree
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if dir, ok := cutSlash(name); ok {
			list.Dirs = append(list.Dirs, dir)
			continue
		}
		sum, size, err := d.world.Store.PutBlob(d.t.Context(), bytes.NewReader([]byte(files[name])))
		d.check(err)
		list.Files = append(list.Files, tree.File{Path: name, Size: size, Mode: 0o644, SHA256: sum})
	}
	// as another writer of the store could: tree.PutTree refuses hostile names
	body, err := json.Marshal(list)
	d.check(err)
	sum, _, err := d.world.Store.PutBlob(d.t.Context(), bytes.NewReader(body))
	d.check(err)
	return sum
}

func cutSlash(name string) (string, bool) {
	return name[:len(name)-1], name[len(name)-1] == '/'
}

func write(t *testing.T, dir string, files fileTree) {
	t.Helper()
	for name, text := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// read is a folder as texts by name, without our receipt.
func read(t *testing.T, dir string) fileTree {
	t.Helper()
	found := fileTree{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || path == dir || e.Name() == bundle.Receipt {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if e.IsDir() {
			if inside, err := os.ReadDir(path); err != nil || len(inside) > 0 {
				return err
			}
			found[name+"/"] = ""
			return nil
		}
		b, err := os.ReadFile(path)
		found[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// planMap plans a map as Map does.
func (d *desk) planMap(ctx context.Context, s MapSpec) (*Plan, error) {
	s.Spec.Verb = job.Map
	return d.Plan(ctx, s.Spec, PlanOptions{Values: s.Values, Stdin: s.Stdin})
}
