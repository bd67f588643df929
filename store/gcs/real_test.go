package gcs

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/gcs/gcstest"
	"github.com/drover-run/drover/store/storetest"
)

func TestRealGCSKeepsEveryPromise(t *testing.T) {
	endpoint := gcstest.Real(t)
	var serial atomic.Int64
	handles := func(t *testing.T) (first, second store.Bucket) {
		name := fmt.Sprintf("bucket-%d", serial.Add(1))
		gcstest.Make(t, endpoint, name)
		return at(t, endpoint, "gs://"+name+"/drover"), at(t, endpoint, "gs://"+name+"/drover")
	}
	storetest.Run(t, handles)
	storetest.RunPieces(t, handles)
	storetest.RunResumes(t, handles, 0) // this one keeps nothing of a request that breaks off
}
