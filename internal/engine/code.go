package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/engine/code"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// findCodeDigest finds the digest of what is shipped. A file that is written meanwhile is
// left out, unless it is certainly code: then the command is refused.
func (p *Plan) findCodeDigest(ctx context.Context) (err error) {
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
	if !errors.As(err, &file) || !p.Code.LeaveOut(file.Name, code.ChangesNow) {
		return false
	}
	p.ship.Judge.RememberFile(filepath.Join(p.Code.Dir, file.Name))
	return true
}

// storeCodeArchive stores the code, as findCodeDigest reads it.
func (e submitter) storeCodeArchive(ctx context.Context, p *Plan) (bundle.Bundle, error) {
	for {
		b, err := bundle.Put(ctx, e.World.Store, p.Code)
		if err == nil || !p.leaveOutUnreadable(err) {
			return b, err
		}
		p.Note = strings.TrimPrefix(p.Note+"; left out: "+p.Code.Left[len(p.Code.Left)-1].Name+" ("+code.ChangesNow+")", "; ")
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
func (e decider) compareCode(ctx context.Context, p *Plan, old job.Code) {
	p.ChangedFiles, p.alike = nil, ""
	if p.ship.Nothing || old.Blob == "" || p.Digest == old.Digest {
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
