package config

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAProjectFileThatCannotBeReadSaysWhatToDo(t *testing.T) {
	loop := filepath.Join(t.TempDir(), "drover.yaml")
	for why, row := range map[string]struct {
		make   func() error
		remedy string
	}{
		"it is not a regular file": {func() error { return syscall.Mkfifo(loop, 0o600) }, "mend it or remove it"},
		"it has more than 1 MiB":   {func() error { return os.WriteFile(loop, make([]byte, maxSettingsFile+1), 0o600) }, "mend it or remove it"},
		"not a directory":          {func() error { return os.WriteFile(filepath.Dir(loop)+"/file", nil, 0o600) }, "leave the folder, or have it made readable"},
	} {
		os.Remove(loop)
		if err := row.make(); err != nil {
			t.Fatal(err)
		}
		path := loop
		if why == "not a directory" {
			path = filepath.Dir(loop) + "/file/drover.yaml"
		}
		if p, got, remedy := openProjectFile(path, Confirmations(t.TempDir())); p != nil || got != why || remedy != row.remedy {
			t.Errorf("it is %v, %q, %q; want %q, %q", p, got, remedy, why, row.remedy)
		}
	}
}
