package gcs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/storetest"
)

// realServer starts fake-gcs-server and gives its address. Where it was not built
// before it is built now, which takes the network and two minutes.
func realServer(t *testing.T) string {
	t.Helper()
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it: it builds and starts fake-gcs-server")
	}
	build := exec.Command("sh", "../testdata/servers.sh", "fake-gcs-server")
	build.Stderr = os.Stderr
	path, err := build.Output()
	if err != nil {
		t.Fatalf("build fake-gcs-server: %v", err)
	}
	// It takes a port and does not say which; one that was free a moment ago will do.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	server := exec.Command(strings.TrimSpace(string(path)), "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-backend", "memory", "-log-level", "info")
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
	return "http://127.0.0.1:" + port
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

// makeBucket has the server make one more bucket.
func makeBucket(t *testing.T, endpoint, name string) {
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

func TestRealGCSKeepsEveryPromise(t *testing.T) {
	endpoint := realServer(t)
	var serial atomic.Int64
	storetest.Run(t, func(t *testing.T) (first, second store.Bucket) {
		name := fmt.Sprintf("bucket-%d", serial.Add(1))
		makeBucket(t, endpoint, name)
		return at(t, endpoint, "gs://"+name+"/drover"), at(t, endpoint, "gs://"+name+"/drover")
	})
}
