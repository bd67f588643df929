// Package gcstest starts fake-gcs-server, which Google's own clients are tested
// with, for one test. It refuses to be a server for anything but tests; store/gcs's
// real tests prove it.
package gcstest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/drover-run/drover/store/storetest/server"
)

// Real starts the server, and gives its address. It listens when Real returns, and
// keeps all in memory; server.Install says when the test is skipped.
func Real(t *testing.T) (endpoint string) {
	t.Helper()
	program, address := server.Install(t, "fake-gcs-server"), server.Free()
	host, port, _ := strings.Cut(address, ":")
	gcs := exec.Command(program, "-scheme", "http", "-host", host, "-port", port,
		"-external-url", "http://"+address, "-backend", "memory", "-log-level", "info")
	said, err := gcs.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	words := make(chan string, 1)
	drained := make(chan bool)
	go func() { // until the server ends
		defer close(drained)
		await(said, "server started at", words)
	}()
	t.Cleanup(func() { <-drained })
	server.Start(t, gcs)
	if why := <-words; why != "" {
		t.Fatalf("fake-gcs-server: %s", why)
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
