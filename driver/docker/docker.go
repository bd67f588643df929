// Package docker is the driver for a docker daemon on this machine: every agent
// is a container, and outlives the command line that started it.
//
// A placement is a folder, <dir>/<job>-<placement>, which comes into
// being whole or not at all. In it are
//
//	request    what was asked for; locked (flock) while a command starts or removes it
//	begun      written before the first container is started: no command starts another
//	remove     all goes when the agents have gone
//	0/         agent 0's folder, the only one that its container sees, under the same path
//	  orders   what the agent is told of its machine: cache, cores, memory
//	  secrets  the values of its secrets; the agent removes it when it has read them
//	  notes    what it said of itself
//	  log      its standard output and error
//	  stop     it was asked to stop: the grace it has
//	  root/    what its program sees as /opt/ml and /state
//	  state/ home/ tmp/ hosts
//
// Beside these folders, .cache/<image> has the environments that were built in containers
// of an image, for as long as docker has it.
//
// The containers have names that follow from the placement, drover-<job>-<placement>-<index>,
// and are first all made, then started. Docker says which of them live; what the
// agent has noted says how it ended. Agents that must reach each other get a bridge
// network of their job's own.
//
// An agent's program is that of this machine, mounted into the container, whatever
// the image is; the agent needs nothing of the image. Adopt is the agent's side: process 1, which
// keeps the time of a Stop and reaps, and the agent below it.
//
// It refuses to know user code and process trees. drivertest proves it against a
// real daemon; golden requests say what is asked of docker.
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

// Target is docker on this machine as a place to run.
var Target = driver.Target{Name: Name, Adopt: Adopt, Beside: beside, Properties: properties,
	New: func(f driver.Folders) driver.Driver {
		d := New(f.State, f.Reservations)
		d.work = f.Work
		return d
	}}

func properties(driver.Folders) driver.Properties {
	return driver.Properties{Attached: true, Apart: true, Containers: true, Shown: []string{"/"}}
}

// Driver runs agents in containers of a docker daemon. The zero value is not usable.
type Driver struct {
	daemon *daemonClient
	dir    string
	claims string // see New
	work   string // driver.Folders.Work; "": what a lost agent has left goes with it
	image  string // tests: the target's own choice; "": see chooseImage
	who    func() caller
}

var _ driver.Driver = (*Driver)(nil)

// New is the driver with its placement folders in dir, an absolute path, such as
// $XDG_STATE_HOME/drover/docker. The folder is made when something is started.
// claims is the folder in which the agents of this machine agree on which has what
// of it: containers see it too, under its own name; "" for none. The daemon is
// the one that DOCKER_HOST names, and is not asked before it is needed.
func New(dir, claims string) *Driver {
	dir = filepath.Clean(dir)
	return &Driver{daemon: &daemonClient{dir: dir, patience: patience}, dir: dir, claims: claims, who: whoami}
}

// placementFolder is where h's desk is.
func (d *Driver) placementFolder(h driver.Handle) (path string, ok bool) {
	return folder.Folder(d.dir, Name, h)
}

// List names every placement in the folder. On the way it takes away what was to
// be removed and has ended, and containers and networks of ours without a placement
// folder. A daemon that cannot be asked hides nothing and keeps what it has.
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

// cacheFolder is the cache that all containers of an image share: what was built with
// its Python and its libraries is of use in no other.
func (d *Driver) cacheFolder(image string) string {
	_, digest, _ := strings.Cut(image, ":")
	return filepath.Join(d.dir, caches, digest[:min(len(digest), 16)])
}

// removeCaches removes those of images that docker does not have any more. It is
// for a moment in which no desk is there.
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

// removeOrphans removes containers and networks with our label but without a
// placement folder, which is there before them and goes after them. What cannot be removed
// the next List tries again.
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

// wrapFileError says what the file system would not do, and where else to go.
func (d *Driver) wrapFileError(doing string, err error) error {
	return folder.Refused(d.dir, doing, err)
}
