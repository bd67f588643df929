package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What make demo builds first has no SDK of a bucket service, and says so when one is
// named. That it runs what it needs to run, make demo shows.
func TestTheProgramWithoutBucketsSaysSo(t *testing.T) {
	dir := t.TempDir()
	tags := "grpcnotrace,nobuckets"
	deps, err := exec.Command("go", "list", "-deps", "-tags", tags, ".").Output()
	if err != nil {
		t.Fatalf("list what it needs: %v", err)
	}
	for _, sdk := range []string{"github.com/aws/", "golang.org/x/oauth2", "drover/store/s3", "drover/store/gcs"} {
		if strings.Contains(string(deps), sdk) {
			t.Errorf("it is built with %s", sdk)
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", tags, "-o", dir, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build it: %v\n%s", err, out)
	}
	const refusal = ": this drover was built without buckets (-tags nobuckets)\n  Build the whole program: make build.\n"
	for store, refused := range map[string]string{"s3://bucket/prefix": refusal, "gs://bucket/prefix": refusal, dir + "/store": ""} {
		cmd := exec.Command(filepath.Join(dir, "drover"), "status", "--store", store)
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME=", "XDG_CACHE_HOME=", "XDG_DATA_HOME=", "XDG_CONFIG_HOME=")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if got := errors.As(err, &exit); got != (refused != "") || !strings.Contains(string(out), refused) {
			t.Errorf("status --store %s: %v\n%swant %q", store, err, out, refused)
		}
	}
}
