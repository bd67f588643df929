package bundle

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// memory is a store that forgets everything when the test ends.
func memory() *store.Store { return store.New(mem.New(), store.Options{}) }

// hooked is a store with something done around its calls.
type hooked struct {
	Blobs
	before, after func()
	puts          func()
}

func (h *hooked) PutBlob(ctx context.Context, body io.ReadSeeker) (store.Digest, int64, error) {
	if h.puts != nil {
		h.puts()
	}
	if h.before != nil {
		h.before()
	}
	d, n, err := h.Blobs.PutBlob(ctx, body)
	if h.after != nil {
		h.after()
	}
	return d, n, err
}

// put writes files below dir; a name that ends in "/" is an empty folder, and
// contents that begin with "-> " make a symbolic link.
func put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		full := filepath.Join(dir, name)
		var err error
		switch target, link := strings.CutPrefix(text, "-> "); {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(full, 0o755)
		case link:
			err = errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.Symlink(target, full))
		default:
			err = errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(text), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// contents reads everything below dir, in put's form.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(full string, d os.DirEntry, err error) error {
		if err != nil || full == dir {
			return err
		}
		name, _ := filepath.Rel(dir, full)
		switch {
		case d.IsDir():
			if in, err := os.ReadDir(full); err != nil || len(in) > 0 {
				return err
			}
			got[name+"/"] = ""
		case d.Type()&os.ModeSymlink != 0:
			target, err := os.Readlink(full)
			got[name] = "-> " + target
			return err
		case !d.Type().IsRegular():
			got[name] = d.Type().String() // reading a fifo would wait for ever
		default:
			text, err := os.ReadFile(full)
			got[name] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// hostile are names that programs get wrong.
var hostile = map[string]string{
	"new\nline":                          "1",
	"not utf-8 \xff\xfe":                 "2",
	"-rf":                                "3",
	"trailing ":                          "4",
	" leading":                           "5",
	"back\\slash":                        "6",
	"quote'\"`$(x)":                      "7",
	"star*?[a]":                          "8",
	"tab\there":                          "9",
	"...":                                "10",
	strings.Repeat("l", 255):             "11",
	strings.Repeat("d/", 30) + "deep":    "12",
	"é-composed":                         "13",
	"e\u0301-decomposed":                 "14",
	strings.Repeat("ü", 120) + "/inside": "15",
}

func git(t testing.TB, dir string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir, cmd.Env = dir, gitEnv(os.Environ())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func TestSizesAreReadable(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 9949: "9.9 kB", 12_345: "12 kB", 999_600: "1.0 MB", 312_000_000: "312 MB", 1 << 62: "4.6 EB"} {
		if got := sizeText(n); got != want {
			t.Errorf("sizeText(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestNamesThatLeadOutsideAreRefused(t *testing.T) {
	for _, bad := range []string{"", ".", "..", "../a", "/a", "a/../b", "a/../../b", "a//b", "a/", "./a", "a/.", "a\x00b", strings.Repeat("x", MaxPath+1)} {
		if checkName(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for good := range hostile {
		if err := checkName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestEachStopsAtTheFirstError(t *testing.T) {
	boom := errors.New("boom")
	err := each(t.Context(), 1000, func(ctx context.Context, i int) error {
		if i == 7 {
			return boom
		}
		if i > 7+width {
			<-ctx.Done() // would hang if the others were not told
		}
		return nil
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(boom)
	if err := each(ctx, 3, func(context.Context, int) error { return nil }); !errors.Is(err, boom) {
		t.Fatal(err)
	}
}
