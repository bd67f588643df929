package main

import (
	"bytes"
	"encoding/xml"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// bucket is a server of S3's with one bucket in memory, as much of one as drover's
// small objects need, that counts what it is asked. It is no test of anything: those
// have a strict one.
type bucket struct {
	asked atomic.Int64

	mu      sync.Mutex
	objects map[string][]byte
}

// ServeHTTP answers /BUCKET/KEY.
func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.asked.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "half a body", http.StatusBadRequest)
		return
	}
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	b.mu.Lock()
	defer b.mu.Unlock()
	held, there := b.objects[key]
	switch {
	case r.Method == http.MethodGet && key == "":
		b.list(w, r.URL.Query().Get("prefix"), r.URL.Query().Get("start-after"))
	case r.Method == http.MethodGet && there:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(held))
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>") // who does not read it has gone
	case r.Method == http.MethodPut && there && r.Header.Get("If-None-Match") == "*":
		w.WriteHeader(http.StatusPreconditionFailed)
		_, _ = io.WriteString(w, "<Error><Code>PreconditionFailed</Code></Error>")
	case r.Method == http.MethodPut:
		if b.objects == nil {
			b.objects = map[string][]byte{}
		}
		b.objects[key] = body
	case r.Method == http.MethodDelete:
		delete(b.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusNotImplemented)
	}
}

func (b *bucket) list(w http.ResponseWriter, prefix, after string) {
	type line struct {
		Key          string
		LastModified string
		Size         int
	}
	var page struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []line
	}
	for key, body := range b.objects {
		if strings.HasPrefix(key, prefix) && key > after {
			page.Contents = append(page.Contents, line{key, time.Now().UTC().Format(time.RFC3339), len(body)})
		}
	}
	slices.SortFunc(page.Contents, func(a, b line) int { return strings.Compare(a.Key, b.Key) })
	_ = xml.NewEncoder(w).Encode(page) // who does not read it has gone
}
