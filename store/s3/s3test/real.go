package s3test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Real starts versitygw, which the project's own script installs, for one test: a
// server with the bucket facts on a disk of its own, and test and testtest as its
// keys. It may not be up yet when Real returns. Without DROVER_TEST_REAL the test
// is skipped.
func Real(t *testing.T) (endpoint string) {
	t.Helper()
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it")
	}
	_, self, _, _ := runtime.Caller(0)
	out, err := exec.Command("sh", filepath.Join(filepath.Dir(self), "../../testdata/servers.sh"), "versitygw").Output()
	if err != nil {
		t.Fatalf("install versitygw: %v", err)
	}
	free := httptest.NewServer(nil) // a port that nobody has
	address := free.Listener.Addr().String()
	free.Close()
	disk := t.TempDir()
	if err := os.Mkdir(filepath.Join(disk, "facts"), 0o700); err != nil {
		t.Fatal(err)
	}
	server := exec.Command(strings.TrimSpace(string(out)), "--port", address, "posix", disk)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY=test", "ROOT_SECRET_KEY=testtest")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	return "http://" + address
}
