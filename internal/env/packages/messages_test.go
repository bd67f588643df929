package packages

import (
	"os"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/envtest"
)

func TestPackagesThatCannotBeInstalledSayWhy(t *testing.T) {
	t.Parallel()
	_, err := parsePackages([]byte("ffmpeg\n-y\n"))
	envtest.RefusedWith(t, err, fault.Invalid, `read packages: packages.txt line 2: "-y" is not a package's name`,
		"Write one Debian package a line, as ffmpeg or libgl1=1.6.0-1; for a file of another kind, choose another name or --no-env.")

	names := []string{"hello", "libgl1"}
	d := newDebianStub(t)
	envtest.RefusedWith(t, d.installPackages(t.Context(), names, []string{"PATH=" + t.TempDir()}, nil), fault.Missing,
		"install packages: they are Debian's, and this machine has no apt-get and dpkg-query: hello libgl1",
		"Install what they are called here yourself, then leave --packages out.")
	envtest.Put(t, d.dir, "forgetful", "", 0o644)
	envtest.RefusedWith(t, d.installPackages(t.Context(), names, d.environ, nil), fault.Failed, "install packages: apt-get has ended well and left out hello, libgl1",
		"Try apt-get install hello libgl1 yourself, to see why.")
	d.root = false
	envtest.RefusedWith(t, d.installPackages(t.Context(), names, d.environ, nil), fault.Denied, "install packages: only root may: hello libgl1",
		"Try sudo apt-get install hello libgl1, then run it again without --packages.")
	if _, err := os.Stat(d.lock); err != nil {
		t.Errorf("the lock of the install that ran is gone: %v", err)
	}
}
