package gcs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
	storetest.RunResumes(t, handles, 0, 28<<20) // this one keeps nothing of a request that breaks off
}

func TestRealGCSSaysHowToDownload(t *testing.T) {
	endpoint := gcstest.Real(t)
	gcstest.Make(t, endpoint, "downloads")
	if ran := storetest.RunDownloads(t, at(t, endpoint, "gs://downloads/drover"), nil); !slices.Contains(ran, "python3") {
		t.Errorf("%q ran", ran)
	}
}

// Google's own service asks for a token, which a machine of Google's gets from its metadata server.
func TestADownloadOfGoogleHoldsNoCredential(t *testing.T) {
	b := at(t, home, "gs://bucket/drover")
	ways, err := b.Downloads(t.Context(), "_programs/abc")
	if err != nil {
		t.Fatal(err)
	}
	fake := t.TempDir()
	for name, script := range map[string]string{
		"curl": `case "$*" in *computeMetadata*) echo '{"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"}';; *) printf '%s\n' "$@";; esac`,
	} {
		if err := os.WriteFile(filepath.Join(fake, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("sh", "-c", ways[0].Command)
	c.Env = []string{"PATH=" + fake + ":/usr/bin:/bin"}
	out, err := c.CombinedOutput()
	if want := "Authorization: Bearer ya29.x\nhttps://storage.googleapis.com/storage/v1/b/bucket/o/drover%2F_programs%2Fabc?alt=media\n"; err != nil || !strings.HasSuffix(string(out), want) {
		t.Errorf("%s gives %q, %v; want it to end in %q", ways[0].Command, out, err, want)
	}
	if want := (store.Download{Tool: "gcloud", Command: "gcloud storage cat 'gs://bucket/drover/_programs/abc'"}); !slices.Contains(ways, want) {
		t.Errorf("%+v is without %+v", ways, want)
	}
}
