// Package docker is the driver for a docker daemon on this machine: every agent
// is a container, and outlives the command line that started it.
//
// A placement is a folder, <dir>/<job>-<placement>, which appears whole or not at all. In it
// are
//
//	request    what was asked for; locked (flock) while a command starts or removes it
//	begun      written before the first container is started: no command starts another
//	remove     all is to be removed when the agents have ended
//	0/         agent 0's folder, the only one that its container sees, under the same path
//	  orders   what the agent is told of its machine: cache, cores, memory
//	  secrets  the values of its secrets; the agent removes it when it has read them
//	  notes    the agent's notes
//	  log      its standard output and error
//	  stop     it was asked to stop: the grace it has
//	  root/    what its program sees as /opt/ml and /state
//	  state/ home/ tmp/ hosts
//
// Beside these folders, .cache/<image> has the environments that were built in containers
// of an image, as long as docker has that image.
//
// The containers have names that follow from the placement, drover-<job>-<placement>-<index>. All
// are made before the first is started. Docker says which of them live; the agent's notes say how
// it ended. Agents that must reach each other get a bridge network for their job.
//
// An agent's program is that of this machine, mounted into the container, whatever the image is;
// the agent needs nothing from the image. Adopt is the agent's side: process 1, which keeps the
// time of a Stop and reaps processes, and the agent below it.
//
// It refuses to know user code and process trees. drivertest proves it against a real daemon;
// golden files hold the requests to docker.
package docker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
)

// Name is the target in the handles of this driver.
const Name = "docker"

// Target is docker on this machine as a target.
var Target = driver.Target{Name: Name, Adopt: Adopt, Beside: beside, Properties: properties,
	New: func(f driver.Config) driver.Driver {
		d := New(f.State, f.Reservations)
		d.work = f.Work
		return d
	}}

func properties(driver.Config) driver.Properties {
	return driver.Properties{Attached: true, Apart: true, Containers: true, Shown: []string{"/"}}
}

// Driver runs agents in containers of a docker daemon. The zero value is not usable.
type Driver struct {
	daemon *daemonClient
	dir    string
	claims string // see New
	work   string // driver.Config.Work; "": the files of a lost agent are removed with it
	image  string // tests: the target's own choice; "": see chooseImage
	who    func() caller
}

var _ driver.Driver = (*Driver)(nil)

// New is the driver with its placement folders in dir, an absolute path, such as
// $XDG_STATE_HOME/drover/docker. The folder is made when something is started. claims is the
// folder in which the agents of this machine reserve cores, memory and GPUs, and which containers
// see under its own name; "": none. The daemon is the one that DOCKER_HOST names; New sends it
// nothing.
func New(dir, claims string) *Driver {
	dir = filepath.Clean(dir)
	return &Driver{daemon: &daemonClient{dir: dir, patience: patience}, dir: dir, claims: claims, who: whoami}
}

// placementFolder is the path of h's placement folder.
func (d *Driver) placementFolder(h driver.Handle) (path string, ok bool) {
	return folder.Folder(d.dir, Name, h)
}

// List names every placement in the folder. It also removes placements that were to be removed and
// have ended, and containers and networks of ours without a placement folder. If the daemon does
// not answer, List still names every placement, and removes nothing.
func (d *Driver) List(ctx context.Context) ([]driver.Handle, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if !folder.Exists(d.dir) {
		return nil, nil // nothing was ever started: the daemon need not be asked
	}
	held, err := folder.List(d.dir, Name, func(h driver.Handle, dir string) (bool, error) { return d.sweepPlacement(ctx, h, dir) })
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, d.wrapFileError("list agents", err)
	}
	d.removeOrphans(ctx)
	if len(held) == 0 {
		d.removeCaches(ctx)
	}
	return held, nil
}

// caches is the folder in dir with a cache for each image.
const caches = ".cache"

// cacheFolder is the cache that all containers of an image share: files built with the image's
// Python and libraries are of no use in another.
func (d *Driver) cacheFolder(image string) string {
	_, digest, _ := strings.Cut(image, ":")
	return filepath.Join(d.dir, caches, digest[:min(len(digest), 16)])
}

// removeCaches removes the caches of images that docker does not have any more. Call it only when
// no placement folder exists.
func (d *Driver) removeCaches(ctx context.Context) {
	all, err := os.ReadDir(filepath.Join(d.dir, caches))
	if err != nil {
		return
	}
	for _, e := range all {
		if f, err := d.daemon.findImage(ctx, e.Name()); err == nil && f.id == "" {
			folder.RemoveTree(filepath.Join(d.dir, caches, e.Name()))
		}
	}
}

// removeOrphans removes containers and networks with our label but without a placement folder,
// which is made before them and removed after them. The next List tries again to remove what
// could not be removed.
func (d *Driver) removeOrphans(ctx context.Context) {
	names, err := d.daemon.containersOfOurs(ctx)
	if err != nil {
		return
	}
	for id, h := range names {
		path, ok := d.placementFolder(h)
		if !ok {
			continue
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			_ = d.daemon.removeContainer(ctx, id)
		}
	}
	jobs, err := d.daemon.networksOfOurs(ctx)
	if err != nil {
		return
	}
	for id := range jobs {
		_ = d.removeNetwork(ctx, id)
	}
}

// wrapFileError says what the file system refused, and where else the folder may lie.
func (d *Driver) wrapFileError(doing string, err error) error {
	return folder.Refused(d.dir, doing, err)
}
