package storetest

import (
	"bytes"
	"context"
	"os/exec"
	"testing"

	"github.com/drover-run/drover/store"
)

// RunDownloads proves a bucket that is a store.Downloader: each of its commands, where this
// machine has the program, gives the object's bytes, and no command gives anything for an object that is absent.
// env is the environment of the commands; nil: this process's. It returns the programs that ran.
func RunDownloads(t *testing.T, b store.Bucket, env []string) (ran []string) {
	t.Helper()
	body := bytes.Repeat([]byte("\x00drover's \xff program\r\n"), 50_000)
	if err := b.Create(context.Background(), "_programs/abc-1", bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][]byte{"_programs/abc-1": body, "_programs/absent": nil} {
		ways, err := b.(store.Downloader).Downloads(context.Background(), key)
		if err != nil || len(ways) == 0 {
			t.Fatalf("Downloads(%s) gives %+v, %v", key, ways, err)
		}
		for _, way := range ways {
			if _, err := exec.LookPath(way.Tool); err != nil {
				continue
			}
			c := exec.Command("sh", "-c", way.Command)
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr, c.Env = &out, &errs, env
			err := c.Run()
			if want == nil {
				if err == nil {
					t.Errorf("%s succeeds for an object that is absent", way.Command)
				}
				continue
			}
			ran = append(ran, way.Tool)
			if err != nil || !bytes.Equal(out.Bytes(), want) {
				t.Errorf("%s gives %d bytes, want %d; %v: %s", way.Command, out.Len(), len(want), err, errs.String())
			}
		}
	}
	return ran
}
