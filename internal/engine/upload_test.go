package engine

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/gc"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
	storemem "github.com/drover-run/drover/store/mem"
)

// away is a target with agents that see the files of some folders' file systems alone.
func away(d driver.Driver, shown []string) driver.Opened {
	o := mem.Open(d)
	o.Shown = shown
	return o
}

// mapping is a map over items.txt on such a place.
func mapping() job.Spec {
	return job.Spec{Project: "demo", Task: "t", Named: true, Verb: job.Map, Program: "train.sh", Args: []string{"{}"}, On: mem.Name, Items: job.Items{From: "items.txt"}}
}

// stored is what is stored of the items of a manifest, by number and field; a file that
// runs has an x before it.
func (d *desk) stored(m job.Manifest) (all []map[int]string) {
	d.t.Helper()
	r, err := manifest.OpenStored(d.t.Context(), d.World.Store, m, 1)
	d.check(err)
	files := manifest.NewStored(d.World.Store)
	for it, err := range r.Range(d.t.Context(), 1, m.Count) {
		d.check(err)
		var by map[int]string
		for _, f := range it.Files {
			content, err := files.Open(d.t.Context(), f)
			d.check(err)
			b, err := io.ReadAll(content)
			d.check(err)
			if by == nil {
				by = map[int]string{}
			}
			if by[f.Field] = string(b); f.Exec {
				by[f.Field] = "x " + string(b)
			}
		}
		all = append(all, by)
	}
	return all
}

func (d *desk) blobs() (n int) {
	d.t.Helper()
	for _, err := range d.World.Store.List(d.t.Context(), "blobs/") {
		d.check(err)
		n++
	}
	return n
}

func TestFilesOfItemsAreStoredForAPlaceThatDoesNotSeeThem(t *testing.T) {
	d := newDesk(t)
	d.Drivers[mem.Name] = away(d.mem, nil)
	in := t.TempDir()
	name := func(base string) string { return filepath.Join(in, base) }
	for base, text := range map[string]string{"a b.txt": "one", "c.txt": "one", "d.txt": "two"} {
		d.check(os.WriteFile(name(base), []byte(text), 0o644))
	}
	d.check(os.WriteFile(name("run"), []byte("#!"), 0o755))
	d.check(os.Mkdir(name("folder"), 0o755))
	d.check(os.Symlink(name("d.txt"), name("link")))
	d.check(os.Symlink(name("folder"), name("up")))
	d.check(os.Symlink(name("nothing"), name("torn")))
	d.write(map[string]string{"here.txt": "here", "items.txt": strings.Join([]string{name("a b.txt"), "word", name("c.txt"), name("folder"), name("gone"),
		name("link"), name("up"), name("torn"), name("a b.txt"), "here.txt", "file://" + name("c.txt"), "/dev/null", name("run")}, "\n") + "\n"})
	p, err := d.Plan(t.Context(), mapping(), false)
	d.check(err)
	defer p.Close()
	notes := strings.Join(p.Items.Notes, "\n")
	if !strings.Contains(notes, "5 files, ") || !strings.Contains(notes, "2 items with a folder that mem does not see") {
		t.Errorf("the plan says %q", notes)
	}
	sample, err := d.Sample(t.Context(), &p, "pilot", []int{2, 3})
	d.check(err)
	defer sample.Close()
	path, err := d.Submit(t.Context(), &p)
	d.check(err)
	few, err := d.Submit(t.Context(), &sample)
	d.check(err)
	if j, err := tasks.LoadJob(t.Context(), d.World, few); err != nil || !cmp.Equal([]map[int]string{nil, {manifest.Whole: "one"}}, d.stored(j.Manifest)) {
		t.Errorf("a sample has other files: %v, %+v", err, j.Manifest)
	}
	d.check(os.WriteFile(name("c.txt"), []byte("changed since"), 0o644))
	j := d.load(path)
	w := manifest.Whole
	want := []map[int]string{{w: "one"}, nil, {w: "one"}, nil, nil, {w: "two"}, nil, nil, {w: "one"}, nil, nil, nil, {w: "x #!"}}
	if diff := cmp.Diff(want, d.stored(j.Manifest)); diff != "" {
		t.Error(diff)
	}
	if n := d.blobs(); n != 3 { // the files, those of the sample, and the code
		t.Errorf("%d blobs", n)
	}
}

// With --fetch an item may be a file:// address, which is percent-encoded.
func TestFilesThatAddressesNameAreStored(t *testing.T) {
	d := newDesk(t)
	d.Drivers[mem.Name] = away(d.mem, nil)
	in := t.TempDir()
	for base, text := range map[string]string{"a b.txt": "one", "50%.txt": "two", "gr\u00fcn.txt": "three", "d%20.txt": "four"} {
		d.check(os.WriteFile(filepath.Join(in, base), []byte(text), 0o644))
	}
	d.write(map[string]string{"items.txt": strings.Join([]string{"file://" + in + "/a%20b.txt", "file://localhost" + in + "/50%25.txt", "FILE://" + in + "/gr%C3%BCn.txt",
		"file://" + in + "/gr\u00fcn.txt", "file://" + in + "/d%20.txt", in + "/d%20.txt", "file://far" + in + "/50%25.txt"}, "\n") + "\n"})
	spec := mapping()
	spec.Fetch = true
	j := d.load(d.submit(spec))
	w := manifest.Whole
	want := []map[int]string{{w: "one"}, {w: "two"}, {w: "three"}, {w: "three"}, nil, {w: "four"}, nil}
	if diff := cmp.Diff(want, d.stored(j.Manifest)); diff != "" {
		t.Error(diff)
	}
}

// called is a bucket that says how it is opened.
type called struct {
	store.Bucket
	url string
}

func (c called) String() string { return c.url }

// How the buckets of new items are opened is noted with these, however many come before.
func TestNewItemsSayHowTheirBucketsAreOpened(t *testing.T) {
	d := newDesk(t)
	d.OpenPlace = func(_ context.Context, url string) (store.Bucket, error) {
		return called{storemem.New(), url + "?endpoint=http://h:1"}, nil
	}
	lines := strings.Repeat("s3://old/k\n", fetchSample)
	d.write(map[string]string{"items.txt": lines})
	spec := mapping()
	spec.Fetch = true
	path := d.submit(spec)
	d.check(liveness.WriteHeartbeat(t.Context(), d.World, path, protocol.Heartbeat{Agent: "1-0-x", Phase: "running"}))
	d.write(map[string]string{"items.txt": lines + "s3://new/k\n"})
	more, err := d.Plan(t.Context(), spec, false)
	d.check(err)
	defer more.Close()
	_, err = d.Submit(t.Context(), &more)
	d.check(err)
	j := d.load(path)
	rep, err := views.NewMapView(d.World, j).Refresh(t.Context())
	d.check(err)
	if len(rep.Map.Extensions) != 1 {
		t.Fatalf("%s: %d extensions", more.Action, len(rep.Map.Extensions))
	}
	if diff := cmp.Diff([]string{"s3://old?endpoint=http://h:1", "s3://new?endpoint=http://h:1"}, rep.Map.Extensions[0].Fact.Manifest.Places); diff != "" {
		t.Error(diff)
	}
}

func TestFilesThatAPlaceSeesAreNotStored(t *testing.T) {
	d := newDesk(t)
	file := filepath.Join(t.TempDir(), "a.txt")
	d.check(os.WriteFile(file, []byte("one"), 0o644))
	d.write(map[string]string{"items.txt": file + "\n"})
	for _, sees := range [][]string{{"/"}, {filepath.Join(filepath.Dir(file), "not", "made")}} {
		d.Drivers[mem.Name] = away(d.mem, sees)
		p, err := d.Plan(t.Context(), mapping(), false)
		d.check(err)
		if p.Items.Uploads != 0 || len(p.Items.Notes) != 0 {
			t.Errorf("who sees %q gets %d files: %q", sees, p.Items.Uploads, p.Items.Notes)
		}
		d.check(p.Close())
	}
}

func TestOfRowsTheFilesOfFieldsAreStoredThatTheCommandUses(t *testing.T) {
	d := newDesk(t)
	d.Drivers[mem.Name] = away(d.mem, nil)
	in := t.TempDir()
	for _, base := range []string{"a", "b", "c"} {
		d.check(os.WriteFile(filepath.Join(in, base), []byte(base), 0o644))
	}
	d.write(map[string]string{"items.csv": "x,y,z\n" + in + "/a," + in + "/b," + in + "/c\n"})
	for _, c := range []struct {
		args []string
		want map[int]string
	}{{[]string{"{z}", "{x}"}, map[int]string{0: "a", 2: "c"}}, {[]string{"{}"}, map[int]string{0: "a", 1: "b", 2: "c"}}} {
		s := mapping()
		s.From, s.Args, s.Task = "items.csv", c.args, "t"+c.args[0][1:2]+"x"
		s.Task = strings.ReplaceAll(s.Task, "}", "")
		path := d.submit(s)
		j := d.load(path)
		if diff := cmp.Diff([]map[int]string{c.want}, d.stored(j.Manifest)); diff != "" {
			t.Errorf("%q: %s", c.args, diff)
		}
	}
}

// What items name stays while their job does, also what was added later.
func TestGCKeepsTheFilesOfItems(t *testing.T) {
	d := newDesk(t)
	d.Drivers[mem.Name] = away(d.mem, nil)
	in := t.TempDir()
	var files []string
	for _, base := range []string{"a", "b"} {
		files = append(files, filepath.Join(in, base))
		d.check(os.WriteFile(files[len(files)-1], []byte(base), 0o644))
	}
	d.write(map[string]string{"items.txt": files[0] + "\n"})
	path := d.submit(mapping())
	d.check(liveness.WriteHeartbeat(t.Context(), d.World, path, protocol.Heartbeat{Agent: "1-0-x", Phase: "running"}))
	d.write(map[string]string{"items.txt": files[0] + "\n" + files[1] + "\n"})
	more, err := d.Plan(t.Context(), mapping(), false)
	d.check(err)
	defer more.Close()
	if _, err := d.Submit(t.Context(), &more); err != nil || more.Action != report.ActionExtend {
		t.Fatalf("%s: %v", more.Action, err)
	}
	var named []store.Digest
	for _, text := range []string{"a", "b"} {
		b, _, err := d.World.Store.PutBlob(t.Context(), strings.NewReader(text))
		d.check(err)
		named = append(named, b)
	}
	d.gcKeeps(named...)
}

// A job with agents that bring no files gets no items that need them.
func TestItemsWithFilesAreNotAddedToAJobWithout(t *testing.T) {
	d := newDesk(t)
	d.Drivers[mem.Name] = away(d.mem, nil)
	file := filepath.Join(t.TempDir(), "a")
	d.check(os.WriteFile(file, nil, 0o644))
	d.write(map[string]string{"items.txt": "word\n"})
	path := d.submit(mapping())
	d.check(liveness.WriteHeartbeat(t.Context(), d.World, path, protocol.Heartbeat{Agent: "1-0-x", Phase: "running"}))
	d.write(map[string]string{"items.txt": "word\n" + file + "\n"})
	p, err := d.Plan(t.Context(), mapping(), false)
	d.check(err)
	defer p.Close()
	if _, err := d.Submit(t.Context(), &p); err == nil || !strings.Contains(err.Error(), "its agents bring no files") {
		t.Errorf("%s: %v", p.Action, err)
	}
}

// Both files were there, of a job that is gone: gc takes each while that is written
// which names it, the first by the job itself and the second by its next round. When an
// item may ask for it, it is there.
func TestFilesThatAGCTakesMeanwhileAreStoredAgain(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	dir, in := t.TempDir(), t.TempDir()
	files := []string{filepath.Join(in, "a"), filepath.Join(in, "b")}
	took, promised := 0, 0
	var need []store.Digest
	world := w.World
	world.Store = store.New(before{w.bucket, func(key string) {
		if strings.HasSuffix(key, "/job.json") || strings.Contains(key, "/rounds/") {
			for _, l := range w.collect(gc.Options{}).Items {
				took += l.Count
			}
		}
		if strings.Contains(key, "/log/") {
			promised++
			if err := readAll(t.Context(), w.World.Store, need); err != nil {
				t.Errorf("%s is written: %v", key, err)
			}
		}
	}}, store.Options{Clock: w.clock})
	place := mem.New(func(context.Context, driver.Request, int) error { return nil })
	t.Cleanup(place.Close)
	cli := New(session.Session{World: world, Drivers: map[string]driver.Opened{mem.Name: away(place, nil)},
		Caller: session.Caller{User: "ann", Host: "desk", Folder: dir, Environ: os.Environ(), Cache: t.TempDir(), By: "cli"}}, Passes{})
	w.check(os.WriteFile(filepath.Join(dir, "train.sh"), []byte("#!/bin/sh\n"), 0o755))
	for n, file := range files {
		w.check(os.WriteFile(file, []byte(file), 0o644))
		d, _, err := w.World.Store.PutBlob(t.Context(), strings.NewReader(file))
		w.check(err)
		w.pass(2 * time.Hour)
		w.check(os.WriteFile(filepath.Join(dir, "items.txt"), []byte(strings.Join(files[:n+1], "\n")), 0o644))
		p, err := cli.Plan(t.Context(), mapping(), false)
		w.check(err)
		need = append(need, d)
		had, entries := took, promised
		path, err := cli.Submit(t.Context(), &p)
		w.check(err)
		w.check(p.Close())
		w.check(liveness.WriteHeartbeat(t.Context(), w.World, path, protocol.Heartbeat{Agent: "1-0-x", Phase: "running"}))
		if took == had || promised == entries {
			t.Fatalf("%s: gc took %d blobs meanwhile, and %d entries were written", p.Action, took-had, promised-entries)
		}
		if err := readAll(t.Context(), w.World.Store, need); err != nil {
			t.Errorf("%s: %v", p.Action, err)
		}
	}
}

// What changed between two goes at storing it is not what the job names.
func TestFilesThatChangeWhileTheyAreStoredAreRefused(t *testing.T) {
	d := newDesk(t)
	d.Drivers[mem.Name] = away(d.mem, nil)
	file := filepath.Join(t.TempDir(), "a")
	d.check(os.WriteFile(file, []byte("one"), 0o644))
	d.write(map[string]string{"items.txt": file + "\n"})
	p, err := d.Plan(t.Context(), mapping(), false)
	d.check(err)
	defer p.Close()
	j := job.Job{V: job.Format, Spec: p.Spec}
	d.check(tasks.NameJob(t.Context(), d.World, &j))
	m, err := d.newSubmitter().storeItems(t.Context(), &p, p.Items.list, j.Path())
	d.check(err)
	d.check(d.newSubmitter().storeItemsAgain(t.Context(), &p, p.Items.list, m))
	for _, change := range []func() error{func() error { return os.WriteFile(file, []byte("two"), 0o644) }, func() error { return os.Remove(file) }} {
		d.check(change())
		if err := d.newSubmitter().storeItemsAgain(t.Context(), &p, p.Items.list, m); fault.KindOf(err) != fault.Invalid {
			t.Errorf("other content is taken for the same: %v", err)
		}
	}
}
