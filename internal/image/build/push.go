package build

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drover-run/drover/fault"
)

// Push sends an image to a registry, and says what it is called there. what is
// the name of one that Docker has, or an archive that Build wrote; its name
// there is below the registry's prefix, or as, where that is not "". Pushing
// twice sends nothing twice.
func (b *Builder) Push(ctx context.Context, what, registry, as string) (string, error) {
	if info, err := os.Stat(what); err == nil && info.Mode().IsRegular() {
		return b.pushArchive(ctx, what, registry, as)
	}
	if b.Docker == nil {
		return "", b.Why
	}
	if b.Docker.contentDigest(ctx, what) == "" {
		return "", fault.New(fault.Missing, "`drover image ls` lists what was built.", "push image: Docker has no %q", what)
	}
	to, err := called(what, registry, as)
	if err != nil {
		return "", err
	}
	return to, b.pushByDocker(ctx, what, to)
}

// pushByDocker has Docker push an image that it has, under a name in a registry.
func (b *Builder) pushByDocker(ctx context.Context, what, to string) error {
	if _, err := b.Registries.prepare(ctx, to); err != nil {
		return err
	}
	return b.Docker.pushImage(ctx, what, to, b.Words)
}

// pushArchive needs no Docker.
func (b *Builder) pushArchive(ctx context.Context, file, registry, as string) (string, error) {
	hint := "Name an archive of `drover image build -o`, or of `docker save`."
	opener := pathOpener(file)
	m, err := tarball.LoadManifest(opener)
	if err != nil {
		return "", fault.Wrap(err, fault.Invalid, hint, "read image %s", file)
	}
	if as == "" && (len(m) != 1 || len(m[0].RepoTags) != 1) {
		return "", fault.New(fault.Invalid, "Name it with `--as`.", "read image %s: it holds no name, or several", file)
	}
	img, err := tarball.Image(opener, nil)
	if err != nil {
		return "", fault.Wrap(err, fault.Invalid, hint, "read image %s", file)
	}
	what := ""
	if as == "" {
		what = m[0].RepoTags[0]
	}
	to, err := called(what, registry, as)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(b.Words, "Pushing %s\n", to)
	return to, b.Registries.pushImage(ctx, img, to)
}

// Copy copies an image, for all of its processors, from one registry to another one, and says what it is called there:
// below the registry's prefix, or as, where that is not "". It needs no Docker, and what is there already is not sent.
func (r Registries) Copy(ctx context.Context, what, registry, as string) (string, error) {
	from, err := parseReference(what)
	to := ""
	if err == nil {
		to, err = called(what, registry, as)
	}
	if err != nil {
		return "", err
	}
	found, err := remote.Get(from, r.options(ctx)...)
	if err != nil {
		return "", registryFault(ctx, err, "pull image", what)
	}
	into, err := r.prepare(ctx, to)
	if err != nil {
		return "", err
	}
	pusher, err := remote.NewPusher(r.options(ctx)...)
	if err == nil {
		err = pusher.Push(ctx, into, found)
	}
	return to, registryFault(ctx, err, "push image", to)
}

// called is an image's name in a registry.
func called(what, registry, as string) (string, error) {
	to := as
	if to == "" {
		ref, err := name.ParseReference(what)
		if err != nil {
			return "", fault.New(fault.Invalid, "Name it with `--as`.", "name image: %q is not a valid reference", what)
		}
		to = strings.TrimSuffix(registry, "/") + "/" + strings.TrimPrefix(ref.Context().RepositoryStr(), "library/") + ":" + ref.Identifier()
	}
	r, err := parseReference(to)
	if err != nil {
		return "", err
	}
	if _, ok := r.(name.Tag); !ok {
		return "", fault.New(fault.Invalid, "Give it a tag, such as "+r.Context().Name()+":1.", "name image: %q is a digest, which only the registry can give", to)
	}
	return to, nil
}

func pathOpener(file string) tarball.Opener {
	return func() (io.ReadCloser, error) { return os.Open(file) }
}
