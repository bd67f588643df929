package delivery

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/engine/inputs"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// Deliverer brings what the jobs of one store have made into folders.
type Deliverer struct {
	*session.Session
	Inputs *inputs.Finder
}

// Made finds out what a run has made so far.
func (x Deliverer) Made(ctx context.Context, rep views.Report) (report.Made, error) {
	var m report.Made
	names, err := x.Inputs.NamesOfOutputs(ctx, rep, Layout...)
	if err != nil {
		return m, err
	}
	m.Model, m.Output = slices.Contains(names, "model"), slices.Contains(names, "output")
	_, m.InPlace = x.placeInCode(rep.Job, x.Caller.Folder)
	if slices.Contains(names, "files") {
		t, _, err := x.Inputs.OutputsOf(ctx, rep, "files")
		if err != nil {
			return m, err
		}
		for _, f := range t.Files {
			if m.Files++; m.First == "" || f.Path < m.First {
				m.First = f.Path
			}
		}
	}
	return m, nil
}

// Layout is what is brought of a run, in the order in which it is told.
var Layout = []string{"model", "output", "files"}

// BringRun brings the outputs of a run into dir, an absolute path. logs gives what the program of
// one node has printed.
func (x Deliverer) BringRun(ctx context.Context, rep views.Report, logs func(rank int) iter.Seq2[report.Output, error], dir string, o report.GetOptions) (report.Got, error) {
	g := &getter{x: x, logs: logs, rep: rep, parts: o.Parts, got: report.Got{Dir: dir}, names: map[string]bool{}, trees: map[string]tree.Tree{}}
	g.sub, g.inPlace = x.placeInCode(rep.Job, dir)
	g.here = g.inPlace || sameFolder(dir, x.Caller.Folder)
	err := g.readLists(ctx)
	if err != nil {
		return report.Got{}, err
	}
	if g.d, err = openDestination(dir, rep.Path.String(), rep.Job.Short, o); err != nil {
		return report.Got{}, err
	}
	defer g.d.closeFolder()
	err = g.bringAll(ctx)
	g.got.Changes = g.d.changes
	return g.got, err
}

// getter is one Get.
type getter struct {
	x     Deliverer
	logs  func(rank int) iter.Seq2[report.Output, error]
	rep   views.Report
	d     *destination
	parts []string
	got   report.Got
	names map[string]bool // of all that is brought

	here    bool   // the folder is the caller's, or where the program ran
	inPlace bool   // the folder is where the program ran
	sub     string // the folder, in the code
	trees   map[string]tree.Tree
}

func (g *getter) isWanted(part string) bool {
	return len(g.parts) == 0 || slices.Contains(g.parts, part)
}

// partOf is the part that a file of the folder belongs to; "" is none: it was brought to
// its own place, and only a file of its name takes that.
func partOf(b bundle.Brought) string {
	part, _, below := strings.Cut(b.Name(), "/")
	if !below || !slices.Contains(parts, part) {
		return ""
	}
	return part
}

// parts are all that Get brings.
var parts = append(slices.Clone(Layout), "logs")

// placeInCode finds out whether a folder is that of the job's code, or the folder in it in
// which the command was typed, on the machine where it stands, and the program ran there
// in place: then what the program wrote beside itself goes to its own place. sub is where
// the folder is in the code; "" is its root.
func (x Deliverer) placeInCode(rec job.Job, dir string) (sub string, is bool) {
	code := rec.Code
	if !code.InPlace || rec.Host != x.Caller.Host {
		return "", false
	}
	dir, err := filepath.EvalSymlinks(dir)
	switch {
	case err != nil:
		return "", false
	case dir == filepath.Join(code.Root, filepath.FromSlash(code.Sub)):
		return code.Sub, true
	}
	return "", dir == code.Root
}

// sameFolder says whether two paths lead to one folder that is there.
func sameFolder(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// destinationName is where a file of a part is brought to, below the folder. In place, what would
// lie above the folder, or where another part lies, is with the other files.
func (g *getter) destinationName(part, name string) string {
	if own := name; part == "files" && g.inPlace {
		if g.sub != "" {
			own = strings.TrimPrefix(name, g.sub+"/")
		}
		if top, _, _ := strings.Cut(own, "/"); (g.sub == "" || own != name) && !slices.Contains(parts, top) {
			return own
		}
	}
	return part + "/" + name
}

// isOfRun says whether an earlier command brought a file as a part of a run.
func (g *getter) isOfRun(b bundle.Brought) bool { return !b.Item && !b.State && partOf(b) != "" }

// readLists finds out what there is to bring.
func (g *getter) readLists(ctx context.Context) error {
	for _, name := range Layout {
		if !g.isWanted(name) {
			continue
		}
		tree, collisions, err := g.x.Inputs.OutputsOf(ctx, g.rep, name)
		if err != nil {
			return fmt.Errorf("get %s: %w", name, err)
		}
		g.trees[name] = tree
		for _, f := range tree.Files {
			g.names[g.destinationName(name, f.Path)] = true
		}
		for _, l := range tree.Links {
			g.names[g.destinationName(name, l.Path)] = true
		}
		for _, c := range collisions {
			g.got.Notes = append(g.got.Notes, fmt.Sprintf("%s and %s both wrote %s/%s: %s's is here", c.Kept, c.Left, name, c.Path, c.Kept))
		}
	}
	for rank := range g.rep.Run.Nodes {
		if g.isWanted("logs") {
			g.names[fmt.Sprintf("logs/logs%d", rank)] = true
		}
	}
	return nil
}

func (g *getter) bringAll(ctx context.Context) error {
	for _, name := range Layout {
		if !g.isWanted(name) {
			continue
		}
		if err := g.bringTree(ctx, name); err != nil {
			return fmt.Errorf("get %s: %w", name, err)
		}
	}
	if g.isWanted("logs") {
		if err := g.bringLogs(ctx); err != nil {
			return fmt.Errorf("get logs: %w", err)
		}
	}
	return g.finishGet(ctx)
}

// bringTree brings one part. It is complete in the workshop before anything of an earlier one
// is removed.
func (g *getter) bringTree(ctx context.Context, part string) error {
	t := g.trees[part]
	// In a folder of their own model and output are always there, as SageMaker's are.
	optional := part == "files" || part == "model" && g.rep.Job.Spec.Verb == job.Process || g.here
	if optional && len(t.Files)+len(t.Links)+len(t.Dirs) == 0 {
		return g.removeOld(ctx, part)
	}
	staged := path.Join(bundle.Workshop, part)
	if err := tree.RestoreWith(ctx, g.x.World.Store, t, g.d.stagingFolder(part), tree.RestoreOptions{Umask: true}); err != nil {
		return err
	}
	// First of all, or a file of an earlier job could stand where a folder is to be.
	if err := g.removeOld(ctx, part); err != nil {
		return err
	}
	at, err := ".", error(nil)
	if named := func(name string) bool { return g.names[name] }; part == "files" && g.inPlace {
		err = g.putInPlace(ctx, staged, t, named)
	} else {
		at, err = g.d.putTree(ctx, staged, filesOf(t, part), t.Dirs, part, named)
	}
	if err != nil {
		return err
	}
	g.got.Parts = append(g.got.Parts, report.Part{Name: part, Path: filepath.Join(g.d.dir, at), Files: len(t.Files), Bytes: t.Bytes()})
	return nil
}

// putInPlace moves what the program wrote beside itself from the workshop to its places.
func (g *getter) putInPlace(ctx context.Context, staged string, t tree.Tree, named func(string) bool) error {
	for _, b := range filesOf(t, ".") {
		from := path.Join(staged, b.Path)
		b.Path = g.destinationName("files", b.Path)
		if err := g.d.putFile(ctx, from, b, named); err != nil {
			return err
		}
	}
	return nil
}

// removeOld removes what an earlier command brought of a part, and what is not among the
// outputs any more.
func (g *getter) removeOld(ctx context.Context, part string) (err error) {
	g.d.eachEarlierFile(func(b bundle.Brought) {
		if err == nil && g.isOfRun(b) && b.For == "" && partOf(b) == part && !g.names[b.Path] {
			err = g.d.removeFile(ctx, b)
		}
	})
	return err
}

// bringLogs writes what each node's program printed into logs/logsN.
func (g *getter) bringLogs(ctx context.Context) error {
	if err := g.d.root.Mkdir(path.Join(bundle.Workshop, "logs"), 0o700); err != nil {
		return err
	}
	at, err := g.d.ensureFolder(ctx, "logs")
	if err != nil {
		return err
	}
	part := report.Part{Name: "logs", Path: filepath.Join(g.d.dir, at)}
	for rank := range g.rep.Run.Nodes {
		b, err := g.bringLog(ctx, rank)
		if err != nil {
			return err
		}
		if err := g.d.putFile(ctx, path.Join(bundle.Workshop, b.Path), b, func(name string) bool { return g.names[name] }); err != nil {
			return err
		}
		part.Files++
		part.Bytes += b.Size
	}
	g.got.Parts = append(g.got.Parts, part)
	return g.removeOld(ctx, "logs")
}

// bringLog completes one node's log in the workshop.
func (g *getter) bringLog(ctx context.Context, rank int) (b bundle.Brought, err error) {
	b.Path = fmt.Sprintf("logs/logs%d", rank)
	file, err := g.d.root.OpenFile(path.Join(bundle.Workshop, b.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // less the umask
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sum := sha256.New()
	for out, err := range g.logs(rank) {
		if err != nil {
			return b, err
		}
		n, err := io.MultiWriter(file, sum).Write(out.Data)
		if b.Size += int64(n); err != nil {
			return b, err
		}
	}
	b.SHA256 = store.Digest(hex.EncodeToString(sum.Sum(nil)))
	return b, nil
}

// finishGet removes what stood beside a file of the user's and has its own name now, or is not
// among the outputs any more, and writes the receipt.
func (g *getter) finishGet(ctx context.Context) (err error) {
	g.d.eachEarlierFile(func(b bundle.Brought) {
		if err == nil && g.isOfRun(b) && b.For != "" && g.isWanted(partOf(b)) && !g.d.beside[b.Path] && !g.names[b.Path] {
			err = g.d.removeFile(ctx, b)
		}
	})
	if err != nil {
		return err
	}
	return g.d.rewriteRecord(func(b bundle.Brought) bool {
		return !g.isOfRun(b) && !(partOf(b) == "" && g.names[b.Path]) || g.isOfRun(b) && !g.isWanted(partOf(b))
	})
}

// filesOf are the files and links of a tree, as they are brought below part.
func filesOf(t tree.Tree, part string) (files []bundle.Brought) {
	for _, f := range t.Files {
		files = append(files, bundle.Brought{Path: path.Join(part, f.Path), Size: f.Size, SHA256: f.SHA256})
	}
	for _, l := range t.Links {
		files = append(files, bundle.Brought{Path: path.Join(part, l.Path), Link: l.Target})
	}
	return files
}

// putTree moves a folder that was completed in the workshop to where it belongs, and says
// where it is: at once where nothing is there, else file by file. part is its name, below
// which files and dirs are; named says of a path that another file of the result has it.
func (d *destination) putTree(ctx context.Context, staged string, files []bundle.Brought, dirs []string, part string, named func(string) bool) (at string, err error) {
	if _, err := d.root.Lstat(part); errors.Is(err, fs.ErrNotExist) {
		w := bufio.NewWriter(d.log)
		for _, b := range files {
			_, _ = w.Write(b.Line()) // Flush gives the error
		}
		if err := w.Flush(); err != nil {
			return "", notHere(err, bundle.Receipt)
		}
		return part, d.root.Rename(staged, part)
	}
	if at, err = d.ensureFolder(ctx, part); err != nil {
		return "", err
	}
	for _, b := range files {
		below, err := filepath.Rel(part, b.Path)
		if err != nil {
			return "", err
		}
		if err := d.putFile(ctx, path.Join(staged, filepath.ToSlash(below)), b, named); err != nil {
			return "", err
		}
	}
	for _, dir := range dirs {
		if _, err := d.ensureFolder(ctx, path.Join(part, dir)); err != nil {
			return "", err
		}
	}
	return at, nil
}
