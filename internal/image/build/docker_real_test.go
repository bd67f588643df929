package build

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/moby/moby/client"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image"
	"github.com/drover-run/drover/job"
)

// shellBase gives Docker an image with a shell, made of a static busybox.
func shellBase(t *testing.T, d *Docker, ref string) {
	t.Helper()
	at, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatalf("%v: apt-get install busybox-static", err)
	}
	binary, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	l := layerOf(t, archive(t, dir("bin", 0o755, 0), file("bin/busybox", 0o755, string(binary)), link("bin/sh", "busybox"), link("bin/sleep", "busybox"), dir("tmp", 0o1777, 0)))
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: platformOf("").Architecture, RootFS: rootFS(t, img)})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.loadImage(t.Context(), img, ref); err != nil {
		t.Fatal(err)
	}
	tidy(t, d, ref)
}

// pinned resolves a typed Dockerfile.
func pinned(t *testing.T, b *Builder, project, dir, text string) *image.Plan {
	t.Helper()
	p, err := image.Resolve(job.Container{Dockerfile: text}, image.Site{Project: project, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Pin(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRealASecondBuildDoesNothing(t *testing.T) {
	d := dockerd(t)
	const base = "drover.test/second-base:1"
	shellBase(t, d, base)
	var said bytes.Buffer
	b := &Builder{Docker: d, Words: &said}
	text := "FROM " + base + "\nRUN echo built >/built\nCOPY a.py /app/\n"
	dir := testFolder(t)
	p := pinned(t, b, "second", dir, text)
	tidy(t, d, p.Reference)
	first, err := b.Build(t.Context(), Order{Plan: p})
	if err != nil || first.Skipped || first.Way != "built by docker" || !strings.Contains(said.String(), "RUN echo built") {
		t.Fatalf("the first build is %+v, %v, and said %q", first, err, said.String())
	}
	files, config := look(t, d, p.Reference)
	if files["built"] == "" || files["app/a.py"] == "" || config["labels"].(map[string]string)[image.LabelDigest] != p.Digest {
		t.Errorf("it has %v, %v", files, config)
	}
	said.Reset()
	if second, err := b.Build(t.Context(), Order{Plan: pinned(t, b, "second", dir, text)}); err != nil || !second.Skipped || said.Len() > 0 || second.Reference != first.Reference {
		t.Errorf("the second build is %+v, %v, and said %q", second, err, said.String())
	}
	list, err := d.List(t.Context(), "second")
	if err != nil || len(list) != 1 || list[0].Name != p.Reference || list[0].Digest != p.Digest {
		t.Errorf("the list is %+v, %v", list, err)
	}
	// Another base under the same name is another image.
	if err := d.loadImage(t.Context(), testBase(t), base); err != nil {
		t.Fatal(err)
	}
	if now := pinned(t, b, "second", dir, text); now.Digest == p.Digest {
		t.Error("a base that changed changed nothing")
	}
}

func TestRealARunThatFailsIsTheDockerfilesFault(t *testing.T) {
	d := dockerd(t)
	const base = "drover.test/fails-base:1"
	shellBase(t, d, base)
	b := &Builder{Docker: d, Words: io.Discard}
	for _, c := range []struct {
		text, said string
		kind       fault.Kind
	}{
		{"FROM " + base + "\nRUN echo last words; exit 7\n", "non-zero code: 7; its last output: last words", fault.Failed},
		{"FROM " + base + "\nCOPY nobody /x\n", "COPY failed", fault.Invalid},
		{"FROM " + base + "\nRUN --mount=type=cache,target=/x true\n", "BuildKit", fault.Invalid},
		{"FROM 127.0.0.1:1/nobody:1\n", "connection refused", fault.Lost},
	} {
		p := pinned(t, b, "fails", t.TempDir(), c.text)
		_, err := b.Build(t.Context(), Order{Plan: p, Way: ByDocker})
		if fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.said) {
			t.Errorf("%q is answered with %v (%s)", c.text, err, fault.KindOf(err))
		}
		if want := map[bool]int{true: fault.ExitDrover, false: fault.ExitUsage}[c.kind == fault.Lost]; fault.Exit(err) != want {
			t.Errorf("%q gives exit status %d", c.text, fault.Exit(err))
		}
		if ok, err := d.hasImage(t.Context(), p.Reference, p.Digest); ok || err != nil {
			t.Errorf("%q left an image, %v", c.text, err)
		}
	}
	if left := containersFrom(t, d, base); len(left) > 0 {
		t.Errorf("containers were left: %v", left)
	}
}

// containersFrom are the containers of an image and of those that are built from it. Tests of
// other packages have theirs in the same dockerd.
func containersFrom(t *testing.T, d *Docker, base string) (ids []string) {
	t.Helper()
	got, err := d.cli.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("ancestor", base)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range got.Items {
		ids = append(ids, c.ID)
	}
	return ids
}

// heard tells when a builder's words match.
type heard struct {
	all  bytes.Buffer
	want *regexp.Regexp
	tell chan string
}

func (h *heard) Write(b []byte) (int, error) {
	h.all.Write(b)
	if m := h.want.FindStringSubmatch(h.all.String()); m != nil && h.tell != nil {
		h.tell <- m[1]
		h.tell = nil
	}
	return len(b), nil
}

func TestRealAnInterruptedBuildLeavesNoContainer(t *testing.T) {
	d := dockerd(t)
	const base = "drover.test/interrupt-base:1"
	shellBase(t, d, base)
	words := &heard{want: regexp.MustCompile(`Running in ([0-9a-f]{12})`), tell: make(chan string, 1)}
	running := words.tell
	b := &Builder{Docker: d, Words: words}
	p := pinned(t, b, "interrupt", t.TempDir(), "FROM "+base+"\nRUN sleep 1000\n")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := b.Build(ctx, Order{Plan: p})
		ended <- err
	}()
	var id string
	select {
	case id = <-running:
	case err := <-ended:
		t.Fatalf("it ended before it ran: %v", err)
	}
	gone := d.cli.ContainerWait(t.Context(), id, client.ContainerWaitOptions{Condition: "removed"})
	stop()
	if err := <-ended; fault.KindOf(err) != fault.Interrupted {
		t.Errorf("it is answered with %v", err)
	}
	select {
	case <-gone.Result:
	case err := <-gone.Error:
		if !absent(err) && !strings.Contains(err.Error(), "No such container") {
			t.Fatal(err)
		}
	}
	if _, err := d.cli.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}); err == nil {
		t.Error("its container is still there")
	}
}

func TestRealImagesArePushedByDocker(t *testing.T) {
	d := dockerd(t)
	reg := serve(t, nil)
	const base = "drover.test/push-base:1"
	shellBase(t, d, base)
	b := &Builder{Docker: d, Words: io.Discard}
	dir := testFolder(t)
	p := pinned(t, b, "push", dir, "FROM "+base+"\nRUN echo built >/built\n")
	tidy(t, d, p.Reference)
	o := Order{Plan: p, Push: reg + "/me"}
	tidy(t, d, p.Name(o.Push))
	got, err := b.Build(t.Context(), o)
	if err != nil || got.Skipped || got.Reference != reg+"/me/"+p.Reference {
		t.Fatalf("it is %+v, %v", got, err)
	}
	if again, err := b.Build(t.Context(), o); err != nil || !again.Skipped {
		t.Errorf("again it is %+v, %v", again, err)
	}
	// A base that came from a registry is known by the registry's digest, whether
	// Docker has it or not.
	up, err := b.Push(t.Context(), base, reg, "")
	if err != nil {
		t.Fatal(err)
	}
	tidy(t, d, up)
	there, err := Registries{}.headDigest(t.Context(), up)
	if err != nil || d.contentDigest(t.Context(), up) != there {
		t.Errorf("docker calls it %s, the registry %s, %v", d.contentDigest(t.Context(), up), there, err)
	}
	// And layers are appended to it, from there or from Docker's own.
	for _, from := range []string{up, base} {
		out := filepath.Join(t.TempDir(), "x.tar")
		q := pinned(t, b, "push", dir, "FROM "+from+"\nCOPY a.py /a.py\n")
		if got, err := b.Build(t.Context(), Order{Plan: q, File: out}); err != nil || got.Way != "appended" {
			t.Errorf("on %s: %+v, %v", from, got, err)
		}
		if to, err := b.Push(t.Context(), out, reg, ""); err != nil {
			t.Error(err)
		} else if ok, err := (Registries{}).pushed(t.Context(), to, q.Digest); !ok || err != nil {
			t.Errorf("%s was pushed, and is not there: %v", to, err)
		}
	}
	if err := d.pullImage(t.Context(), up, "", io.Discard); err != nil {
		t.Error(err)
	}
	if err := d.pullImage(t.Context(), reg+"/nobody:1", "", io.Discard); fault.KindOf(err) != fault.Missing {
		t.Errorf("a pull of nobody is answered with %v (%s)", err, fault.KindOf(err))
	}
}

func TestADaemonThatDoesNotAnswerIsSaid(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none.sock"))
	d, err := Connect(t.Context(), Registries{})
	if d != nil || fault.KindOf(err) != fault.Missing || strings.Contains(err.Error(), "failed to") {
		t.Errorf("it is answered with %v", err)
	}
	t.Setenv("DOCKER_HOST", "nonsense")
	if _, err := Connect(t.Context(), Registries{}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a host that is none is answered with %v", err)
	}
}
