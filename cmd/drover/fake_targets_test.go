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

	"github.com/drover-run/drover/store/s3/s3test"
)

// fakeTarget is a target of scripts that a fake plays: the variables that lead to it, and the commands
// that change it.
type fakeTarget struct {
	environ map[string]string
	// commands change the fake, by their names in scripts
	commands map[string]func(ts *testscript.TestScript, neg bool, args []string)
}

// scriptsOnAFake runs the scripts of testdata/NAME with NAME as their target, each on a fake of its own,
// with a strict bucket as its store and a registry for images, both in memory.
func scriptsOnAFake(t *testing.T, name string, open func(*testing.T) fakeTarget) {
	files, err := filepath.Glob(filepath.Join("testdata", name, "*.txt"))
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
			fake := open(t)
			own := maps.Clone(commands)
			maps.Copy(own, fake.commands)
			environ := map[string]string{"DROVER_ON": name, "REGISTRY": strings.TrimPrefix(images.URL, "http://"),
				"DROVER_STORE": "s3://facts/" + filepath.Base(file), "AWS_ENDPOINT_URL_S3": facts.URL,
				"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest", "AWS_EC2_METADATA_DISABLED": "true"}
			maps.Copy(environ, fake.environ)
			testscript.Run(t, testscript.Params{
				Files: []string{file}, Cmds: own, RequireExplicitExec: true,
				Setup: func(env *testscript.Env) error {
					for name, value := range environ {
						env.Setenv(name, value)
					}
					return setUp(env)
				},
			})
		})
	}
}
