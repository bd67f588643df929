package env

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/requirements"
)

// refusedWith fails the test unless err has this kind, these words and this hint.
func refusedWith(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || !strings.Contains(err.Error(), text) || fault.Hint(err) != hint {
		t.Errorf("got %v, %s, %q; want %s, %s, %q", err, fault.KindOf(err), fault.Hint(err), text, kind, hint)
	}
}

func TestWhatABuildLacksHasANextStep(t *testing.T) {
	t.Parallel()
	asked := &requirements.Manifest{Path: "/code/requirements.txt"}
	for out, want := range map[string]struct {
		kind       fault.Kind
		text, hint string
	}{
		"ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device": {fault.Full,
			"build environment: the disk is full", "Free some space, or set XDG_CACHE_HOME to a folder on a larger disk."},
		"  cause: client error (Connect)\n  cause: invalid peer certificate: UnknownIssuer": {fault.Denied,
			"build environment: the package index shows a certificate that is not trusted here", "Set SSL_CERT_FILE to a file with your authority's certificates."},
		"  Caused by: HTTP status client error (401 Unauthorized) for url (https://example.org/simple/idna/)": {fault.Denied,
			"build environment: the package index refuses access", "Check the user and password in PIP_INDEX_URL or UV_DEFAULT_INDEX."},
	} {
		err := explain(out, errors.New("exit status 1"), asked, identity{Version: "3.11.7"})
		refusedWith(t, err, want.kind, want.text, want.hint)
	}
	const elsewhere = "Try XDG_CACHE_HOME=/some/folder you may write to."
	refusedWith(t, onDisk(fs.ErrPermission, "build environment"), fault.Denied, "build environment: ", elsewhere)
	refusedWith(t, onDisk(unix.EROFS, "build environment"), fault.Denied, "build environment: ", elsewhere)
	refusedWith(t, onDisk(unix.ENOSPC, "build environment"), fault.Full, "build environment: ", diskHint)
}

func TestAPythonThatWillNotDoIsNamed(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	python := fakePython(t, bin, "python3", "3.9.2")
	r := request(t, "")
	r.Python, r.Environ = python, []string{"PATH=" + bin}
	write(t, filepath.Join(r.Dir, "pyproject.toml"), "[project]\nrequires-python = '>=3.10'\ndependencies = ['alpha']\n")
	_, err := Resolve(t.Context(), r)
	refusedWith(t, err, fault.Invalid, ": it needs Python >=3.10, but "+python+" is 3.9.2", "Install one and name it with --python, or take yours as it is with --no-env.")

	write(t, python, "#!/bin/sh\necho '{\"self\": {\"executable\": \""+python+"\", \"version\": \"3.7.1\", \"old\": true}, \"missing\": {\"name\": \"alpha\"}}'\n")
	write(t, filepath.Join(r.Dir, "pyproject.toml"), "[project]\ndependencies = ['alpha']\n")
	_, err = Resolve(t.Context(), r)
	refusedWith(t, err, fault.Invalid, "resolve python: "+python+": Python 3.7.1 is too old to build pyproject.toml for", "Try --python python3.12, or --no-env to take it as it is.")

	write(t, filepath.Join(bin, "python"), "#!/bin/sh\nexit 1\n")
	refusedWith(t, FindTorchrun(t.Context(), r.Environ, filepath.Join(bin, "python")), fault.Missing,
		"find torchrun: "+bin+"/python has no torch", "Add torch to requirements.txt, or use --launcher torch, which needs nothing.")
}

func TestAnEnvironmentThatCannotBeReplacedSaysWhy(t *testing.T) {
	t.Parallel()
	lost := filepath.Join(t.TempDir(), "none", "env")
	refusedWith(t, setAside(lost), fault.Denied, "replace "+lost+": another user has changed it: ", "Remove it: rm -r "+lost+".")
}

func TestPackagesThatCannotBeInstalledSayWhy(t *testing.T) {
	t.Parallel()
	_, err := parsePackages([]byte("ffmpeg\n-y\n"))
	refusedWith(t, err, fault.Invalid, `read packages: packages.txt line 2: "-y" is not a package's name`,
		"Write one Debian package a line, as ffmpeg or libgl1=1.6.0-1; for a file of another kind, choose another name or --no-env.")

	names := []string{"hello", "libgl1"}
	d := newDebianStub(t)
	refusedWith(t, d.installPackages(t.Context(), names, []string{"PATH=" + t.TempDir()}, nil), fault.Missing,
		"install packages: they are Debian's, and this machine has no apt-get and dpkg-query: hello libgl1",
		"Install what they are called here yourself, then leave --packages out.")
	put(t, d.dir, "forgetful", "", 0o644)
	refusedWith(t, d.installPackages(t.Context(), names, d.environ, nil), fault.Failed, "install packages: apt-get has ended well and left out hello, libgl1",
		"Try apt-get install hello libgl1 yourself, to see why.")
	d.root = false
	refusedWith(t, d.installPackages(t.Context(), names, d.environ, nil), fault.Denied, "install packages: only root may: hello libgl1",
		"Try sudo apt-get install hello libgl1, then run it again without --packages.")
	if _, err := os.Stat(d.lock); err != nil {
		t.Errorf("the lock of the install that ran is gone: %v", err)
	}
}
