package packages

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/env/envtest"
	"github.com/drover-run/drover/internal/env/requirements"
)

func TestPackagesAreReadStrictly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                              nil,
		"# nothing\n\n":                 nil,
		"ffmpeg\nlibgl1\n":              {"ffmpeg", "libgl1"},
		"\ufefffoo2 # why\r\n foo2\nb+": {"foo2", "b+"},
		"g++\nlibc6:i386\npython3.11":   {"g++", "libc6:i386", "python3.11"},
		"hello=2.10-3\na1=1:2.0~rc1+b1": {"hello=2.10-3", "a1=1:2.0~rc1+b1"},
	} {
		dir := t.TempDir()
		envtest.Put(t, dir, "packages.txt", text, 0o644)
		got, err := Read(requirements.Request{Dir: dir})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, line := range []string{"-y", "--reinstall", "foo-", "foo=1-", "foo:i386-", "foo/stable", "foo bar", "Foo", "f", "foo=1.*", "foo*", "^foo",
		"foo;reboot", "$(foo)", "foo\x00", "./foo.deb", "foo=", "foo==1.0", "foo>=1", "naïve"} {
		dir := t.TempDir()
		envtest.Put(t, dir, "packages.txt", "# two\n"+line+"\n", 0o644)
		_, err := Read(requirements.Request{Dir: dir})
		if fault.KindOf(err) != fault.Invalid || err == nil || !strings.HasPrefix(err.Error(), "read packages: packages.txt line 2: ") || fault.Hint(err) == "" {
			t.Errorf("%q: %v", line, err)
		}
	}
	if got, err := Read(requirements.Request{Dir: t.TempDir()}); got != nil || err != nil {
		t.Errorf("without a file: %q, %v", got, err)
	}
	if _, err := parsePackages(make([]byte, maxPackages+1)); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a huge file: %v", err)
	}
}

func FuzzPackages(f *testing.F) {
	f.Add([]byte("hello=2.10-3\n# x\nlibc6:i386\r\n-y\n"))
	harmless := regexp.MustCompile(`^[a-z0-9][A-Za-z0-9.+~:=-]*[^-]$`)
	f.Fuzz(func(t *testing.T, data []byte) {
		names, err := parsePackages(data)
		if err != nil && names != nil {
			t.Errorf("both %q and %v", names, err)
		}
		for _, name := range names {
			if !harmless.MatchString(name) {
				t.Errorf("%q", name)
			}
		}
	})
}

// debianStub is a machine with stubs of dpkg-query, dpkg and apt-get. Of packages
// they know only names: "status" is what is installed, "archive" what there is,
// "lists" what is known of it. "calls" tells how they were called.
type debianStub struct {
	machine
	dir     string
	environ []string
}

const stubQuery = `#!/bin/sh
# A stub of dpkg-query: it shows all that is installed, in the format that drover asks for.
/bin/cat %DIR%/status
`

const stubApt = `#!/bin/sh
# A stub of apt-get: it installs names, by writing them down.
cd %DIR% || exit 9
line="$*"
echo "$line" >>calls
for last; do :; done
case $line in
update*) [ -f offline ] && echo "W: Failed to fetch http://me:secret@deb.example.org/x  Temporary failure resolving 'deb.example.org'" || /bin/cp archive lists; exit 0 ;;
esac
[ "$DEBIAN_FRONTEND/$LC_ALL/$LD_LIBRARY_PATH$PYTHONPATH" = noninteractive/C.UTF-8/ ] || { echo "E: environment"; exit 100; }
[ -f broken ] && { echo "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem."; exit 100; }
[ -f complaint ] && { /bin/cat complaint; exit 100; }
for name in ${line#* -- }; do
	/bin/grep -qx -e "$name" lists || { echo "E: Unable to locate package $name"; exit 100; }
done
case $line in
*--download-only*) echo "Get:1 $last"; [ -p downloading ] && read x <downloading; exit 0 ;;
esac
echo "Unpacking $last"
[ -p unpacking ] && read x <unpacking
for name in ${line#* -- }; do
	[ -f forgetful ] || printf 'installed\t%s\tamd64\t1.0\t\n' "$name" >>status
done
`

const stubDpkg = `#!/bin/sh
# A stub of dpkg: it ends what was interrupted.
cd %DIR% || exit 9
echo "dpkg $*" >>calls
/bin/rm -f broken
`

func newDebianStub(t *testing.T) debianStub {
	t.Helper()
	d := debianStub{dir: t.TempDir()}
	for name, text := range map[string]string{"bin/dpkg-query": stubQuery, "bin/apt-get": stubApt, "bin/dpkg": stubDpkg} {
		envtest.Put(t, d.dir, name, strings.ReplaceAll(text, "%DIR%", d.dir), 0o755)
	}
	envtest.Put(t, d.dir, "archive", "hello\nlibgl1\n", 0o644)
	envtest.Put(t, d.dir, "lists", "", 0o644)
	envtest.Put(t, d.dir, "status", "installed\tbash\tamd64\t5.2-1\t\n"+
		"config-files\tgone\tamd64\t1\t\ninstalled\tmawk\tamd64\t1.3\tawk, other (= 2)\n", 0o644)
	d.environ = []string{"PATH=" + filepath.Join(d.dir, "bin"), "LD_LIBRARY_PATH=/nowhere", "PYTHONPATH=/mine", "LANG=de_DE"}
	d.machine = machine{root: true, lock: filepath.Join(d.dir, "lock")}
	return d
}

// calls are the words that matter of what was called.
func (d debianStub) calls(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		verb, names, _ := strings.Cut(strings.TrimSpace(line), " -- ")
		verb, _, _ = strings.Cut(verb, " --yes")
		verb, _, _ = strings.Cut(verb, " --quiet")
		out = append(out, strings.TrimSpace(verb+" "+names))
	}
	return out
}

func (d debianStub) pipe(t *testing.T, name string) {
	t.Helper()
	if err := unix.Mkfifo(filepath.Join(d.dir, name), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsInstalledIsKnown(t *testing.T) {
	t.Parallel()
	d := newDebianStub(t)
	missing, known := Missing(t.Context(), []string{"bash", "bash:amd64", "bash=5.2-1", "bash:amd64=5.2-1", "awk", "other", "hello", "gone", "bash=5.3", "bash:i386"}, d.environ)
	if diff := cmp.Diff([]string{"hello", "gone", "bash=5.3", "bash:i386"}, missing); !known || diff != "" {
		t.Errorf("known %v (-want +got):\n%s", known, diff)
	}
	if missing, known := Missing(t.Context(), []string{"bash"}, []string{"PATH=" + t.TempDir()}); known || missing != nil {
		t.Errorf("elsewhere: %q, %v", missing, known)
	}
	if missing, known := Missing(t.Context(), nil, nil); !known || missing != nil {
		t.Errorf("nothing: %q, %v", missing, known)
	}
	err := Refuse([]string{"hello", "libgl1"})
	if fault.KindOf(err) != fault.Missing || err.Error() != "check packages: packages.txt: not installed here: hello, libgl1" ||
		fault.Hint(err) != "Add --packages to install them (as root), or install them yourself: sudo apt-get install hello libgl1." || Refuse(nil) != nil {
		t.Errorf("%v (%s)", err, fault.Hint(err))
	}
}

func TestMissingPackagesAreInstalled(t *testing.T) {
	t.Parallel()
	d := newDebianStub(t)
	var j envtest.Journal
	if err := d.installPackages(t.Context(), []string{"bash", "hello", "libgl1"}, d.environ, j.Log); err != nil {
		t.Fatal(err)
	}
	// Its lists were empty, so they were brought up to date.
	want := []string{"install --download-only hello libgl1", "update", "install --download-only hello libgl1", "install hello libgl1"}
	if diff := cmp.Diff(want, d.calls(t)); diff != "" || j.Count("Unpacking libgl1") != 1 {
		t.Errorf("%q (-want +got):\n%s", j, diff)
	}
	if err := d.installPackages(t.Context(), []string{"bash", "hello"}, d.environ, nil); err != nil || len(d.calls(t)) != len(want) {
		t.Errorf("again: %v, %q", err, d.calls(t))
	}
	// With lists that are good enough, there is no update.
	envtest.Put(t, d.dir, "status", "", 0o644)
	if err := os.Remove(filepath.Join(d.dir, "calls")); err != nil {
		t.Fatal(err)
	}
	if err := d.installPackages(t.Context(), []string{"libgl1"}, d.environ, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"install --download-only libgl1", "install libgl1"}, d.calls(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d.root = false
	if err := d.installPackages(t.Context(), []string{"libgl1"}, d.environ, nil); err != nil {
		t.Errorf("what is there needs no rights: %v", err)
	}
}

func TestAnInterruptedInstallationIsMended(t *testing.T) {
	t.Parallel()
	d := newDebianStub(t)
	envtest.Put(t, d.dir, "lists", "hello\n", 0o644)
	envtest.Put(t, d.dir, "broken", "", 0o644)
	if err := d.installPackages(t.Context(), []string{"hello"}, d.environ, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"install --download-only hello", "dpkg --force-confdef --force-confold --configure -a", "update", "install --download-only hello", "install hello"}
	if diff := cmp.Diff(want, d.calls(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhyPackagesAreNotInstalledIsSaid(t *testing.T) {
	var said faulttest.Sayings
	t.Cleanup(func() { said.Compare(t, "packages") }) // after the tests within
	t.Parallel()
	for name, c := range map[string]struct {
		change func(d *debianStub)
		kind   fault.Kind
		want   string
	}{
		"no root":  {func(d *debianStub) { d.root = false }, fault.Denied, "only root may: libgl1 nosuch"},
		"no tools": {func(d *debianStub) { d.environ = nil }, fault.Missing, "they are Debian's, and this machine has no apt-get and dpkg-query: bash libgl1 nosuch"},
		"no apt-get": {func(d *debianStub) { os.Remove(filepath.Join(d.dir, "bin", "apt-get")) }, fault.Missing,
			"they are Debian's, and this machine has no apt-get and dpkg-query: libgl1 nosuch"},
		"no such package": {func(d *debianStub) {}, fault.Invalid, `packages.txt: no package "nosuch" in the archive`},
		"no network":      {func(d *debianStub) { envtest.Put(t, d.dir, "offline", "", 0o644) }, fault.Lost, "the package archive does not answer"},
		"no such version": {func(d *debianStub) {
			envtest.Put(t, d.dir, "complaint", "Reading...\nE: Version '9' for 'libgl1' was not found\n", 0o644)
		}, fault.Invalid, `packages.txt: the archive does not have this version of "libgl1"`},
		"a full disk": {func(d *debianStub) {
			envtest.Put(t, d.dir, "complaint", "E: You don't have enough free space in /var/cache/apt/archives/.\n", 0o644)
		}, fault.Full, "the disk is full"},
		"something else": {func(d *debianStub) { envtest.Put(t, d.dir, "complaint", "Reading...\nE: Unmet dependencies.\n", 0o644) },
			fault.Failed, "Unmet dependencies.: exit status 100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDebianStub(t)
			c.change(&d)
			var j envtest.Journal
			err := d.installPackages(t.Context(), []string{"bash", "libgl1", "nosuch"}, d.environ, j.Log)
			said.Error(name, err)
			if fault.KindOf(err) != c.kind || err == nil || err.Error() != "install packages: "+c.want || !strings.HasSuffix(fault.Hint(err), ".") {
				t.Errorf("%v (%v) %q\nwant %s", err, fault.KindOf(err), fault.Hint(err), c.want)
			}
			if j.Count("secret") > 0 {
				t.Errorf("a password in the log: %q", j)
			}
		})
	}
	d := newDebianStub(t)
	envtest.Put(t, d.dir, "lists", "hello\n", 0o644)
	envtest.Put(t, d.dir, "forgetful", "", 0o644)
	if err := d.installPackages(t.Context(), []string{"hello"}, d.environ, nil); fault.KindOf(err) != fault.Failed {
		t.Errorf("an apt-get that forgets: %v", err)
	}
}

func TestTwoInstallOnce(t *testing.T) {
	t.Parallel()
	d := newDebianStub(t)
	envtest.Put(t, d.dir, "lists", "hello\n", 0o644)
	d.pipe(t, "unpacking")
	waiting := make(chan struct{})
	var once sync.Once
	both := make(chan error)
	for range 2 {
		go func() {
			both <- d.installPackages(t.Context(), []string{"hello"}, d.environ, func(line string) {
				if strings.HasPrefix(line, "waiting for another job") {
					once.Do(func() { close(waiting) })
				}
			})
		}()
	}
	<-waiting
	envtest.Write(t, filepath.Join(d.dir, "unpacking"), "go\n")
	for range 2 {
		if err := <-both; err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"install --download-only hello", "install hello"}, d.calls(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s, err := os.Stat(d.lock); err != nil || s.Mode().Perm() != 0o600 {
		t.Errorf("others could hold the lock: %v, %v", s.Mode(), err)
	}
}

func TestADownloadEndsWhenAskedAndUnpackingWhenDone(t *testing.T) {
	t.Parallel()
	stop := errors.New("asked to")
	for phase, says := range map[string]string{"downloading": "Get:1", "unpacking": "Unpacking"} {
		d := newDebianStub(t)
		envtest.Put(t, d.dir, "lists", "hello\n", 0o644)
		d.pipe(t, phase)
		ctx, cancel := context.WithCancelCause(t.Context())
		err := d.installPackages(ctx, []string{"hello"}, d.environ, func(line string) {
			if !strings.HasPrefix(line, says) {
				return
			}
			cancel(stop)
			if phase == "unpacking" {
				envtest.Write(t, filepath.Join(d.dir, phase), "go\n")
			}
		})
		done := slices.Contains(d.calls(t), "install hello")
		if phase == "downloading" && (!errors.Is(err, stop) || done) || phase == "unpacking" && (err != nil || !strings.Contains(envtest.Read(t, filepath.Join(d.dir, "status")), "hello")) {
			t.Errorf("%s: %v, %q", phase, err, d.calls(t))
		}
	}
}

func TestRealADebianPackageIsInstalled(t *testing.T) {
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it: it installs a package, and removes it")
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("only root installs packages, and with apt-get")
	}
	names := []string{"bash", "hello"}
	if missing, known := Missing(t.Context(), names, os.Environ()); !known || !slices.Equal(missing, names[1:]) {
		t.Skipf("hello is here already, or cannot be told: %q, %v", missing, known)
	}
	t.Cleanup(func() {
		if out, err := exec.Command(apt, "purge", "--yes", "hello").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	log := func(line string) { t.Log(line) }
	if err := Install(t.Context(), names, os.Environ(), log); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("hello").Output(); err != nil || !strings.HasPrefix(string(out), "Hello") {
		t.Errorf("%v: %s", err, out)
	}
	err = Install(t.Context(), []string{"nosuch-xyz-drover"}, os.Environ(), log)
	if fault.KindOf(err) != fault.Invalid || err.Error() != `install packages: packages.txt: no package "nosuch-xyz-drover" in the archive` {
		t.Errorf("err = %v", err)
	}
	err = Install(t.Context(), []string{"hello=99"}, os.Environ(), log)
	if fault.KindOf(err) != fault.Invalid || err.Error() != `install packages: packages.txt: the archive does not have this version of "hello"` {
		t.Errorf("err = %v", err)
	}
}
