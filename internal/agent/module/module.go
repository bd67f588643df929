// Package module is what Python programs import where drover runs them: drover, one
// file, which knows the protocol of package stream; and worker_toolkit, for scripts
// written for simple-sagemaker, which knows the contract's variables. They know
// nothing else. Proved by its own tests, which run worker_toolkit beside what that
// tool has, and by those of agent and maprunner.
package module

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Python is the text of drover.py.
//
//go:embed drover.py
var Python []byte

// files are all modules. The pattern names files, as that of a folder would leave
// __init__.py out.
//
//go:embed drover.py worker_toolkit/*.py
var files embed.FS

// Lay writes all modules below dir, for all users to read, replacing older ones. It
// may be called again.
func Lay(dir string) error {
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(at, 0o755)
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(at, text, 0o644)
	})
	if err != nil {
		return fmt.Errorf("lay out module: %w", err)
	}
	return nil
}
