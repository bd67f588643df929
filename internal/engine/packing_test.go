package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/sending"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
	storemem "github.com/drover-run/drover/store/mem"
)

// till counts what is asked of a store.
type till struct {
	store.Bucket
	creates, bytes, gets atomic.Int64
	refuse               error
}

func (b *till) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	if strings.HasPrefix(key, "blobs/") && b.refuse != nil {
		return b.refuse
	}
	_, err := body.Seek(0, io.SeekStart)
	var all []byte
	if err == nil {
		all, err = io.ReadAll(body)
	}
	if err == nil {
		err = b.Bucket.Create(ctx, key, bytes.NewReader(all))
	}
	if err == nil && strings.HasPrefix(key, "blobs/") {
		b.creates.Add(1)
		b.bytes.Add(int64(len(all)))
	}
	return err
}

func (b *till) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if strings.HasPrefix(key, "blobs/") {
		b.gets.Add(1)
	}
	return b.Bucket.Get(ctx, key, off, n)
}

// counts gives what was counted since it was asked last.
func (b *till) counts() (creates, sent, gets int64) {
	return b.creates.Swap(0), b.bytes.Swap(0), b.gets.Swap(0)
}

// shelf is a folder of small files, that a map at a place that does not see it names.
type shelf struct {
	*desk
	*till
	in string
}

func newShelf(t *testing.T, files, size int) *shelf {
	t.Helper()
	s := &shelf{desk: newDesk(t), till: &till{Bucket: storemem.New()}, in: t.TempDir()}
	s.World.Store = store.New(s.till, store.Options{})
	s.Drivers[mem.Name] = away(s.mem, nil)
	for i := range files {
		s.put(fmt.Sprintf("%05d.bin", i), size)
	}
	return s
}

func (s *shelf) put(name string, size int) {
	s.t.Helper()
	content := make([]byte, size)
	_, _ = rand.Read(content)
	s.check(os.WriteFile(filepath.Join(s.in, name), content, 0o644))
}

// ship stores what a map over the folder needs, and reads it back.
func (s *shelf) ship(watch func(report.CopyProgress)) (job.Manifest, error) {
	s.t.Helper()
	spec := mapping()
	spec.From = s.in
	p, err := s.Plan(s.t.Context(), spec, false)
	s.check(err)
	defer p.Close()
	if watch != nil {
		p.Watch = func(what report.Sending, now report.CopyProgress) {
			if what != report.SendingItems {
				s.t.Errorf("told of %d", what)
			}
			watch(now)
		}
	}
	j := job.Job{V: job.Format, Spec: p.Spec}
	s.check(tasks.NameJob(s.t.Context(), s.World, &j))
	m, err := s.newSubmitter().storeItems(s.t.Context(), &p, p.Items.list, j.Path())
	if err != nil {
		return m, err
	}
	return m, nil
}

// 10,000 files of 4 KiB cost as many requests as their bytes need, and an agent that
// reads them all some forty; a second map sends what has changed.
func TestSmallFilesOfItemsTravelInPacks(t *testing.T) {
	const files, size = 4_000, 4 << 10
	s := newShelf(t, files, size)
	m, err := s.ship(nil)
	s.check(err)
	packs, sent, asks := s.counts()
	// By the names of the files, which lie in another folder each time, a pack has 2 to 8 MB.
	if packs < 3 || packs > 10 || sent != files*size || asks > 2*packs+2 {
		t.Errorf("%d files of %d bytes: %d packs of %d bytes, %d looks", files, size, packs, sent, asks)
	}
	t.Logf("up: %d writes, %d reads", packs, asks)
	stored := manifest.NewStored(s.World.Store)
	r, err := manifest.OpenStored(t.Context(), s.World.Store, m, 1)
	s.check(err)
	for it, err := range r.Range(t.Context(), 1, m.Count) {
		s.check(err)
		content, err := stored.Open(t.Context(), it.Files[0])
		s.check(err)
		got, err := io.ReadAll(content)
		s.check(err)
		want, err := os.ReadFile(it.Text)
		s.check(err)
		if !bytes.Equal(got, want) {
			t.Fatalf("%s is other content", it.Text)
		}
	}
	if _, _, gets := s.counts(); gets > 60 {
		t.Errorf("read in %d requests", gets)
	} else {
		t.Logf("down: %d reads", gets)
	}

	// Again: nothing; one changed, one more, one less: the packs they are in, at most
	// with those behind them.
	for name, c := range map[string]struct {
		do    func()
		packs int64
	}{
		"nothing": {func() {}, 0},
		"changed": {func() { s.put("02000.bin", size) }, 1},
		"more":    {func() { s.put("02000a.bin", size) }, 6},
		"less":    {func() { s.check(os.Remove(filepath.Join(s.in, "00003.bin"))) }, 6},
	} {
		c.do()
		s.counts()
		_, err := s.ship(nil)
		s.check(err)
		again, sent, _ := s.counts()
		if again > c.packs || name == "changed" && again == 0 {
			t.Errorf("%s: %d packs of %d bytes are sent again", name, again, sent)
		}
	}
}

func TestFilesOfEverySizeAreStoredOnce(t *testing.T) {
	s := newShelf(t, 3, 10)
	s.put("large 1", manifest.PackedFile+1)
	s.put("large 2", 3<<20)
	s.put("small", manifest.PackedFile)
	s.put("empty", 0)
	for _, name := range []string{"large 1", "small"} { // by another name
		text, err := os.ReadFile(filepath.Join(s.in, name))
		s.check(err)
		s.check(os.WriteFile(filepath.Join(s.in, name+" twin"), text, 0o755))
	}
	var told []report.CopyProgress
	m, err := s.ship(func(p report.CopyProgress) { told = append(told, p) })
	s.check(err)
	if creates, sent, _ := s.counts(); creates != 3 || sent != 30+manifest.PackedFile+1+3<<20+manifest.PackedFile {
		t.Errorf("%d blobs of %d bytes", creates, sent)
	}
	for i, by := range s.stored(m) {
		if len(by) != 1 {
			t.Errorf("item %d has %d files", i+1, len(by))
		}
	}
	last := told[len(told)-1]
	all := int64(30 + 2*(manifest.PackedFile+1) + 3<<20 + 2*manifest.PackedFile)
	if !last.Counted || last.Found != 9 || last.FoundBytes != all || last.Files+last.Same != 9 || last.Bytes+last.SameBytes != all {
		t.Errorf("told at the end: %+v, of %d bytes", last, all)
	}
}

func TestAPackThatCannotBeStoredEndsTheSubmit(t *testing.T) {
	s := newShelf(t, 20, 10)
	s.refuse = fault.New(fault.Denied, "Ask.", "create: not allowed")
	_, err := s.ship(nil)
	if fault.KindOf(err) != fault.Denied || !errors.Is(err, s.refuse) || !strings.Contains(err.Error(), "00000.bin with 19 small files more: ") {
		t.Errorf("it ended with %v", err)
	}
}

// A large file is told of while it is sent, and what is sent a second time is not.
func TestItIsToldHowFarAFileIs(t *testing.T) {
	var told []report.CopyProgress
	tell := sending.NewProgress(func(p report.CopyProgress) { told = append(told, p) }, store.System)
	tell.AddFound(1, 100)
	b := tell.CountingBody(bytes.NewReader(make([]byte, 100)))
	from := func(n int) {
		tell.Last -= 1 << 40
		_, err := b.Seek(0, io.SeekStart)
		if err == nil {
			_, err = io.CopyN(io.Discard, b, int64(n))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	from(100) // to name it
	from(60)  // sent, and broken off
	from(40)
	from(100)
	b.CountSent(1, 100)
	tell.ReportEnd()
	var at []int64
	for _, p := range told {
		if len(at) == 0 || at[len(at)-1] != p.Bytes {
			at = append(at, p.Bytes)
		}
	}
	if fmt.Sprint(at) != "[0 60 100]" || told[len(told)-1].Files != 1 {
		t.Errorf("told %v", told)
	}
}

// What is stored of an input is told too.
func TestItIsToldHowFarAnInputIs(t *testing.T) {
	d := newDesk(t)
	d.write(map[string]string{"in/a": strings.Repeat("a", 5000), "in/b": "b", "in/twin": "b"})
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"a", "b", "twin"} {
		d.check(os.Chtimes(filepath.Join(d.dir, "in", name), old, old))
	}
	spec := job.Spec{Project: "demo", Task: "t", Named: true, Verb: job.Run, Program: "train.sh", On: mem.Name, Inputs: []job.Input{{Name: "data", Path: "in"}}}
	p, err := d.Plan(t.Context(), spec, true)
	d.check(err)
	var last report.CopyProgress
	p.Watch = func(what report.Sending, now report.CopyProgress) {
		if last = now; what != report.SendingInputs {
			t.Errorf("told of %d", what)
		}
	}
	_, err = d.newSubmitter().storeJob(t.Context(), &p)
	d.check(err)
	if last.Files < 3 || last.Bytes < 5002 || last.Counted { // and the list of them
		t.Errorf("told %+v", last)
	}
}
