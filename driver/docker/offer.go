package docker

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// Offer says whether the agents fit into this machine together, and whether their
// image is here or to be had. It does not count what runs here already, and pulls
// nothing. It costs nothing. Without a docker that answers it is a fault.
func (d *Driver) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	const doing = "ask docker"
	o := driver.Offer{Attached: true, Apart: true, Containers: true}
	if ctx.Err() != nil {
		return driver.Offer{}, context.Cause(ctx)
	}
	if runtime.GOOS != "linux" {
		o.Machine, o.Reason = "docker on this machine", "containers need Linux, and this drover is for "+runtime.GOOS
		o.Hint = "Run it on a Linux machine, or without --on docker."
		return o, nil
	}
	info, err := d.info(ctx)
	if err != nil {
		return driver.Offer{}, said(doing, err, fault.Invalid)
	}
	o.Cores, o.Memory = info.NCPU, info.MemTotal
	o.Machine = fmt.Sprintf("docker on this machine, %s, %s", count(info.NCPU, "core"), gigabytes(float64(info.MemTotal)))
	gpus := 0
	if n.GPUs > 0 {
		gpus = countGPUs(ctx)
	}
	if o.Reason = refusal(info, gpus, n); o.Reason == "" && n.GPUs > 0 && !givesGPUs(info) {
		o.Reason = "docker has no way to give GPUs to containers"
		o.Hint = "Install nvidia-container-toolkit and restart docker, or leave --gpus out."
	}
	if o.Reason == "" {
		if err := visible(n.Place, beneath(info)); err != nil {
			return driver.Offer{}, err // no other machine would do
		}
	}
	if o.Reason == "" && n.Agents > 0 { // who asks for nobody wants to know the machine
		if err := d.offerImage(ctx, n.Place, &o); err != nil {
			return driver.Offer{}, said(doing, err, fault.Invalid)
		}
	}
	o.Fits = o.Reason == ""
	return o, nil
}

// offerImage looks for the image here, then at its registry.
func (d *Driver) offerImage(ctx context.Context, p driver.Place, o *driver.Offer) error {
	name, err := d.imageOf(p)
	if err != nil {
		o.Reason, o.Hint = err.Error(), fault.Hint(err)
		return nil
	}
	if p.Later {
		return nil // its name may change until it is made
	}
	o.Machine += ", " + name
	here, err := d.findImage(ctx, name)
	if errdefs.IsInvalidArgument(err) {
		return fault.New(fault.Invalid, "Use a reference such as python:3.12-slim.", "read image %q: it is no reference", name)
	}
	if err != nil || here.id != "" {
		return err
	}
	err = d.canPull(ctx, name)
	if ctx.Err() != nil || client.IsErrConnectionFailed(err) {
		return err
	}
	if err != nil {
		says := strings.TrimPrefix(err.Error(), "Error response from daemon: ")
		o.Reason, o.Hint = fmt.Sprintf("image %s is not here, and the registry says: %s", name, says), remedy(name, says)
	}
	return nil
}

// remedy is what to do about a registry's refusal of an image.
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

// refusal is why n does not fit, in one sentence, or empty.
func refusal(info system.Info, gpus int, n driver.Needs) string {
	agents := max(n.Agents, 1)
	each := ""
	if agents > 1 {
		each = fmt.Sprintf(" for %d agents", agents)
	}
	cores := n.CPUs * float64(agents)
	memory := float64(n.Memory) * float64(agents)
	switch {
	case cores > float64(info.NCPU):
		return fmt.Sprintf("docker has %s, and %.4g are needed%s", count(info.NCPU, "core"), cores, each)
	case memory > float64(info.MemTotal):
		return fmt.Sprintf("docker has %s of memory, and %s is needed%s", gigabytes(float64(info.MemTotal)), gigabytes(memory), each)
	case n.GPUs > 0 && gpus == 0:
		return "this machine has no GPU that nvidia-smi can see"
	case float64(n.GPUs)*float64(agents) > float64(gpus):
		return fmt.Sprintf("this machine has %s, and %.4g are needed%s", count(gpus, "GPU"), float64(n.GPUs)*float64(agents), each)
	}
	return ""
}

// givesGPUs says whether docker was told how: by NVIDIA's toolkit, whose hook it
// finds on its PATH, as a runtime or as devices described to it (CDI).
func givesGPUs(info system.Info) bool {
	_, runtime := info.Runtimes["nvidia"]
	_, err := exec.LookPath("nvidia-container-runtime-hook")
	return runtime || err == nil || len(info.DiscoveredDevices) > 0
}

// countGPUs asks nvidia-smi. A machine without it, or whose driver does not
// answer, has none.
func countGPUs(ctx context.Context) int {
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=index", "--format=csv,noheader").Output()
	if err != nil {
		return 0
	}
	return bytes.Count(out, []byte("\n"))
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// gigabytes rounds as memory is sold: by 2^30, and to a half below ten.
func gigabytes(bytes float64) string {
	gb := bytes / (1 << 30)
	if gb < 10 {
		return fmt.Sprintf("%g GB", max(math.Round(gb*2)/2, 0.5))
	}
	return fmt.Sprintf("%.0f GB", gb)
}
