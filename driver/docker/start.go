package docker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/moby/api/types/mount"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// Start makes the placement durable, pulls its image, makes all containers and then starts them.
// Only ctx bounds the time of a pull. An agent's environment is the image's and Boot.Env, its
// standard input is empty.
//
// The Start that has locked the folder does the work; another one waits for it. If it dies before
// it has started a container, the next Start does everything again, as no container has run.
// After that no Start starts a container: agents that the dead one did not start are Lost, "never
// started".
func (d *Driver) Start(ctx context.Context, r driver.Request) (driver.Handle, error) {
	h, dir, err := folder.Begin(ctx, d.dir, Name, r)
	if err != nil {
		return driver.Handle{}, err
	}
	if folder.Exists(begunFile(dir)) {
		return h, errors.Join(d.renewCredential(ctx, r, dir), d.syncPlacements())
	}
	p, err := d.prepareStart(ctx, r, h, dir)
	if err != nil {
		return driver.Handle{}, err
	}
	lock, err := folder.Claim(ctx, dir, folder.Hold, func() error { return d.publishFolder(dir, p.facts) })
	if err != nil {
		return driver.Handle{}, d.wrapFileError("start agents", err)
	}
	defer lock.Close()
	if folder.Exists(begunFile(dir)) {
		return h, errors.Join(d.renewCredential(ctx, r, dir), d.syncPlacements())
	}
	if err := d.launchAgents(ctx, p); err != nil {
		if gone := d.removePlacement(context.WithoutCancel(ctx), h, dir, p.facts); gone != nil {
			// What is left is never started; List and the next Start remove it.
			err = errors.Join(err, gone)
		}
		return driver.Handle{}, err
	}
	return h, nil
}

// syncPlacements makes a placement durable that Start has found.
func (d *Driver) syncPlacements() error {
	return d.wrapFileError("start agents", folder.SyncFolder(d.dir))
}

// renewCredential gives running agents a newer credential. Theirs may have ended, so it is an error
// if none can be made.
func (d *Driver) renewCredential(ctx context.Context, r driver.Request, dir string) error {
	if r.Run.Pass == nil {
		return nil
	}
	pass, err := r.Run.Pass(ctx)
	if err != nil || pass == nil {
		return err
	}
	for i := range r.Agents {
		if err := folder.Replace(passFile(agentDir(dir, i)), pass); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return d.wrapFileError("renew the credential of agents", err)
		}
	}
	return nil
}

// plan is a Start that was checked.
type plan struct {
	made
	handle  driver.Handle
	folder  string
	facts   request
	shows   [][]mount.Mount // by agent
	lost    string          // the folder with the roots of lost agents of the job; "": there is none
	secrets []byte          // JSON; nil: none
	pass    []byte          // the credential for the store; nil: none
}

// prepareStart refuses what this machine can see to be wrong, before anything is made.
func (d *Driver) prepareStart(ctx context.Context, r driver.Request, h driver.Handle, dir string) (p plan, err error) {
	if err := folder.Runnable(r.Run.Binary); err != nil {
		return p, err
	}
	if _, err := d.daemon.connectOnce(); err != nil {
		return p, err
	}
	if d.claims != "" {
		if err := os.MkdirAll(d.claims, 0o700); err != nil {
			return p, d.wrapFileError("start agents", err)
		}
	}
	p = plan{made: made{request: r, who: d.who()}, handle: h, folder: dir}
	if p.image, err = d.chooseImage(r.Needs.Place); err != nil {
		return p, err
	}
	p.facts = request{Agents: r.Agents, Image: p.image, Started: time.Now().UTC()}
	if r.Needs.Place.Nodes > 1 {
		p.network = networkName(r.Job)
		p.facts.Network = p.network
	}
	if p.lost, err = d.keepLostOf(ctx, h); err != nil {
		return p, d.wrapFileError("start agents", err)
	}
	for i := range r.Agents {
		shows, err := d.agentMounts(r, dir, i)
		if err != nil {
			return p, err
		}
		if p.lost != "" {
			shows = append(shows, mount.Mount{Type: mount.TypeBind, Source: p.lost, Target: p.lost})
		}
		p.shows = append(p.shows, shows)
	}
	p.secrets, p.pass, err = folder.Sealed(ctx, r.Run)
	return p, err
}

// launchAgents pulls, makes and starts; its caller holds the placement folder. An error says that
// no agent has run.
func (d *Driver) launchAgents(ctx context.Context, p plan) (err error) {
	const doing = "start agents"
	if p.info, err = d.daemon.readInfo(ctx); err != nil {
		return said(doing, err, fault.Invalid)
	}
	if err := visible(p.request.Needs.Place, beneath(p.info)); err != nil {
		return err
	}
	here, err := d.daemon.findImage(ctx, p.image)
	if err == nil && here.id == "" {
		if err = d.daemon.pullImage(ctx, p.image); err == nil {
			here, err = d.daemon.findImage(ctx, p.image)
		}
	}
	if err != nil {
		return said(doing, err, fault.Invalid)
	}
	p.env, p.cache = here.env, d.cacheFolder(here.id)
	if err := os.MkdirAll(p.cache, 0o700); err != nil {
		return d.wrapFileError(doing, err)
	}
	if p.network != "" {
		lock, err := folder.Patiently(ctx, d.lockNetworks)
		if err != nil {
			return d.wrapFileError(doing, err)
		}
		defer lock.Close() // not before the containers hold the network
		if _, err := d.daemon.ensureNetwork(ctx, p.request.Job); err != nil {
			return said(doing, err, fault.Invalid)
		}
	}
	for i := range p.request.Agents {
		if err := d.fillAgentFolder(p, i); err != nil {
			return d.wrapFileError(doing, err)
		}
		shows := append(p.shows[i], mount.Mount{Type: mount.TypeBind, Source: p.cache, Target: p.cache})
		if err := d.daemon.createContainer(ctx, d.container(p.made, p.handle, p.folder, i, shows)); err != nil {
			return said(doing, err, fault.Invalid)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := folder.WriteJSON(begunFile(p.folder), time.Now().UTC()); err != nil {
		return d.wrapFileError(doing, err)
	}
	if err := folder.SyncFolder(p.folder); err != nil {
		return d.wrapFileError(doing, err)
	}
	return d.startAgents(context.WithoutCancel(ctx), p)
}

// startAgents starts the agents that were not asked to stop meanwhile. If docker refuses the first,
// it would refuse all, so nothing is kept; a later one that it refuses is a member that has ended,
// with the reason.
func (d *Driver) startAgents(ctx context.Context, p plan) error {
	ran := false
	for i := range p.request.Agents {
		dir := agentDir(p.folder, i)
		if _, asked := folder.ReadWord(stopFile(dir)); asked {
			continue
		}
		err := d.daemon.startContainer(ctx, containerName(p.handle, i))
		if err != nil && !ran {
			return said("start agents", err, fault.Invalid)
		}
		if err != nil {
			_ = os.Remove(secretsFile(dir))
			if err := say(dir, note{End: &end{Code: -1, Reason: "its agent never started: " + err.Error()}}); err != nil {
				return d.wrapFileError("start agents", err)
			}
		}
		ran = true
	}
	return nil
}

// fillAgentFolder fills an agent's folder. It makes anew what a dead process has left there.
func (d *Driver) fillAgentFolder(p plan, i int) error {
	dir := agentDir(p.folder, i)
	for _, sub := range []string{rootDir + "/opt/ml", rootDir + "/state", stateDir, homeDir, tmpDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	tmp := filepath.Join(dir, tmpDir)
	if err := os.Chmod(tmp, 0o777|fs.ModeSticky); err != nil {
		return err
	}
	o := orders{Cache: p.cache, Claims: d.claims, Cores: float64(p.info.NCPU), Memory: p.info.MemTotal, Hosts: p.network != ""}
	if p.lost != "" {
		o.Lost = d.work
	}
	if err := folder.WriteJSON(ordersFile(dir), o); err != nil {
		return err
	}
	if o.Hosts {
		if err := os.WriteFile(hostsFile(dir), []byte(loopbackHosts), 0o644); err != nil {
			return err
		}
	}
	if p.secrets != nil {
		if err := os.WriteFile(secretsFile(dir), p.secrets, 0o600); err != nil {
			return err
		}
	}
	if p.pass != nil {
		if err := folder.Replace(passFile(dir), p.pass); err != nil {
			return err
		}
	}
	return mountPoints(append(p.shows[i], mount.Mount{Source: p.cache, Target: p.cache}))
}

// loopbackHosts is the beginning of every /etc/hosts.
const loopbackHosts = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"

// mountPoints makes the folders and files on which mounts inside other mounts lie. Docker would make
// them as root, so that a plain user could not remove them, and in a read-only mount it could not
// make them at all. Those that this process may not make are left to docker.
func mountPoints(shows []mount.Mount) error {
	for _, s := range shows {
		around := mount.Mount{}
		for _, o := range shows {
			if len(o.Target) > len(around.Target) && strings.HasPrefix(s.Target, o.Target+"/") {
				around = o
			}
		}
		if around.Target == "" {
			continue
		}
		err := mountPoint(s.Source, filepath.Join(around.Source, strings.TrimPrefix(s.Target, around.Target)))
		if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EROFS) {
			return err
		}
	}
	return nil
}

// mountPoint makes a folder or file at path on which source can be mounted, unless there is one.
func mountPoint(source, path string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(path, 0o700)
	}
	if folder.Exists(path) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return folder.Touch(path)
}
