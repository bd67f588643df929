// Package bucket has the buckets that sections measure with: one in memory, which is fast
// and counts requests, and a gateway before a real server, which counts them by their cost.
// It refuses to know what is measured. TestRealEverySectionCanBeMeasured of bench proves it.
package bucket

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Memory is an S3 server in memory with one bucket, as fast as one can be
// without leaving out what both sides depend on: it keeps bodies, tells their MD5 as
// the ETag, and lists in order. It looks at no signature. Both ours and the peer are
// measured against the same one.
type Memory struct {
	URL   string
	Asked atomic.Int64 // requests so far

	mu      sync.RWMutex
	objects map[string]kept
	uploads map[string]map[int]kept
	sorted  []string // the keys; nil: not sorted since the last new one
	serial  int
}

type kept struct {
	body []byte
	tag  string
	sum  string // its CRC32C as a header, if it came with one
	at   time.Time
}

// ServeMemory serves on a port of this machine until stop is called.
func ServeMemory() (b *Memory, stop func()) {
	b = &Memory{objects: map[string]kept{}, uploads: map[string]map[int]kept{}}
	server := httptest.NewServer(b)
	b.URL = server.URL
	return b, server.Close
}

// RemoveAll takes all objects away.
func (b *Memory) RemoveAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects, b.uploads, b.sorted = map[string]kept{}, map[string]map[int]kept{}, nil
}

// SizeBelow is how many objects, and bytes in them, are below a prefix.
func (b *Memory) SizeBelow(prefix string) (objects int, bytes int64) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for key, o := range b.objects {
		if strings.HasPrefix(key, prefix) {
			objects, bytes = objects+1, bytes+int64(len(o.body))
		}
	}
	return objects, bytes
}

func (b *Memory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.Asked.Add(1)
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodGet && key == "":
		b.listObjects(w, q)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		b.getObject(w, r, key)
	case r.Method == http.MethodDelete:
		b.mu.Lock()
		delete(b.objects, key)
		b.sorted = nil
		b.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut:
		b.putObject(w, r, key, q)
	case r.Method == http.MethodPost && q.Has("uploads"):
		b.mu.Lock()
		b.serial++
		id := strconv.Itoa(b.serial)
		b.uploads[id] = map[int]kept{}
		b.mu.Unlock()
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><Bucket>bench</Bucket><Key>%s</Key><UploadId>%s</UploadId></InitiateMultipartUploadResult>", key, id)
	case r.Method == http.MethodPost && q.Has("uploadId"):
		b.completeUpload(w, r, key, q.Get("uploadId"))
	default:
		w.WriteHeader(http.StatusNotImplemented)
	}
}

func (b *Memory) putObject(w http.ResponseWriter, r *http.Request, key string, q url.Values) {
	if r.ContentLength < 0 {
		w.WriteHeader(http.StatusLengthRequired)
		return
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(r.Body, body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	sum := md5.Sum(body)
	o := kept{body: body, tag: hex.EncodeToString(sum[:]), sum: r.Header.Get("X-Amz-Checksum-Crc32c"), at: time.Now()}
	b.mu.Lock()
	if parts := b.uploads[q.Get("uploadId")]; parts != nil {
		number, _ := strconv.Atoi(q.Get("partNumber"))
		parts[number] = o
	} else if _, held := b.objects[key]; held && r.Header.Get("If-None-Match") == "*" {
		b.mu.Unlock()
		w.WriteHeader(http.StatusPreconditionFailed)
		fmt.Fprint(w, "<Error><Code>PreconditionFailed</Code></Error>")
		return
	} else {
		b.keepObject(key, o)
	}
	b.mu.Unlock()
	w.Header().Set("ETag", `"`+o.tag+`"`)
}

func (b *Memory) keepObject(key string, o kept) {
	if _, held := b.objects[key]; !held {
		b.sorted = nil
	}
	b.objects[key] = o
}

func (b *Memory) completeUpload(w http.ResponseWriter, r *http.Request, key, id string) {
	_, _ = io.Copy(io.Discard, r.Body) // all parts there are
	b.mu.Lock()
	parts := b.uploads[id]
	delete(b.uploads, id)
	b.mu.Unlock()
	var all []byte
	for _, n := range slices.Sorted(maps.Keys(parts)) {
		if all == nil {
			all = make([]byte, 0, len(parts)*len(parts[n].body))
		}
		all = append(all, parts[n].body...)
	}
	b.mu.Lock()
	b.keepObject(key, kept{body: all, tag: fmt.Sprintf("%032d-%d", 0, len(parts)), sum: r.Header.Get("X-Amz-Checksum-Crc32c"), at: time.Now()})
	b.mu.Unlock()
	fmt.Fprintf(w, "<CompleteMultipartUploadResult><Key>%s</Key><ETag>%032d-%d</ETag></CompleteMultipartUploadResult>", key, 0, len(parts))
}

func (b *Memory) getObject(w http.ResponseWriter, r *http.Request, key string) {
	b.mu.RLock()
	o, held := b.objects[key]
	b.mu.RUnlock()
	if !held {
		w.WriteHeader(http.StatusNotFound)
		if r.Method == http.MethodGet {
			fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
		}
		return
	}
	h := w.Header()
	h.Set("ETag", `"`+o.tag+`"`)
	h.Set("Last-Modified", o.at.UTC().Format(http.TimeFormat))
	h.Set("Content-Type", "application/octet-stream")
	body := o.body
	status := http.StatusOK
	var from, to int64
	if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); n > 0 && from < int64(len(body)) {
		if n == 1 || to >= int64(len(body)) {
			to = int64(len(body)) - 1
		}
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(body)))
		body, status = body[from:to+1], http.StatusPartialContent
	} else if o.sum != "" {
		h.Set("X-Amz-Checksum-Crc32c", o.sum)
		h.Set("X-Amz-Checksum-Type", "FULL_OBJECT")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body)
	}
}

type listing struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	IsTruncated           bool
	KeyCount              int
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listed
}

type listed struct {
	Key, LastModified, ETag string
	Size                    int
	StorageClass            string
}

func (b *Memory) listObjects(w http.ResponseWriter, q url.Values) {
	b.mu.Lock()
	if b.sorted == nil {
		b.sorted = slices.Sorted(maps.Keys(b.objects))
	}
	keys := b.sorted
	b.mu.Unlock()
	after := max(q.Get("start-after"), q.Get("continuation-token"))
	prefix := q.Get("prefix")
	from, _ := slices.BinarySearch(keys, max(prefix, after))
	var l listing
	b.mu.RLock()
	for _, key := range keys[from:] {
		if key <= after {
			continue
		}
		if !strings.HasPrefix(key, prefix) {
			break
		}
		if len(l.Contents) == 1000 {
			l.IsTruncated, l.NextContinuationToken = true, l.Contents[999].Key
			break
		}
		o := b.objects[key]
		l.Contents = append(l.Contents, listed{Key: key, LastModified: o.at.UTC().Format("2006-01-02T15:04:05" + ".000Z"),
			ETag: `"` + o.tag + `"`, Size: len(o.body), StorageClass: "STANDARD"})
	}
	b.mu.RUnlock()
	l.KeyCount = len(l.Contents)
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(l)
}
