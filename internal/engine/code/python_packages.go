package code

import (
	"context"
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/env"
	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/job"
)

// AddPackages adds to a program's code the packages that "pip install -e" shows the Python
// of the submitter and that the code imports, and says which folders of the code Python is
// to look in (job.Code.Paths). It does so before the code is hashed: what it adds is code.
// A package that is too big is left out, with a note.
func (l *Locator) AddPackages(ctx context.Context, s job.Spec, o driver.Properties, p *Shipment) error {
	p.Paths = nil
	if p.Nothing || !pythonScript(*p) {
		return nil
	}
	names := map[string]string{}
	found, err := env.Resolve(ctx, l.PythonRequest(s, *p))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// What is wrong with the environment is said later, where one is needed here.
	if err == nil && (found.Source == requirements.SourceActive || o.Apart || !o.Attached) {
		names = found.Editable()
	}
	paths := srcFolders(p.Files, p.Script+p.Python)
	outside := map[string]string{}
	for name, file := range names {
		if rel, ok := relative(p.Files.Dir, file); !ok {
			outside[name] = file
		} else if strings.TrimSuffix(path.Base(rel), path.Ext(rel)) == name || path.Base(rel) == name {
			paths = append(paths, path.Dir(rel))
		}
	}
	for name, file := range names {
		if outside[name] == "" {
			if err := p.Files.AddPackage(ctx, file); err != nil && !errors.Is(err, bundle.ErrTooBig) && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	if err := addImported(ctx, p, s.Args, outside); err != nil {
		return err
	}
	if slices.ContainsFunc(p.Files.Entries, func(f bundle.Entry) bool { return strings.HasPrefix(f.Name, bundle.EditableFolder+"/") }) {
		paths = append(paths, bundle.EditableFolder)
	}
	slices.Sort(paths)
	p.Paths = slices.DeleteFunc(slices.Compact(paths), func(dir string) bool { return dir == "." && path.Dir(p.Script) == "." && p.Script != "" })
	return nil
}

// pythonScript says whether a program is run by Python.
func pythonScript(p Shipment) bool {
	return p.Python != "" || slices.Contains([]string{".py", ".ipynb"}, strings.ToLower(path.Ext(p.Script)))
}

// relative is a file's slash path in dir, without symbolic links; ok is false of one that
// is not in it.
func relative(dir, file string) (rel string, ok bool) {
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return "", false
	}
	rel, err = filepath.Rel(dir, real)
	return filepath.ToSlash(rel), err == nil && filepath.IsLocal(rel)
}

// addImported adds those packages that the code mentions, and those that these mention.
func addImported(ctx context.Context, p *Shipment, args []string, packages map[string]string) error {
	left := maps.Clone(packages)
	for from := 0; len(left) > 0 && ctx.Err() == nil; {
		texts := p.Files.Entries
		if from > 0 {
			texts = slices.DeleteFunc(slices.Clone(texts), func(f bundle.Entry) bool { return !strings.HasPrefix(f.Name, bundle.EditableFolder+"/") })
		}
		used := mentioned(texts, strings.Join(args, "\n"), left)
		if len(used) == 0 {
			break
		}
		from++
		for _, name := range used {
			file := left[name]
			delete(left, name)
			err := p.Files.AddPackage(ctx, file)
			switch {
			case errors.Is(err, bundle.ErrTooBig):
				p.Files.Notes = append(p.Files.Notes, name+" is an editable install and was not shipped, because "+filepath.Dir(file)+" is too big: install it without -e where the job runs")
			case err != nil && !errors.Is(err, os.ErrNotExist):
				return err
			case err == nil:
				p.Files.Notes = append(p.Files.Notes, "shipped too, because it is an editable install: "+file)
			}
		}
	}
	return context.Cause(ctx)
}

// mostMentioning bounds what is read of a file to find what it imports.
const mostMentioning = 1 << 20

// mentioned are the packages that files of code, settings or the arguments may import.
func mentioned(files []bundle.Entry, args string, packages map[string]string) []string {
	found := map[string]bool{}
	add := func(text []byte) {
		for _, name := range env.Imported(text, packages) {
			found[name] = true
		}
	}
	add([]byte("import " + strings.NewReplacer("\n", " ", "#", " ", `"`, " ").Replace(args)))
	for _, f := range files {
		if f.Size > mostMentioning || !slices.Contains([]string{".py", ".ipynb", ".yaml", ".yml", ".toml", ".json", ".cfg", ".ini"}, path.Ext(f.Name)) {
			continue
		}
		if text, err := os.ReadFile(f.Path()); err == nil {
			add(text)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// srcFolders are the folders src of projects from the script's folder up to the code
// folder that hold packages which are not installed: src/mypk/__init__.py, or any module
// where the project's own files speak of src.
func srcFolders(code bundle.List, script string) (found []string) {
	for dir := path.Dir(script); ; dir = path.Dir(dir) {
		src := path.Join(dir, "src")
		speaks := slices.ContainsFunc([]string{"pyproject.toml", "setup.cfg", "setup.py"}, func(name string) bool {
			text, err := os.ReadFile(filepath.Join(code.Dir, filepath.FromSlash(dir), name))
			return err == nil && strings.Contains(string(text), "src")
		})
		for _, f := range code.Entries {
			rest, ok := strings.CutPrefix(f.Name, src+"/")
			if !ok {
				continue
			}
			if strings.Count(rest, "/") == 1 && path.Base(rest) == "__init__.py" || speaks && path.Ext(rest) == ".py" {
				found = append(found, src)
				break
			}
		}
		if dir == "." || !filepath.IsLocal(dir) {
			return found
		}
	}
}
