package env

import (
	"errors"
	"os"
	"path/filepath"
)

// uv looks for settings (uv.toml, or [tool.uv] in a pyproject.toml) and for the
// workspace that a project belongs to in the code folder and in every folder above it,
// and each can name the index that packages come from, or a path instead of a package.
// The folder of a job can lie below one in which all users may make files, such as /tmp.
// A file there must not decide what is installed, so a build ends the search in the
// folder of the job: uv takes the nearest settings, and the nearest pyproject.toml above
// a project ends its search for a workspace. The flag --no-config is no substitute: it
// leaves out the user's own settings too, and says nothing about workspaces.

// fenceFile is one that uv has always looked for, for both purposes.
const fenceFile = "pyproject.toml"

// An empty table counts as settings; a file without it would be passed over.
const fenceText = `# drover puts this file here while it builds an environment: uv ends its search
# for settings and for a workspace here, because nothing above belongs to the job.
[tool.uv]
`

// fence ends uv's search in dir, until remove is called. "" is a request without such a
// folder, for which it does nothing.
func fence(dir string) (remove func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	path := filepath.Join(dir, fenceFile)
	if err := os.WriteFile(path, []byte(fenceText), 0o600); err != nil { // also over that of a killed build
		return nil, errors.Join(err, os.Remove(path))
	}
	return func() error { return os.Remove(path) }, nil
}
