// Package bundletest has what the tests of bundle and its packages share: folders
// with files of any name, a folder with a canary beside it, and checks of errors.
package bundletest

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
)

// WriteFiles writes files below dir; a name that ends in "/" is an empty folder, and
// contents that begin with "-> " make a symbolic link.
func WriteFiles(t testing.TB, dir string, files map[string]string) {
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

// ReadFiles reads everything below dir, in put's form.
func ReadFiles(t testing.TB, dir string) map[string]string {
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

// HostileNames are names that programs get wrong.
var HostileNames = map[string]string{
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

func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func Noise(n int) string {
	b := make([]byte, n)
	var seed [32]byte
	rand.NewChaCha8(seed).Read(b)
	return string(b)
}

func AppendTo(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Cage is a folder to unpack into, with a canary beside it.
func Cage(t testing.TB) (dir string, intact func()) {
	t.Helper()
	top := t.TempDir()
	WriteFiles(t, top, map[string]string{"canary": "alive", "in/": ""})
	return filepath.Join(top, "in"), func() {
		t.Helper()
		all := ReadFiles(t, top)
		for name := range all {
			if name == "in/" || strings.HasPrefix(name, "in/") {
				delete(all, name)
			}
		}
		if diff := cmp.Diff(map[string]string{"canary": "alive"}, all); diff != "" {
			t.Error("outside the folder:", diff)
		}
	}
}

// CheckError checks what a user reads of an error: the whole text, and the whole hint.
func CheckError(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || err.Error() != text || fault.Hint(err) != hint || fault.KindOf(err) != kind {
		t.Errorf("kind %v: %v\n%s\nwant %v: %s\n%s", fault.KindOf(err), err, fault.Hint(err), kind, text, hint)
	}
}
