package main_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// serve serves a folder at $SERVED until the script ends. A file with a name that begins with
// "held-" comes once its gate is open; what was asked for is in $WORK/asked, a line each.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 1, "serve DIR")
	dir, gate, asked := ts.MkAbs(args[0]), filepath.Join(ts.Getenv("GATES"), "served"), filepath.Join(ts.Getenv("WORK"), "asked")
	files := http.FileServer(http.Dir(dir))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f, err := os.OpenFile(asked, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
			_, _ = f.WriteString(r.URL.Path + "\n")
			f.Close()
		}
		for strings.HasPrefix(filepath.Base(r.URL.Path), "held-") {
			if _, err := os.Stat(gate); err == nil {
				break
			}
			select {
			case <-r.Context().Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
		files.ServeHTTP(w, r)
	}))
	ts.Setenv("SERVED", s.URL)
	ts.Defer(func() {
		s.CloseClientConnections()
		s.Close()
	})
}
