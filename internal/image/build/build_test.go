package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/image"
	"github.com/drover-run/drover/job"
)

// serve is a registry in this process; it gives the prefix of names there.
// Logins are looked up in an empty folder.
func serve(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	h := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	if wrap != nil {
		h = wrap(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func put(t *testing.T, ref string, img v1.Image) {
	t.Helper()
	r, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(r, img); err != nil {
		t.Fatal(err)
	}
}

// alone is a builder on a machine without Docker.
func alone(words io.Writer) *Builder {
	return &Builder{Why: fault.New(fault.Missing, "Start Docker, or set DOCKER_HOST.", "ask docker at nowhere"), Words: words}
}

func planOf(t *testing.T, dir, base, text string) *image.Plan {
	t.Helper()
	p, err := image.Resolve(job.Container{Dockerfile: text, Image: base}, image.Site{Project: "demo", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// listing is what a container of an image would see.
func listing(t *testing.T, img v1.Image) map[string]string {
	t.Helper()
	if err := validate.Image(img); err != nil {
		t.Fatal(err)
	}
	tree, err := readTree(t.Context(), img, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for p, n := range tree {
		got[p] = strings.TrimSpace(fmt.Sprintf("%c %o %s", n.kind, n.mode, n.link))
	}
	return got
}

func TestLayersAreAppendedAndPushedOnce(t *testing.T) {
	reg := serve(t, nil)
	base := reg + "/base:1"
	put(t, base, testBase(t))
	dir := testFolder(t)
	var said bytes.Buffer
	b := alone(&said)
	build := func(text string) (Built, v1.Image) {
		t.Helper()
		p := planOf(t, dir, base, text)
		if err := b.Pin(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		got, err := b.Build(t.Context(), Order{Plan: p, Push: reg + "/me"})
		if err != nil {
			t.Fatal(err)
		}
		img, err := Registries{}.pullImage(t.Context(), got.Reference, "")
		if err != nil {
			t.Fatal(err)
		}
		return got, img
	}
	text := "COPY src /lib/code\nCOPY --chown=3:4 a.py /data/\nENV A=1\nCMD [\"x\"]\n"
	first, img := build(text)
	if first.Skipped || first.Way != "appended" || !strings.HasPrefix(first.Reference, reg+"/me/drover/demo-") {
		t.Errorf("the first build is %+v", first)
	}
	files := listing(t, img)
	for p, want := range map[string]string{"usr/lib/code/main.py": "0 644", "usr/lib/code/deep": "5 2770", "data/a.py": "0 644", "lib": "2 777 usr/lib", "data": "5 2775", "opaque": "5 701"} {
		if files[p] != want {
			t.Errorf("%s is %q, want %q", p, files[p], want)
		}
	}
	if _, ok := files["gone"]; ok {
		t.Error("what the base took away is back")
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Config.Labels[image.LabelDigest] != first.Digest || cfg.Config.Labels[image.LabelProject] != "demo" || cfg.Config.Labels["made.by"] != "test" {
		t.Errorf("its labels are %v", cfg.Config.Labels)
	}
	if second, _ := build(text); !second.Skipped || second.Reference != first.Reference {
		t.Errorf("the second build is %+v", second)
	}
	if other, _ := build(text + "USER 1\n"); other.Skipped || other.Reference == first.Reference {
		t.Errorf("another Dockerfile's build is %+v", other)
	}
	put(t, base, mutateEnv(t, testBase(t)))
	if newer, _ := build(text); newer.Skipped || newer.Reference == first.Reference {
		t.Errorf("the build on a newer base is %+v", newer)
	}
}

func mutateEnv(t *testing.T, img v1.Image) v1.Image {
	t.Helper()
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.DeepCopy()
	cfg.Config.Env = append(cfg.Config.Env, "NEW=1")
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		t.Fatal(err)
	}
	return img
}

func TestTheSameFilesGiveTheSameImage(t *testing.T) {
	base := testBase(t)
	text := "COPY a.py b.py /code/\nWORKDIR /new\n"
	p, other := planOf(t, testFolder(t), "base", text), planOf(t, testFolder(t), "base", text)
	if p.Digest != other.Digest {
		t.Error("the same files in two folders have two digests")
	}
	one, err1 := Append(t.Context(), p, base, t.TempDir(), io.Discard)
	two, err2 := Append(t.Context(), other, base, t.TempDir(), io.Discard)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	a, err1 := one.Digest()
	b, err2 := two.Digest()
	if err := errors.Join(err1, err2); err != nil || a != b {
		t.Errorf("the same plan gave %s and %s (%v)", a, b, err)
	}
}

func TestBasesAndResultsMayBeFiles(t *testing.T) {
	serve(t, nil)
	dir := testFolder(t)
	oci, archive := filepath.Join(dir, "layout"), filepath.Join(dir, "base.tar")
	path, err := layout.Write(oci, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(testBase(t)); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("base:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(archive, tag, testBase(t)); err != nil {
		t.Fatal(err)
	}
	var listings []map[string]string
	for _, base := range []string{"oci:" + oci, "tar:" + archive} {
		p := planOf(t, dir, base, "COPY a.py /code/\n")
		b := alone(io.Discard)
		if err := b.Pin(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out.tar")
		if _, err := b.Build(t.Context(), Order{Plan: p, File: out}); err != nil {
			t.Fatal(err)
		}
		img, err := tarball.ImageFromPath(out, nil)
		if err != nil {
			t.Fatal(err)
		}
		listings = append(listings, listing(t, img))
		m, err := tarball.LoadManifest(pathOpener(out))
		if err != nil || len(m) != 1 || len(m[0].RepoTags) != 1 || !strings.HasSuffix(m[0].RepoTags[0], p.Reference) {
			t.Errorf("the archive calls it %v, %v", m, err)
		}
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(out), ".*")); err != nil || len(left) > 0 {
			t.Errorf("beside it there is %v, %v", left, err)
		}
	}
	if diff := cmp.Diff(listings[0], listings[1]); diff != "" || listings[0]["code/a.py"] != "0 644" {
		t.Errorf("an OCI layout and an archive of one image give two (-oci +tar):\n%s", diff)
	}
	for _, base := range []string{"oci:" + dir, "tar:" + dir + "/a.py", "oci:/not/there"} {
		if err := alone(io.Discard).Pin(t.Context(), planOf(t, dir, base, "COPY a.py /\n")); err != nil {
			t.Errorf("a base that cannot be read is refused when it is looked up, not when it is needed: %v", err)
		}
		_, err := alone(io.Discard).Build(t.Context(), Order{Plan: planOf(t, dir, base, "COPY a.py /\n"), File: filepath.Join(dir, "no.tar")})
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), "oci:") {
			t.Errorf("base %s is answered with %v, hint %q", base, err, fault.Hint(err))
		}
		if _, err := os.Stat(filepath.Join(dir, "no.tar")); err == nil {
			t.Error("half an archive is there")
		}
	}
}

func TestOnlyPathsAreFiles(t *testing.T) {
	for base, want := range map[string]bool{"tar:./x": true, "oci:/x": true, "oci:../x": true, "tar:5000/x": false, "tar:1": false, "debian:12": false, "zip:/x": false} {
		if _, _, ok := image.Local(base); ok != want {
			t.Errorf("%s is a file: %v, want %v", base, ok, want)
		}
	}
}

func TestAnArchiveIsPushedWithoutDocker(t *testing.T) {
	reg := serve(t, nil)
	dir := testFolder(t)
	out := filepath.Join(dir, "out.tar")
	p := planOf(t, dir, "", "FROM scratch\nCOPY a.py /\n")
	b := alone(io.Discard)
	if _, err := b.Build(t.Context(), Order{Plan: p, File: out}); err != nil {
		t.Fatal(err)
	}
	got, err := b.Push(t.Context(), out, reg+"/me/", "")
	if err != nil || got != reg+"/me/"+p.Reference {
		t.Errorf("it was pushed as %q, %v", got, err)
	}
	named, err := b.Push(t.Context(), out, "", reg+"/other/name:2")
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{got, named} {
		if ok, err := (Registries{}).pushed(t.Context(), ref, p.Digest); err != nil || !ok {
			t.Errorf("%s is not there: %v", ref, err)
		}
	}
	for _, c := range []struct {
		what, as string
		kind     fault.Kind
	}{
		{filepath.Join(dir, "a.py"), "", fault.Invalid}, {out, "No Name", fault.Invalid}, {"drover/x:1", "", fault.Missing},
		{out, reg + "/x@sha256:" + strings.Repeat("a", 64), fault.Invalid},
	} {
		if _, err := b.Push(t.Context(), c.what, reg, c.as); fault.KindOf(err) != c.kind || fault.Hint(err) == "" {
			t.Errorf("push of %s as %q is answered with %v", c.what, c.as, err)
		}
	}
}

func TestWhatOnlyDockerCanBuildIsSaid(t *testing.T) {
	var said faulttest.Sayings
	serve(t, nil)
	dir := testFolder(t)
	if err := os.WriteFile(filepath.Join(dir, "x.tgz"), []byte("\x1f\x8b\x08 more"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, why string }{
		{"FROM scratch\nRUN true\n", "line 2 has RUN"},
		{"FROM scratch AS a\nFROM scratch\n", "a second stage"},
		{"FROM --platform=linux/arm64 scratch\nCOPY a.py /\n", "platform"},
		{"ARG X\nFROM scratch\n", "ARG before FROM"},
		{"FROM scratch\nCOPY --from=a b c\n", "--from=a"},
		{"FROM scratch\nCOPY --chown=me a.py /\n", "--chown=me"},
		{"FROM scratch\nADD x.tgz /\n", "an archive"},
		{"FROM scratch\nADD https://a.b/c /\n", "an address"},
		{"FROM scratch\nCOPY a.py\n", "COPY without a destination"},
		{"FROM scratch\nVOLUME /x\n", "VOLUME"},
		{"FROM scratch\nENV A=${B#c}\n", "only Docker's builder understands"},
	} {
		p := planOf(t, dir, "", c.text)
		err := Appendable(p)
		if err == nil {
			_, err = Append(t.Context(), p, empty.Image, t.TempDir(), io.Discard)
		}
		said.Error(strconv.Quote(c.text), err)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.why) || fault.Hint(err) == "" {
			t.Errorf("%q is answered with %v, want %q", c.text, err, c.why)
		}
	}
	_, err := alone(io.Discard).Build(t.Context(), Order{Plan: planOf(t, dir, "", "FROM scratch\nRUN true\n")})
	if fault.KindOf(err) != fault.Missing || !strings.Contains(err.Error(), "RUN, which needs Docker") || !strings.Contains(fault.Hint(err), "Start Docker") {
		t.Errorf("without Docker it is answered with %v, hint %q", err, fault.Hint(err))
	}
	_, err = alone(io.Discard).Build(t.Context(), Order{Plan: planOf(t, dir, "", "FROM scratch\nCOPY a.py /\n")})
	if fault.KindOf(err) != fault.Missing || !strings.Contains(fault.Hint(err), "--push") {
		t.Errorf("with nowhere to go it is answered with %v, hint %q", err, fault.Hint(err))
	}
	said.Hide(dir, "HERE")
	said.Compare(t, "docker-only")
}

func TestWhatARegistrySaysBecomesAFault(t *testing.T) {
	status := 0
	reg := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if status != 0 && r.URL.Path != "/v2/" {
				w.WriteHeader(status)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	dir := testFolder(t)
	for _, c := range []struct {
		status int
		kind   fault.Kind
		hint   string
	}{
		{http.StatusUnauthorized, fault.Denied, "docker login " + reg}, {http.StatusForbidden, fault.Denied, "docker login"}, {0, fault.Missing, "Check the name"},
	} {
		status = c.status
		p := planOf(t, dir, reg+"/nobody:1", "COPY a.py /\n")
		b := alone(io.Discard)
		if err := b.Pin(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		_, err := b.Build(t.Context(), Order{Plan: p, File: filepath.Join(dir, "x.tar")})
		if fault.KindOf(err) != c.kind || !strings.Contains(fault.Hint(err), c.hint) || !strings.Contains(err.Error(), reg+"/nobody:1") {
			t.Errorf("status %d is answered with %v (%s), hint %q", c.status, err, fault.KindOf(err), fault.Hint(err))
		}
	}
	if got := loginHint("763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch-training:2.8.0-cpu-py312"); !strings.Contains(got, "Log in: aws ecr get-login-password --region eu-west-1 | docker login -u AWS --password-stdin 763104351884.dkr.ecr.eu-west-1.amazonaws.com.") {
		t.Errorf("the way to log in to ECR is %q", got)
	}
}

func TestAnInterruptedBuildLeavesNothing(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	reg := serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/blobs/") && r.Method == http.MethodGet {
				stop() // in the middle of reading the base
				<-r.Context().Done()
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	put(t, reg+"/base:1", testBase(t))
	dir, temp := testFolder(t), t.TempDir()
	t.Setenv("TMPDIR", temp)
	_, err := alone(io.Discard).Build(ctx, Order{Plan: planOf(t, dir, reg+"/base:1", "COPY a.py /\n"), File: filepath.Join(dir, "x.tar")})
	if fault.KindOf(err) != fault.Interrupted {
		t.Errorf("it is answered with %v", err)
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "x.tar")); err == nil {
		t.Error("it left half an archive")
	}
}

func TestWhatDockerSaysBecomesAFault(t *testing.T) {
	for _, c := range []struct {
		stream string
		kind   fault.Kind
		exit   int
		said   string
	}{
		{`{"stream":"Step 1/1"}{"stream":" : FROM a\n"}{"aux":{"ID":"sha256:1"}}`, fault.Bug, 0, "Step 1/1 : FROM a\n"},
		{`{"stream":"\u001b[91moh\n"}{"stream":"\u001b[0m"}{"stream":"\u001b[91mno\u001b[0m"}{"stream":"\u001b[32mtheirs\u001b[0m"}`, fault.Bug, 0, "oh\nno\x1b[32mtheirs\x1b[0m"},
		{`{"status":"Pulling","id":"x"}{"status":"Pulling","id":"x","progress":"1"}{"status":"Done"}`, fault.Bug, 0, "x: Pulling\nDone\n"},
		{`{"stream":"hello\n"}{"errorDetail":{"code":7,"message":"The command '/bin/sh -c x' returned a non-zero code: 7"},"error":"The command '/bin/sh -c x' returned a non-zero code: 7"}`, fault.Failed, 2, "hello\n"},
		{`{"error":"COPY failed: file not found in build context"}`, fault.Invalid, 2, ""},
		{`{"error":"pull access denied for nobody, repository does not exist or may require 'docker login': denied: requested access"}`, fault.Denied, 125, ""},
		{`{"error":"manifest for x:9 not found: manifest unknown: manifest unknown"}`, fault.Missing, 2, ""},
		{`{"error":"Get \"https://x/v2/\": dial tcp: lookup x: no such host"}`, fault.Lost, 125, ""},
		{`{"error":"write /x: no space left on device"}`, fault.Full, 125, ""},
		{`{"stream":"a`, fault.Lost, 125, ""},
	} {
		var said bytes.Buffer
		err := follow(t.Context(), strings.NewReader(c.stream), &said, "build image: x")
		if said.String() != c.said {
			t.Errorf("%s says %q, want %q", c.stream, said.String(), c.said)
		}
		if c.exit == 0 {
			if err != nil {
				t.Errorf("%s is answered with %v", c.stream, err)
			}
			continue
		}
		if fault.KindOf(err) != c.kind || fault.Exit(err) != c.exit {
			t.Errorf("%s is answered with %v: %s, exit %d", c.stream, err, fault.KindOf(err), fault.Exit(err))
		}
	}
}
