package dir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
)

// Another writer of the folder may put under a name what no object is. Reading, creating
// and listing answer at once, follow nothing out of the folder, and leave other keys alone.
func TestWhatIsNoFileIsNoObject(t *testing.T) {
	victim := t.TempDir()
	precious := filepath.Join(victim, "00000000")
	if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(at string) error{
		"link to a file":    func(at string) error { return os.Symlink(precious, at) },
		"link to /dev/zero": func(at string) error { return os.Symlink("/dev/zero", at) },
		"link to nothing":   func(at string) error { return os.Symlink(filepath.Join(victim, "none"), at) },
		"link to itself":    func(at string) error { return os.Symlink(at, at) },
		"pipe":              func(at string) error { return syscall.Mkfifo(at, 0o600) },
		"socket":            listen,
	} {
		t.Run(name, func(t *testing.T) {
			root, err := os.MkdirTemp("", "d") // a socket's path is short
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(root) })
			b := open(t, root, dir.OS)
			create(t, b, "p/log/00000000")
			if err := plant(filepath.Join(root, "p", "log", "00000001")); err != nil {
				t.Fatal(err)
			}
			const key = "p/log/00000001"
			if r, err := b.Get(t.Context(), key, 0, -1); !errors.Is(err, store.ErrMalformed) {
				t.Errorf("get gives %v, %v", r, err)
			}
			if err := b.Create(t.Context(), key, strings.NewReader("mine")); !errors.Is(err, store.ErrMalformed) {
				t.Errorf("create says %v", err)
			}
			s := store.New(b, store.Options{})
			if held, mine, err := s.CreateOnce(t.Context(), key, []byte("mine")); !errors.Is(err, store.ErrMalformed) {
				t.Errorf("create once gives %q, %v, %v", held, mine, err)
			}
			objects, more, err := b.List(t.Context(), "p/", "", 10)
			if len(objects) != 1 || more || err != nil {
				t.Errorf("listed are %v, %v, %v", objects, more, err)
			}
			if _, err := get(t, b, "p/log/00000000"); err != nil {
				t.Errorf("beside it: %v", err)
			}
			if err := b.Delete(t.Context(), key); err != nil {
				t.Errorf("delete says %v", err)
			}
			if text, err := os.ReadFile(precious); string(text) != "precious" || err != nil {
				t.Errorf("outside there is %q, %v", text, err)
			}
		})
	}
}

// A folder of the store that is a link leads out of it: nothing is listed there.
func TestAFolderThatIsALinkIsNotListed(t *testing.T) {
	victim, root := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(victim, "00000000"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, root, dir.OS)
	create(t, b, "p/other/00000000")
	if err := os.Symlink(victim, filepath.Join(root, "p", "log")); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"p/log/", "p/log/0", "p/l", "p/"} {
		objects, more, err := b.List(t.Context(), prefix, "", 10)
		if want := strings.Count(prefix, "p/") - strings.Count(prefix, "l"); len(objects) != want || more || err != nil {
			t.Errorf("below %s listed are %v, %v, %v", prefix, objects, more, err)
		}
	}
}

// A folder of the store that is a link leads nowhere, in whatever part of a key it stands,
// and wherever it leads: nothing is read, written or deleted through it, and other keys
// are as they were.
func TestNoKeyLeadsThroughALink(t *testing.T) {
	const key = "p/t/j/log/00000000"
	for _, at := range []string{"p", "p/t", "p/t/j", "p/t/j/log"} {
		for _, leads := range []string{"outside", "inside", "inside, relative"} {
			t.Run(at+" "+leads, func(t *testing.T) {
				victim, root := t.TempDir(), t.TempDir()
				to := victim
				switch leads {
				case "inside":
					victim = filepath.Join(root, "q")
					to = victim
				case "inside, relative":
					victim = filepath.Join(root, "q")
					to = strings.Repeat("../", strings.Count(at, "/")) + "q"
				}
				b := open(t, root, dir.OS)
				below := strings.TrimPrefix(key, at+"/")
				if err := os.MkdirAll(filepath.Join(victim, filepath.Dir(below)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(victim, below), []byte("precious"), 0o600); err != nil {
					t.Fatal(err)
				}
				create(t, b, "r/"+below)
				if err := os.MkdirAll(filepath.Dir(filepath.Join(root, at)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(to, filepath.Join(root, at)); err != nil {
					t.Fatal(err)
				}
				before := everything(t, victim)
				if r, err := b.Get(t.Context(), key, 0, -1); !errors.Is(err, store.ErrMalformed) {
					t.Errorf("get gives %v, %v", r, err)
				}
				for _, key := range []string{key, strings.TrimSuffix(key, "00000000") + "00000001", at + "/new/00000000"} {
					if err := b.Create(t.Context(), key, strings.NewReader("mine")); !errors.Is(err, store.ErrMalformed) {
						t.Errorf("create %s says %v", key, err)
					}
					if err := b.Put(t.Context(), key, strings.NewReader("mine")); !errors.Is(err, store.ErrMalformed) {
						t.Errorf("put %s says %v", key, err)
					}
				}
				if err := b.Delete(t.Context(), key); !errors.Is(err, store.ErrMalformed) {
					t.Errorf("delete says %v", err)
				}
				if objects, _, err := b.List(t.Context(), "p/", "", 10); len(objects) > 0 || err != nil {
					t.Errorf("listed are %v, %v", objects, err)
				}
				if after := everything(t, victim); after != before {
					t.Errorf("where it leads there was\n%sand is\n%s", before, after)
				}
				if _, err := get(t, b, "r/"+below); err != nil {
					t.Errorf("beside it: %v", err)
				}
			})
		}
	}
}

// The store's own folder is named by the user; it may be a link.
func TestTheStoreItselfMayBeALink(t *testing.T) {
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "disk"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("disk", filepath.Join(home, "store")); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"store", "store/below", "disk/../store"} {
		b := open(t, filepath.Join(home, root), dir.OS)
		create(t, b, "p/log/00000000")
		if _, err := get(t, b, "p/log/00000000"); err != nil {
			t.Errorf("in %s: %v", root, err)
		}
		if objects, _, err := b.List(t.Context(), "p/", "", 10); len(objects) != 1 || err != nil {
			t.Errorf("in %s listed are %v, %v", root, objects, err)
		}
		if err := b.Delete(t.Context(), "p/log/00000000"); err != nil {
			t.Errorf("in %s: %v", root, err)
		}
	}
}

// Temporary files are no way out either.
func TestTheFolderOfTemporaryFilesMayBeNoLink(t *testing.T) {
	victim, root := t.TempDir(), t.TempDir()
	old := filepath.Join(victim, "thesis.txt")
	if err := os.WriteFile(old, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(root, ".tmp")); err != nil {
		t.Fatal(err)
	}
	before := everything(t, victim)
	if err := open(t, root, dir.OS).Create(t.Context(), "p/log/00000000", strings.NewReader("x")); !errors.Is(err, store.ErrMalformed) {
		t.Errorf("create says %v", err)
	}
	if after := everything(t, victim); after != before {
		t.Errorf("where it leads there was\n%sand is\n%s", before, after)
	}
}

// everything lists a folder, and what its files hold.
func everything(t *testing.T, root string) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var body []byte
		if e.Type().IsRegular() {
			if body, err = os.ReadFile(name); err != nil {
				return err
			}
		}
		fmt.Fprintf(&text, "%s %v %q\n", name, e.Type(), body)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func listen(at string) error {
	l, err := net.Listen("unix", at)
	if err != nil {
		return err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return l.Close()
}
