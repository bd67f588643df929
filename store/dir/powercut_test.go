package dir_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
)

// world is a disk, what was promised about it, and the power cuts tried on it.
type world struct {
	t     *testing.T
	disk  *disk
	r     *rand.Rand
	must  map[string]string          // was accepted or shown: is there, whole
	some  map[string]bool            // was said to exist: something is there
	tried map[string]map[string]bool // may be there, with one of these contents
	hints map[string]bool            // written by put: may be anything

	also   func(b *dir.Bucket) string // says what else is broken on an image
	moment int                        // of a create, counted in operations: when another does something
	inside func()                     // what the writer does
	wait   int                        // operations until then
	images int
	lost   []string // promises found broken
}

// imagesPerOp: all lost, all kept, and draws.
const imagesPerOp = 4

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, disk: newDisk(), r: rand.New(rand.NewPCG(seed, 1)),
		must: map[string]string{}, some: map[string]bool{}, tried: map[string]map[string]bool{}, hints: map[string]bool{},
	}
	w.disk.after = func(op, name string) {
		w.cut(op + " " + name)
		if w.inside == nil {
			return
		}
		if w.wait--; w.wait < 0 {
			f := w.inside
			w.inside = nil
			f()
			w.cut(op + " " + name + ", and what another did then")
		}
	}
	return w
}

func (w *world) open() *dir.Bucket {
	b, err := dir.Open("/home/store", w.disk)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *world) create(b *dir.Bucket, key, body string) {
	if w.tried[key] == nil {
		w.tried[key] = map[string]bool{}
	}
	w.tried[key][body] = true
	err := b.Create(w.t.Context(), key, strings.NewReader(body))
	switch {
	case err == nil:
		w.must[key] = body
	case errors.Is(err, store.ErrExists):
		w.some[key] = true // and is not read: that would make it durable too
	default:
		w.t.Fatal(err)
	}
}

// show reads key: what a reader has seen stays.
func (w *world) show(b *dir.Bucket, key string) {
	body, err := get(w.t, b, key)
	if err == nil {
		w.must[key] = body
	} else if !errors.Is(err, store.ErrNotExist) {
		w.t.Fatal(err)
	}
}

func (w *world) delete(b *dir.Bucket, key string) {
	delete(w.must, key)
	delete(w.some, key)
	if err := b.Delete(w.t.Context(), key); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) put(b *dir.Bucket, key, body string) {
	w.hints[key] = true
	if err := b.Put(w.t.Context(), key, strings.NewReader(body)); err != nil {
		w.t.Fatal(err)
	}
}

func get(t *testing.T, b store.Bucket, key string) (string, error) {
	r, err := b.Get(t.Context(), key, 0, -1)
	if err != nil {
		return "", err
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	return string(body), err
}

// cut takes images of the disk as it would be after a power cut now.
func (w *world) cut(at string) {
	for i := range imagesPerOp {
		w.images++
		if why := w.reboot(w.disk.image(w.r, i == 0, i == 1)); why != "" {
			w.lost = append(w.lost, "power cut after "+at+": "+why)
		}
	}
}

// reboot opens an image and says which promise is broken on it.
func (w *world) reboot(image *disk) string {
	b, err := dir.Open("/home/store", image)
	if err != nil {
		return err.Error()
	}
	for _, key := range slices.Sorted(maps.Keys(w.must)) {
		if body, err := get(w.t, b, key); err != nil || body != w.must[key] {
			return fmt.Sprintf("%s held %q, and now %q, %v", key, w.must[key], body, err)
		}
	}
	for key := range w.some {
		if _, err := get(w.t, b, key); err != nil {
			return fmt.Sprintf("%s existed, and now: %v", key, err)
		}
	}
	if w.also != nil {
		if why := w.also(b); why != "" {
			return why
		}
	}
	found, _, err := b.List(w.t.Context(), "", "", 1000)
	if err != nil {
		return err.Error()
	}
	for _, o := range found {
		body, err := get(w.t, b, o.Key)
		if err != nil || !w.hints[o.Key] && !w.tried[o.Key][body] {
			return fmt.Sprintf("%s is torn: %q, %v", o.Key, body, err)
		}
	}
	again := slices.Sorted(maps.Keys(w.tried))
	if w.also != nil { // of so many, some
		w.r.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		again = again[:min(4, len(again))]
	}
	for _, key := range append(again, "after/the/reboot") {
		_, err := get(w.t, b, key)
		was := err == nil
		err = b.Create(w.t.Context(), key, strings.NewReader("later"))
		if was != errors.Is(err, store.ErrExists) || !was && err != nil {
			return fmt.Sprintf("create %s after the reboot: there was one: %v, %v", key, was, err)
		}
	}
	return ""
}

// alone is one writer after the other.
func alone(w *world) {
	a, b := w.open(), w.open()
	w.create(a, "p/t/log/00000000", "submitted")
	w.create(a, "p/t/log/00000001", "settled")
	w.create(b, "p/t/log/00000001", "refused")
	w.create(b, "p/t/log/00000002", "submitted again")
	w.create(a, "top", "at the root")
	w.create(a, "p/t/j/chunks/aa/7/00000000", strings.Repeat("claimed ", 40))
	w.put(a, "p/t/j/agents/1", "beat")
	w.put(a, "p/t/j/agents/1", "beat again")
	w.create(b, "p/t/j/chunks/aa/7/00000001", "results")
	w.delete(b, "p/t/j/chunks/aa/7/00000001")
	w.delete(b, "p/t/j/chunks/aa/7/00000000") // and its folders
	w.create(a, "p/t/j/chunks/aa/7/00000002", "made again")
	w.create(b, "p/t/j/chunks/aa/8/00000000", "beside it")
	w.show(b, "p/t/log/00000000")
}

// between is another process doing f at every moment of one's create.
func between(f func(w *world, other *dir.Bucket)) func(w *world) {
	return func(w *world) {
		a, b := w.open(), w.open()
		w.create(b, "x/y/0", "known to b")
		w.delete(b, "x/y/0") // with its folders: b only believes that it knows them
		w.wait, w.inside = w.moment, func() { f(w, b) }
		w.create(a, "x/y/1", "one")
		if w.moment == longest-1 && w.inside == nil {
			w.t.Fatal("a create makes more operations than are tried")
		}
		w.inside = nil
		w.create(a, "x/y/2", "two")
	}
}

// longest is more operations than one create makes.
const longest = 24

var scenarios = map[string]func(w *world){
	"alone":                alone,
	"read in between":      between(func(w *world, b *dir.Bucket) { w.show(b, "x/y/1") }),
	"same key in between":  between(func(w *world, b *dir.Bucket) { w.create(b, "x/y/1", "other") }),
	"next key in between":  between(func(w *world, b *dir.Bucket) { w.create(b, "x/y/3", "three") }),
	"other key in between": between(func(w *world, b *dir.Bucket) { w.create(b, "x/z", "z") }),
	"emptied in between": between(func(w *world, b *dir.Bucket) {
		w.create(b, "x/y/4", "four")
		w.delete(b, "x/y/4")
	}),
}

// cuts runs every scenario and says what was lost.
func cuts(t *testing.T, seed uint64, change func(d *disk)) (images int, lost []string) {
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		for moment := range longest {
			w := newWorld(t, seed)
			w.moment = moment
			if change != nil {
				change(w.disk)
			}
			scenarios[name](w)
			images += w.images
			for _, l := range w.lost {
				lost = append(lost, name+": "+l)
			}
			if change != nil && len(lost) > 0 {
				return images, lost // one is enough
			}
			if name == "alone" {
				break
			}
		}
	}
	return images, lost
}

func TestPowerCutLosesNothingThatWasAcceptedOrShown(t *testing.T) {
	images, lost := cuts(t, 1, nil)
	if len(lost) > 0 {
		t.Fatalf("%d of %d images break a promise, the first by %s", len(lost), images, lost[0])
	}
	t.Logf("%d power cuts, %d bad", images, len(lost))
	if images < 5_000 {
		t.Errorf("only %d crash images: the scenarios no longer cut power", images)
	}
}

func TestPowerCutFindsEverySyncThatIsMissing(t *testing.T) {
	noSyncOf := func(name string) func(d *disk) {
		return func(d *disk) {
			d.skipSync = func(n string, folder bool) bool { return folder && n == name }
		}
	}
	for name, mutant := range map[string]func(d *disk){
		"no sync of files":                               func(d *disk) { d.skipSync = func(_ string, folder bool) bool { return !folder } },
		"no sync of folders":                             func(d *disk) { d.skipSync = func(_ string, folder bool) bool { return folder } },
		"no sync above the parent":                       noSyncOf("/"),
		"no sync above the root":                         noSyncOf("/home"),
		"no sync of the root":                            noSyncOf("/home/store"),
		"no sync of p":                                   noSyncOf("/home/store/p"),
		"no sync of p/t":                                 noSyncOf("/home/store/p/t"),
		"no sync of p/t/log":                             noSyncOf("/home/store/p/t/log"),
		"no sync of x":                                   noSyncOf("/home/store/x"),
		"no sync of x/y":                                 noSyncOf("/home/store/x/y"),
		"readers believe at once":                        func(d *disk) { d.oneLink = true },
		"folders are taken for one made again":           func(d *disk) { d.oneInode = true },
		"folders are not held open to keep their number": func(d *disk) { d.reuse = true },
	} {
		t.Run(name, func(t *testing.T) {
			images, lost := cuts(t, 1, mutant)
			if len(lost) == 0 {
				t.Errorf("not found in %d images", images)
			}
		})
	}
}
