package build

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/drover-run/drover/fault"
)

// PushAgent pushes an image of the agent below a registry's prefix, without Docker, and gives its name
// with its digest: it is called as the program in it, of which at is the path. programs are the files of
// the program by system, such as linux/arm64; the image has nothing else.
func (r Registries) PushAgent(ctx context.Context, at string, programs map[string]string, registry, version string) (string, error) {
	to := strings.TrimSuffix(registry, "/") + at + ":" + tagOf(version)
	of, err := parseReference(to)
	if err != nil {
		return "", err
	}
	var index v1.ImageIndex = empty.Index
	for _, system := range slices.Sorted(maps.Keys(programs)) {
		img, err := agentImage(system, at, programs[system])
		if err != nil {
			return "", fault.Wrap(err, fault.Invalid, "", "make image of the agent for %s", system)
		}
		platform := platformOf(system)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	digest, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("make image of the agent: %w", err)
	}
	if _, err := r.prepare(ctx, to); err != nil {
		return "", err
	}
	if err := remote.WriteIndex(of, index, r.options(ctx)...); err != nil {
		return "", registryFault(ctx, err, "push image", to)
	}
	return of.Context().Name() + "@" + digest.String(), nil
}

// agentImage is the image for one system: the program, and no file of this machine's own time or user.
func agentImage(system, at, file string) (v1.Image, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(at, "/"), Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	img, err := scratch(system)
	if err != nil {
		return nil, err
	}
	if img, err = mutate.AppendLayers(img, l); err != nil {
		return nil, err
	}
	return mutate.Config(img, v1.Config{Entrypoint: []string{at}})
}

// tagOf is a version as a tag, which allows fewer letters.
func tagOf(version string) string {
	tag := strings.Map(func(r rune) rune {
		if r == '_' || r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, version)
	return strings.TrimLeft(tag[:min(len(tag), 128)], ".-")
}
