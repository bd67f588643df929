// Package gcstest starts fake-gcs-server, which Google's own clients are tested
// with, for one test. It refuses to be a server for anything but tests; store/gcs's
// real tests prove it.
package gcstest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Real starts the server, which the project's own script installs, and gives its
// address. It is up when Real returns, keeps all in memory, and ends with the test.
// Where it was not built before it is built now, which takes the network and two
// minutes. Without DROVER_TEST_REAL the test is skipped.
func Real(t *testing.T) (endpoint string) {
	t.Helper()
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it: it builds and starts fake-gcs-server")
	}
	_, self, _, _ := runtime.Caller(0)
	build := exec.Command("sh", filepath.Join(filepath.Dir(self), "../../testdata/servers.sh"), "fake-gcs-server")
	build.Stderr = os.Stderr
	program, err := build.Output()
	if err != nil {
		t.Fatalf("build fake-gcs-server: %v", err)
	}
	// It takes a port and does not say which; one that was free a moment ago will do.
	free := httptest.NewServer(nil)
	address := free.Listener.Addr().String()
	free.Close()
	host, port, _ := strings.Cut(address, ":")
	server := exec.Command(strings.TrimSpace(string(program)), "-scheme", "http", "-host", host, "-port", port,
		"-external-url", "http://"+address, "-backend", "memory", "-log-level", "info")
	said, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	t.Cleanup(func() {
		_ = server.Process.Kill()
		<-drained
		_ = server.Wait()
	})
	listens := make(chan string, 1)
	go func() { // until the server ends
		defer close(drained)
		await(said, "server started at", listens)
	}()
	if line := <-listens; line != "" {
		t.Fatalf("fake-gcs-server: %s", line)
	}
	return "http://" + address
}

// await reads to the end, and sends "" once it has met words; else what it read.
func await(r io.Reader, words string, met chan<- string) {
	var seen bytes.Buffer
	buf := make([]byte, 4096)
	for told := false; ; {
		n, err := r.Read(buf)
		if !told {
			seen.Write(buf[:n])
			if told = bytes.Contains(seen.Bytes(), []byte(words)); told {
				met <- ""
			}
		}
		if err != nil {
			if !told {
				met <- seen.String()
			}
			return
		}
	}
}

// Make has the server make one more bucket.
func Make(t *testing.T, endpoint, name string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, endpoint+"/storage/v1/b?project=p",
		strings.NewReader(`{"name":"`+name+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("make bucket %s: %s", name, resp.Status)
	}
}
