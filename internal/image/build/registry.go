package build

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image"
)

// platformOf is what an image is built for: linux, and this machine's processor
// where nothing else was said.
func platformOf(words string) v1.Platform {
	if words != "" {
		if p, err := v1.ParsePlatform(words); err == nil {
			return *p
		}
	}
	return v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
}

// openLocal opens a base that is a file here.
func openLocal(base, platform string) (v1.Image, error) {
	kind, path, _ := image.Local(base)
	hint := "Name a folder as oci:./FOLDER, or an archive of docker save as tar:./FILE."
	if kind == "tar" {
		img, err := tarball.ImageFromPath(path, nil)
		if err != nil {
			return nil, fault.Wrap(err, fault.Invalid, hint, "read image %s", base)
		}
		return img, nil
	}
	index, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, hint, "read image %s", base)
	}
	img, err := choose(index, platformOf(platform), 0)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, hint, "read image %s", base)
	}
	return img, nil
}

// choose finds the image for a platform in an index, or the only one.
func choose(index v1.ImageIndex, p v1.Platform, depth int) (v1.Image, error) {
	m, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range m.Manifests {
		fits := d.Platform == nil || d.Platform.Satisfies(p) || len(m.Manifests) == 1
		switch {
		case d.MediaType.IsIndex() && depth < 2:
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			if img, err := choose(inner, p, depth+1); err == nil {
				return img, nil
			}
		case d.MediaType.IsImage() && fits:
			return index.Image(d.Digest)
		}
	}
	return nil, errors.New("it holds no image for " + p.String())
}

// fetchBase is the image that a plan's only stage begins from.
func (b *Builder) fetchBase(ctx context.Context, p *image.Plan, temp string) (v1.Image, error) {
	bases := p.Bases()
	if len(bases) == 0 {
		return scratch(p.Platform)
	}
	base := bases[0]
	if _, _, ok := image.Local(base); ok {
		return openLocal(base, p.Platform)
	}
	if b.Docker != nil { // what Docker has is what its own builder would begin from
		if at := b.Docker.pulledDigest(ctx, base); at != "" {
			if img, err := b.Registries.pullImage(ctx, at, p.Platform); err == nil {
				return img, nil
			}
		}
		if b.Docker.contentDigest(ctx, base) != "" {
			file := filepath.Join(temp, "base.tar")
			if err := b.Docker.saveImage(ctx, base, file); err != nil {
				return nil, err
			}
			return openLocal("tar:"+file, p.Platform)
		}
	}
	return b.Registries.pullImage(ctx, base, p.Platform)
}

// scratch is the image without anything.
func scratch(platform string) (v1.Image, error) {
	p := platformOf(platform)
	return mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: p.OS, Architecture: p.Architecture, Variant: p.Variant, RootFS: v1.RootFS{Type: "layers"}})
}

func parseReference(ref string) (name.Reference, error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return nil, fault.New(fault.Invalid, "Use a reference such as ghcr.io/me/image:1.", "read image %q: it is not a valid reference", ref)
	}
	return r, nil
}

func (r Registries) pullImage(ctx context.Context, ref, platform string) (v1.Image, error) {
	of, err := parseReference(ref)
	if err != nil {
		return nil, err
	}
	img, err := remote.Image(of, append(r.options(ctx), remote.WithPlatform(platformOf(platform)))...)
	return img, registryFault(ctx, err, "pull image", ref)
}

// LookUp asks a registry for an image, with the user's login there.
func (r Registries) LookUp(ctx context.Context, ref string) error {
	_, err := r.headDigest(ctx, ref)
	return err
}

// Entrypoint asks a registry for the ENTRYPOINT of an image for Linux on x86_64.
func (r Registries) Entrypoint(ctx context.Context, ref string) ([]string, error) {
	img, err := r.pullImage(ctx, ref, "linux/amd64")
	if err != nil {
		return nil, err
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return nil, registryFault(ctx, err, "look up image", ref)
	}
	return cfg.Config.Entrypoint, nil
}

func (r Registries) headDigest(ctx context.Context, ref string) (string, error) {
	of, err := parseReference(ref)
	if err != nil {
		return "", err
	}
	d, err := remote.Head(of, r.options(ctx)...)
	if err != nil {
		return "", registryFault(ctx, err, "look up image", ref)
	}
	return d.Digest.String(), nil
}

// pushed says whether a registry has what was built from digest.
func (r Registries) pushed(ctx context.Context, ref, digest string) (bool, error) {
	img, err := r.pullImage(ctx, ref, "")
	if fault.KindOf(err) == fault.Missing {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return false, registryFault(ctx, err, "look up image", ref)
	}
	return cfg.Config.Labels[image.LabelDigest] == digest, nil
}

func (r Registries) pushImage(ctx context.Context, img v1.Image, ref string) error {
	to, err := r.prepare(ctx, ref)
	if err != nil {
		return err
	}
	return registryFault(ctx, remote.Write(to, img, r.options(ctx)...), "push image", ref)
}

// writeArchive writes what docker load reads; under its name only when whole.
func writeArchive(img v1.Image, ref, file string) error {
	tag, err := name.NewTag(ref)
	if err != nil {
		return fault.Wrap(err, fault.Bug, "", "write image")
	}
	return whole(file, func(f *os.File) error { return tarball.Write(tag, img, f) })
}

// whole writes a file beside its place and puts it there when all was written.
func whole(file string, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return fault.Wrap(err, fault.Invalid, "Name a file in a folder that is there.", "write image")
	}
	defer os.Remove(f.Name())
	err = write(f)
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return fault.Wrap(err, fault.KindOf(err), fault.MarkedHint(err), "write image to %s", file)
	}
	return nil
}

// registryFault says what a registry's refusal means for the person.
func registryFault(ctx context.Context, err error, doing, ref string) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fault.Wrap(context.Cause(ctx), fault.Interrupted, "", "%s %s", doing, ref)
	}
	var t *transport.Error
	if !errors.As(err, &t) {
		var f *fault.Fault
		if errors.As(err, &f) {
			return err
		}
		return fault.Wrap(err, fault.Lost, "Is the registry's name right, and the network up?", "%s %s", doing, ref)
	}
	switch t.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.New(fault.Denied, loginHint(ref), "%s %s: the registry refused: %s", doing, ref, words(t))
	case http.StatusNotFound:
		return fault.New(fault.Missing, "Check the name and the tag.", "%s %s: the registry has no such image", doing, ref)
	}
	return fault.Wrap(err, fault.Lost, "", "%s %s", doing, ref)
}

// words are the registry's own, without the address that was asked.
func words(t *transport.Error) string {
	var list []string
	for _, d := range t.Errors {
		list = append(list, strings.TrimSpace(strings.ToLower(string(d.Code))+" "+d.Message))
	}
	if len(list) == 0 {
		return strings.ToLower(http.StatusText(t.StatusCode))
	}
	return strings.Join(list, "; ")
}

// loginHint is how one logs in to the registry of a reference.
func loginHint(ref string) string {
	host := "REGISTRY"
	if r, err := name.ParseReference(ref); err == nil {
		host = r.Context().RegistryStr()
	}
	if region, ok := strings.CutPrefix(host[strings.Index(host, ".")+1:], "dkr.ecr."); ok {
		region, _, _ = strings.Cut(region, ".")
		return "Log in: aws ecr get-login-password --region " + region + " | docker login -u AWS --password-stdin " + host + "."
	}
	return "Log in: docker login " + host + "."
}
