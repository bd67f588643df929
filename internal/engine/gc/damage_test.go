package gc

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// What cannot be read may name any blob, and hides nothing else: gc removes what it can,
// leaves all blobs, and says why.
func TestGCGoesOnBesideWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]struct {
		at   func(w *ward, j job.Job) string // key
		text string
		why  string // what the reason says
		not  bool   // the job is not to be removed: its list would not be read then
	}{
		"job.json": {at: func(w *ward, j job.Job) string { return j.Path().String() + "/job.json" },
			text: `{"v":2,"spec":{"nodes":2147483648}}`, why: "nodes is 2147483648"},
		"an entry of its log": {at: func(w *ward, j job.Job) string { return j.Path().String() + "/log/00000001" },
			text: `{"v":2,"attempt":{"k":9223372036854775807}}`, why: "attempt is 9223372036854775807"},
		"an entry of its task's log": {at: func(w *ward, j job.Job) string { return "demo/digits/log/00000001" },
			text: `{"v":2,"submitted":{"job":"../../x"}}`, why: "look at task demo/digits"},
		"its short id": {at: func(w *ward, j job.Job) string { return "ids/" + j.Short },
			text: `{"project":"../..","task":"etc","job":"passwd"}`, why: "read ids/"},
		"another's short id": {at: func(w *ward, j job.Job) string { return "ids/zzzz" }, text: "[", why: "read ids/zzzz"},
		"the list of its outputs": {at: func(w *ward, j job.Job) string {
			rep, err := views.ReadReport(w.t.Context(), w.World, j.Path())
			w.check(err)
			return "blobs/" + string(rep.Run.Exits[0].Outputs["model"])
		}, text: `{"files":[]}`, why: "does not match its digest", not: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWard(t)
			bad, other, stray := w.job("digits", job.Succeeded), w.job("letters", job.Failed), w.stored("nobody's")
			w.job("letters", job.Succeeded)
			w.check(w.bucket.Put(t.Context(), plant.at(w, bad), strings.NewReader(plant.text)))
			w.World.Store = store.New(w.bucket, store.Options{Clock: w.clock}) // a process that remembers nothing
			w.pass(2 * time.Hour)
			blobs := w.objects("blobs/")
			o := Options{Jobs: []job.Path{other.Path()}}
			if !plant.not {
				o.Jobs = append(o.Jobs, bad.Path())
			}
			g := w.leftovers(o)
			if said := strings.Join(g.Notes, "\n"); !strings.Contains(said, plant.why) {
				t.Errorf("it notes %q", said)
			}
			if said := says(g.Kept); !strings.Contains(strings.Join(said, "\n"), "blobs all: what cannot be read may name them: ") {
				t.Errorf("what stays: %q", said)
			}
			f, err := w.Collect(t.Context(), g, nil)
			w.check(err)
			removed := strings.Join(says(f.Items), "\n")
			whole := name == "another's short id"
			if !strings.Contains(removed, "job "+other.Path().String()) || strings.Contains(removed, bad.Path().String()) != whole {
				t.Errorf("it removed %s", removed)
			}
			if n := w.objects("blobs/"); n != blobs {
				t.Errorf("of %d blobs %d are left", blobs, n)
			}
			if _, err := w.World.Store.HasBlob(t.Context(), store.Digest(stray.Blob)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Between the two looks of a gc another writer may damage something: then no blob goes.
func TestGCLeavesBlobsThatDamageMayName(t *testing.T) {
	t.Parallel()
	w := newWard(t)
	bad := w.job("digits", job.Succeeded)
	w.stored("nobody's")
	w.pass(2 * time.Hour)
	g := w.leftovers(Options{})
	if len(g.blobs) != 1 {
		t.Fatalf("it would take %v", says(g.Items))
	}
	w.check(w.bucket.Put(t.Context(), bad.Path().String()+"/job.json", strings.NewReader("{")))
	w.World.Store = store.New(w.bucket, store.Options{Clock: w.clock})
	blobs := w.objects("blobs/")
	f, err := w.Collect(t.Context(), g, nil)
	w.check(err)
	if n := w.objects("blobs/"); n != blobs || len(f.Items) != 0 {
		t.Errorf("of %d blobs %d are left, it removed %v", blobs, n, says(f.Items))
	}
	if said := strings.Join(says(f.Kept), "\n"); !strings.Contains(said, "blobs 1 blob: what cannot be read may name them: look at job "+bad.ID) {
		t.Errorf("it says %q", said)
	}
}
