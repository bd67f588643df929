package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/agent/maprunner/stream"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/agent/workspace"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/resource"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// The folder of an agent that died holds what its program has written since the last
// generation. It stays until that is saved, or its job has ended in another way: the
// next agent of the same task on this machine saves it as the dead attempt's last
// generation, before an attempt takes the state over.

// mark is kept in an agent's folder, so that later agents can tell which agent it
// belonged to and end what that one left.
type mark struct {
	Host    protocol.Host `json:"host"`
	Token   string        `json:"token"`             // of the program's tree; "" before it has started
	Slots   int           `json:"slots,omitempty"`   // of a map: there are trees of Token-0, Token-1 ... too
	Unsaved *unsaved      `json:"unsaved,omitempty"` // nil: nothing that is not stored
}

// unsaved says of which rank a folder holds files that no generation may have.
type unsaved struct {
	Store   string       `json:"store"` // as it calls itself
	Project string       `json:"project"`
	Task    string       `json:"task"`
	Job     string       `json:"job"`
	Place   int          `json:"place"`
	Attempt int          `json:"attempt"`
	Rank    int          `json:"rank"`
	Agent   string       `json:"agent"`
	Code    store.Digest `json:"code,omitempty"`
	View    bool         `json:"view,omitempty"`    // the program saw the folders at /opt/ml and /state
	Layered bool         `json:"layered,omitempty"` // it ran where its code stands
	Root    string       `json:"root,omitempty"`    // what the program had as "/"; "": this folder
}

func (u *unsaved) jobPath() job.Path { return job.Path{Project: u.Project, Task: u.Task, Job: u.Job} }

const markName = "mark.json"

// treeTokens are those of all trees that there may be.
func (m mark) treeTokens() (all []string) {
	if m.Token == "" {
		return nil
	}
	all = append(all, m.Token)
	for slot := range m.Slots {
		all = append(all, fmt.Sprintf("%s-%d", m.Token, slot))
	}
	return all
}

// leaveMark writes it; token is that of the program's tree.
func (r *remains) leaveMark(token string) error {
	r.token = token
	b, err := json.Marshal(mark{Host: r.Machine.Self, Token: token, Slots: r.Slots, Unsaved: r.unsaved})
	if err != nil {
		return err
	}
	file := filepath.Join(r.Own, markName)
	if err := os.WriteFile(file+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file) // an agent that dies here leaves one of the two whole
}

// noteUnsaved says in the mark that from here on the folder holds what the program of
// this attempt writes. saves says that the attempt adds generations.
func (r *remains) noteUnsaved(o runagent.Order, saves bool) {
	r.unsaved = nil
	if saves {
		r.unsaved = &unsaved{Store: r.World.Store.String(), Project: r.Path.Project, Task: r.Path.Task, Job: r.Job.ID, Place: r.Place,
			Attempt: o.Attempt, Rank: o.Rank, Agent: r.ID, Code: store.Digest(r.Job.Code.Blob), View: r.space.View, Layered: r.space.Layered}
		if r.Root != r.Own {
			r.unsaved.Root = r.Root
		}
	}
}

// noteAllSaved says in the mark that all of the attempt is stored, or is about to be
// cleared: the folder is of no use to others.
func (r *remains) noteAllSaved() {
	if r.unsaved == nil {
		return
	}
	r.unsaved = nil
	if err := r.leaveMark(r.token); err != nil {
		r.Log.Warn("mark not written", "err", err)
	}
}

// deadFolder is the folder of an agent that has died on this machine.
type deadFolder struct {
	dir string
	mark
}

// deadFolders are those below work, of agents that their target has lost or that this
// machine says have gone. An agent of before the machine was started again
// is not known to be dead, and its folder may hold files that never reached the disk.
func deadFolders(work string, gone func(protocol.Host) (gone, known bool)) (all []deadFolder) {
	files, err := filepath.Glob(filepath.Join(work, "*", "*", markName))
	if err != nil {
		return nil
	}
	for _, file := range files {
		d := deadFolder{dir: filepath.Dir(file)}
		b, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(b, &d.mark) != nil {
			continue
		}
		_, err = os.Lstat(filepath.Join(d.dir, driver.LostFile))
		gone, known := gone(d.Host)
		if err == nil || known && gone {
			all = append(all, d)
		}
	}
	return all
}

// Left is a folder of an agent that has died on this machine: what the program has
// written last is there alone.
type Left struct {
	Dir   string
	Store string // as its store calls itself
	Job   job.Path
	Bytes int64
}

// LeftFolders are those below work, the folder in which this machine's agents work.
func LeftFolders(work string, gone func(protocol.Host) (gone, known bool)) (all []Left) {
	for _, d := range deadFolders(work, gone) {
		if d.Unsaved != nil {
			all = append(all, Left{Dir: d.dir, Store: d.Unsaved.Store, Job: d.Unsaved.jobPath(), Bytes: node.FolderSize(context.Background(), d.dir)})
		}
	}
	return all
}

// RemoveLeft removes one of them, by its Dir.
func RemoveLeft(dir string) error { return removeFolder(dir) }

// removeFolder removes an agent's folder, and its job's when it was the last in it.
func removeFolder(dir string) error {
	// First of all, or one that is half removed would be saved.
	if err := os.Remove(filepath.Join(dir, markName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := tree.RemoveAll(dir); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(dir)) // fails while another agent is in it
	return nil
}

// sweepDeadAgents ends the processes of agents, of any job, that died on this machine without a
// chance to, and removes their folders. What may hold files that are not saved stays
// as long as its job has not ended; of this task it is kept for saveDeadAgents.
func (r *remains) sweepDeadAgents(ctx context.Context) {
	if n, err := resource.RemoveStaleGroups(); err != nil || n > 0 {
		r.Log.Warn("removed groups of lost agents", "groups", n, "err", err)
	}
	dead := deadFolders(r.Machine.Work, r.World.Gone)
	if r.Machine.Lost != "" {
		dead = append(dead, deadFolders(r.Machine.Lost, r.World.Gone)...)
	}
	for _, d := range dead {
		for _, token := range d.treeTokens() {
			if n, err := proc.Sweep(token); err != nil || n > 0 {
				r.Log.Warn("ended processes of a lost agent", "dir", d.dir, "killed", n, "err", err)
			}
		}
		stream.Sweep(d.dir)
		switch {
		case d.Unsaved == nil:
		case d.Unsaved.Store == r.World.Store.String() && d.Unsaved.Project == r.Path.Project && d.Unsaved.Task == r.Path.Task:
			r.dead = append(r.dead, d)
			continue
		case !r.jobHasEnded(ctx, *d.Unsaved):
			continue
		}
		if err := removeFolder(d.dir); err != nil {
			r.Log.Warn("folder stays", "dir", d.dir, "err", err)
		}
	}
	slices.SortFunc(r.dead, func(x, y deadFolder) int {
		if x.Unsaved.Place != y.Unsaved.Place {
			return x.Unsaved.Place - y.Unsaved.Place
		}
		return x.Unsaved.Attempt - y.Unsaved.Attempt
	})
}

// jobHasEnded says for certain that the job of a folder has ended, or was removed. Of a
// job of another store nothing is known.
func (r *remains) jobHasEnded(ctx context.Context, u unsaved) bool {
	if u.Store != r.World.Store.String() {
		return false
	}
	rep, err := views.ReadReport(ctx, r.World, u.jobPath())
	if errors.Is(err, store.ErrNotExist) {
		return errors.Is(liveness.CheckExists(ctx, r.World, u.jobPath()), liveness.ErrRemoved)
	}
	return err == nil && rep.Run.Settled != nil
}

// saveDeadAgents saves what agents of this task that died on this machine have left, each
// as the last generation of its attempt. What a newer attempt has taken over already
// is fenced, and its folder stays until the job has ended.
func (r *remains) saveDeadAgents(ctx context.Context) {
	var stay []deadFolder
	for _, d := range r.dead {
		err := r.saveOneDead(ctx, d)
		if err == nil {
			err = removeFolder(d.dir)
		}
		if err != nil {
			stay = append(stay, d)
			r.LogNote("what attempt %d of job %s left is not saved, and stays in %s: %v", d.Unsaved.Attempt, shortID(d.Unsaved.Job), d.dir, err)
		}
	}
	r.dead = stay
}

func (r *remains) saveOneDead(ctx context.Context, d deadFolder) error {
	u := d.Unsaved
	me := protocol.Restored{Job: u.Job, Submission: u.Place, Attempt: u.Attempt, Agent: u.Agent}
	gens, newest, err := states.ReopenState(ctx, r.World, u.jobPath(), u.Rank, me)
	if err != nil {
		return err
	}
	was, err := tasks.LoadJob(ctx, r.World, u.jobPath())
	if err != nil {
		return err
	}
	// The same folders as the dead agent saw them.
	n := &node.Node{Config: r.Config, ID: u.Agent, Job: was, Own: d.dir, Root: cmp.Or(u.Root, d.dir), Out: r.Out, Heartbeats: r.Heartbeats}
	space := &workspace.Workspace{Node: n, View: u.View, Layered: u.Layered}
	dead := &rankState{Node: n, space: space, gens: gens}
	if err := dead.readNewestSaved(ctx, newest); err != nil {
		return err
	}
	r.LogNote("saving what attempt %d of job %s left in %s", u.Attempt, shortID(u.Job), d.dir)
	s := dead.makeSaver(u.Rank)
	if s.files.skipFile != nil && !u.Layered {
		shipped, err := os.MkdirTemp(r.Own, "code-before-")
		if err != nil {
			return err
		}
		defer tree.RemoveAll(shipped)
		if err := r.space.UnpackCode(ctx, u.Code, shipped); err != nil {
			return err
		}
		if s.files.skipFile, err = sameAs(shipped, s.files.path); err != nil {
			return err
		}
	}
	return s.saveGeneration(ctx, true)
}

// readNewestSaved reads what the newest generation holds, so that only what differs is saved.
// What cannot be read counts as nothing.
func (s *rankState) readNewestSaved(ctx context.Context, newest *protocol.Saved) error {
	if newest == nil {
		return nil
	}
	for i, d := range []store.Digest{newest.Checkpoints, newest.State, newest.Files} {
		if d == "" {
			continue
		}
		t, err := tree.LoadTree(ctx, s.World.Store, d)
		if errors.Is(err, store.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		s.restored[i] = kept{digest: t.Digest(), blob: d, tree: t}
	}
	return nil
}

// sameAs says of a file below dir that one of the same name and content is below
// shipped.
func sameAs(shipped, dir string) (func(name string, is fs.FileInfo) bool, error) {
	was, err := os.OpenRoot(shipped)
	if err != nil {
		return nil, err
	}
	defer was.Close()
	now, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer now.Close()
	same := map[string]bool{}
	before, err := workspace.TakeSnapshot(shipped)
	if err != nil {
		return nil, err
	}
	for name := range before {
		if same[name], err = workspace.SameEntry(was, now, name); err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
	}
	return func(name string, _ fs.FileInfo) bool { return same[name] }, nil
}

func shortID(id string) string { return id[:min(job.MinShort, len(id))] }
