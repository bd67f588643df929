package image

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// folder makes files of a map; a name that ends in a slash is a folder, a
// content "-> x" a link.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(to, p)
		} else if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(p, 0o755)
		} else {
			err = os.WriteFile(p, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func resolve(t *testing.T, c job.Container, dir string) *Plan {
	t.Helper()
	p, err := Resolve(c, Site{Project: "demo", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWhatIsNotBuiltIsTakenAsItIs(t *testing.T) {
	for _, c := range []struct {
		c    job.Container
		want string
	}{
		{job.Container{Image: "python:3.12"}, "python:3.12"},
		{job.Container{}, "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1"},
		{job.Container{Framework: "xgboost:1.7-1"}, "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1"},
	} {
		p, err := Resolve(c.c, Site{Framework: "xgboost:1.7-1"})
		if err != nil || p.Reference != c.want || p.Recipe != nil || p.Digest != "" || !strings.HasPrefix(p.Line, c.want) {
			t.Errorf("%+v is %+v, %v", c.c, p, err)
		}
	}
}

// An image that is a file is built of nothing else, for it needs a name.
func TestAnImageThatIsAFileIsOneToBuild(t *testing.T) {
	p, err := Resolve(job.Container{Image: "tar:./a.tar"}, Site{Project: "p"})
	if err != nil || p.Recipe == nil || p.Recipe.Text != "FROM tar:./a.tar" || p.Line != p.Reference+", built from tar:./a.tar" {
		t.Errorf("got %+v, %v", p, err)
	}
}

// An image that a target does not pull from where it lies is copied to where it does.
func TestAnImageThatIsNotPulledIsCopied(t *testing.T) {
	site := Site{Project: "p", Registry: "own/team", PullsFrom: func(image string) bool { return strings.HasPrefix(image, "own/") }}
	p, err := Resolve(job.Container{Image: "python:3.12"}, site)
	if err != nil || p.Recipe == nil || p.Recipe.Text != "FROM python:3.12" || !strings.HasPrefix(p.Reference, "own/team/drover/p-") || p.Line != p.Reference+", copied from python:3.12" {
		t.Errorf("got %+v, %v", p, err)
	}
	if p, err := Resolve(job.Container{Image: "own/a:1"}, site); err != nil || p.Recipe != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	if p, err := Resolve(job.Container{Image: "tar:./a.tar"}, site); err != nil || p.Line != p.Reference+", built from tar:./a.tar" {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestTheBaseIsFilledIn(t *testing.T) {
	dir := folder(t, map[string]string{"own/Dockerfile": "FROM debian\nRUN true\n", "file.docker": "FROM __BASE_IMAGE__\n", "docker/Dockerfile": "FROM __BASE_IMAGE__ AS x\nRUN echo __BASE_IMAGE__\n"})
	for _, c := range []struct {
		c    job.Container
		want string
		own  bool
		from string
	}{
		{job.Container{Dockerfile: "own"}, "FROM debian\nRUN true\n", true, "own/Dockerfile"},
		{job.Container{Dockerfile: filepath.Join(dir, "own")}, "FROM debian\nRUN true\n", true, dir + "/own/Dockerfile"},
		{job.Container{Dockerfile: "docker/", Image: "a:1"}, "FROM a:1 AS x\nRUN echo a:1\n", false, "docker/Dockerfile"},
		{job.Container{Dockerfile: "file.docker", Image: "a:1"}, "FROM a:1\n", false, "file.docker"},
		{job.Container{Dockerfile: "RUN true", Image: "a:1"}, "FROM a:1\nRUN true", false, "the Dockerfile given"},
		{job.Container{Dockerfile: "# escape=`\n# note\nRUN true\n", Image: "a:1"}, "# escape=`\nFROM a:1\n# note\nRUN true\n", false, "the Dockerfile given"},
		{job.Container{Dockerfile: "FROM x\nRUN true"}, "FROM x\nRUN true", false, "the Dockerfile given"},
	} {
		p := resolve(t, c.c, dir)
		if p.Recipe.Text != c.want || p.Recipe.Own != c.own || p.Recipe.From != c.from || len(p.Folder.Files) != 0 {
			t.Errorf("%+v is built as %q, own %v, from %s with %d files", c.c, p.Recipe.Text, p.Recipe.Own, p.Recipe.From, len(p.Folder.Files))
		}
	}
}

func TestWhatCannotBeBuiltIsRefusedBeforehand(t *testing.T) {
	dir := folder(t, map[string]string{"own/Dockerfile": "FROM debian\n", "empty/": "", "wrong": "FROM a\nRUM b\n"})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		c         job.Container
		kind      fault.Kind
		why, hint string
	}{
		{job.Container{Image: "a", Framework: "pytorch"}, fault.Invalid, "both", "Leave one"},
		{job.Container{Dockerfile: "nowhere"}, fault.Missing, `"nowhere" is neither a file`, "Name a folder"},
		{job.Container{Dockerfile: "empty"}, fault.Missing, "has none", "file named Dockerfile"},
		{job.Container{Dockerfile: "pipe"}, fault.Invalid, "", "Name a folder"},
		{job.Container{Dockerfile: "wrong"}, fault.Invalid, "read wrong: line 2", "Did you mean RUN?"},
		{job.Container{Dockerfile: "own", Image: "b"}, fault.Invalid, "begins from debian", BaseWord},
		{job.Container{Dockerfile: "RUN true"}, fault.Invalid, "it has no FROM line", "FROM"},
		{job.Container{Dockerfile: "FROM __BASE_IMAGE__\n"}, fault.Invalid, "none was given", "--image"},
	} {
		_, err := Resolve(c.c, Site{Dir: dir})
		if fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.why) || !strings.Contains(fault.Hint(err), c.hint) {
			t.Errorf("%+v is answered with %v (%s) and hint %q", c.c, err, fault.KindOf(err), fault.Hint(err))
		}
	}
}

// simple-sagemaker's users name a framework beside any Dockerfile.
func TestASpareImageIsLeftOut(t *testing.T) {
	own := Site{Spare: true}
	for text, want := range map[string]string{"FROM x\nRUN true": "FROM x\nRUN true", "RUN true": "FROM b\nRUN true", "FROM __BASE_IMAGE__\n": "FROM b\n"} {
		if p, err := Resolve(job.Container{Dockerfile: text, Image: "b"}, own); err != nil || p.Recipe.Text != want {
			t.Errorf("%q is built as %+v, %v", text, p, err)
		}
	}
}

func paths(f *Folder) (list []string) {
	for _, one := range f.Files {
		list = append(list, one.Path)
	}
	return list
}

func TestOnlyWhatIsCopiedCounts(t *testing.T) {
	files := map[string]string{"Dockerfile": "FROM a\nCOPY req.txt /\nCOPY src/*.py /src/\nADD https://x.y/z /\n", "req.txt": "x", "src/a.py": "1", "src/b.txt": "2", "src/sub/c.py": "3", "huge": "4"}
	dir := folder(t, files)
	p := resolve(t, job.Container{Dockerfile: "."}, dir)
	if diff := cmp.Diff([]string{"Dockerfile", "req.txt", "src", "src/a.py"}, paths(p.Folder)); diff != "" {
		t.Errorf("what may be copied differs (-want +got):\n%s", diff)
	}
	for _, text := range []string{"FROM a\nCOPY . /x\n", "FROM a\nARG W\nCOPY $W /x\n", "FROM a\nCOPY link /x\n"} {
		if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if text == "FROM a\nCOPY link /x\n" {
			if err := os.Symlink("src", filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
		}
		if got := paths(resolve(t, job.Container{Dockerfile: "."}, dir).Folder); !slices.Contains(got, "huge") || !slices.Contains(got, "src/sub/c.py") {
			t.Errorf("%q may copy everything, and only %q is shipped", text, got)
		}
	}
}

func TestTheDigestIsOfWhatGoesIn(t *testing.T) {
	dir := folder(t, map[string]string{"Dockerfile": "FROM a\nCOPY src /src\n", "src/a": "1", "src/l": "-> a", "other": "x"})
	digest := func() string { return resolve(t, job.Container{Dockerfile: "."}, dir).Digest }
	first := digest()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Chtimes(filepath.Join(dir, "src/a"), time.Now(), time.Unix(1, 0)))
	must(os.WriteFile(filepath.Join(dir, "other"), []byte("y"), 0o644))
	if digest() != first {
		t.Error("a file's time, or a file that is not copied, changed the digest")
	}
	seen := map[string]string{first: "at first"}
	for _, c := range []struct {
		what   string
		change func()
	}{
		{"content", func() { must(os.WriteFile(filepath.Join(dir, "src/a"), []byte("2"), 0o644)) }},
		{"mode", func() { must(os.Chmod(filepath.Join(dir, "src/a"), 0o755)) }},
		{"link", func() {
			must(os.Remove(filepath.Join(dir, "src/l")))
			must(os.Symlink("b", filepath.Join(dir, "src/l")))
		}},
		{"name", func() { must(os.Rename(filepath.Join(dir, "src/a"), filepath.Join(dir, "src/b"))) }},
		{"Dockerfile", func() {
			must(os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM a\nCOPY src /src2\n"), 0o644))
		}},
	} {
		c.change()
		now := digest()
		if was, ok := seen[now]; ok {
			t.Errorf("another %s has the digest of %s", c.what, was)
		}
		seen[now] = c.what
	}
	p := resolve(t, job.Container{Dockerfile: "."}, dir)
	for _, base := range []string{"sha256:1", "sha256:2"} {
		must(p.Pin(map[string]string{"a": base}))
		if was, ok := seen[p.Digest]; ok {
			t.Errorf("base %s has the digest of %s", base, was)
		}
		seen[p.Digest] = base
		if !strings.HasSuffix(p.Reference, ":"+p.Digest[:12]) || !strings.HasPrefix(p.Reference, "drover/demo-") {
			t.Errorf("it is called %s", p.Reference)
		}
	}
}

func TestNamesKeepProjectsAndDockerfilesApart(t *testing.T) {
	dir := folder(t, map[string]string{"a/Dockerfile": "FROM x\n", "b/Dockerfile": "FROM x\n"})
	repository := func(project, file string) string {
		p, err := Resolve(job.Container{Dockerfile: file}, Site{Project: project, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(p.Reference, ":")
		return name
	}
	names := []string{repository("one", "a"), repository("one", "b"), repository("two", "a"), repository("one", "FROM x\n"), repository("one", "FROM y\n")}
	slices.Sort(names)
	if len(slices.Compact(names)) != 5 {
		t.Errorf("some of these share a name: %q", names)
	}
	if repository("one", "a") != repository("one", "./a/") {
		t.Error("one folder, written in two ways, has two names")
	}
}

func TestNothingOutsideTheFolderIsRead(t *testing.T) {
	outside := folder(t, map[string]string{"secret": "s"})
	dir := folder(t, map[string]string{"Dockerfile": "FROM a\nCOPY . /\n", "out": "-> " + outside, "up": "-> ../../../etc", "in/x": "1"})
	p := resolve(t, job.Container{Dockerfile: "."}, dir)
	if diff := cmp.Diff([]string{"Dockerfile", "in", "in/x", "out", "up"}, paths(p.Folder)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r, err := p.Folder.Open(File{Path: "out/secret", Size: 1}); err == nil {
		r.Close()
		t.Error("a file outside was opened through a link")
	}
	if _, err := p.Folder.Match("../x"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a path that leads out is answered with %v", err)
	}
	// What is a file when it is listed, and a link when it is read, is not followed.
	if err := os.Remove(filepath.Join(dir, "in/x")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "in/x")); err != nil {
		t.Fatal(err)
	}
	if err := p.Folder.Tar(io.Discard, nil); err == nil {
		t.Error("a file that became a link was followed")
	}
}

func TestTheArchiveHoldsWhatDockerIgnoreLeaves(t *testing.T) {
	dir := folder(t, map[string]string{".dockerignore": "*.log\nbuild\n!build/keep\n**/node_modules\n# no\n", "a.log": "1", "b.py": "2", "build/keep": "3", "build/lose": "4",
		"x/node_modules/y": "5", "x/z": "6", "Dockerfile": "FROM a\nCOPY . .\n", "odd\nname\t\"": "7"})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := resolve(t, job.Container{Dockerfile: "."}, dir)
	var b bytes.Buffer
	if err := p.Folder.Tar(&b, map[string][]byte{"b.py": []byte("ours"), "z.extra": []byte("too")}); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Nanosecond() != 0 {
			t.Errorf("%s belongs to %d:%d %q, of %s", h.Name, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
		got[h.Name] = string(content)
	}
	delete(got, "Dockerfile")
	delete(got, ".dockerignore")
	want := map[string]string{"b.py": "ours", "build/": "", "build/keep": "3", "x/": "", "x/z": "6", "odd\nname\t\"": "7", "z.extra": "too"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAHugeFolderIsRefusedWithTheLargestFile(t *testing.T) {
	dir := folder(t, map[string]string{"Dockerfile": "FROM a\nCOPY . .\n", "data/big.bin": ""})
	if err := os.Truncate(filepath.Join(dir, "data/big.bin"), MaxContext+1); err != nil {
		t.Skip(err) // a file system without holes
	}
	_, err := Resolve(job.Container{Dockerfile: "."}, Site{Dir: dir})
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), ".dockerignore") || !strings.Contains(fault.Hint(err), "data/big.bin") {
		t.Errorf("it is answered with %v, hint %q", err, fault.Hint(err))
	}
}

func TestAFileThatGrowsIsNoticed(t *testing.T) {
	dir := folder(t, map[string]string{"Dockerfile": "FROM a\nCOPY a /\n", "a": "1"})
	p := resolve(t, job.Container{Dockerfile: "."}, dir)
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("22"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.Folder.Tar(io.Discard, nil); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "changed while") {
		t.Errorf("it is answered with %v", err)
	}
}

// What is built for a target with a registry is named below it, by its content as anywhere.
func TestAnImageForARegistryIsNamedBelowIt(t *testing.T) {
	named := func(registry string) string {
		p, err := Resolve(job.Container{Dockerfile: "FROM python:3.12\n"}, Site{Project: "demo", Dir: t.TempDir(), Registry: registry})
		if err != nil {
			t.Fatal(err)
		}
		return p.Reference
	}
	here, there := named(""), named("ghcr.io/me/")
	if there != "ghcr.io/me/"+here || !IsOfThisMachine(here) || IsOfThisMachine(there) {
		t.Errorf("it is %s here, and %s in a registry", here, there)
	}
}
