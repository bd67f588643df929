package build

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/moby/moby/client"

	"github.com/drover-run/drover/fault"
)

// refusedWith fails the test unless err has this kind, these words and this hint.
func refusedWith(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || !strings.Contains(err.Error(), text) || fault.Hint(err) != hint {
		t.Errorf("got %v, %s, %q; want %s, %s, %q", err, fault.KindOf(err), fault.Hint(err), text, kind, hint)
	}
}

// dockerThat is a daemon that answers every request alike.
func dockerThat(t *testing.T, status int, body string) *Docker {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	cli, err := client.New(client.WithHost("tcp://"+strings.TrimPrefix(s.URL, "http://")), client.WithAPIVersion("1.44"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cli.Close() })
	return &Docker{cli, Registries{}}
}

func TestALineThatCannotBeAppendedSaysWhy(t *testing.T) {
	dir := testFolder(t)
	if err := os.Symlink("circle", filepath.Join(dir, "circle")); err != nil {
		t.Fatal(err)
	}
	const there = "Is it in the folder, and not named in .dockerignore?"
	for line, want := range map[string][2]string{
		"COPY none*.py /code/":        {"line 1: copy none*.py: no file here has that name", there},
		"COPY none.py /code/":         {"line 1: copy none.py: there is no such file", there},
		"COPY circle /code/":          {"line 1: copy circle: links lead in a circle", ""},
		"COPY a.py b.py /code":        {`line 1: copy 2 files to "/code": a destination of several ends with a slash`, "Write /code/ for the destination."},
		"COPY a.py /loop/x":           {"line 1: copy to /loop/x: links in the image lead in a circle", ""},
		"COPY a.py /plain/below/a.py": {"line 1: copy to /plain/below: /plain in the image is not a folder", "Choose another destination."},
		"WORKDIR $NOWHERE":            {"line 1: read WORKDIR: it is empty", ""},
	} {
		_, err := Append(t.Context(), planOf(t, dir, "base", line+"\n"), testBase(t), t.TempDir(), io.Discard)
		refusedWith(t, err, fault.Invalid, want[0], want[1])
	}
	plan := planOf(t, dir, "base", "COPY a.py /code/\n")
	_, err := Append(t.Context(), plan, testBase(t), filepath.Join(dir, "none"), io.Discard)
	refusedWith(t, err, fault.Full, "write layer: ", "Set TMPDIR to a folder with room.")
	plan.Platform = "linux/arm64/v8/more"
	refusedWith(t, Appendable(plan), fault.Invalid, `read platform: "linux/arm64/v8/more"`, "Use one such as linux/amd64.")
}

func TestABaseThatCannotBeAppendedToSaysWhy(t *testing.T) {
	plan := planOf(t, testFolder(t), "base", "COPY a.py /code/\n")
	onbuild, err := mutate.Config(testBase(t), v1.Config{OnBuild: []string{"RUN true"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Append(t.Context(), plan, onbuild, t.TempDir(), io.Discard)
	refusedWith(t, err, fault.Invalid, "build image: the base has ONBUILD instructions", "Leave out --append, and have Docker build it.")

	torn, err := mutate.AppendLayers(empty.Image, static.NewLayer([]byte("no archive"), types.DockerUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Append(t.Context(), plan, torn, t.TempDir(), io.Discard)
	refusedWith(t, err, fault.Lost, "read image: layer 1 of 1: ", "")

	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := readTree(ended, testBase(t), io.Discard); fault.KindOf(err) != fault.Interrupted || err.Error() != "read image: context canceled" {
		t.Errorf("a read that was ended gives %v", err)
	}
	_, err = openLocal("tar:/not/there", "")
	refusedWith(t, err, fault.Invalid, "read image tar:/not/there: ", "Name a folder as oci:./FOLDER, or an archive of docker save as tar:./FILE.")
}

func TestAnImageThatHasNoPlaceToGoSaysWhy(t *testing.T) {
	serve(t, nil)
	dir := testFolder(t)
	_, err := alone(io.Discard).canAppend(Order{Plan: planOf(t, dir, "base", "COPY a.py /code/\n")})
	refusedWith(t, err, fault.Missing, "build image: there is nowhere to put it: ", "Add --push REGISTRY or -o FILE, which need no Docker.")
	_, err = (&Builder{Docker: &Docker{}}).canAppend(Order{Plan: planOf(t, dir, "tar:./base.tar", "RUN true\n")})
	refusedWith(t, err, fault.Invalid, "build image: Docker does not build on a file: ", "Load it first: docker load, then name it.")

	refusedWith(t, writeArchive(empty.Image, "x:1", filepath.Join(dir, "none", "x.tar")), fault.Invalid, "write image: ", "Name a file in a folder that is there.")
	refusedWith(t, writeArchive(empty.Image, "No Name", filepath.Join(dir, "x.tar")), fault.Bug, "write image: ", "")
	full := fault.New(fault.Full, "Make room.", "write archive")
	file := filepath.Join(dir, "x.tar")
	refusedWith(t, whole(file, func(*os.File) error { return full }), fault.Full, "write image to "+file+": write archive", "Make room.")
	if _, err := os.Stat(file); err == nil {
		t.Error("half an archive is there")
	}
}

func TestAnImageThatCannotBeNamedSaysWhatToName(t *testing.T) {
	digest := "r.example/x@sha256:" + strings.Repeat("a", 64)
	_, err := called("No Name", "r.example", "")
	refusedWith(t, err, fault.Invalid, `name image: "No Name" is not a valid reference`, "Name it with --as.")
	_, err = called("x", "", digest)
	refusedWith(t, err, fault.Invalid, `name image: "`+digest+`" is a digest, which only the registry can give`, "Give it a tag, such as r.example/x:1.")
	_, err = called("x", "", "No Name")
	refusedWith(t, err, fault.Invalid, `read image "No Name": it is not a valid reference`, "Use a reference such as ghcr.io/me/image:1.")

	file := filepath.Join(t.TempDir(), "two.tar")
	tags := map[name.Tag]v1.Image{name.MustParseReference("a:1").(name.Tag): testBase(t), name.MustParseReference("b:1").(name.Tag): testBase(t)}
	if err := tarball.MultiWriteToFile(file, tags); err != nil {
		t.Fatal(err)
	}
	_, err = alone(io.Discard).Push(t.Context(), file, "r.example", "")
	refusedWith(t, err, fault.Invalid, "read image "+file+": it holds no name, or several", "Name it with --as.")
	_, err = (&Builder{Docker: dockerThat(t, 404, `{"message":"No such image"}`)}).Push(t.Context(), "drover/x:1", "r.example", "")
	refusedWith(t, err, fault.Missing, `push image: Docker has no "drover/x:1"`, "drover image ls lists what was built.")
}

func TestWhatARegistryRefusesHasANextStep(t *testing.T) {
	status := http.StatusForbidden
	reg := serve(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v2/" {
				w.WriteHeader(status)
			}
		})
	})
	pull := func(ref string) error {
		_, err := Registries{}.pullImage(t.Context(), ref, "")
		return err
	}
	refusedWith(t, pull(reg+"/x:1"), fault.Denied, "pull image "+reg+"/x:1: the registry refused: forbidden", "Log in: docker login "+reg+".")
	status = http.StatusNotFound
	refusedWith(t, pull(reg+"/x:1"), fault.Missing, "pull image "+reg+"/x:1: the registry has no such image", "Check the name and the tag.")
	refusedWith(t, registryFault(t.Context(), errors.New("no route to host"), "pull image", "r.example/x:1"), fault.Lost,
		"pull image r.example/x:1: no route to host", "Is the registry's name right, and the network up?")
}

func TestWhatDockerRefusesHasANextStep(t *testing.T) {
	for answer, want := range map[string]struct {
		kind fault.Kind
		hint string
	}{
		"The command '/bin/sh -c x' returned a non-zero code: 7":        {fault.Failed, "Its output is above; correct that line of the Dockerfile."},
		"write /x: no space left on device":                             {fault.Full, "Make room: docker system df shows what Docker keeps."},
		"pull access denied for x":                                      {fault.Denied, "Check the name, or log in: docker login REGISTRY."},
		"manifest for x:9 not found: manifest unknown":                  {fault.Missing, "Check the image's name and tag."},
		"Get \"https://x/v2/\": dial tcp: lookup x: no such host":       {fault.Lost, "Is the network up, and the registry's name right?"},
		"the --mount option requires BuildKit":                          {fault.Invalid, "Build it with docker build -t NAME ., and name it with --image NAME."},
		"COPY failed: file not found in build context or excluded by x": {fault.Invalid, ""},
	} {
		refusedWith(t, daemonFault(t.Context(), errors.New("Error response from daemon: "+answer), "build image: x"), want.kind, "build image: x: "+answer, want.hint)
	}
	refusedWith(t, follow(t.Context(), strings.NewReader(`{"stream":"a`), io.Discard, "build image: x"), fault.Lost, "build image: x: docker went away: ", "")

	d := dockerThat(t, 500, `{"message":"no space left on device"}`)
	_, err := d.List(t.Context(), "")
	refusedWith(t, err, fault.Lost, "list images: ", "")
	refusedWith(t, d.loadImage(t.Context(), testBase(t), "x:1"), fault.Full, "load image x:1: no space left on device", "Make room: docker system df shows what Docker keeps.")
	refusedWith(t, d.loadImage(t.Context(), testBase(t), "No Name"), fault.Bug, "load image: ", "")

	t.Setenv("DOCKER_HOST", "nonsense")
	_, err = Connect(t.Context(), Registries{})
	refusedWith(t, err, fault.Invalid, "read DOCKER_HOST: ", "Set DOCKER_HOST to unix:///var/run/docker.sock or tcp://HOST:PORT.")
}
