package docker

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// The labels of containers and networks that this driver makes. Several users and stores share
// one daemon: those with our folder in a label are ours.
const (
	labelFolder    = "drover.folder" // Driver.dir
	labelJob       = "drover.job"
	labelPlacement = "drover.placement"
	labelIndex     = "drover.index"
	labelUID       = "drover.uid"    // for people: its owner
	labelTags      = "drover.label." // of Needs.Labels
)

// patience bounds one call to the daemon, except a pull: on a machine that swaps, a start has
// been seen to take half a minute.
const patience = 2 * time.Minute

// connectOnce makes the client once. It sends no request: the first call agrees with the
// daemon on a version of the API.
func (d *daemonClient) connectOnce() (*client.Client, error) {
	d.once.Do(func() {
		host := os.Getenv("DOCKER_HOST")
		if host != "" && !strings.HasPrefix(host, "unix://") {
			d.err = fault.New(fault.Invalid, "Unset DOCKER_HOST, or set it to unix:///var/run/docker.sock.",
				"reach docker: %s is not on this machine, whose folders the agents share", host)
			return
		}
		if d.api, d.err = client.New(client.FromEnv); d.err != nil {
			d.err = fault.Wrap(d.err, fault.Invalid, "Look at DOCKER_HOST, DOCKER_API_VERSION and DOCKER_CERT_PATH.", "reach docker")
		}
	})
	return d.api, d.err
}

// ask makes one call, within patience.
func ask[T any](ctx context.Context, d *daemonClient, call func(context.Context, *client.Client) (T, error)) (T, error) {
	var none T
	api, err := d.connectOnce()
	if err != nil {
		return none, err
	}
	bounded, done := context.WithTimeout(ctx, d.patience)
	defer done()
	got, err := call(bounded, api)
	switch {
	case err == nil:
		return got, nil
	case ctx.Err() != nil:
		return none, context.Cause(ctx)
	case bounded.Err() != nil:
		return none, fault.New(fault.Lost, "See whether it answers: `docker info`. If not: `sudo systemctl restart docker`.",
			"reach docker: it has not answered for %s", d.patience)
	}
	return got, err
}

// said makes a fault of an error of the daemon. absent is the kind for a daemon that does not
// answer.
func said(doing string, err error, absent fault.Kind) error {
	var known *fault.Fault
	text := ""
	if err != nil {
		text = strings.ToLower(err.Error())
	}
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case client.IsErrConnectionFailed(err) && has("permission denied"):
		return fault.Wrap(err, fault.Denied, "Join the group docker, with `sudo usermod -aG docker $USER`, and log in again.", "%s", doing)
	case client.IsErrConnectionFailed(err):
		return fault.Wrap(err, absent, "Start it with sudo systemctl start docker, or say where it listens with DOCKER_HOST=unix:///PATH.", "%s", doing)
	case has("no space left", "disk quota exceeded"):
		return fault.Wrap(err, fault.Full, "Free space with docker system prune.", "%s", doing)
	case has("could not select device driver", "nvidia-container-cli"):
		return fault.Wrap(err, fault.Invalid, "Install nvidia-container-toolkit and restart docker, or leave `--gpus` out.", "%s", doing)
	case has("error mounting "):
		return fault.Wrap(err, fault.Invalid, "Look at the `--mount` of it: a file goes on a file, a folder on a folder.", "%s", doing)
	case errdefs.IsPermissionDenied(err), errdefs.IsUnauthorized(err):
		return fault.Wrap(err, fault.Denied, "", "%s", doing)
	case errdefs.IsInvalidArgument(err), errdefs.IsNotFound(err), errdefs.IsConflict(err):
		return fault.Wrap(err, fault.Invalid, "", "%s", doing)
	}
	return fault.Wrap(err, fault.Lost, "See what it says: `docker info`.", "%s", doing)
}

func (d *daemonClient) readInfo(ctx context.Context) (system.Info, error) {
	r, err := ask(ctx, d, func(ctx context.Context, api *client.Client) (client.SystemInfoResult, error) {
		return api.Info(ctx, client.InfoOptions{})
	})
	return r.Info, err
}

// inspectContainer gives nil for a container that does not exist.
func (d *daemonClient) inspectContainer(ctx context.Context, name string) (*container.InspectResponse, error) {
	r, err := ask(ctx, d, func(ctx context.Context, api *client.Client) (client.ContainerInspectResult, error) {
		return api.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	})
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if r.Container.State == nil || r.Container.Config == nil {
		return nil, errors.New("inspect " + name + ": docker does not report its state")
	}
	return &r.Container, nil
}

// createContainer makes a container and does not start it. It replaces one of that name that a
// dead process has made for this placement and that never ran.
func (d *daemonClient) createContainer(ctx context.Context, o client.ContainerCreateOptions) error {
	for again := true; ; again = false {
		_, err := ask(ctx, d, func(ctx context.Context, api *client.Client) (client.ContainerCreateResult, error) {
			return api.ContainerCreate(ctx, o)
		})
		if !errdefs.IsConflict(err) || !again {
			return err
		}
		c, lookErr := d.inspectContainer(ctx, o.Name)
		switch {
		case lookErr != nil:
			return lookErr
		case c == nil: // it was removed meanwhile
		case c.Config.Labels[labelFolder] != d.dir || c.State.Status != container.StateCreated:
			return fault.New(fault.Denied, "Look at it: `docker inspect "+o.Name+"`.", "start agents: there is a container %s that drover did not make", o.Name)
		default:
			if err := d.removeContainer(ctx, c.ID); err != nil {
				return err
			}
		}
	}
}

// startContainer starts a container. If the answer is lost, it looks whether the container runs.
func (d *daemonClient) startContainer(ctx context.Context, name string) error {
	_, err := ask(ctx, d, func(ctx context.Context, api *client.Client) (client.ContainerStartResult, error) {
		return api.ContainerStart(ctx, name, client.ContainerStartOptions{})
	})
	if err == nil {
		return nil
	}
	c, lookErr := d.inspectContainer(context.WithoutCancel(ctx), name)
	if lookErr == nil && c != nil && c.State.Status != container.StateCreated && c.State.Error == "" {
		return nil
	}
	return err
}

// signalContainer sends a signal. For a container that does not run or exist it does nothing.
func (d *daemonClient) signalContainer(ctx context.Context, name, signal string) error {
	_, err := ask(ctx, d, func(ctx context.Context, api *client.Client) (client.ContainerKillResult, error) {
		return api.ContainerKill(ctx, name, client.ContainerKillOptions{Signal: signal})
	})
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) || err != nil && strings.Contains(err.Error(), "is not running") {
		return nil
	}
	return err
}

// removeContainer removes a container with its volumes, whatever its state. It is no error if the
// container does not exist or is being removed.
func (d *daemonClient) removeContainer(ctx context.Context, name string) error {
	_, err := ask(ctx, d, func(ctx context.Context, api *client.Client) (client.ContainerRemoveResult, error) {
		return api.ContainerRemove(ctx, name, client.ContainerRemoveOptions{RemoveVolumes: true, Force: true})
	})
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return nil
	}
	return err
}

// containersOfOurs gives the handles of all our containers, by their ids.
func (d *daemonClient) containersOfOurs(ctx context.Context) (map[string]driver.Handle, error) {
	r, err := ask(ctx, d, func(ctx context.Context, api *client.Client) (client.ContainerListResult, error) {
		return api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: d.labelFilter()})
	})
	if err != nil {
		return nil, err
	}
	handles := map[string]driver.Handle{}
	for _, c := range r.Items {
		if n, err := strconv.Atoi(c.Labels[labelPlacement]); err == nil && c.Labels[labelFolder] == d.dir {
			handles[c.ID] = driver.Handle{Target: Name, Job: c.Labels[labelJob], Placement: n}
		}
	}
	return handles, nil
}

func (d *daemonClient) labelFilter() client.Filters {
	return make(client.Filters).Add("label", labelFolder+"="+d.dir)
}

// networksOfOurs gives the jobs of all our networks, by the networks' ids.
func (d *daemonClient) networksOfOurs(ctx context.Context) (map[string]string, error) {
	r, err := ask(ctx, d, func(ctx context.Context, api *client.Client) (client.NetworkListResult, error) {
		return api.NetworkList(ctx, client.NetworkListOptions{Filters: d.labelFilter()})
	})
	if err != nil {
		return nil, err
	}
	jobs := map[string]string{}
	for _, n := range r.Items {
		if n.Labels[labelFolder] == d.dir {
			jobs[n.ID] = n.Labels[labelJob]
		}
	}
	return jobs, nil
}

// ensureNetwork makes the job's network, if it does not exist. Docker allows several networks of
// one name, so the caller holds the lock of networks while it checks and makes.
func (d *daemonClient) ensureNetwork(ctx context.Context, job string) (name string, err error) {
	jobs, err := d.networksOfOurs(ctx)
	if err != nil {
		return "", err
	}
	name = networkName(job)
	if slices.Contains(slices.Collect(maps.Values(jobs)), job) {
		return name, nil
	}
	_, err = ask(ctx, d, func(ctx context.Context, api *client.Client) (client.NetworkCreateResult, error) {
		return api.NetworkCreate(ctx, name, client.NetworkCreateOptions{Driver: "bridge",
			Labels: map[string]string{labelFolder: d.dir, labelJob: job, labelUID: strconv.Itoa(os.Getuid())}})
	})
	return name, err
}

func networkName(job string) string { return "drover-" + job }

// deleteNetwork removes a network by its id. It is no error if the network does not exist.
func (d *daemonClient) deleteNetwork(ctx context.Context, id string) error {
	_, err := ask(ctx, d, func(ctx context.Context, api *client.Client) (client.NetworkRemoveResult, error) {
		return api.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
	})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// daemonClient is the client of the docker daemon, for containers and networks of ours.
type daemonClient struct {
	dir string // Driver.dir, which labels name

	patience time.Duration // bounds one call

	once sync.Once
	api  *client.Client
	err  error // why there is no api
}
