package build

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/moby/client"

	"github.com/drover-run/drover/internal/image"
	"github.com/drover-run/drover/job"
)

// dockerd is the daemon that real tests use.
func dockerd(t *testing.T) *Docker {
	t.Helper()
	if os.Getenv("DROVER_TEST_REAL") == "" {
		t.Skip("set DROVER_TEST_REAL=1, and DOCKER_HOST")
	}
	d, err := Connect(t.Context(), Registries{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.cli.Close() })
	return d
}

// tidy removes an image when the test ends.
func tidy(t *testing.T, d *Docker, ref string) {
	t.Cleanup(func() {
		_, err := d.cli.ImageRemove(context.Background(), ref, client.ImageRemoveOptions{Force: true, PruneChildren: true})
		if err != nil && !absent(err) {
			t.Errorf("remove %s: %v", ref, err)
		}
	})
}

// long ago, to the second, as everything in archives.
var longAgo = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)

// archive is a tar of headers; a regular file's content is its Linkname's, so
// that a table fits a line.
func archive(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		var body []byte
		if h.Typeflag == tar.TypeReg {
			body, h.Linkname = []byte(h.Linkname), ""
		}
		h.Size, h.Format = int64(len(body)), tar.FormatPAX
		if h.ModTime.IsZero() {
			h.ModTime = longAgo
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func layerOf(t *testing.T, b []byte) v1.Layer {
	t.Helper()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func dir(name string, mode int64, id int) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, Uid: id, Gid: id}
}

func file(name string, mode int64, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Linkname: content}
}

func link(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Mode: 0o777, Linkname: to}
}

// testBase is an image with all that COPY may meet at its destination: folders
// with modes and owners of their own, links to folders, and files taken away
// again by a second layer.
func testBase(t *testing.T) v1.Image {
	t.Helper()
	first := archive(t, dir("bin", 0o755, 0), file("bin/sh", 0o755, "no shell"), dir("usr", 0o755, 0), dir("usr/lib", 0o755, 0), link("lib", "usr/lib"),
		dir("srv", 0o700, 5), dir("srv/deep", 0o711, 6), dir("gone", 0o750, 7), file("gone/file", 0o600, "x"), file("plain", 0o640, "a file"),
		link("loop", "loop"), link("away", "/../../usr"), dir("data", 0o2775, 9), file("data/old", 0o444, "old"), link("data/link", "old"), dir("tmp", 0o1777, 0))
	second := archive(t, file(".wh.gone", 0o600, ""), dir("opaque", 0o701, 3), file("opaque/.wh..wh..opq", 0o600, ""))
	img, err := mutate.AppendLayers(empty.Image, layerOf(t, first), layerOf(t, second))
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: platformOf("").Architecture, Created: v1.Time{Time: longAgo}, RootFS: rootFS(t, img),
		Config: v1.Config{Env: []string{"PATH=/bin", "HOME=/root"}, Cmd: []string{"sh"}, Entrypoint: []string{"/bin/sh"}, WorkingDir: "/srv",
			Labels: map[string]string{"made.by": "test"}, ExposedPorts: map[string]struct{}{"1/tcp": {}}}})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func rootFS(t *testing.T, img v1.Image) v1.RootFS {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return c.RootFS
}

// testFolder has what a project may hold: modes, links, ignored and hostile names.
func testFolder(t *testing.T) string {
	t.Helper()
	at := t.TempDir()
	write := func(name string, mode os.FileMode, content string) {
		p := filepath.Join(at, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(p, longAgo, longAgo.Add(time.Duration(len(content))*time.Hour+123456789)); err != nil {
			t.Fatal(err)
		}
	}
	write("a.py", 0o644, "print(1)")
	write("b.py", 0o600, "print(22)")
	write("run.sh", 0o4755, "#!/bin/sh")
	write("group", 0o2755, "sgid")
	write("notes.md", 0o444, "ignored")
	write("src/main.py", 0o644, "main")
	write("src/lib/x", 0o640, "a folder where the image has a link")
	write("src/deep/er/y.py", 0o755, "y")
	write("src/old", 0o666, "new")
	write("ignored/keep.me", 0o644, "kept")
	write("ignored/lost", 0o644, "lost")
	write("odd name\n\"'é", 0o644, "odd")
	write(".dockerignore", 0o644, "# not these\n*.md\nignored/*\n!ignored/keep.me\n**/er\n")
	for to, name := range map[string]string{"a.py": "link.py", "src": "linked", "/etc/passwd": "outside", "../../..": "src/up", "nowhere": "src/dangling"} {
		if err := os.Symlink(to, filepath.Join(at, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"src": 0o751, "src/lib": 0o700, "src/deep": os.ModeSetgid | 0o770} {
		if err := os.Chmod(filepath.Join(at, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// oracles are Dockerfiles that both ways build.
var oracles = map[string]string{
	"a file to a name":            "FROM base\nCOPY a.py /new/place/b.py\n",
	"a file to a folder":          "FROM base\nCOPY a.py /new/folder/\nCOPY a.py /srv\nCOPY b.py /srv/deep/\n",
	"a file to the workdir":       "FROM base\nCOPY a.py .\nCOPY b.py ./\nCOPY a.py other.py\nCOPY a.py sub/dir/\n",
	"several files":               "FROM base\nCOPY a.py b.py src/main.py /code/\n",
	"by a pattern":                "FROM base\nCOPY *.py /code/\nCOPY src/m?in.[a-z]y /one\nCOPY ig*/keep* /kept/\n",
	"a folder":                    "FROM base\nCOPY src /code\nCOPY src/ /srv/deep\nCOPY src/deep /\n",
	"everything":                  "FROM base\nWORKDIR /all\nCOPY . .\n",
	"through links of the image":  "FROM base\nCOPY a.py /lib/a.py\nCOPY a.py /away/\nCOPY src /lib\nCOPY b.py /data/link\n",
	"over what is there":          "FROM base\nCOPY src /data\nCOPY a.py /plain\nCOPY a.py /data/old\n",
	"a folder over a link":        "FROM base\nCOPY src /\n",
	"links of the folder":         "FROM base\nCOPY link.py /x/\nCOPY linked /y\nCOPY linked/main.py /z\nCOPY src/dangling* /dang/\n",
	"owners":                      "FROM base\nCOPY --chown=12 a.py run.sh /own/\nCOPY --chown=12:34 src /own/src\nCOPY --chown=7:8 src /data\nCOPY --chown=1:2 a.py /u/v/w\nCOPY --chown=3:4 src /p/q/r\n",
	"suid and sgid":               "FROM base\nCOPY run.sh group /s/\n",
	"ADD of files":                "FROM base\nADD a.py src /code/\n",
	"as JSON":                     "FROM base\nCOPY [\"odd name\\n\\\"'é\", \"/odd/\"]\n",
	"after a folder was taken":    "FROM base\nCOPY a.py /gone/\nCOPY b.py /opaque/x\n",
	"from nothing":                "FROM scratch\nCOPY a.py /\nCMD [\"/a.py\"]\n",
	"from nothing, a folder":      "FROM scratch\nCOPY src /code/app\nWORKDIR /code/made\nCOPY a.py .\n",
	"workdirs":                    "FROM base\nWORKDIR rel\nWORKDIR ../up/./x/\nWORKDIR /lib/inside\nWORKDIR /srv/deep\nCOPY a.py .\nENV D=/var/d\nWORKDIR ${D}/e\nCOPY b.py $D/\n",
	"environment":                 "FROM base\nENV A=1 B=\"two words\" C=three\\ words D='$A'\nENV A=2 E=$A F=${A}x G=${NONE:-def} H=${A:+set} I=\\$A\nENV old form  of \"it\"\nENV PATH=$PATH:/opt/bin J=a'b'\"c\" K=\"q\\\"q\" L=\nENV M=\"it's $A\" N=it\\'s\n",
	"labels and the rest":         "FROM base\nLABEL a.b=1 \"c d\"=\"e f\" made.by=me\nENV P=9000\nEXPOSE 80 81/udp $P 90-92/tcp\nUSER 5:6\nSTOPSIGNAL SIGUSR1\n",
	"command keeps":               "FROM base\nCMD echo hello $HOME\n",
	"entrypoint resets":           "FROM base\nENTRYPOINT [\"/bin/x\", \"$HOME\"]\n",
	"command and entrypoint":      "FROM base\nCMD [\"a\"]\nENTRYPOINT exec top -b\n",
	"empty lists":                 "FROM base\nCMD []\nENTRYPOINT []\n",
	"spelled oddly":               "# escape=`\n\n  from   base\n# a comment\ncopy a.py `\n\n  # inside\n   /odd/`\nly\nenv X=a`\n",
	"continued":                   "FROM base\nENV A=1 \\\n  # comment\n\n  B=2 \\\n  C=\\\n3\nCOPY a.py \\\n /cont/\n",
	"ignored itself":              "FROM base\nCOPY . /all\nCOPY D*e /x/\n",
	"ignored itself, one file":    "FROM base\nCOPY a.py /all/\n",
	"typed, everything":           "FROM base\nCOPY . /all\n",
	"typed, one file":             "FROM base\nCOPY src/main.py /all/\n",
	"a file that is not there":    "FROM base\nCOPY nobody /x\n",
	"an ignored file":             "FROM base\nCOPY notes.md /x\n",
	"a pattern without a match":   "FROM base\nCOPY *.nothing /x/\n",
	"several to no folder":        "FROM base\nCOPY a.py b.py /x\n",
	"a pattern to no folder":      "FROM base\nCOPY *.py /x\n",
	"several to a dot":            "FROM base\nCOPY a.py b.py .\n",
	"below a file":                "FROM base\nCOPY a.py /plain/x\n",
	"into a circle":               "FROM base\nCOPY a.py /loop/x\n",
	"from above":                  "FROM base\nCOPY ../../etc/passwd /x\n",
	"a link that leads out":       "FROM base\nCOPY outside /x\n",
	"a link up and out":           "FROM base\nCOPY src/up/a.py /x\n",
	"a link that leads nowhere":   "FROM base\nCOPY src/dangling /x\n",
	"quotes that are not JSON":    "FROM base\nCMD ['a', 'b']\n",
	"its own Dockerfile's ignore": "FROM base\nCOPY .dockerignore ignored /i/\n",
}

// TestRealLayersAreWhatDockerMakes builds each Dockerfile by Docker and by
// appending, and compares what a container of each sees, and its configuration.
func TestRealLayersAreWhatDockerMakes(t *testing.T) {
	d := dockerd(t)
	base := testBase(t)
	const name = "drover.test/oracle-base:1"
	if err := d.loadImage(t.Context(), base, name); err != nil {
		t.Fatal(err)
	}
	tidy(t, d, name)
	for what, text := range oracles {
		t.Run(what, func(t *testing.T) {
			site := image.Site{Project: "oracle", Dir: testFolder(t)}
			begin := base
			if strings.Contains(text, "scratch") {
				var err error
				if begin, err = scratch(""); err != nil {
					t.Fatal(err)
				}
			}
			text, typed := strings.Replace(text, " base\n", " "+name+"\n", 1), strings.HasPrefix(what, "typed")
			if !typed {
				if err := os.WriteFile(filepath.Join(site.Dir, "Dockerfile"), []byte(text), 0o640); err != nil {
					t.Fatal(err)
				}
				text = "."
			}
			if strings.HasPrefix(what, "ignored itself") {
				f := filepath.Join(site.Dir, ".dockerignore")
				if err := os.WriteFile(f, []byte("Dockerfile\n.dockerignore\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			p, err := image.Resolve(job.Container{Dockerfile: text}, site)
			if err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			dockerErr := d.buildImage(t.Context(), p, &said)
			tidy(t, d, p.Reference)
			img, appendErr := Append(t.Context(), p, begin, t.TempDir(), io.Discard)
			if dockerErr != nil || appendErr != nil {
				if dockerErr == nil || appendErr == nil {
					t.Fatalf("docker: %v\nappending: %v", dockerErr, appendErr)
				}
				t.Logf("both refuse:\ndocker: %v\nappending: %v", dockerErr, appendErr)
				return
			}
			want, wantConfig := look(t, d, p.Reference)
			if err := d.loadImage(t.Context(), img, "drover.test/oracle-appended:1"); err != nil {
				t.Fatal(err)
			}
			tidy(t, d, "drover.test/oracle-appended:1")
			got, gotConfig := look(t, d, "drover.test/oracle-appended:1")
			if typed { // says what its own Dockerfile is called: see hidden
				delete(want, "all/.dockerignore")
				delete(got, "all/.dockerignore")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("files differ (-docker +appending):\n%s", diff)
			}
			if diff := cmp.Diff(wantConfig, gotConfig); diff != "" {
				t.Errorf("configurations differ (-docker +appending):\n%s", diff)
			}
		})
	}
}

// look gives all files of a container of an image, and what it starts with.
func look(t *testing.T, d *Docker, ref string) (files map[string]string, config map[string]any) {
	t.Helper()
	o := client.ContainerCreateOptions{}
	if err := json.Unmarshal([]byte(`{"Image": "`+ref+`", "Cmd": ["never started"]}`), &o.Config); err != nil {
		t.Fatal(err)
	}
	made, err := d.cli.ContainerCreate(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.cli.ContainerRemove(context.Background(), made.ID, client.ContainerRemoveOptions{Force: true})
	r, err := d.cli.ContainerExport(t.Context(), made.ID, client.ContainerExportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files = map[string]string{}
	for a := tar.NewReader(r); ; {
		h, err := a.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, a); err != nil {
			t.Fatal(err)
		}
		words := fmt.Sprintf("%c %o %d:%d %s", h.Typeflag, h.Mode, h.Uid, h.Gid, h.Linkname)
		if h.Typeflag == tar.TypeReg {
			words += fmt.Sprintf(" %x", sum.Sum(nil)[:6])
			if !strings.HasPrefix(h.Name, "etc/") && h.Name != ".dockerenv" && !strings.HasPrefix(h.Name, "dev/") {
				words += " " + h.ModTime.UTC().Format(time.RFC3339Nano)
			}
		}
		files[h.Name] = words
	}
	got, err := d.cli.ImageInspect(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	c := got.Config
	return files, map[string]any{"env": c.Env, "cmd": c.Cmd, "entrypoint": c.Entrypoint, "workdir": c.WorkingDir, "user": c.User, "labels": c.Labels,
		"ports": c.ExposedPorts, "signal": c.StopSignal, "volumes": c.Volumes, "shell": c.Shell, "os": got.Os, "architecture": got.Architecture}
}
