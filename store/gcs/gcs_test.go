package gcs

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/storetest"
)

// serve has h answer on this machine, and gives its address.
func serve(t *testing.T, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// at opens place at endpoint, by a clock that does not wait.
func at(t *testing.T, endpoint, place string) *Bucket {
	t.Helper()
	b, err := Open(t.Context(), place, Options{Endpoint: endpoint, Clock: &storetest.Clock{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.conn.client.CloseIdleConnections)
	return b
}

func TestBucketKeepsEveryPromise(t *testing.T) {
	for place, page := range map[string]int{"gs://b-1": 0, "gs://b-1/team/drover": 2} {
		t.Run(place, func(t *testing.T) {
			handles := func(t *testing.T) (first, second store.Bucket) {
				f := newFake()
				f.page = page
				endpoint := serve(t, f)
				return at(t, endpoint, place), at(t, endpoint, place)
			}
			storetest.Run(t, handles)
			storetest.RunPieces(t, handles)
			if page == 0 { // once: it takes long
				storetest.RunResumes(t, handles, 1<<20, 28<<20)
			}
		})
	}
}
