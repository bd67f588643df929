package code

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/job"
)

// notFound is how Python and most programs say that a file is missing.
var notFound = regexp.MustCompile(`(?m)No such file or directory: ['"]?([^'"\n]+)['"]?|(?:cannot open|can't open|cannot access|open) (?:file )?['"]?([^'":\n]+)['"]?(?: for reading)?(?: \(|: )No such file or directory|cannot open (?:file )?'([^'\n]+)': No such file`)

// missingFiles are the files that a program said it did not find, the last one first.
func missingFiles(trace string) (files []string) {
	for _, m := range notFound.FindAllStringSubmatch(trace, -1) {
		for _, file := range m[1:] {
			if file != "" {
				files = append(files, strings.TrimSpace(file))
			}
		}
	}
	slices.Reverse(files)
	return files
}

// codeSeen is where programs see the code folder.
const codeSeen = "/opt/ml/code/"

// StayedHome says of a file that a program did not find, by what the program printed last,
// that it is in the folder where the job was typed and was not shipped, and how it comes
// along: a way that was tried out on the files that are there now. "" is for a file that is
// in neither place, and on another machine than the one where the job was typed.
func (l *Locator) StayedHome(ctx context.Context, j job.Job, trace string) string {
	if j.Folder == "" || j.Host != l.Caller.Host {
		return ""
	}
	there := *l.Session
	there.Caller.Folder = j.Folder
	at := Locator{Session: &there}
	for _, file := range missingFiles(trace) {
		rel := filepath.Clean(strings.TrimPrefix(file, codeSeen))
		if filepath.IsAbs(rel) {
			continue // no file of the code
		}
		full := filepath.Join(j.Folder, rel)
		info, err := os.Stat(full)
		if err != nil || j.Code.InPlace && Inside(j.Code.Root, full) { // there, the program has it
			continue
		}
		if hint := at.flagThatBrings(ctx, j.Spec, filepath.ToSlash(rel), info.IsDir()); hint != "" {
			return hint
		}
	}
	return ""
}

// flagThatBrings finds the option that ships a file, and tries it.
func (l *Locator) flagThatBrings(ctx context.Context, s job.Spec, rel string, folder bool) string {
	full := filepath.Join(l.Caller.Folder, filepath.FromSlash(rel))
	asInput := "-i in=" + rel + " makes it an input, at $SM_CHANNEL_IN"
	if !filepath.IsLocal(filepath.FromSlash(rel)) {
		return full + " exists on this machine, outside of the folder that was shipped: " + asInput
	}
	if shipped, err := l.wouldShip(ctx, s, rel, folder); err != nil || shipped {
		return "" // it is not for lack of it
	}
	top, _, _ := strings.Cut(rel, "/")
	for _, dep := range []string{top, rel} {
		with := s
		with.Deps = append(slices.Clone(s.Deps), dep)
		shipped, err := l.wouldShip(ctx, with, rel, folder)
		switch {
		case errors.Is(err, bundle.ErrTooBig):
			return rel + " exists here and was not shipped; " + dep + " is too big to ship as code: " + asInput
		case err == nil && shipped:
			return rel + " exists here and was not shipped: -d " + dep + " ships it, at its place"
		}
	}
	return rel + " exists here and was not shipped: " + asInput
}

// wouldShip says whether a spec's code has a file, or something in a folder, at rel in the
// folder where it was typed.
func (l *Locator) wouldShip(ctx context.Context, s job.Spec, rel string, folder bool) (bool, error) {
	ship, err := l.Locate(ctx, s, Surroundings{Apart: true})
	if err != nil {
		return false, err
	}
	place := rel
	if dir, ok := relative(ship.Files.Dir, l.Caller.Folder); ok && s.Source == "" {
		place = path.Join(dir, rel)
	}
	return slices.ContainsFunc(ship.Files.Entries, func(f bundle.Entry) bool {
		return f.Name == place || folder && strings.HasPrefix(f.Name, place+"/")
	}), nil
}
