package agent

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/module"
)

// withModule leaves our modules in the agent's folder, and adds that to PYTHONPATH, after
// the folders of the code that Python is to look in, where code is the code folder as the
// program sees it: at its end, so that a module of that name in the script's folder, or where the caller
// has Python look, comes first.
func (a *agent) withModule(environ []string, code string) ([]string, error) {
	dir := filepath.Join(a.Own, "python")
	if err := module.Lay(dir); err != nil {
		return nil, fault.Wrap(err, fault.Full, "Free some space, or set XDG_STATE_HOME to a folder with room.", "prepare program")
	}
	var folders []string
	for _, rel := range a.Job.Code.Paths {
		folders = append(folders, filepath.Join(code, filepath.FromSlash(rel)))
	}
	dir = strings.Join(append(folders, dir), string(filepath.ListSeparator))
	path := dir
	for _, kv := range environ { // the last of a key wins
		if value, ok := strings.CutPrefix(kv, "PYTHONPATH="); ok && value != "" {
			path = value + string(filepath.ListSeparator) + dir
		}
	}
	return append(environ, fmt.Sprintf("PYTHONPATH=%s", path)), nil
}
