package env

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/envtest"
	"github.com/drover-run/drover/internal/env/programs"
	"github.com/drover-run/drover/internal/env/requirements"
)

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
		envtest.RefusedWith(t, err, want.kind, want.text, want.hint)
	}
	const elsewhere = "Try XDG_CACHE_HOME=/some/folder you may write to."
	envtest.RefusedWith(t, onDisk(fs.ErrPermission, "build environment"), fault.Denied, "build environment: ", elsewhere)
	envtest.RefusedWith(t, onDisk(unix.EROFS, "build environment"), fault.Denied, "build environment: ", elsewhere)
	envtest.RefusedWith(t, onDisk(unix.ENOSPC, "build environment"), fault.Full, "build environment: ", diskHint)
}

func TestAPythonThatWillNotDoIsNamed(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	python := fakePython(t, bin, "python3", "3.9.2")
	r := request(t, "")
	r.Python, r.Environ = python, []string{"PATH=" + bin}
	envtest.Write(t, filepath.Join(r.Dir, "pyproject.toml"), "[project]\nrequires-python = '>=3.10'\ndependencies = ['alpha']\n")
	_, err := Resolve(t.Context(), r)
	envtest.RefusedWith(t, err, fault.Invalid, ": it needs Python >=3.10, but "+python+" is 3.9.2", "Install one and name it with --python, or take yours as it is with --no-env.")

	envtest.Write(t, python, "#!/bin/sh\necho '{\"self\": {\"executable\": \""+python+"\", \"version\": \"3.7.1\", \"old\": true}, \"missing\": {\"name\": \"alpha\"}}'\n")
	envtest.Write(t, filepath.Join(r.Dir, "pyproject.toml"), "[project]\ndependencies = ['alpha']\n")
	_, err = Resolve(t.Context(), r)
	envtest.RefusedWith(t, err, fault.Invalid, "resolve python: "+python+": Python 3.7.1 is too old to build pyproject.toml for", "Try --python python3.12, or --no-env to take it as it is.")

	envtest.Write(t, filepath.Join(bin, "python"), "#!/bin/sh\nexit 1\n")
	envtest.RefusedWith(t, programs.FindTorchrun(t.Context(), r.Environ, filepath.Join(bin, "python")), fault.Missing,
		"find torchrun: "+bin+"/python has no torch", "Add torch to requirements.txt, or use --launcher torch, which needs nothing.")
}

func TestAnEnvironmentThatCannotBeReplacedSaysWhy(t *testing.T) {
	t.Parallel()
	lost := filepath.Join(t.TempDir(), "none", "env")
	envtest.RefusedWith(t, setAside(lost), fault.Denied, "replace "+lost+": another user has changed it: ", "Remove it: rm -r "+lost+".")
}
