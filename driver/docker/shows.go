package docker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/system"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// Where a container sees drover's own files. The folder holds nothing else, so that it can be part
// of PATH.
const (
	tools   = "/.drover/bin"
	program = tools + "/drover"
)

// own are the folders of the contract, which the driver shows itself.
var own = []string{"/opt/ml", "/state", "/tmp", "/.drover"}

// agentMounts are all folders and files of this machine that agent number i sees. Of two mounts at
// one place the first counts.
func (d *Driver) agentMounts(r driver.Request, base string, i int) ([]mount.Mount, error) {
	dir := agentDir(base, i)
	var all []mount.Mount
	taken := map[string]bool{}
	add := func(source, target string, readOnly bool) {
		if !taken[target] {
			taken[target] = true
			all = append(all, mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly})
		}
	}
	add(r.Run.Binary, program, true)
	for _, t := range r.Run.Tools {
		add(t, filepath.Join(tools, filepath.Base(t)), true)
	}
	add(dir, dir, false)
	add(filepath.Join(dir, rootDir, "opt/ml"), "/opt/ml", false)
	add(filepath.Join(dir, rootDir, "state"), "/state", false)
	add(filepath.Join(dir, tmpDir), "/tmp", false)
	if r.Needs.Place.Nodes > 1 {
		add(hostsFile(dir), "/etc/hosts", false)
	}
	engines := sockets("")
	shared := r.Run.Folders
	if d.claims != "" {
		shared = append([]string{d.claims}, shared...)
	}
	for _, f := range shared {
		if err := showable(f, f, engines); err != nil {
			return nil, err
		}
		add(f, f, false)
	}
	if err := visible(r.Needs.Place, ""); err != nil {
		return nil, err
	}
	for _, m := range r.Needs.Place.Mounts {
		add(m.Source, m.Target, m.ReadOnly)
	}
	for _, s := range r.Needs.Place.Seen {
		s = filepath.Clean(s)
		if !within(s, shared) && !within(s, targets(r.Needs.Place)) { // else it is shown with the folder around it
			add(s, s, true)
		}
	}
	return all, nil
}

// beneath is the socket of the containerd that a daemon uses, as only the daemon knows it if it
// has started its own. "": the daemon does not say.
func beneath(info system.Info) string {
	if info.Containerd == nil {
		return ""
	}
	return strings.TrimPrefix(info.Containerd.Address, "unix://")
}

// visible refuses what a place asks for and cannot be shown; told is as for sockets.
func visible(p driver.Place, told string) error {
	engines := sockets(told)
	for _, m := range p.Mounts {
		if err := showable(m.Source, m.Target, engines); err != nil {
			return err
		}
	}
	for _, s := range p.Seen {
		if err := showable(s, filepath.Clean(s), engines); err != nil {
			return err
		}
	}
	return nil
}

func targets(p driver.Place) (all []string) {
	for _, m := range p.Mounts {
		all = append(all, m.Target)
	}
	return all
}

// within says whether a path lies in one of some folders.
func within(path string, folders []string) bool {
	for _, f := range folders {
		if path == f || strings.HasPrefix(path, f+"/") {
			return true
		}
	}
	return false
}

// showable refuses sources that cannot be shown, and those that would give a program the daemon's
// socket: with it, a program is root on this machine.
func showable(source, target string, engines []engine) error {
	doing := "show " + source + " in the container"
	if !filepath.IsAbs(source) || !filepath.IsAbs(target) || filepath.Clean(target) == "/" {
		return fault.New(fault.Invalid, "Name a folder below /: `--mount /data:/data`.", "%s: %s cannot hold it", doing, target)
	}
	for _, o := range own {
		if target == o || strings.HasPrefix(o, target+"/") && target != "/opt" || strings.HasPrefix(target, o+"/") && o != "/tmp" {
			return fault.New(fault.Invalid, "Choose another folder, such as /data.", "%s: %s in a container is used by drover itself", doing, o)
		}
	}
	info, err := os.Stat(source)
	if err != nil {
		hint := "Make it first, or name one that is there."
		if errors.Is(err, fs.ErrPermission) {
			hint = "Name one that you may read."
		}
		return fault.Wrap(err, fault.Invalid, hint, "%s", doing)
	}
	for _, e := range engines {
		for _, part := range e.parts {
			if os.SameFile(info, part) {
				return fault.New(fault.Denied, "Name a folder without it.",
					"%s: it leads to %s, with which a program is root on this machine", doing, e.path)
			}
		}
	}
	return nil
}

// engine is the socket of a container engine, and all folders in which it lies.
type engine struct {
	path  string
	parts []os.FileInfo
}

// sockets are those of the engines that may be on this machine, and the one that docker has named
// (told); "": none. Engines are compared as files, so that they are recognised under any name.
func sockets(told string) (all []engine) {
	paths := []string{"/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/docker/containerd/containerd.sock",
		"/run/podman/podman.sock", "/run/crio/crio.sock"}
	if host, ok := strings.CutPrefix(os.Getenv("DOCKER_HOST"), "unix://"); ok {
		paths = append(paths, host)
	}
	if own := os.Getenv("XDG_RUNTIME_DIR"); own != "" {
		paths = append(paths, filepath.Join(own, "docker.sock"), filepath.Join(own, "docker/containerd/containerd.sock"),
			filepath.Join(own, "podman/podman.sock"))
	}
	if told != "" {
		paths = append(paths, told)
	}
	for _, path := range paths {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // it does not exist
		}
		e := engine{path: path}
		for at := real; ; at = filepath.Dir(at) {
			if info, err := os.Stat(at); err == nil {
				e.parts = append(e.parts, info)
			}
			if at == filepath.Dir(at) {
				break
			}
		}
		all = append(all, e)
	}
	return all
}
