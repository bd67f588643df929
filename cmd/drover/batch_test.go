package main_test

import (
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-run/drover/driver/batch/batchtest"
	"github.com/drover-run/drover/store/s3/s3test"
)

// Scripts with AWS Batch as their target, each with an account of its own: a fake, of which nothing is
// claimed about AWS. No job of theirs begins.
func TestScriptsOnAFakeOfBatch(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "batch", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal("there are no scripts", err)
	}
	facts := httptest.NewServer(&s3test.Server{Bucket: "facts"})
	t.Cleanup(facts.Close)
	images := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(images.Close)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			fake := batchtest.New(t)
			fake.Hold()
			own := maps.Clone(commands)
			own["queue"] = func(ts *testscript.TestScript, neg bool, args []string) { changeQueue(ts, fake, neg, args) }
			testscript.Run(t, testscript.Params{
				Files: []string{file}, Cmds: own, RequireExplicitExec: true,
				Setup: func(env *testscript.Env) error {
					if err := setUp(env); err != nil {
						return err
					}
					for name, value := range fake.Environ() {
						env.Setenv(name, value)
					}
					for name, value := range map[string]string{
						"DROVER_ON": "batch", "DROVER_STORE": "s3://facts/" + filepath.Base(file), "AWS_ENDPOINT_URL_S3": facts.URL, "REGISTRY": strings.TrimPrefix(images.URL, "http://"),
					} {
						env.Setenv(name, value)
					}
					return nil
				},
			})
		})
	}
}

// changeQueue changes a script's account:
//
//	queue FIELD VALUE   the queue's description has that
//	queue on spot       its machines are spot capacity
//	queue without role  it has no tag with a role
//	queue has N         fails unless N jobs were submitted
func changeQueue(ts *testscript.TestScript, fake *batchtest.Server, neg bool, args []string) {
	need(ts, neg, args, 2, "queue FIELD VALUE")
	switch strings.Join(args, " ") {
	case "on spot":
		fake.SetResources(map[string]any{"type": "SPOT"})
	case "without role":
		fake.SetQueue(map[string]any{"tags": nil})
	case "has 0", "has 1":
		if n := fake.Submitted(); strings.TrimPrefix(strings.Join(args, " "), "has ") != map[int]string{0: "0", 1: "1"}[n] {
			ts.Fatalf("%d jobs were submitted", n)
		}
	default:
		fake.SetQueue(map[string]any{args[0]: args[1]})
	}
}
