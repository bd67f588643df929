package docker

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// Offer says whether the agents fit into this machine together, and whether their image is here or
// in its registry. It does not count what runs here already, and pulls nothing. There is no price.
// If docker does not answer, that is a fault.
func (d *Driver) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	const doing = "ask docker"
	o := driver.Offer{}
	if ctx.Err() != nil {
		return driver.Offer{}, context.Cause(ctx)
	}
	if runtime.GOOS != "linux" {
		o.Machine, o.Reason = "docker on this machine", "containers need Linux, and this drover is for "+runtime.GOOS
		o.Hint = "Run it on a Linux machine, or without --on docker."
		return o, nil
	}
	info, err := d.daemon.readInfo(ctx)
	if err != nil {
		return driver.Offer{}, said(doing, err, fault.Invalid)
	}
	o.Cores, o.Memory = info.NCPU, info.MemTotal
	whole := folder.Hardware{Place: "docker on this machine", Cores: o.Cores, Memory: o.Memory}
	o.Machine = whole.String() + folder.DiskNote(info.DockerRootDir, n)
	gpus := 0
	if n.GPUs > 0 {
		gpus = folder.GPUs(ctx)
	}
	if o.Reason = cmp.Or(whole.Refusal("docker", gpus, n), folder.DiskRefusal("docker", info.DockerRootDir, n)); o.Reason == "" && n.GPUs > 0 && !givesGPUs(info) {
		o.Reason = "docker has no way to give GPUs to containers"
		o.Hint = "Install nvidia-container-toolkit and restart docker, or leave --gpus out."
	}
	if o.Reason == "" {
		o.Reason, o.Hint = n.MachineRefusal("docker", whole.Attributes(ctx, info.DockerRootDir, n.Where.Names()))
	}
	if o.Reason == "" {
		if err := visible(n.Place, beneath(info)); err != nil {
			return driver.Offer{}, err // no other machine would do
		}
	}
	if o.Reason == "" && n.Agents > 0 { // a request for no agents asks about the machine
		if err := d.offerImage(ctx, n.Place, &o); err != nil {
			return driver.Offer{}, said(doing, err, fault.Invalid)
		}
	}
	o.Fits = o.Reason == ""
	return o, nil
}

// offerImage looks for the image here, then in its registry.
func (d *Driver) offerImage(ctx context.Context, p driver.Place, o *driver.Offer) error {
	name, err := d.chooseImage(p)
	if err != nil {
		o.Reason, o.Hint = err.Error(), fault.Hint(err)
		return nil
	}
	if p.Later {
		return nil // its name may change before it is made
	}
	o.Machine += ", " + name
	here, err := d.daemon.findImage(ctx, name)
	if errdefs.IsInvalidArgument(err) {
		return fault.New(fault.Invalid, "Use a reference such as python:3.12-slim.", "read image %q: it is not a valid reference", name)
	}
	if err != nil || here.id != "" {
		return err
	}
	err = d.daemon.checkPullable(ctx, name)
	if ctx.Err() != nil || client.IsErrConnectionFailed(err) {
		return err
	}
	if err != nil {
		says := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
		o.Reason, o.Hint = fmt.Sprintf("image %s is not here, and the registry says: %s", name, says), remedy(name, says)
	}
	return nil
}

// remedy says what to do about a registry's refusal of an image.
func remedy(name, says string) string {
	says = strings.ToLower(says)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(says, p) })
	}
	switch {
	case has("no such host", "dial tcp", "i/o timeout", "connection refused", "tls handshake", "deadline exceeded"):
		return "Is the network up? Or name one that docker has: --image IMAGE."
	case has("unauthorized", "authentication required", "access denied", "no basic auth", "denied:", "forbidden"):
		host, _, _ := strings.Cut(name, "/")
		if !strings.ContainsAny(host, ".:") {
			host = ""
		}
		return "Check the name, or log in: " + strings.TrimSpace("docker login "+host) + "."
	}
	return "Name one that docker can get: --image IMAGE."
}

// givesGPUs says whether docker can give GPUs to containers: by NVIDIA's toolkit, with a hook on
// its PATH, as a runtime, or as devices described to it (CDI).
func givesGPUs(info system.Info) bool {
	_, runtime := info.Runtimes["nvidia"]
	_, err := exec.LookPath("nvidia-container-runtime-hook")
	return runtime || err == nil || len(info.DiscoveredDevices) > 0
}
