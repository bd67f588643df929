// Package workspace is the folder of an agent as the program sees it: the folders of the contract, the
// view of the machine that shows them, the layer for what the program writes beside its code, what it
// has left there, and the way for a person to stand beside it. It refuses to know attempts and what
// is saved. Proved by its tests and those of package agent.
package workspace

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/ledger/protocol"
)

// Workspace is the agent's folder as the program sees it: the contract's folders, the
// view of the machine that shows them, and the layer for what the program writes.
type Workspace struct {
	*node.Node
	View     bool     // the program has a view of its own
	Layered  bool     // the program runs where its code stands, with a layer of its own
	Pristine Snapshot // the code's folder before the program ran
	linked   Snapshot // the user's own files that the code folder has as links
}

// WriteNotice leaves the notice that the program may look for (DROVER_NOTICE): it appears
// whole, and before the program is asked to end. A program without room for it has
// SIGTERM.
func (w *Workspace) WriteNotice(why string, grace time.Duration) {
	w.LeaveNotice(fmt.Sprintf("%s\nends at %s\n", strings.ReplaceAll(why, "\n", " "), time.Now().Add(grace).UTC().Format(time.RFC3339)))
}

// LeaveNotice writes the file; "" takes it away.
func (w *Workspace) LeaveNotice(text string) {
	base := w.Root
	if base == WholeMachine { // else a link that the program put there could lead anywhere
		base = filepath.Dir(w.HostPaths().Notice)
	}
	root, err := os.OpenRoot(base) // the program may have put links there
	if err != nil {
		return
	}
	defer root.Close()
	name, err := filepath.Rel(base, w.HostPaths().Notice)
	if err != nil {
		return
	}
	_ = root.Remove(name + ".new")
	if text == "" {
		_ = root.Remove(name)
	} else if root.WriteFile(name+".new", []byte(text), 0o644) == nil {
		_ = root.Rename(name+".new", name)
	}
}

func Plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// Leftovers tells of files that items have left in their working folder, which
// no person will see: with it, they are thrown away.
func (w *Workspace) Leftovers() {
	files, n, first := w.WorkFiles(), 0, ""
	// What cannot be read is not told of.
	_ = filepath.WalkDir(files.Dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(files.Dir, file)
		name := filepath.ToSlash(rel)
		if err != nil || NeverSaved(name) {
			return nil
		}
		if is, err := d.Info(); err != nil || files.Shipped != nil && files.Shipped(name, is) {
			return nil
		}
		if n++; n == 1 {
			first = rel
		}
		return nil
	})
	const most = 200 // bytes of a name in a heartbeat
	if n > 0 {
		w.Heartbeats.ChangeHeartbeat(false, func(b *protocol.Heartbeat) { b.Lost, b.LostFirst = n, first[:min(len(first), most)] })
		w.LogNote("items left %d %s in their working folder, such as %s: these are not kept. Declare them with --out, and write them to {out}", n, Plural(n, "file"), first)
	}
	if n, first := w.ChangedThroughLinks(); n > 0 {
		w.Heartbeats.ChangeHeartbeat(false, func(b *protocol.Heartbeat) { b.Changed, b.ChangedFirst = n, first[:min(len(first), most)] })
		w.LogNote("%s", ChangedNote(n, first))
	}
}

// WholeMachine is the Machine.Root of a machine that is the agent's own.
const WholeMachine = "/"
