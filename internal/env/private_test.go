package env

import (
	"github.com/drover-run/drover/internal/env/envtest"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A colleague of a shared group, with a umask of 002 as on many clusters, must find
// nothing in the cache to write to. Not parallel: the umask is the whole process's.
func TestNoOtherUserMayWriteWhatIsInTheCache(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o002))
	r := offline(t, "alpha\n")
	for _, name := range []string{"envs", "verdicts"} { // made by an older drover
		if err := os.MkdirAll(filepath.Join(r.Cache, name), 0o775); err != nil {
			t.Fatal(err)
		}
	}
	build(t, r)
	for _, name := range []string{"envs", "verdicts"} {
		if info, err := os.Stat(filepath.Join(r.Cache, name)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s is %v, %v", name, info.Mode(), err)
		}
	}
	seen := 0
	err := filepath.WalkDir(filepath.Join(r.Cache, "envs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		own := strings.HasSuffix(path, lockEnd) || strings.HasSuffix(path, useEnd) // nothing of them is run
		if info, err := d.Info(); err != nil || info.Mode()&0o022 != 0 && !own {
			t.Errorf("%s is %v, %v", path, info.Mode(), err)
		}
		seen++
		return nil
	})
	if err != nil || seen < 10 {
		t.Errorf("%d files, %v", seen, err)
	}
}

// What others could have changed is built anew, whatever they have put there.
func TestAnEnvironmentThatOthersCouldHaveChangedIsBuiltAnew(t *testing.T) {
	t.Parallel()
	r := offline(t, "alpha\n")
	build(t, r)
	p := resolve(t, r)
	dir := p.environFolder()
	library, err := filepath.Glob(filepath.Join(dir, "lib", "python*", "site-packages"))
	if err != nil || len(library) != 1 {
		t.Fatalf("libraries %q, %v", library, err)
	}
	for name, spoil := range map[string]func() error{
		"packages that a group may write":   func() error { return os.Chmod(library[0], 0o775) },
		"marker that all may write":         func() error { return os.Chmod(filepath.Join(dir, marker), 0o666) },
		"programs that a group may write":   func() error { return os.Chmod(filepath.Join(dir, "bin"), 0o775) },
		"an environment of another user":    func() error { return os.Lchown(dir, 54321, 54321) },
		"an environment that all may write": func() error { return os.Chmod(dir, 0o777) },
	} {
		if strings.Contains(name, "another user") && os.Geteuid() != 0 {
			continue // only root can make one
		}
		envtest.Write(t, filepath.Join(library[0], "planted.py"), "")
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if !resolve(t, r).Build {
			t.Errorf("%s: it is taken as it is", name)
		}
		_, j := build(t, r)
		if _, err := os.Stat(filepath.Join(library[0], "planted.py")); j.Count("Successfully installed") != 1 || err == nil {
			t.Errorf("%s: it is used as it is:\n%s", name, strings.Join(j, "\n"))
		}
	}
}

func TestAnAnswerThatOthersCouldHaveWrittenIsAskedAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "verdicts", "key.json")
	remember(file, []byte(`{"Key":"key","Self":{"Executable":"/usr/bin/python3"}}`))
	if _, ok := remembered(file, "key"); !ok {
		t.Fatal("it is not remembered at all")
	}
	if err := os.Chmod(file, 0o664); err != nil {
		t.Fatal(err)
	}
	if _, ok := remembered(file, "key"); ok {
		t.Error("a file that a group may write is believed")
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(file), 0o775); err != nil {
		t.Fatal(err)
	}
	if _, ok := remembered(file, "key"); ok {
		t.Error("a file of a folder that a group may write is believed")
	}
}

func TestAUVThatOthersCouldHaveChangedIsNotRun(t *testing.T) {
	t.Parallel()
	r := offline(t, "alpha\n")
	ran := filepath.Join(t.TempDir(), "ran")
	uv := filepath.Join(r.Cache, "tools", uvFolder, "bin", "uv")
	envtest.Write(t, uv, "#!/bin/sh\n: >"+ran+"\necho uv 9.9.9\n")
	if err := os.Chmod(uv, 0o775); err != nil {
		t.Fatal(err)
	}
	p := resolve(t, r)
	b := builder{plan: &p, log: func(string) {}}
	_, _ = b.findOrFetchUV(t.Context()) // there is no network to bring another one from
	if _, err := os.Stat(ran); err == nil {
		t.Error("it was run")
	}
}
