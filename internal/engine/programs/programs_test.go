package programs

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
)

var here = runtime.GOOS + "/" + runtime.GOARCH

// other is a system that is not this one.
const other = "linux/riscv64"

// build makes a program for a system.
func build(t *testing.T, system, path string) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, source)
	goos, arch, _ := strings.Cut(system, "/")
	c.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestAProgramIsFoundBesideThisOneOrInTheDataFolder(t *testing.T) {
	beside, data := t.TempDir(), t.TempDir()
	f := Finder{Self: filepath.Join(beside, "drover"), Folders: []string{data}}
	if path, err := f.Find(here); path != f.Self || err != nil {
		t.Errorf("for %s it is %s, %v", here, path, err)
	}
	_, err := f.Find(other)
	if want := "find program for linux/riscv64: there is no drover-linux-riscv64 in " + beside + " or " + data; err == nil || err.Error() != want || fault.KindOf(err) != fault.Missing {
		t.Errorf("got %v, want %s", err, want)
	}
	if want := "make programs && cp bin/drover-* " + data + "/."; !strings.Contains(fault.Hint(err), want) {
		t.Errorf("the hint is %q, want %q in it", fault.Hint(err), want)
	}
	if _, err := f.Stored(nil)(t.Context(), other); fault.KindOf(err) != fault.Missing {
		t.Errorf("to store it gives %v", err)
	}
	if want := "Make it in a clone of this version of drover, and copy it: make programs && cp bin/drover-* "; !strings.HasPrefix(fault.Hint(err), want) {
		t.Errorf("the hint is %q, want it to begin with %q", fault.Hint(err), want)
	}
	for _, folder := range []string{data, beside} { // the one beside comes first
		path := filepath.Join(folder, "drover-linux-riscv64")
		build(t, other, path)
		if got, err := f.Find(other); got != path || err != nil {
			t.Errorf("got %s, %v, want %s", got, err, path)
		}
	}
	wrong := filepath.Join(beside, "drover-linux-riscv64")
	build(t, "linux/s390x", wrong)
	if _, err := f.Find(other); err == nil || err.Error() != "find program for linux/riscv64: "+wrong+" is built for linux/s390x" {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(wrong, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Find(other); fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), "find program for linux/riscv64: ") {
		t.Errorf("got %v", err)
	}
}

func TestAProgramThatCannotBeStoredIsNamed(t *testing.T) {
	f := Finder{Self: filepath.Join(t.TempDir(), "gone")}
	if _, err := f.Stored(nil)(t.Context(), here); err == nil || !strings.HasPrefix(err.Error(), "store the program for "+here+": ") {
		t.Errorf("got %v", err)
	}
}

func TestAProgramIsStoredOnceAndRenewedWhenItIsOld(t *testing.T) {
	root, self := t.TempDir(), filepath.Join(t.TempDir(), "drover")
	body := []byte("a program")
	if err := os.WriteFile(self, body, 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := dir.Open(root, dir.OS)
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(b, store.Options{})
	stored := func() time.Time {
		t.Helper()
		p, err := (&Finder{Self: self}).Stored(s)(t.Context(), here)
		if err != nil {
			t.Fatal(err)
		}
		if p.System != here || p.Size != int64(len(body)) || len(p.SHA256) != 64 || len(p.Downloads) == 0 {
			t.Errorf("it is %+v", p)
		}
		r, err := s.Open(t.Context(), Prefix+p.SHA256, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, body) {
			t.Errorf("the store has %q, %v", got, err)
		}
		info, err := os.Stat(filepath.Join(root, Prefix, p.SHA256))
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	first := stored()
	if again := stored(); !again.Equal(first) {
		t.Errorf("it is written again after %s", again.Sub(first))
	}
	old := time.Now().Add(-renewAfter - time.Hour)
	all, err := filepath.Glob(filepath.Join(root, Prefix, "*"))
	if err != nil || len(all) != 1 || slices.Contains(all, "") {
		t.Fatalf("there are %q, %v", all, err)
	}
	if err := os.Chtimes(all[0], old, old); err != nil {
		t.Fatal(err)
	}
	if renewed := stored(); time.Since(renewed) > time.Hour {
		t.Errorf("it is still of %s", renewed)
	}
}
