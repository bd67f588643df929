package code

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/env/programs"
	"github.com/drover-run/drover/internal/proc/written"
	"github.com/drover-run/drover/job"
)

// Why files in the code folder are no code. The order is that of Judge.judge.
const (
	ownOutput    = "output of this command"
	InOutput     = "folder of -o"
	BroughtHome  = "brought by drover get"
	LogByName    = "a log by its name"
	FormerOutput = "output of an earlier drover command"
	ChangesNow   = "being written"
	changedThen  = "was being written during an earlier drover command"
)

// Judge decides which files of a code folder are no code: logs, and results that
// were redirected into it. Were they code, a command that is typed again would find
// that its code has changed.
//
// What is certainly code: the program, what git tracks, what the command names, what
// -d names or a line with ! in .droverignore brings back, executable files, and
// scripts by their names. Of these, only what this very command prints into is left
// out, and of that not the program.
type Judge struct {
	own     map[written.ID]bool
	named   map[string]bool // paths
	output  string          // folder of -o, with a slash at its end; "": not in the code folder, or it holds the working folder
	store   string          // where facts are kept, if that is a folder
	brought map[string]bool // names that a receipt in the code folder lists
	memory  written.Memory
	known   written.Known
	writers func() map[written.ID]written.Process
}

// newJudge makes the judge for a command with its code in dir, and remembers the files
// that the command prints into. Remembering may fail, as in a home that cannot be written
// to: the next command then counts one file more as code than this one.
func (l *Locator) newJudge(s job.Spec, dir string) *Judge {
	j := &Judge{own: map[written.ID]bool{}, named: map[string]bool{}, brought: map[string]bool{}, writers: sync.OnceValue(written.Writers)}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if to := l.World.Store.String(); filepath.IsAbs(to) {
		j.store = to
	}
	streams := written.Outputs(l.Caller.Streams...)
	for _, f := range append(slices.Clone(streams.Direct), streams.Piped...) {
		j.own[f.ID()] = true
	}
	if l.Caller.State != "" {
		j.memory.Path = filepath.Join(l.Caller.State, written.MemoryName)
		_ = j.memory.AddStreams(streams, dir, l.Caller.Folder)
		j.known = j.memory.Known()
	}
	for _, word := range append([]string{s.Program}, s.Args...) {
		for _, name := range namesIn(word) {
			j.named[l.resolvePath(l.Caller.Folder, name)] = true
			j.named[l.resolvePath(dir, name)] = true
		}
	}
	if out := l.resolvePath(l.Caller.Folder, s.Output) + "/"; s.Output != "" && strings.HasPrefix(out, dir+"/") && !strings.HasPrefix(l.resolvePath(l.Caller.Folder, ".")+"/", out) {
		j.output = out
	}
	j.readReceipt(dir, "")
	if here, err := filepath.EvalSymlinks(l.Caller.Folder); err == nil && here != dir && Inside(dir, here) {
		j.readReceipt(here, slashPath(dir, here))
	}
	return j
}

// readReceipt notes what drover brought to folder, which is at that name in the code.
func (j *Judge) readReceipt(folder, at string) {
	if names, there := bundle.ReceiptNames(folder); there {
		j.brought[path.Join(at, bundle.Receipt)] = true
		for _, name := range names {
			j.brought[path.Join(at, name)] = true
		}
	}
}

// namesIn are the parts of a word of a command that may name a file: the word, what
// follows =, and the words of a line for the shell.
func namesIn(word string) []string {
	names := strings.FieldsFunc(word, func(r rune) bool { return strings.ContainsRune(" \t\n'\"`;|&<>()=", r) })
	if _, value, found := strings.Cut(word, "="); found {
		names = append(names, value)
	}
	return append(names, word)
}

// resolvePath is where a file lies that is named from dir; it need not be there.
func (l *Locator) resolvePath(dir, name string) string {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	if to, err := filepath.EvalSymlinks(name); err == nil {
		return to
	}
	if to, err := filepath.EvalSymlinks(filepath.Dir(name)); err == nil {
		return filepath.Join(to, filepath.Base(name))
	}
	return filepath.Clean(name)
}

// judgeFile is bundle.Source.Judge.
func (j *Judge) judgeFile(f bundle.Found) (why string, uncertain bool) {
	id, identified := written.IDOf(f.Info)
	if identified && j.own[id] {
		return ownOutput, false
	}
	base := filepath.Base(f.Name)
	if f.Tracked || f.Chosen || f.Info.Mode()&0o111 != 0 || programs.IsScript(base) || j.named[f.Path] {
		return "", false
	}
	former, remembered := j.known.Find(f.Path, f.Info)
	switch {
	case j.output != "" && strings.HasPrefix(f.Path, j.output):
		return InOutput, false
	case j.brought[f.Name]:
		return BroughtHome, false
	case filepath.Ext(base) == ".out": // of nohup, Slurm and many a script
		return LogByName, false
	case remembered && former.Foreign:
		return changedThen, false
	case remembered:
		return FormerOutput, false
	case !identified || written.Unwritten(f.Path):
		return "", true
	}
	if p, is := j.writers()[id]; is {
		j.RememberFile(f.Path)
		return fmt.Sprintf("%s by process %d, %s", ChangesNow, p.PID, p.Name), false
	}
	return "", true
}

// LeavesUnshipped says of a file that is not shipped that it does not count in what the
// program finds beside its code: a log, or what drover writes. It opens no file, as there
// may be very many.
func (j *Judge) LeavesUnshipped(f bundle.Found) bool {
	id, identified := written.IDOf(f.Info)
	_, remembered := j.known.Find(f.Path, f.Info)
	return identified && j.own[id] || remembered || j.brought[f.Name] || slices.Contains([]string{".out", ".log"}, path.Ext(f.Name)) ||
		j.output != "" && strings.HasPrefix(f.Path, j.output) || j.store != "" && Inside(j.store, f.Path)
}

// RememberFile has later commands leave a file out, too, that is being written now.
func (j *Judge) RememberFile(path string) {
	if f, ok := written.FileAt(path); ok && j.memory.Path != "" {
		f.Foreign = true
		_ = j.memory.Add(f) // as in newJudge
	}
}

// summarizeLeft names a folder of -o once, and not each file in it.
func (j *Judge) summarizeLeft(dir string, left []bundle.Left) (all []bundle.Left) {
	for _, l := range left {
		if rel, err := filepath.Rel(dir, j.output); l.Why == InOutput && err == nil {
			l.Name = filepath.ToSlash(rel) + "/"
		}
		if !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}
