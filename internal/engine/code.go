package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/internal/proc/written"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Why files in the code folder are no code. The order is that of codeJudge.judge.
const (
	ownOutput    = "output of this command"
	inOutput     = "folder of -o"
	broughtHome  = "brought by drover get"
	logByName    = "a log by its name"
	formerOutput = "output of an earlier drover command"
	changesNow   = "being written"
	changedThen  = "was being written during an earlier drover command"
)

// codeJudge decides which files of a code folder are no code: logs, and results that
// were redirected into it. Were they code, a command that is typed again would find
// that its code has changed.
//
// What is certainly code: the program, what git tracks, what the command names, what
// -d names or a line with ! in .droverignore brings back, executable files, and
// scripts by their names. Of these, only what this very command prints into is left
// out, and of that not the program.
type codeJudge struct {
	own     map[written.ID]bool
	named   map[string]bool // paths
	output  string          // folder of -o, with a slash at its end; "": not in the code folder, or it holds the working folder
	store   string          // where facts are kept, if that is a folder
	brought map[string]bool // names that a receipt in the code folder lists
	memory  written.Memory
	known   written.Known
	writers func() map[written.ID]written.Process
}

// newCodeJudge makes the judge for a command whose code is in dir, and remembers what the
// command prints into. That may go wrong, as in a home that cannot be written to: the
// next command then sees a file more than this one.
func (e *Engine) newCodeJudge(s job.Spec, dir string) *codeJudge {
	j := &codeJudge{own: map[written.ID]bool{}, named: map[string]bool{}, brought: map[string]bool{}, writers: sync.OnceValue(written.Writers)}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if to := e.World.Store.String(); filepath.IsAbs(to) {
		j.store = to
	}
	streams := written.Outputs(e.Caller.Streams...)
	for _, f := range append(slices.Clone(streams.Direct), streams.Piped...) {
		j.own[f.ID()] = true
	}
	if e.Caller.State != "" {
		j.memory.Path = filepath.Join(e.Caller.State, written.MemoryName)
		_ = j.memory.AddStreams(streams, dir, e.Caller.Folder)
		j.known = j.memory.Known()
	}
	for _, word := range append([]string{s.Program}, s.Args...) {
		for _, name := range namesIn(word) {
			j.named[e.resolvePath(e.Caller.Folder, name)] = true
			j.named[e.resolvePath(dir, name)] = true
		}
	}
	if out := e.resolvePath(e.Caller.Folder, s.Output) + "/"; s.Output != "" && strings.HasPrefix(out, dir+"/") && !strings.HasPrefix(e.resolvePath(e.Caller.Folder, ".")+"/", out) {
		j.output = out
	}
	j.readReceipt(dir, "")
	if here, err := filepath.EvalSymlinks(e.Caller.Folder); err == nil && here != dir && inside(dir, here) {
		j.readReceipt(here, slashPath(dir, here))
	}
	return j
}

// readReceipt notes what drover brought to folder, which is at that name in the code.
func (j *codeJudge) readReceipt(folder, at string) {
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
func (e *Engine) resolvePath(dir, name string) string {
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
func (j *codeJudge) judgeFile(f bundle.Found) (why string, uncertain bool) {
	id, identified := written.IDOf(f.Info)
	if identified && j.own[id] {
		return ownOutput, false
	}
	base := filepath.Base(f.Name)
	if f.Tracked || f.Chosen || f.Info.Mode()&0o111 != 0 || env.IsScript(base) || j.named[f.Path] {
		return "", false
	}
	former, remembered := j.known.Find(f.Path, f.Info)
	switch {
	case j.output != "" && strings.HasPrefix(f.Path, j.output):
		return inOutput, false
	case j.brought[f.Name]:
		return broughtHome, false
	case filepath.Ext(base) == ".out": // of nohup, Slurm and many a script
		return logByName, false
	case remembered && former.Foreign:
		return changedThen, false
	case remembered:
		return formerOutput, false
	case !identified || written.Unwritten(f.Path):
		return "", true
	}
	if p, is := j.writers()[id]; is {
		j.rememberFile(f.Path)
		return fmt.Sprintf("%s by process %d, %s", changesNow, p.PID, p.Name), false
	}
	return "", true
}

// leavesUnshipped says of a file that is not shipped that it does not count in what the
// program finds beside its code: a log, or what drover writes. It opens no file, as there
// may be very many.
func (j *codeJudge) leavesUnshipped(f bundle.Found) bool {
	id, identified := written.IDOf(f.Info)
	_, remembered := j.known.Find(f.Path, f.Info)
	return identified && j.own[id] || remembered || j.brought[f.Name] || slices.Contains([]string{".out", ".log"}, path.Ext(f.Name)) ||
		j.output != "" && strings.HasPrefix(f.Path, j.output) || j.store != "" && inside(j.store, f.Path)
}

// rememberFile has later commands leave a file out, too, that is being written now.
func (j *codeJudge) rememberFile(path string) {
	if f, ok := written.FileAt(path); ok && j.memory.Path != "" {
		f.Foreign = true
		_ = j.memory.Add(f) // as in newCodeJudge
	}
}

// summarizeLeft names a folder of -o once, and not each file in it.
func (j *codeJudge) summarizeLeft(dir string, left []bundle.Left) (all []bundle.Left) {
	for _, l := range left {
		if rel, err := filepath.Rel(dir, j.output); l.Why == inOutput && err == nil {
			l.Name = filepath.ToSlash(rel) + "/"
		}
		if !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

// hashCode finds the digest of what is shipped. A file that is written meanwhile is
// left out, unless it is certainly code: then the command is refused.
func (p *Plan) hashCode(ctx context.Context) (err error) {
	for {
		if p.tree, err = p.Code.Tree(ctx); err == nil {
			p.Digest = p.tree.Digest()
			return nil
		}
		if !p.leaveOutUnreadable(err) {
			return err
		}
	}
}

// leaveOutUnreadable takes the file out of the code that err says is being written.
func (p *Plan) leaveOutUnreadable(err error) bool {
	var file *bundle.WrittenError
	if !errors.As(err, &file) || !p.Code.LeaveOut(file.Name, changesNow) {
		return false
	}
	p.ship.judge.rememberFile(filepath.Join(p.Code.Dir, file.Name))
	return true
}

// storeCodeArchive stores the code, as hashCode reads it.
func (e *Engine) storeCodeArchive(ctx context.Context, p *Plan) (bundle.Bundle, error) {
	for {
		b, err := bundle.Put(ctx, e.World.Store, p.Code)
		if err == nil || !p.leaveOutUnreadable(err) {
			return b, err
		}
		p.Note = strings.TrimPrefix(p.Note+"; left out: "+p.Code.Left[len(p.Code.Left)-1].Name+" ("+changesNow+")", "; ")
	}
}

// mostLeftOut bounds the names that a job keeps of files that were left out.
const mostLeftOut = 1000

// namesLeftOut are the names that the job keeps.
func (p *Plan) namesLeftOut() (names []string) {
	for _, l := range p.Code.Left[:min(mostLeftOut, len(p.Code.Left))] {
		names = append(names, l.Name)
	}
	return names
}

// compareCode finds out which files differ between the code of a job and what is here.
// A file that either has left out is none of them, unless it is certainly code now. It
// reads the job's archive, and so only when the digests differ; what cannot be read
// leaves the files unnamed.
func (e *Engine) compareCode(ctx context.Context, p *Plan, old job.Code) {
	p.ChangedFiles, p.alike = nil, ""
	if p.ship.nothing || old.Blob == "" || p.Digest == old.Digest {
		return
	}
	r, err := e.World.Store.OpenBlob(ctx, store.Digest(old.Blob))
	if err != nil {
		return
	}
	defer r.Close()
	was, err := bundle.Contents(ctx, r, bundle.Caps{})
	if err != nil {
		return
	}
	ignored := func(name string) bool {
		return slices.ContainsFunc(p.Code.Left, func(l bundle.Left) bool { return covers(l.Name, name) }) ||
			slices.ContainsFunc(old.LeftOut, func(left string) bool { return covers(left, name) }) && !p.Code.Certain(name)
	}
	before := map[string]tree.File{}
	for _, f := range was.Files {
		before[f.Path] = f
	}
	for _, f := range p.tree.Files {
		o, had := before[f.Path]
		delete(before, f.Path)
		if same := had && o.SHA256 == f.SHA256 && o.Mode == f.Mode; !same && !ignored(f.Path) {
			p.ChangedFiles = append(p.ChangedFiles, f.Path)
		}
	}
	for name := range before {
		if !ignored(name) {
			p.ChangedFiles = append(p.ChangedFiles, name)
		}
	}
	slices.Sort(p.ChangedFiles)
	if len(p.ChangedFiles) == 0 {
		p.alike = old.Digest
	}
}

// covers tells whether a name that was left out, a folder's with a slash at its end,
// stands for a file.
func covers(left, name string) bool {
	return left == name || strings.HasSuffix(left, "/") && strings.HasPrefix(name, left)
}

// codeIsSame tells whether a job's code is what is here, but for what is left out.
func (p *Plan) codeIsSame(old job.Code) bool {
	return p.unshippedFilesAreSame(old) && p.shippedFilesAreSame(old)
}

// unshippedFilesAreSame tells whether what a program finds beside its code is as it was. Where
// there is too much to look at, now or then, nothing is known of it. Items of a map may
// leave results there, and begin one after the other: to them it does not count.
func (p *Plan) unshippedFilesAreSame(old job.Code) bool {
	return p.Spec.Verb == job.Map || !p.InPlace || !old.InPlace || p.Seen.More || old.UnshippedMore || p.Seen.Digest == old.Unshipped
}

func (p *Plan) shippedFilesAreSame(old job.Code) bool {
	return p.Digest == old.Digest || old.Digest != "" && p.alike == old.Digest
}

// shownFiles is how many files a note names.
const shownFiles = 3

// changedFiles is " (train.py, lib.py, a.txt and 4 more)"; "" when no file is known.
func (p *Plan) changedFiles() string {
	if len(p.ChangedFiles) == 0 {
		if p.differ.code && p.shippedFilesAreSame(p.before.Job.Code) {
			return " (in files that are not shipped)"
		}
		return ""
	}
	text := strings.Join(p.ChangedFiles[:min(shownFiles, len(p.ChangedFiles))], ", ")
	if more := len(p.ChangedFiles) - shownFiles; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return " (" + text + ")"
}
