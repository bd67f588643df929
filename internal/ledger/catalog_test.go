package ledger

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/storetest"
)

// mute lists what it holds, and gives nothing of it.
type mute struct{ store.Bucket }

var errMute = errors.New("no answer")

func (mute) Get(context.Context, string, int64, int64) (io.ReadCloser, error) { return nil, errMute }

// What cannot be read is said: a list of jobs with some left out would look whole.
func TestACatalogLeavesNothingOutUnsaid(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	clock := &storetest.Clock{}
	bucket := mem.At(clock)
	d.Store = store.New(bucket, store.Options{Clock: clock})
	j := d.submit(nil)
	if paths, err := views.ListJobs(t.Context(), d.World, ""); err != nil || len(paths) != 1 || paths[0] != j.Path() {
		t.Fatalf("%v, %v", paths, err)
	}
	d.Store = store.New(mute{bucket}, store.Options{Clock: clock})
	if paths, err := views.ListJobs(t.Context(), d.World, ""); !errors.Is(err, errMute) {
		t.Errorf("%v, %v", paths, err)
	}
}
