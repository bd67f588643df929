package env

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/env/tools"
)

// editable is what an interpreter imports from folders outside of itself, because of
// "pip install -e": such packages are the user's code.
type editable struct {
	Dirs     []string          `json:"dirs,omitempty"`     // from .pth files: on its path
	Packages map[string]string `json:"packages,omitempty"` // from finders: a module's name and its file or folder
}

// topLevelModules are the top-level modules and packages that it has, by name.
func (e editable) topLevelModules() map[string]string {
	found := map[string]string{}
	for name, file := range e.Packages {
		if info, err := os.Stat(file); err == nil && !strings.Contains(name, ".") {
			if init := filepath.Join(file, "__init__.py"); info.IsDir() && filepath.Base(file) == name || !info.IsDir() && file != init {
				found[name] = file
			}
		}
	}
	for _, dir := range e.Dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, d := range entries {
			name, _, _ := strings.Cut(d.Name(), ".")
			module := d.IsDir() || slices.Contains([]string{".py", ".so"}, filepath.Ext(d.Name()))
			if _, taken := found[name]; !taken && module && isModule().MatchString(name) && (!d.IsDir() || name == d.Name()) {
				found[name] = filepath.Join(dir, d.Name())
			}
		}
	}
	return found
}

var isModule = tools.Compiled(`^[A-Za-z_]\w*$`)

// Editable are the packages and modules outside the interpreter that Resolve has judged,
// by name: what "pip install -e" shows it, each a file or a folder, absolute.
func (p Plan) Editable() map[string]string { return p.editable.topLevelModules() }

// imports finds import statements, and names of modules in quotes, as hydra's _target_.
var imports = tools.Compiled(`(?:^|[\s";])(?:import|from)[ \t]+([^\n#"]+)|["'=\s]([A-Za-z_]\w*)(?:\.[A-Za-z_]\w*)+\b`)

var identifier = tools.Compiled(`[A-Za-z_]\w*`)

// Imported are the names among those that a text of code or settings may import.
func Imported(text []byte, names map[string]string) []string {
	found := map[string]bool{}
	for _, m := range imports().FindAllSubmatch(text, -1) {
		for _, part := range m[1:] {
			for _, word := range identifier().FindAll(part, -1) {
				if _, is := names[string(word)]; is {
					found[string(word)] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
