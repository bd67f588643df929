package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/job"
)

// The contract's folders lie below the agent's own one. The program sees them at
// /opt/ml and /state where the machine gives it a view of its own, or is the
// agent's own (Machine.Root), else where they are; the variables say so in any case.

// HostPaths are where this agent finds the program's folders.
func (w *Workspace) HostPaths() contract.Paths { return w.FolderFacts(w.Root).Paths() }

// ProgramPaths are the same folders as the program sees them.
func (w *Workspace) ProgramPaths() contract.Paths { return w.FolderFacts(w.ProgramRoot()).Paths() }

// FolderFacts is the part of the facts that folders follow from.
func (w *Workspace) FolderFacts(root string) contract.Facts {
	spec := w.Job.Spec
	return contract.Facts{Root: root, Process: spec.Verb == job.Process, Results: spec.Results, SSM: spec.Rules == job.SSM}
}

func (w *Workspace) ProgramRoot() string {
	if w.View {
		return ""
	}
	return w.Root
}

// PathInView is a path of ours as the program sees it.
func (w *Workspace) PathInView(path string) string {
	if rest, ok := strings.CutPrefix(path, w.HostPaths().Code+"/"); ok && w.Layered {
		return filepath.Join(w.Job.Code.Root, rest)
	}
	if rest, ok := strings.CutPrefix(path, w.Root+"/"); ok && w.View {
		return "/" + rest
	}
	return path
}

// DecideView decides whether the program gets a view of its own, before it is tried.
func (w *Workspace) DecideView(interpreter string) {
	w.View = !w.Job.Spec.NoMounts
	if !w.View || w.Machine.Root != "" {
		return
	}
	home := ""
	for _, kv := range w.Machine.Environ {
		if v, ok := strings.CutPrefix(kv, "HOME="); ok {
			home = v
		}
	}
	for _, used := range []string{interpreter, w.Machine.Drover, w.Machine.Work, w.Machine.Cache, home} {
		if top := hidden(used); top != "" {
			w.WithoutView(fmt.Sprintf("%s is in %s, which the program would see as its own", used, top))
			return
		}
	}
}

// hidden is the folder of the contract's that a file of the machine lies in, by
// its name or where links lead; "" for none.
func hidden(file string) string {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		real = file // it is not there, or will be
	}
	for _, top := range node.Owned {
		for _, name := range []string{file, real} {
			if name == top || strings.HasPrefix(name, top+"/") {
				return top
			}
		}
	}
	return ""
}

// WithoutView goes on where folders are: the program is told by its variables.
func (w *Workspace) WithoutView(why string) {
	w.View = false
	w.LogNote("no private /opt/ml here (%s): SM_MODEL_DIR and the other variables name the folders", why)
}

// ProgramView are the view of one node. A node with peers finds their names in /etc/hosts.
func (w *Workspace) ProgramView(facts contract.Facts, joins []protocol.Join) (*mount.View, error) {
	if w.Machine.Root != "" {
		return nil, w.nameHosts(facts)
	}
	if !w.View {
		return nil, nil
	}
	v := &mount.View{}
	for _, top := range node.Owned {
		source := filepath.Join(w.Root, top)
		if err := os.MkdirAll(source, 0o755); err != nil { // not every contract has folders in each
			return nil, fmt.Errorf("make folder: %w", err)
		}
		v.Binds = append(v.Binds, mount.Bind{Source: source, Target: top})
	}
	if w.Layered {
		v.Overlays = append(v.Overlays, w.layeredPlace())
	}
	if w.Job.Spec.Launcher == job.MPI {
		// MPIs name their shared memory by process ids, and each node counts from 1.
		shm := filepath.Join(w.Own, "shm")
		if err := os.Mkdir(shm, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make shared memory: %w", err)
		}
		v.Binds = append(v.Binds, mount.Bind{Source: shm, Target: "/dev/shm"})
	}
	machine, err := os.ReadFile("/etc/hosts")
	if err != nil {
		return v, nil // without one there is nothing to show ours on
	}
	text := facts.HostsFile(machine)
	if text == nil {
		return v, nil
	}
	file := filepath.Join(w.Own, "hosts")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return nil, fmt.Errorf("write hosts: %w", err)
	}
	v.Binds = append(v.Binds, mount.Bind{Source: file, Target: "/etc/hosts"})
	if shared(joins, facts.Rank) {
		v.Hostname = facts.Hosts[facts.Rank]
	}
	return v, nil
}

// nameHosts gives the nodes their names on a machine of our own. Its file is what
// the machine has mounted, so that it is written in place.
func (w *Workspace) nameHosts(facts contract.Facts) error {
	if w.Machine.Hosts == "" {
		return nil
	}
	machine, err := os.ReadFile(w.Machine.Hosts)
	if err != nil {
		return fmt.Errorf("read hosts: %w", err)
	}
	text := facts.HostsFile(machine)
	if text == nil {
		return nil
	}
	if err := os.WriteFile(w.Machine.Hosts, text, 0o644); err != nil {
		return fmt.Errorf("write hosts: %w", err)
	}
	return nil
}

// shared says whether another node is on this machine: then its name would not
// tell them apart.
func shared(joins []protocol.Join, rank int) bool {
	for other, j := range joins {
		if other != rank && j.Host.Boot != "" && j.Host.Boot == joins[rank].Host.Boot {
			return true
		}
	}
	return false
}

// RefusedView says why the machine gave no view, if that is what err is about.
func RefusedView(err error) (why string, refused bool) {
	if !errors.Is(err, mount.ErrNoView) {
		return "", false
	}
	return strings.TrimSuffix(strings.TrimPrefix(err.Error(), mount.ErrNoView.Error()+": "), ": "+mount.ErrNoView.Error()), true
}
