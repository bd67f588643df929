package docker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// chooseImage is the image of a place.
func (d *Driver) chooseImage(p driver.Place) (string, error) {
	if p.Image == "" && d.image != "" {
		return d.image, nil
	}
	return p.ImageOrPython()
}

// found is what this machine has of an image.
type found struct {
	id  string   // its content's digest; "": the machine does not have it
	env []string // the environment that it sets
}

func (d *daemonClient) findImage(ctx context.Context, name string) (found, error) {
	r, err := ask(ctx, d, func(ctx context.Context, api *client.Client) (client.ImageInspectResult, error) {
		return api.ImageInspect(ctx, name)
	})
	if errdefs.IsNotFound(err) {
		return found{}, nil
	}
	f := found{id: r.ID}
	if err == nil && r.Config != nil {
		f.env = r.Config.Env
	}
	return f, err
}

// registryPatience bounds the request that asks a registry for an image: the user waits for the
// plan.
const registryPatience = 20 * time.Second

// checkPullable asks the registry for an image's name, and pulls nothing.
func (d *daemonClient) checkPullable(ctx context.Context, name string) error {
	auth, err := credentials(name)
	if err != nil {
		return err
	}
	bounded, done := context.WithTimeout(ctx, registryPatience)
	defer done()
	_, err = ask(bounded, d, func(ctx context.Context, api *client.Client) (client.DistributionInspectResult, error) {
		return api.DistributionInspect(ctx, name, client.DistributionInspectOptions{EncodedRegistryAuth: auth})
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && bounded.Err() != nil:
		return fmt.Errorf("nothing, for %s", registryPatience)
	}
	return err
}

// pullImage pulls an image that the machine does not have. Two callers that need the same image
// share one download of the daemon.
func (d *daemonClient) pullImage(ctx context.Context, name string) error {
	auth, err := credentials(name)
	if err != nil {
		return err
	}
	api, err := d.connectOnce()
	if err != nil {
		return err
	}
	r, err := api.ImagePull(ctx, name, client.ImagePullOptions{RegistryAuth: auth})
	if err == nil {
		err = r.Wait(ctx)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return notPulled(name, err)
}

// notPulled makes a fault of a registry's refusal.
func notPulled(name string, err error) error {
	if err == nil || client.IsErrConnectionFailed(err) {
		return err
	}
	text := strings.ToLower(err.Error())
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	kind, hint := fault.Full, "Try again, or pull it by hand: docker pull "+name+"."
	switch {
	case has("no space left", "disk quota"):
		hint = "Free space with docker system prune."
	case has("toomanyrequests", "rate limit"):
		hint = "Log in with docker login, which allows more, or wait."
	case has("unauthorized", "authentication required", "access denied", "no basic auth", "denied:", "forbidden"):
		kind, hint = fault.Denied, "Log in with `docker login`, or name another one with `--image`."
	case has("not found", "manifest unknown", "name unknown", "no such image", "does not exist", "invalid reference", "no matching manifest"):
		kind, hint = fault.Invalid, "Name another one with `--image`, or build it first."
	}
	return fault.Wrap(err, kind, hint, "pull image %s", name)
}

// hub is the key under which docker login keeps the credentials of its own registry.
const hub = "https://index.docker.io/v1/"

// credentials are those that docker login has written for an image's registry, in the form of a
// header; "" without any. Credential helpers are not asked.
func credentials(name string) (header string, err error) {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", fault.Wrap(err, fault.Invalid, "Use a reference such as python:3.12-slim.", "read image %q", name)
	}
	dir := os.Getenv("DOCKER_CONFIG")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", nil
		}
		dir = filepath.Join(home, ".docker")
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return "", nil // without a config file, images are pulled without credentials
	}
	var file struct {
		Auths map[string]struct {
			Auth          string `json:"auth"`
			IdentityToken string `json:"identitytoken"`
		} `json:"auths"`
	}
	if json.Unmarshal(text, &file) != nil { // its error may quote a password
		return "", fault.New(fault.Invalid, "Mend it, or write it anew with docker login.", "read %s: this is not JSON", filepath.Join(dir, "config.json"))
	}
	domain := reference.Domain(ref)
	for _, key := range []string{domain, "https://" + domain, "https://" + domain + "/v1/", "https://" + domain + "/v2/", hub} {
		found, ok := file.Auths[key]
		if !ok || key == hub && domain != "docker.io" {
			continue
		}
		pair, err := base64.StdEncoding.DecodeString(found.Auth)
		user, password, _ := strings.Cut(strings.TrimRight(string(pair), "\x00"), ":")
		if err != nil || user == "" && found.IdentityToken == "" {
			continue
		}
		made, err := json.Marshal(registry.AuthConfig{Username: user, Password: password, IdentityToken: found.IdentityToken, ServerAddress: key})
		return base64.URLEncoding.EncodeToString(made), err
	}
	return "", nil
}
