package code

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/store"
	storemem "github.com/drover-run/drover/store/mem"
)

// folder is where a command is typed: one of the test's own, with a script.
type folder struct {
	*Locator
	t   *testing.T
	dir string
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	dir := t.TempDir()
	world := protocol.World{Store: store.New(storemem.New(), store.Options{})}
	f := &folder{Locator: &Locator{&session.Session{World: world, Caller: session.Caller{User: "ann", Host: "desk", Folder: dir, Environ: os.Environ(), Cache: t.TempDir()}}}, t: t, dir: dir}
	f.write(map[string]string{"train.sh": "#!/bin/sh\necho hello\n"})
	return f
}

func (f *folder) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) write(files map[string]string) {
	f.t.Helper()
	for name, text := range files {
		full := filepath.Join(f.dir, name)
		f.check(os.MkdirAll(filepath.Dir(full), 0o755))
		f.check(os.WriteFile(full, []byte(text), 0o755))
	}
}
