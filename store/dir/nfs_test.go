package dir_test

import (
	"errors"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
	"github.com/drover-run/drover/store/storetest"
)

// client is one machine's view of a disk that a server has: a name it once found
// absent stays absent for it until it changes the folder itself.
type client struct {
	*disk
	absent map[string]map[string]bool // folder, name
}

func newClient(d *disk) *client { return &client{disk: d, absent: map[string]map[string]bool{}} }

// walk looks a path up as the client does, name by name.
func (c *client) walk(op, name string, last bool) error {
	at := "/"
	elements := strings.Split(strings.Trim(name, "/"), "/")
	for i, e := range elements {
		if i == len(elements)-1 && !last {
			return nil
		}
		_, _, n, err := c.disk.find(op, path.Join(at, e))
		if c.absent[at][e] || err == nil && n == nil {
			if c.absent[at] == nil {
				c.absent[at] = map[string]bool{}
			}
			c.absent[at][e] = true
			return &os.PathError{Op: op, Path: name, Err: syscall.ENOENT}
		}
		at = path.Join(at, e)
	}
	return nil
}

func (c *client) Open(name string, flag int) (dir.File, error) {
	made := flag&os.O_CREATE != 0
	if err := c.walk("open", name, !made); err != nil {
		return nil, err
	}
	if made {
		delete(c.absent, path.Dir(name))
	}
	return c.disk.Open(name, flag)
}

func (c *client) Mkdir(name string) error {
	if err := c.walk("mkdir", name, false); err != nil {
		return err
	}
	delete(c.absent, path.Dir(name))
	return c.disk.Mkdir(name)
}

func (c *client) Link(old, name string) error {
	if err := c.walk("link", name, false); err != nil {
		return err
	}
	delete(c.absent, path.Dir(name))
	return c.disk.Link(old, name)
}

func (c *client) Remove(name string, folder bool) error {
	delete(c.absent, path.Dir(name))
	return c.disk.Remove(name, folder)
}

func twoClients(t *testing.T, network bool) (first, second *dir.Bucket) {
	d := newDisk()
	d.network = network
	return open(t, "/store", newClient(d)), open(t, "/store", newClient(d))
}

func TestNetworkFolderIsAskedAgainBeforeAbsentIsSaid(t *testing.T) {
	for _, c := range []struct {
		name, before, key string
	}{
		{"the object was absent", "p/t/log/00000000", "p/t/log/00000001"},
		{"its folder was absent", "p/t/log/00000000", "p/t/j/log/00000000"},
		{"all its folders were absent", "top", "p/t/j/log/00000000"},
		{"the store was empty", "", "p"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, network := range []bool{true, false} {
				first, second := twoClients(t, network)
				if first.Shared() != network {
					t.Errorf("a folder over a network: %v, and it is said to be shared: %v", network, first.Shared())
				}
				if c.before != "" {
					create(t, second, c.before)
				}
				if _, err := get(t, first, c.key); !errors.Is(err, store.ErrNotExist) {
					t.Fatalf("before it was written: %v", err)
				}
				create(t, second, c.key)
				_, err := get(t, first, c.key)
				if network && err != nil {
					t.Errorf("the old answer was believed: %v", err)
				}
				if !network && err == nil {
					t.Error("the fake client forgets nothing: this test can prove nothing")
				}
			}
		})
	}
}

func TestLookUpLeavesNothingBehind(t *testing.T) {
	d := newDisk()
	d.network = true
	b := open(t, "/store", newClient(d))
	create(t, b, "p/log/00000000")
	before := strings.Join(d.tree(), "\n")
	for _, key := range []string{"p/log/00000001", "p/other/1", "q"} {
		if _, err := get(t, b, key); !errors.Is(err, store.ErrNotExist) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if after := strings.Join(d.tree(), "\n"); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func TestAbsentIsAnErrorWhenTheServerCannotBeAsked(t *testing.T) {
	d := newDisk()
	d.network = true
	b := open(t, "/store", d)
	for errno, absent := range map[syscall.Errno]bool{syscall.EIO: false, syscall.ETIMEDOUT: false, syscall.EACCES: true, syscall.EROFS: true} {
		d.fail = func(op, _ string) error {
			if op == "create" {
				return errno
			}
			return nil
		}
		if _, err := get(t, b, "k"); errors.Is(err, store.ErrNotExist) != absent {
			t.Errorf("%v in the look-up: %v", errno, err)
		}
	}
}

func TestCreateKnowsItsOwnLinkWhenNFSAnswersExists(t *testing.T) {
	d := newDisk()
	d.failAfter = once("link", syscall.EEXIST)
	b := open(t, "/store", d)
	create(t, b, "log/00000000")
	for _, name := range d.tree() {
		if strings.HasPrefix(name, "/store/.tmp/") {
			t.Errorf("left behind: %s", name)
		}
	}
	if err := b.Create(t.Context(), "log/00000000", strings.NewReader("other")); !errors.Is(err, store.ErrExists) {
		t.Errorf("a second create: %v", err)
	}
}

func TestCreateOnceSettlesALinkThatWasAppliedAndRefused(t *testing.T) {
	d := newDisk()
	d.failAfter = once("link", syscall.EIO)
	b := open(t, "/store", d)
	held, mine, err := store.New(b, store.Options{Clock: &storetest.Clock{}}).CreateOnce(t.Context(), "log/00000000", []byte("mine"))
	if err != nil || !mine || string(held) != "mine" {
		t.Errorf("holds %q, mine is %v, %v", held, mine, err)
	}
}

// once makes the first operation of a kind answer errno.
func once(kind string, errno syscall.Errno) func(op, name string) error {
	done := false
	return func(op, _ string) error {
		if op != kind || done {
			return nil
		}
		done = true
		return errno
	}
}

func create(t *testing.T, b store.Bucket, key string) {
	t.Helper()
	if err := b.Create(t.Context(), key, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
}
