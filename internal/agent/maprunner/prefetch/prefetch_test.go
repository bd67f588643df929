package prefetch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// kitchen is a Cache with files that come when the test says so: of the name "a:7" a
// file a of 7 bytes, of "in place" one that is no business of ours.
type kitchen struct {
	*Cache
	t    *testing.T
	dir  string
	said chan string // "asks a", "gets a"

	mu   sync.Mutex
	open map[string]chan error // what a file may come by
	took int64                 // bytes on disk now
	most int64
}

func newKitchen(t *testing.T, room int64, hands int) *kitchen {
	t.Helper()
	k := &kitchen{t: t, dir: filepath.Join(t.TempDir(), "in"), said: make(chan string, 100), open: map[string]chan error{}}
	k.Cache = New(t.Context(), Config{Dir: k.dir, Room: room, Parallel: hands, Fetch: k.bring, Remove: k.remove})
	t.Cleanup(func() {
		k.Close()
		if _, err := os.Stat(k.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it left its folder: %v", err)
		}
	})
	return k
}

func (k *kitchen) gate(name string) chan error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open[name] == nil {
		k.open[name] = make(chan error, 1)
	}
	return k.open[name]
}

func (k *kitchen) bring(ctx context.Context, name, into string, room func(context.Context, int64) error) (string, bool, error) {
	if name == "in place" {
		return "/data/there", false, nil
	}
	var size int64
	file, rest, _ := strings.Cut(name, ":")
	fmt.Sscan(rest, &size)
	k.said <- "asks " + file
	if err := room(ctx, size); err != nil {
		return "", true, err
	}
	k.said <- "gets " + file
	select {
	case err := <-k.gate(file):
		if err != nil {
			return "", true, err
		}
	case <-ctx.Done():
		return "", true, ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.took += size
	k.most = max(k.most, k.took)
	if err := os.MkdirAll(into, 0o755); err != nil {
		return "", true, err
	}
	place := filepath.Join(into, file)
	return place, true, os.WriteFile(place, make([]byte, size), 0o644)
}

func (k *kitchen) remove(dir string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, err := d.Info()
			if err != nil {
				k.t.Error(err)
			}
			k.took -= info.Size()
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		k.t.Error(err)
	}
}

// wants wants these files, "a:7", one an item: 1, 2 ...
func (k *kitchen) wants(names ...string) {
	var wants []Want
	for _, name := range names {
		wants = append(wants, Want{Item: int(name[0]), Names: []string{name}})
	}
	k.Want(wants)
}

// hears waits for what is said next, in any order.
func (k *kitchen) hears(want ...string) {
	k.t.Helper()
	var got []string
	for range want {
		select {
		case s := <-k.said:
			got = append(got, s)
		case <-time.After(patience):
			k.t.Fatalf("it said %q, want %q", got, want)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		k.t.Fatalf("(-want +got):\n%s", diff)
	}
}

// waits waits until the share of an item waits for room: it asks for it after its file was asked for.
func (k *kitchen) waits(item int) {
	k.t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		k.Cache.mu.Lock()
		is := slices.ContainsFunc(k.entries, func(p *entry) bool { return p.item == item && p.awaitedBytes > 0 })
		k.Cache.mu.Unlock()
		if is {
			return
		}
		if time.Now().After(end) {
			k.t.Fatalf("item %d does not wait for room", item)
		}
	}
}

// silent says that nothing was said that was not heard: of goroutines that have
// nothing to do there is nothing to wait for.
func (k *kitchen) silent() {
	k.t.Helper()
	select {
	case s := <-k.said:
		k.t.Fatalf("it said %q", s)
	default:
	}
}

// comes lets a file come, and waits until its share is there.
func (k *kitchen) comes(file string, err error) {
	k.t.Helper()
	k.gate(file) <- err
	k.until(func() bool { return k.Has(int(file[0])) })
}

func (k *kitchen) until(so func() bool) {
	k.t.Helper()
	for deadline := time.After(patience); !so(); {
		select {
		case <-k.Arrived():
		case <-time.After(time.Millisecond):
		case <-deadline:
			k.t.Fatal("it did not come")
		}
	}
}

func TestSharesComeInOrderAFewAtATime(t *testing.T) {
	t.Parallel()
	k := newKitchen(t, 100, 2)
	k.wants("a:1", "b:1", "c:1", "d:1")
	k.hears("asks a", "gets a", "asks b", "gets b")
	k.silent()
	k.comes("b", nil)
	k.hears("asks c", "gets c")
	if k.Has('a') || !k.Has('b') || k.Take('a') != nil {
		t.Error("a is there, or b is not")
	}
	b := k.Take('b')
	if text, err := os.ReadFile(b.Files[0]); err != nil || len(text) != 1 || filepath.Base(b.Files[0]) != "b" {
		t.Errorf("%q holds %q (%v)", b.Files, text, err)
	}
	if k.Has('b') {
		t.Error("b is there twice")
	}
	k.Drop(b)
	k.until(func() bool { _, err := os.Stat(filepath.Dir(b.dir)); return err == nil })
	k.comes("a", nil)
	k.hears("asks d", "gets d")
}

func TestTheRoomIsKeptTo(t *testing.T) {
	t.Parallel()
	k := newKitchen(t, 10, 4)
	k.wants("a:6")
	k.hears("asks a", "gets a")
	k.wants("a:6", "b:4")
	k.hears("asks b", "gets b")
	k.wants("a:6", "b:4", "c:3") // of c it is not asked how long it is: there is no room
	k.comes("a", nil)
	k.comes("b", nil)
	k.silent()
	a := k.Take('a')
	k.wants("b:4", "c:3")
	k.silent()
	k.Drop(a)
	k.hears("asks c", "gets c")
	k.comes("c", nil)
	if k.most > 10 {
		t.Errorf("%d bytes were there at once", k.most)
	}
}

func TestAShareLargerThanTheRoomIsAlone(t *testing.T) {
	t.Parallel()
	k := newKitchen(t, 10, 4)
	k.wants("a:4")
	k.hears("asks a", "gets a")
	k.wants("a:4", "b:50")
	k.hears("asks b")
	k.waits('b')
	k.wants("a:4", "b:50", "c:4")
	k.comes("a", nil)
	k.silent()
	a := k.Take('a')
	k.wants("b:50", "c:4")
	k.silent() // a runs, and while b waits no younger one takes what it will need
	k.Drop(a)
	k.hears("gets b")
	k.comes("b", nil)
	k.silent()
	b := k.Take('b')
	k.wants("c:4")
	k.silent()
	k.Drop(b)
	k.hears("asks c", "gets c")
	k.comes("c", nil)
	if k.most != 50 {
		t.Errorf("%d bytes were there at once", k.most)
	}
}

func TestAnOlderShareTakesTheRoomOfYoungerOnes(t *testing.T) {
	t.Parallel()
	k := newKitchen(t, 10, 4)
	k.wants("b:4", "c:4")
	k.hears("asks b", "asks c", "gets b", "gets c")
	k.comes("b", nil) // c is still coming
	k.wants("a:9", "b:4", "c:4")
	k.hears("asks a", "gets a", "asks b", "asks c") // b and c come again, once there is room
	k.comes("a", nil)
	if k.Has('b') || k.Has('c') {
		t.Error("they are there with a")
	}
	k.silent()
	a := k.Take('a')
	k.wants("b:4", "c:4")
	k.Drop(a)
	k.hears("gets b", "gets c")
	k.comes("b", nil)
	k.comes("c", nil)
	if k.most > 10 {
		t.Errorf("%d bytes were there at once", k.most)
	}
}

func TestWhatIsNotWantedAnyMoreGoes(t *testing.T) {
	t.Parallel()
	k := newKitchen(t, 10, 2)
	k.wants("a:5", "b:5")
	k.hears("asks a", "gets a", "asks b", "gets b")
	k.comes("a", nil)
	k.wants("c:10")
	k.hears("asks c", "gets c") // all room is free again: b was coming
	k.comes("c", nil)
	if left, err := os.ReadDir(k.dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

func TestAFileThatDoesNotComeIsSaidOnce(t *testing.T) {
	t.Parallel()
	k := newKitchen(t, 10, 2)
	k.wants("a:5")
	k.hears("asks a", "gets a")
	no := errors.New("no such file")
	k.comes("a", no)
	a := k.Take('a')
	if a.Err != no || a.Files != nil {
		t.Errorf("it gave %+v", a)
	}
	k.Drop(a)
	k.wants("a:10") // another try
	k.hears("asks a", "gets a")
	k.comes("a", nil)
	if a := k.Take('a'); a.Err != nil || len(a.Files) != 1 {
		t.Errorf("it gave %+v", a)
	}
}

func TestAShareThatIsGivenBackIsThereAgain(t *testing.T) {
	t.Parallel()
	k := newKitchen(t, 10, 2)
	k.wants("a:5")
	k.hears("asks a", "gets a")
	k.comes("a", nil)
	a := k.Take('a')
	k.wants()
	k.Return(a)
	k.wants("a:5", "b:6")
	k.hears("asks b")
	if again := k.Take('a'); again != a {
		t.Errorf("it gave %+v", again)
	}
	k.silent()
	k.Return(a)
	k.wants("b:6") // a went to another agent
	k.hears("gets b")
	k.comes("b", nil)
}

func TestSeveralFilesAreOneShare(t *testing.T) {
	t.Parallel()
	k := newKitchen(t, 10, 2)
	k.Want([]Want{{Item: 'a', Names: []string{"a:3", "in place", "a:4"}}, {Item: 'p', Names: []string{"in place"}}, {Item: 'n'}})
	k.until(func() bool { return k.Has('p') && k.Has('n') })
	k.hears("asks a", "gets a")
	k.gate("a") <- nil
	k.hears("asks a", "gets a")
	k.comes("a", nil)
	a := k.Take('a')
	if len(a.Files) != 3 || a.Files[0] == a.Files[2] || a.Files[1] != "/data/there" || a.held != 7 {
		t.Errorf("it gave %+v", a)
	}
	for _, item := range []int{'p', 'n'} {
		if s := k.Take(item); s.held != 0 || s.dir != "" {
			t.Errorf("%c takes room: %+v", item, s)
		}
	}
	if k.used != 7 {
		t.Errorf("%d bytes are used", k.used)
	}
}
