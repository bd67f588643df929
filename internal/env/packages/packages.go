// Package packages reads which Debian packages a script needs, and installs those that the machine
// does not have. It refuses to know what is done with them. Proved by its tests, over stand-ins
// for apt-get and dpkg-query.
package packages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/env/tools"
)

// packagesFile names the Linux packages that a script needs, beside its code.
const packagesFile = "packages.txt"

// maxPackages bounds that file, in bytes: far more than Debian has packages for
// one script, and little enough to read whatever else may carry the name.
const maxPackages = 1 << 20

// packageName is a Debian package, name[:architecture][=version], by Debian's own
// rules for each part. None is an option, and none ends with "-", which tells
// apt-get to remove it.
var packageName = tools.Compiled(`^[a-z0-9][a-z0-9+.-]*[a-z0-9+](:[a-z0-9-]*[a-z0-9])?(=[0-9]([A-Za-z0-9.+~:-]*[A-Za-z0-9.+~])?)?$`)

// Read reads the nearest packages.txt, from the script's folder up to the code
// folder: Debian's packages, one a line, name or name=version, # for comments. None when
// there is no such file. Each is named once, in the file's order.
func Read(r requirements.Request) ([]string, error) {
	var f *os.File
	err := fs.ErrNotExist
	for _, dir := range r.SearchFolders() {
		if f, err = os.Open(filepath.Join(dir, packagesFile)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "", "read packages")
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPackages+1))
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "", "read packages")
	}
	return parsePackages(data)
}

func parsePackages(data []byte) ([]string, error) {
	const hint = "Write one Debian package a line, as ffmpeg or libgl1=1.6.0-1; for a file of another kind, choose another name or `--no-env`."
	if len(data) > maxPackages {
		return nil, fault.New(fault.Invalid, hint, "read packages: %s is larger than %d bytes", packagesFile, maxPackages)
	}
	var names []string
	for i, line := range strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" || slices.Contains(names, line) {
			continue
		}
		if !packageName().MatchString(line) {
			return nil, fault.New(fault.Invalid, hint, "read packages: %s line %d: %q is not a package's name", packagesFile, i+1, line)
		}
		names = append(names, line)
	}
	return names, nil
}

// Missing says which of the packages this machine does not have, in their
// order. It is not known where there is no dpkg-query.
func Missing(ctx context.Context, names, environ []string) (missing []string, known bool) {
	if len(names) == 0 {
		return nil, true
	}
	tool := tools.FindAll(environ, "dpkg-query")
	if len(tool) == 0 {
		return nil, false
	}
	const format = "${db:Status-Status}\t${Package}\t${Architecture}\t${Version}\t${Provides}\n"
	ctx, cancel := context.WithTimeout(ctx, tools.Patience)
	defer cancel()
	out, err := tools.Answer(ctx, "/", debian(environ), tool[0], "--show", "--showformat="+format)
	if err != nil {
		return nil, false
	}
	have := installed(out)
	for _, name := range names {
		if !have[name] {
			missing = append(missing, name)
		}
	}
	return missing, true
}

// installed gives each package by all names that packages.txt may call it by:
// with and without architecture and version, and what it provides.
func installed(list string) map[string]bool {
	have := map[string]bool{}
	for line := range strings.Lines(list) {
		part := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(part) != 5 || part[0] != "installed" {
			continue
		}
		name, version := part[1], part[3]
		for _, n := range []string{name, name + ":" + part[2]} {
			have[n], have[n+"="+version] = true, true
		}
		for provided := range strings.SplitSeq(part[4], ",") {
			have[firstWord(provided)] = true
		}
	}
	delete(have, "")
	return have
}

func firstWord(s string) string {
	word, _ := tools.CutBlank(strings.TrimSpace(s))
	return word
}

// Refuse is the fault for packages that are not there when it was not said
// that they may be installed; nil for none.
func Refuse(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	hint := fmt.Sprintf("Add `--packages` to install them (as root), or install them yourself: `sudo apt-get install %s`.", strings.Join(missing, " "))
	return fault.New(fault.Missing, hint, "check packages: %s: not installed here: %s", packagesFile, strings.Join(missing, ", "))
}

// machine is where packages are installed: tests have one of their own.
type machine struct {
	root bool
	lock string // a file that only root may open: a process that can open a file can hold its lock
}

// Install installs what is missing of the packages, with apt-get; nothing
// missing needs no rights. Processes that do so at once wait for each other. When
// ctx ends while packages are downloaded, so does this; what dpkg has begun it
// ends first. Log, which may be nil, gets apt-get's lines, never from two
// goroutines. Faults: Missing without apt-get, Denied without root, else what
// apt-get complains of.
func Install(ctx context.Context, names, environ []string, log func(line string)) error {
	return machine{os.Geteuid() == 0, "/run/drover-packages.lock"}.installPackages(ctx, names, environ, log)
}

func (m machine) installPackages(ctx context.Context, names, environ []string, log func(string)) error {
	missing, known := Missing(ctx, names, environ)
	if len(missing) == 0 && known {
		return nil
	}
	if !known {
		missing = names
	}
	list := strings.Join(missing, " ")
	tool := tools.FindAll(environ, "apt-get")
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("install packages: %w", context.Cause(ctx))
	case len(tool) == 0 || !known:
		return fault.New(fault.Missing, "Install what they are called here yourself, then leave `--packages` out.",
			"install packages: they are Debian's, and this machine has no apt-get and dpkg-query: %s", list)
	case !m.root:
		return fault.New(fault.Denied, "Try `sudo apt-get install "+list+"`, then run it again without `--packages`.", "install packages: only root may: %s", list)
	}
	a := apt{tool: tool[0], dpkg: tools.FindAll(environ, "dpkg"), environ: debian(environ), log: func(string) {}}
	if log != nil {
		a.log = func(line string) { log(tools.Mask(line)) } // an archive's address may hold a password
	}
	var err error
	if a.lock, err = m.lockMachine(ctx, a.log); err != nil {
		return err
	}
	defer a.lock.Close()
	if missing, _ = Missing(ctx, names, environ); len(missing) == 0 {
		return nil // by the last holder of the lock
	}
	if err := a.installPackages(ctx, missing); err != nil {
		return err
	}
	if missing, _ = Missing(ctx, names, environ); len(missing) > 0 {
		return fault.New(fault.Failed, "Try apt-get install "+strings.Join(missing, " ")+" yourself, to see why.",
			"install packages: apt-get has ended well and left out %s", strings.Join(missing, ", "))
	}
	return nil
}

// lockMachine takes the machine's lock.
func (m machine) lockMachine(ctx context.Context, log func(string)) (*os.File, error) {
	f, err := os.OpenFile(m.lock, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fault.Wrap(err, fault.Denied, "Install them yourself, then leave `--packages` out.", "install packages")
	}
	said := false
	err = tools.Lock(ctx, f, unix.LOCK_EX, func() bool {
		if !said {
			log("waiting for another job, which installs packages")
		}
		said = true
		return true
	})
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// debian is an environment for Debian's tools: English, asking nothing, and free
// of what would lead the scripts of packages to other programs and libraries.
func debian(environ []string) []string {
	out := slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc([]string{"PYTHON", "LD_", "LC_", "DPKG_", "PERL"}, func(p string) bool { return strings.HasPrefix(name, p) }) ||
			slices.Contains([]string{"PATH", "LANG", "LANGUAGE", "APT_CONFIG", "VIRTUAL_ENV", "CONDA_PREFIX"}, name)
	})
	return append(out, "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:"+tools.Variable(environ, "PATH"))
}

// apt is apt-get, with the lock held.
type apt struct {
	tool    string
	dpkg    []string // those on PATH
	environ []string
	lock    *os.File
	log     func(string)
}

// aptOptions go along with whatever apt-get installs: it waits for others' locks,
// asks nothing, keeps settings that were changed, removes nothing, and
// takes a name as a name and not as a pattern.
var aptOptions = []string{"--yes", "--quiet", "--no-install-recommends", "--no-remove",
	"--option", "DPkg::Lock::Timeout=600", "--option", "Dpkg::Use-Pty=0", "--option", "APT::Cmd::Pattern-Only=true",
	"--option", "Dpkg::Options::=--force-confdef", "--option", "Dpkg::Options::=--force-confold"}

// installPackages brings the packages here and then installs them.
func (a apt) installPackages(ctx context.Context, names []string) error {
	args := slices.Concat([]string{"install"}, aptOptions, []string{"--"}, names)
	out, err := a.fetchPackages(ctx, slices.Insert(slices.Clone(args), 1, "--download-only"))
	if err == nil {
		// Not to be ended in the middle: dpkg would have to be mended by hand.
		out, err = a.runLocked(context.WithoutCancel(ctx), a.tool, args...)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("install packages: %w", context.Cause(ctx))
	}
	return explainApt(out, err)
}

// fetchPackages tries with the lists that the machine has. Where that goes wrong (it may
// have none, or old ones) it brings them up to date and tries once more.
func (a apt) fetchPackages(ctx context.Context, args []string) (string, error) {
	out, err := a.runLocked(ctx, a.tool, args...)
	if err == nil || ctx.Err() != nil {
		return out, err
	}
	if strings.Contains(out, "dpkg --configure -a") && len(a.dpkg) > 0 { // an earlier dpkg was killed
		_, _ = a.runLocked(context.WithoutCancel(ctx), a.dpkg[0], "--force-confdef", "--force-confold", "--configure", "-a") // if in vain, apt-get says so again
	}
	// An archive that does not answer is only a warning to an update; the second
	// try then says that there is no such package.
	said, _ := a.runLocked(ctx, a.tool, "update", "--quiet", "--option", "DPkg::Lock::Timeout=600")
	out, err = a.runLocked(ctx, a.tool, args...)
	return said + out, err
}

// runLocked runs a tool with the lock: when this process is killed, the next one waits
// for what it left running.
func (a apt) runLocked(ctx context.Context, tool string, args ...string) (string, error) {
	w := &tools.LineWriter{Each: a.log}
	cmd := tools.NewCommand(ctx, "/", a.environ, tool, args...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = w, w, []*os.File{a.lock}
	err := cmd.Run()
	w.Flush()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // a daemon that a package has started holds our end of the pipe
	}
	return string(w.Kept), err
}

// aptSymptoms are what apt-get says, in order: what makes another one appear
// comes first.
var aptSymptoms = []struct {
	said func() *regexp.Regexp
	kind fault.Kind
	hint string
	mean string // a format for the package's name, where the expression has one
}{
	{tools.Compiled(`(?i)no space left on device|don't have enough free space`), fault.Full, "Free some space on the disk of /var.", "the disk is full"},
	{tools.Compiled(`(?i)could not get lock|unable to acquire the dpkg`), fault.Full, "Wait until it has ended, then run it again.", "another program installs packages"},
	{tools.Compiled(`(?i)temporary failure resolving|could not resolve|could not connect|cannot initiate the connection|connection timed out`), fault.Lost,
		"Check the network and the archives in /etc/apt/sources.list.", "the package archive does not answer"},
	{tools.Compiled(`Version '[^']*' for '([^']*)' was not found`), fault.Invalid, "Choose one of those that apt-cache policy names.", "the archive does not have this version of %q"},
	{tools.Compiled(`Unable to locate package (\S+)|Package '?([^\s']+)'? has no installation candidate`), fault.Invalid,
		"Check the spelling in packages.txt with apt-cache search.", "no package %q in the archive"},
}

func explainApt(out string, err error) error {
	out = tools.Mask(out)
	for _, s := range aptSymptoms {
		m := s.said().FindStringSubmatch(out)
		if m == nil {
			continue
		}
		if name := strings.Join(m[1:], ""); name != "" {
			return fault.New(s.kind, s.hint, "install packages: %s: %s", packagesFile, fmt.Sprintf(s.mean, name))
		}
		return fault.New(s.kind, s.hint, "install packages: %s", s.mean)
	}
	why := ""
	for line := range bytes.Lines([]byte(out)) {
		if text, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("E: ")); ok {
			why = ": " + string(text)
			break
		}
	}
	return fault.Wrap(err, fault.Failed, "Read above what apt-get says.", "install packages%s", why)
}
