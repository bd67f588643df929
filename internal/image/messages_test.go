package image

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// refusedWith fails the test unless err has this kind, this text and this hint.
func refusedWith(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || err.Error() != text || fault.Hint(err) != hint {
		t.Errorf("got %v, %s, %q; want %s, %s, %q", err, fault.KindOf(err), fault.Hint(err), text, kind, hint)
	}
}

func TestALineOfADockerfileThatIsWrongIsNamed(t *testing.T) {
	for text, want := range map[string][2]string{
		"# only a comment\n":     {"line 1: there is no instruction", "Begin it with FROM."},
		"# escape=x\nFROM a":     {`line 1: "x" cannot continue a line`, "Use a backslash or a backquote."},
		"FROM a\nWORKDIR":        {"line 2: WORKDIR needs words behind it", ""},
		"FROM a\nCMD [1, \"b\"]": {"line 2: CMD: a list holds strings alone", "Put every word in double quotes."},
	} {
		_, err := Read(text)
		refusedWith(t, err, fault.Invalid, want[0], want[1])
	}
}

func TestADockerfileThatIsNotFoundSaysWhatToName(t *testing.T) {
	dir := folder(t, map[string]string{"empty/": "", "own/Dockerfile": "FROM debian\n", "large": strings.Repeat("#", maxText+1)})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		c          job.Container
		kind       fault.Kind
		text, hint string
	}{
		{job.Container{Dockerfile: "nowhere"}, fault.Missing, `read Dockerfile: "nowhere" is neither a file, a folder nor the text of a Dockerfile`,
			"Name a folder with a Dockerfile, the file, or give its text, such as $'FROM debian\\nRUN true'."},
		{job.Container{Dockerfile: "empty"}, fault.Missing, "read Dockerfile: " + dir + "/empty has none", "Put a file named Dockerfile there, or name the file itself."},
		{job.Container{Dockerfile: "pipe"}, fault.Invalid, `read Dockerfile: "pipe" is neither`, "Name a folder or a file."},
		{job.Container{Dockerfile: "large"}, fault.Invalid, "read Dockerfile: " + dir + "/large: more than 1048576 bytes", "Is it the right file?"},
		{job.Container{Dockerfile: "own", Image: "b"}, fault.Invalid, "read own/Dockerfile: it begins from debian, so b would not be used",
			"Write FROM __BASE_IMAGE__ there, or leave --image and --framework out."},
		{job.Container{Dockerfile: "RUN true"}, fault.Invalid, "read the Dockerfile given: it has no FROM line", "Begin it with FROM debian, or name one with --image."},
		{job.Container{Dockerfile: "FROM __BASE_IMAGE__\n"}, fault.Invalid, "read the Dockerfile given: __BASE_IMAGE__ stands for an image, and none was given",
			"Name it with --image or --framework."},
	} {
		_, err := Resolve(c.c, Site{Dir: dir})
		refusedWith(t, err, c.kind, c.text, c.hint)
	}
	_, err := openRegular(dir)
	refusedWith(t, err, fault.Invalid, "read "+dir+": no regular file", "")
}

func TestAFolderThatCannotBeCopiedSaysWhy(t *testing.T) {
	dir := folder(t, map[string]string{"a": "1", "closed/b": "2"})
	f, err := Scan(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Match("../secrets")
	refusedWith(t, err, fault.Invalid, "copy ../secrets: it lies outside the folder that is built from", "Copy it into the folder, or name a folder further up.")

	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = f.Open(f.Files[0])
	refusedWith(t, err, fault.Invalid, "read "+dir+"/a: it changed while it was read", "Run the command again when nothing writes there.")

	large := &Folder{Dir: "/src", Files: []File{{Path: "a", Size: 1}, {Path: "data/all.bin", Size: 3 << 30}}}
	refusedWith(t, large.checkSize(), fault.Invalid, "read folder to build from: /src: 3072 MB, at most 2048 MB are shipped",
		"Name what is not needed in /src/.dockerignore, such as data/all.bin.")

	for _, pattern := range []string{"[a", "[z-a]", "!a\n[z-a]"} { // docker's code finds the second wrong as it is used
		if err := os.WriteFile(filepath.Join(dir, ".dockerignore"), []byte(pattern), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = Scan(dir)
		refusedWith(t, err, fault.Invalid, "read .dockerignore: syntax error in pattern", "")
	}
	if err := os.Remove(filepath.Join(dir, ".dockerignore")); err != nil {
		t.Fatal(err)
	}

	if _, err = Scan(filepath.Join(dir, "none")); fault.KindOf(err) != fault.Invalid || !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "read folder to build from: ") {
		t.Errorf("a folder that is not there gives %v", err)
	}
	if os.Geteuid() == 0 {
		t.Skip("root reads every folder")
	}
	closed := filepath.Join(dir, "closed")
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	_, err = Scan(dir)
	if err := os.Chmod(closed, 0o700); err != nil { // or it could not be removed
		t.Error(err)
	}
	if fault.KindOf(err) != fault.Invalid || fault.Hint(err) != "Name what cannot be read in .dockerignore." {
		t.Errorf("a folder that may not be read gives %v, %q", err, fault.Hint(err))
	}
}

func TestAFrameworkWithoutAnImageIsNamed(t *testing.T) {
	framework := func(words string, site Site) error {
		_, err := Framework(words, site)
		return err
	}
	refusedWith(t, framework("keras", Site{}), fault.Invalid, `resolve framework "keras": "keras" has no prebuilt images`,
		"The frameworks are huggingface, pytorch, sklearn, tensorflow, xgboost; any other image is named with --image.")
	refusedWith(t, framework("pytorch", Site{Machine: "ml.trn1.2xlarge"}), fault.Invalid,
		`resolve framework "pytorch": the images for ml.trn1.2xlarge have rules of their own`, "Name the image itself with --image.")
	refusedWith(t, framework("pytorch", Site{Region: "mars-north-1"}), fault.Invalid, `resolve framework "pytorch": region "mars-north-1" has no image of it`,
		"Set AWS_REGION to one that has it, such as us-east-1, or image_mirror to a registry of yours.")

	_, err := shelf{Processors: []string{"cpu", "neuron"}}.processor("x:1", Site{GPUs: 1})
	refusedWith(t, err, fault.Invalid, `resolve framework "x:1": no image for gpu`, "")
	_, err = (&shelves{Regions: map[string]string{"all": "us-east-1"}}).registryHost("x:1", shelf{Regions: "all", Accounts: "none"}, "")
	refusedWith(t, err, fault.Bug, `resolve framework "x:1": no account in us-east-1`, "")
}
