package dir_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
	"github.com/drover-run/drover/store/storetest"
)

func TestRefusalsNameTheirKindAndTheNextStep(t *testing.T) {
	for _, c := range []struct {
		op    string
		errno syscall.Errno
		kind  fault.Kind
	}{
		{"create", syscall.ENOSPC, fault.Full},
		{"write", syscall.ENOSPC, fault.Full},
		{"write", syscall.EDQUOT, fault.Full},
		{"sync", syscall.EDQUOT, fault.Full},
		{"link", syscall.ENOSPC, fault.Full},
		{"mkdir", syscall.ENOSPC, fault.Full},
		{"create", syscall.EROFS, fault.Denied},
		{"create", syscall.EACCES, fault.Denied},
		{"mkdir", syscall.EPERM, fault.Denied},
		{"link", syscall.EPERM, fault.Invalid}, // no hard links there
		{"write", syscall.EIO, fault.Lost},
		{"sync", syscall.EIO, fault.Lost},
	} {
		t.Run(c.op+" "+c.errno.Error(), func(t *testing.T) {
			d := newDisk()
			b := open(t, "/store", d)
			d.fail = once(c.op, c.errno)
			err := b.Create(t.Context(), "log/00000000", strings.NewReader("x"))
			if fault.KindOf(err) != c.kind || errors.Is(err, store.ErrUnclear) {
				t.Errorf("kind %v, %v; want %v", fault.KindOf(err), err, c.kind)
			}
			if text := err.Error(); !strings.HasPrefix(text, "create log/00000000 in /store: ") || strings.Contains(text, "\n") {
				t.Errorf("text: %s", text)
			}
			if hint := fault.Hint(err); hint == "" || strings.Contains(hint, "\n") {
				t.Errorf("hint: %q", hint)
			}
			create(t, b, "log/00000000")
		})
	}
}

// A Create that failed at any one operation, with any error, said the truth
// about what became of it.
func TestCreateSaysTheTruthWhateverFails(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO, syscall.EACCES, syscall.ESTALE, syscall.EMFILE, syscall.ENOENT} {
		for _, applied := range []bool{false, true} {
			for k := range 40 {
				d := newDisk()
				b := open(t, "/store", d)
				n := 0
				hit := ""
				f := func(op, name string) error {
					if op == "remove" {
						return nil // or else what is left could not be told from what was left
					}
					if n++; n-1 != k || op == "sync" && errno == syscall.ENOENT {
						return nil
					}
					hit = op
					return errno
				}
				if applied {
					d.failAfter = f
				} else {
					d.fail = f
				}
				err := b.Create(t.Context(), "p/log/0", strings.NewReader("x"))
				d.fail, d.failAfter = nil, nil
				at := fmt.Sprintf("%v at operation %d, %s (applied: %v): %v", errno, k, hit, applied, err)
				after := open(t, "/store", d)
				_, getErr := get(t, after, "p/log/0")
				switch {
				case err == nil:
					img := open(t, "/store", d.image(rand.New(rand.NewPCG(1, 1)), true, false))
					if _, err := get(t, img, "p/log/0"); err != nil {
						t.Errorf("%s: accepted, and lost in a power cut: %v", at, err)
					}
				case errors.Is(err, store.ErrUnclear):
				case errors.Is(err, store.ErrExists):
					t.Errorf("%s: nothing else exists", at)
				default:
					// An operation that was done and denied it has its own traces; the
					// object is none of them.
					if !errors.Is(getErr, store.ErrNotExist) {
						t.Errorf("%s: refused, and there: %v", at, getErr)
					}
				}
			}
		}
	}
}

func TestFailedSyncOfAFolderIsUnclearAndNeverRepeated(t *testing.T) {
	d := newDisk()
	b := open(t, "/store", d)
	create(t, b, "log/0")
	syncs := 0
	broken := true
	d.fail = func(op, name string) error {
		if op == "sync" && name == "/store/log" {
			syncs++
			if broken {
				return syscall.EIO
			}
		}
		return nil
	}
	if err := b.Create(t.Context(), "log/1", strings.NewReader("x")); !errors.Is(err, store.ErrUnclear) || fault.KindOf(err) != fault.Lost {
		t.Errorf("the failed sync: %v", err)
	}
	broken = false
	for key, want := range map[string]bool{"log/1": false, "log/2": false, "other/1": true} {
		err := b.Create(t.Context(), key, strings.NewReader("x"))
		if (err == nil) != want || errors.Is(err, store.ErrUnclear) || errors.Is(err, store.ErrExists) {
			t.Errorf("create %s afterwards: %v", key, err)
		}
	}
	if _, err := get(t, b, "log/1"); fault.KindOf(err) != fault.Lost || errors.Is(err, store.ErrNotExist) {
		t.Errorf("an object whose name may be lost is shown: %v", err)
	}
	if _, err := get(t, b, "log/0"); err != nil {
		t.Errorf("an object that is safe is not shown: %v", err)
	}
	if syncs != 1 {
		t.Errorf("synced %d times after the failure", syncs-1)
	}
}

func TestFailedSyncIsNotForgottenAmongManyFolders(t *testing.T) {
	d := newDisk()
	b := open(t, "/store", d)
	create(t, b, "log/0")
	d.fail = func(op, name string) error {
		if op == "sync" && name == "/store/log" {
			return syscall.EIO
		}
		return nil
	}
	if err := b.Create(t.Context(), "log/1", strings.NewReader("x")); !errors.Is(err, store.ErrUnclear) {
		t.Error(err)
	}
	d.fail = nil
	for i := range 200 {
		create(t, b, fmt.Sprintf("c/%d/0", i))
	}
	if err := b.Create(t.Context(), "log/2", strings.NewReader("x")); fault.KindOf(err) != fault.Lost {
		t.Errorf("create afterwards: %v", err)
	}
}

func TestFolderThatWentStaleIsOpenedAgain(t *testing.T) {
	d := newDisk()
	b := open(t, "/store", d)
	create(t, b, "log/0")
	stale := once("sync", syscall.ESTALE)
	d.fail = func(op, name string) error {
		if name != "/store/log" {
			return nil
		}
		return stale(op, name)
	}
	if err := b.Create(t.Context(), "log/1", strings.NewReader("x")); !errors.Is(err, store.ErrUnclear) {
		t.Errorf("the stale sync: %v", err)
	}
	if _, err := get(t, b, "log/1"); err != nil {
		t.Error(err)
	}
	create(t, b, "log/2")
}

func TestLinkThatLandsLateIsMadeDurableByWhoReadsIt(t *testing.T) {
	d := newDisk()
	b := open(t, "/store", d)
	create(t, b, "log/0")
	d.fail = once("link", syscall.EIO)
	if err := b.Create(t.Context(), "log/1", strings.NewReader("x")); !errors.Is(err, store.ErrUnclear) {
		t.Fatal(err)
	}
	landed := false
	for _, name := range d.tree() {
		if strings.HasPrefix(name, "/store/.tmp/") {
			landed = d.Link(name, "/store/log/1") == nil
		}
	}
	if _, err := get(t, b, "log/1"); err != nil || !landed {
		t.Fatalf("landed: %v, %v", landed, err)
	}
	img := open(t, "/store", d.image(rand.New(rand.NewPCG(1, 1)), true, false))
	if _, err := get(t, img, "log/1"); err != nil {
		t.Errorf("shown, and lost in a power cut: %v", err)
	}
}

func TestCreateOnceOverAFailedSyncSaysThatItIsUnclear(t *testing.T) {
	d := newDisk()
	b := open(t, "/store", d)
	create(t, b, "log/0")
	d.fail = func(op, name string) error {
		if op == "sync" && name == "/store/log" {
			return syscall.EIO
		}
		return nil
	}
	_, mine, err := store.New(b, store.Options{Clock: &storetest.Clock{}}).CreateOnce(t.Context(), "log/1", []byte("x"))
	if mine || !errors.Is(err, store.ErrUnclear) || fault.Hint(err) == "" {
		t.Errorf("mine is %v, %v", mine, err)
	}
}

func TestFoldersThatCannotBeSyncedAreTheServersToKeep(t *testing.T) {
	d := newDisk()
	d.fail = func(op, name string) error {
		if op == "sync" && !strings.Contains(name, ".tmp") {
			return syscall.EINVAL
		}
		return nil
	}
	create(t, open(t, "/store", d), "log/0")
}

func TestManyCreatesInOneFolderShareItsSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const others = 20
		d := newDisk()
		b := open(t, "/store", d)
		create(t, b, "log/first")
		syncs := 0
		running, goOn := make(chan struct{}), make(chan struct{})
		d.fail = func(op, name string) error {
			if op == "sync" && name == "/store/log" {
				if syncs++; syncs == 1 {
					close(running)
					<-goOn
				}
			}
			return nil
		}
		done := make(chan error)
		work := func(key string) { done <- b.Create(t.Context(), key, strings.NewReader("x")) }
		go work("log/a")
		<-running
		for i := range others {
			go work(fmt.Sprintf("log/%d", i))
		}
		synctest.Wait() // all of them now wait for the sync that runs
		close(goOn)
		for range others + 1 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if syncs != 2 {
			t.Errorf("%d syncs for %d creates, want one for the first and one for the rest", syncs, others+1)
		}
	})
}

func TestKnownFolderIsSyncedOncePerCreateAndNoOther(t *testing.T) {
	d := newDisk()
	b := open(t, "/store", d)
	create(t, b, "p/t/log/0")
	var syncs []string
	d.after = func(op, name string) {
		if op == "sync" && !strings.Contains(name, ".tmp") {
			syncs = append(syncs, name)
		}
	}
	create(t, b, "p/t/log/1")
	create(t, b, "p/t/j/0")
	if got := strings.Join(syncs, " "); got != "/store/p/t/log /store/p/t /store/p/t/j" {
		t.Errorf("synced %s", got)
	}
}

func TestMoreFoldersThanAreHeldOpen(t *testing.T) {
	d := newDisk()
	b := open(t, "/store", d)
	for round := range 3 {
		for i := range 150 {
			create(t, b, fmt.Sprintf("c/%d/%d", i, round))
		}
	}
	opened := 0
	var walk func(n *node)
	walk = func(n *node) {
		opened += n.opened
		for _, c := range n.names {
			walk(c)
		}
	}
	walk(d.root)
	if opened > 64 {
		t.Errorf("%d files are open", opened)
	}
	img := open(t, "/store", d.image(rand.New(rand.NewPCG(1, 1)), true, false))
	if got, _, err := img.List(t.Context(), "c/", "", 1000); err != nil || len(got) != 450 {
		t.Errorf("%d of 450 survive a power cut, %v", len(got), err)
	}
}

func TestFolderThatKeepsVanishingIsBusy(t *testing.T) {
	d := newDisk()
	b := open(t, "/store", d)
	d.fail = func(op, _ string) error {
		if op == "link" {
			return syscall.ENOENT
		}
		return nil
	}
	if err := b.Create(t.Context(), "a/b", strings.NewReader("x")); !errors.Is(err, store.ErrBusy) {
		t.Errorf("create: %v", err)
	}
	if err := d.Remove("/store/.tmp", true); err != nil {
		t.Fatal(err) // something is left in it
	}
}

var _ dir.FS = (*disk)(nil)
