package drover

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Got says what Get brought, and where it is.
type Got struct {
	Dir   string
	Parts []Part    // of a run
	Items *GotItems // of a map
	Notes []string  // what a user should know: names that two nodes, or two items, both wrote
	Changes
}

// Part is one of the folders in Got.Dir.
type Part struct {
	Name  string // model, output, files, logs
	Path  string
	Files int
	Bytes int64
}

// Made says what a job has made, for people before they fetch it.
type Made struct {
	Model, Output bool
	Files         int    // beside the script
	First         string // of them
	// InPlace says that Get into the caller's folder brings those files to their own
	// places.
	InPlace bool
}

// Made finds out what the job has made so far.
func (j *jobResults) Made(ctx context.Context) (Made, error) {
	var m Made
	rep, err := j.readReport(ctx)
	if err != nil {
		return m, err
	}
	names, err := j.c.engine.Inputs.NamesOfOutputs(ctx, rep, layout...)
	if err != nil {
		return m, err
	}
	m.Model, m.Output = slices.Contains(names, "model"), slices.Contains(names, "output")
	_, m.InPlace = j.placeInCode(rep.Job, j.c.engine.Caller.Folder)
	if slices.Contains(names, "files") {
		t, _, err := j.c.engine.Inputs.OutputsOf(ctx, rep, "files")
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

// layout is what Get brings, in the order in which it is told.
var layout = []string{"model", "output", "files"}

// Get brings the job's outputs into dir. Of a run these are model/, output/, files/ (what the
// program wrote beside itself) and logs/logs0, one for each node. Files have the modes
// that the program gave them, less this process's umask, and no set-user-ID bits. Of a run that
// has not settled it brings what its newest attempt has stored.
//
// Of a map these are the outputs of its succeeded items, each by its own name, and verified. Of
// two items with an output of one name the first one's is brought. A file that is there already
// with the same content is not copied again, so that Get may be called while the map runs.
//
// Files that an earlier Get has put there, and that have not changed since, are
// replaced, and removed when they are not among the outputs any more. Others stay: the
// new file then comes beside one of the same name (Changes.Beside).
//
// Into the folder where the program ran in place (job.Code.InPlace), what it wrote beside
// itself comes to its own place, as if it had been written there, and is never removed.
// There and in the caller's folder a part that is empty makes no folder. What an earlier Get
// has put there of parts that GetOptions.Parts does not name stays.
func (j *jobResults) Get(ctx context.Context, dir string, o GetOptions) (Got, error) {
	k, err := j.readKind(ctx)
	if err != nil {
		return Got{}, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return Got{}, err
	}
	return k.bringOutputs(ctx, dir, o)
}

func (k runKind) bringOutputs(ctx context.Context, dir string, o GetOptions) (Got, error) {
	j := k.j
	rep, err := j.readReport(ctx)
	if err != nil {
		return Got{}, err
	}
	g := &getter{j: j, rep: rep, parts: o.Parts, got: Got{Dir: dir}, names: map[string]bool{}, trees: map[string]tree.Tree{}}
	g.sub, g.inPlace = j.placeInCode(rep.Job, dir)
	g.here = g.inPlace || sameFolder(dir, j.c.engine.Caller.Folder)
	if err := g.readLists(ctx); err != nil {
		return Got{}, err
	}
	if g.d, err = openDestination(dir, rep.Path.String(), rep.Job.Short, o); err != nil {
		return Got{}, err
	}
	defer g.d.closeFolder()
	err = g.bringAll(ctx)
	g.got.Changes = g.d.changes
	return g.got, err
}

// getter is one Get.
type getter struct {
	j     *Job
	rep   views.Report
	d     *destination
	parts []string
	got   Got
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
var parts = append(slices.Clone(layout), "logs")

// placeInCode finds out whether a folder is that of the job's code, or the folder in it in
// which the command was typed, on the machine where it stands, and the program ran there
// in place: then what the program wrote beside itself goes to its own place. sub is where
// the folder is in the code; "" is its root.
func (j *jobResults) placeInCode(rec job.Job, dir string) (sub string, is bool) {
	code := rec.Code
	if !code.InPlace || rec.Host != j.c.engine.Caller.Host {
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
	for _, name := range layout {
		if !g.isWanted(name) {
			continue
		}
		tree, collisions, err := g.j.c.engine.Inputs.OutputsOf(ctx, g.rep, name)
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
	for _, name := range layout {
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
	if err := tree.RestoreWith(ctx, g.j.c.world.Store, t, g.d.stagingFolder(part), tree.RestoreOptions{Umask: true}); err != nil {
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
	g.got.Parts = append(g.got.Parts, Part{Name: part, Path: filepath.Join(g.d.dir, at), Files: len(t.Files), Bytes: t.Bytes()})
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
	part := Part{Name: "logs", Path: filepath.Join(g.d.dir, at)}
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
	for out, err := range g.j.Logs(ctx, LogOptions{Nodes: []int{rank}}) {
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
