package gcs

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fake is Google Cloud Storage as its reference describes it, as far as this
// package asks, and strict: what the reference does not allow is refused, also
// where Google would let it pass. storetest proves it and the bucket together;
// TestReal... holds it against a server that others wrote.
type fake struct {
	bucket string
	token  string // wanted of every request to an object; empty: none is needed
	page   int    // the longest listing; 0: 1,000
	keep   int64  // of each part of a session that breaks off, a multiple of this stays; 0: 256 KiB

	mu       sync.Mutex
	serial   int64
	objects  map[string]held
	sessions map[string]*session
	asked    map[string]int // requests, by what they are
	payers   map[string]int // requests, by the project that pays
}

type held struct {
	body       []byte // never changed
	generation int64
	time       time.Time
}

type session struct {
	name    string
	create  bool
	size    int64
	crc     string
	body    []byte
	done    *held
	retired bool
}

func newFake() *fake {
	return &fake{bucket: "b-1", objects: map[string]held{}, sessions: map[string]*session{}, asked: map[string]int{}, payers: map[string]int{}}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	objects := "/storage/v1/b/" + f.bucket + "/o"
	f.mu.Lock()
	f.payers[r.Header.Get("X-Goog-User-Project")]++
	f.mu.Unlock()
	if id := r.URL.Query().Get("upload_id"); id != "" && path == "/upload"+objects {
		f.resume(w, r, id)
		return
	}
	if f.token != "" && r.Header.Get("Authorization") != "Bearer "+f.token {
		f.refuse(w, 401, "authError", "Invalid Credentials")
		return
	}
	object, isObject := strings.CutPrefix(path, objects+"/")
	name, err := url.PathUnescape(object)
	switch {
	case !strings.Contains(path+"/", "/b/"+f.bucket+"/"):
		f.refuse(w, 404, "notFound", "The specified bucket does not exist.")
	case isObject && (err != nil || strings.Contains(object, "/")):
		f.refuse(w, 400, "invalid", "an object's name has its slashes as %2F")
	case path == "/upload"+objects && r.Method == "POST":
		f.insert(w, r)
	case path == objects && r.Method == "GET":
		f.list(w, r)
	case isObject && r.Method == "GET" && r.URL.Query().Get("alt") == "":
		f.describe(w, r, name)
	case isObject && r.Method == "GET":
		f.get(w, r, name)
	case isObject && r.Method == "DELETE":
		f.delete(w, r, name)
	default:
		f.refuse(w, 404, "notFound", "Not Found")
	}
}

// query checks that a request needs no packages unknown.
func (f *fake) query(w http.ResponseWriter, r *http.Request, known ...string) (url.Values, bool) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	for k := range q {
		if !slices.Contains(known, k) || len(q[k]) != 1 {
			err = fmt.Errorf("unknown or repeated parameter %s", k)
		}
	}
	if err != nil {
		f.refuse(w, 400, "badRequest", err.Error())
	}
	return q, err == nil
}

func (f *fake) count(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[what]++
}

func (f *fake) counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.asked)
}

func (f *fake) refuse(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": status, "message": message,
		"errors": []any{map[string]any{"message": message, "domain": "global", "reason": reason}}}})
}

func sum32(body []byte) string {
	sum := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

func (f *fake) insert(w http.ResponseWriter, r *http.Request) {
	q, ok := f.query(w, r, "uploadType", "ifGenerationMatch", "fields")
	if !ok {
		return
	}
	condition, conditional := q["ifGenerationMatch"]
	if conditional && condition[0] != "0" {
		f.refuse(w, 400, "invalid", "only 0 is expected here")
		return
	}
	f.count(q.Get("uploadType"))
	switch q.Get("uploadType") {
	case "multipart":
		f.inOne(w, r, conditional)
	case "resumable":
		f.begin(w, r, conditional)
	default:
		f.refuse(w, 400, "invalid", "Upload type is not supported.")
	}
}

// describe reads what an object is to be.
func describe(r io.Reader) (name, crc string, err error) {
	var d description
	strict := json.NewDecoder(r)
	strict.DisallowUnknownFields()
	if err := strict.Decode(&d); err != nil {
		return "", "", err
	}
	if d.Name == "" || len(d.Name) > 1024 || d.CacheControl != "no-store" || d.ContentType == "" || d.CRC32C == "" {
		return "", "", fmt.Errorf("description %+v is not whole", d)
	}
	return d.Name, d.CRC32C, nil
}

func (f *fake) inOne(w http.ResponseWriter, r *http.Request, conditional bool) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/related" {
		f.refuse(w, 400, "badContent", "not multipart/related")
		return
	}
	var name, crc string
	var body []byte
	parts := multipart.NewReader(r.Body, params["boundary"])
	p, err := parts.NextRawPart()
	if err == nil {
		name, crc, err = describe(p)
	}
	if err == nil {
		p, err = parts.NextRawPart()
	}
	if err == nil {
		body, err = io.ReadAll(p)
	}
	if err == nil {
		if _, last := parts.NextRawPart(); last != io.EOF {
			err = fmt.Errorf("the last boundary is missing: %w", last)
		}
	}
	if err != nil {
		f.refuse(w, 400, "badContent", err.Error())
		return
	}
	f.mu.Lock()
	kept, status, reason := f.store(name, crc, body, conditional)
	f.mu.Unlock()
	f.answer(w, kept, status, reason)
}

// store is the one moment at which an object appears. The caller holds mu.
func (f *fake) store(name, crc string, body []byte, conditional bool) (kept *held, status int, reason string) {
	if crc != sum32(body) {
		return nil, 400, fmt.Sprintf("Provided CRC32C %q doesn't match calculated CRC32C %q.", crc, sum32(body))
	}
	if _, there := f.objects[name]; there && conditional {
		return nil, 412, "At least one of the pre-conditions you specified did not hold."
	}
	f.serial++
	kept = &held{body: body, generation: f.serial, time: time.Now()}
	f.objects[name] = *kept
	return kept, 200, ""
}

func (f *fake) answer(w http.ResponseWriter, kept *held, status int, reason string) {
	if kept == nil {
		f.refuse(w, status, map[int]string{400: "invalid", 412: "conditionNotMet"}[status], reason)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_ = json.NewEncoder(w).Encode(map[string]string{"size": strconv.Itoa(len(kept.body)), "crc32c": sum32(kept.body)})
}

func (f *fake) begin(w http.ResponseWriter, r *http.Request, conditional bool) {
	name, crc, err := describe(r.Body)
	size, err2 := strconv.ParseInt(r.Header.Get("X-Upload-Content-Length"), 10, 64)
	if err != nil || err2 != nil {
		f.refuse(w, 400, "invalid", fmt.Sprint(err, err2))
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serial++
	id := fmt.Sprintf("session-%d", f.serial)
	f.sessions[id] = &session{name: name, crc: crc, create: conditional, size: size}
	// the host it takes itself for is not the one it is reached by
	w.Header().Set("Location", "https://storage.googleapis.com/upload/storage/v1/b/"+f.bucket+"/o?uploadType=resumable&upload_id="+id)
}

// resume takes the next part of a session, or says what it has.
func (f *fake) resume(w http.ResponseWriter, r *http.Request, id string) {
	if r.Header.Get("Authorization") != "" {
		f.refuse(w, 400, "invalid", "the address of a session is a credential: it needs no other")
		return
	}
	f.mu.Lock()
	s := f.sessions[id]
	if s == nil || s.retired {
		f.mu.Unlock()
		f.refuse(w, 404, "notFound", "no such session")
		return
	}
	if r.Method == http.MethodDelete {
		s.retired = true
		f.asked["abandoned"]++
		f.mu.Unlock()
		w.WriteHeader(499)
		return
	}
	at := int64(len(s.body))
	f.mu.Unlock()
	span := r.Header.Get("Content-Range")
	if span == fmt.Sprintf("bytes */%d", s.size) && r.ContentLength == 0 {
		f.count("status")
		f.progress(w, s)
		return
	}
	if want := fmt.Sprintf("bytes %d-%d/%d", at, s.size-1, s.size); span != want || r.ContentLength != s.size-at {
		f.refuse(w, 400, "invalid", fmt.Sprintf("%d bytes are %q, and %q is wanted", r.ContentLength, span, want))
		return
	}
	f.count("part")
	body, err := io.ReadAll(r.Body)
	f.mu.Lock()
	if int64(len(s.body)) == at && s.done == nil {
		if err != nil {
			keep := f.keep
			if keep == 0 {
				keep = 256 << 10
			}
			body = body[:int64(len(body))/keep*keep]
		}
		s.body = append(s.body[:at:at], body...)
	}
	f.mu.Unlock()
	f.progress(w, s)
}

// progress ends a session that has all, and says where others stand.
func (f *fake) progress(w http.ResponseWriter, s *session) {
	f.mu.Lock()
	if s.done == nil && int64(len(s.body)) == s.size {
		kept, status, reason := f.store(s.name, s.crc, s.body, s.create)
		s.done, s.retired = kept, kept == nil
		if kept == nil {
			f.mu.Unlock()
			f.answer(w, nil, status, reason)
			return
		}
	}
	done, at := s.done, len(s.body)
	f.mu.Unlock()
	if done != nil {
		f.answer(w, done, 200, "")
		return
	}
	if at > 0 {
		w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", at-1))
	}
	w.WriteHeader(statusIncomplete)
}

func (f *fake) describe(w http.ResponseWriter, r *http.Request, name string) {
	if _, ok := f.query(w, r, "fields"); !ok {
		return
	}
	f.count("describe")
	f.mu.Lock()
	o, there := f.objects[name]
	f.mu.Unlock()
	if !there {
		f.refuse(w, 404, "notFound", "No such object: "+f.bucket+"/"+name)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_ = json.NewEncoder(w).Encode(map[string]any{"crc32c": sum32(o.body), "generation": strconv.FormatInt(o.generation, 10),
		"size": strconv.Itoa(len(o.body)), "updated": o.time.UTC()})
}

func (f *fake) get(w http.ResponseWriter, r *http.Request, name string) {
	q, ok := f.query(w, r, "alt", "generation")
	if !ok {
		return
	}
	if q.Get("alt") != "media" || r.Header.Get("Accept-Encoding") != "gzip" {
		f.refuse(w, 400, "invalid", "not a download as it is stored")
		return
	}
	f.count("get")
	f.mu.Lock()
	o, there := f.objects[name]
	f.mu.Unlock()
	if g := q.Get("generation"); !there || g != "" && g != strconv.FormatInt(o.generation, 10) {
		w.WriteHeader(404)
		fmt.Fprintf(w, "No such object: %s/%s", f.bucket, name) // no JSON for a download
		return
	}
	h := w.Header()
	h.Set("X-Goog-Generation", strconv.FormatInt(o.generation, 10))
	h.Set("X-Goog-Hash", "crc32c="+sum32(o.body))
	h.Add("X-Goog-Hash", "md5=AAAA")
	h.Set("Content-Type", "application/octet-stream")
	size := int64(len(o.body))
	first, end, status := int64(0), size, 200
	if span := r.Header.Get("Range"); span != "" {
		from, to, _ := strings.Cut(strings.TrimPrefix(span, "bytes="), "-")
		var err error
		first, err = strconv.ParseInt(from, 10, 64)
		if err == nil && to != "" {
			end, err = strconv.ParseInt(to, 10, 64)
			end++
		}
		if err != nil || end <= first && first < size || end < 0 {
			f.refuse(w, 400, "invalid", "range "+span)
			return
		}
		if end = min(end, size); first >= size {
			h.Set("Content-Range", fmt.Sprintf("bytes */%d", size))
			w.WriteHeader(416)
			return
		}
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, end-1, size))
		status = 206
	}
	h.Set("Content-Length", strconv.FormatInt(end-first, 10))
	w.WriteHeader(status)
	_, _ = w.Write(o.body[first:end])
}

func (f *fake) delete(w http.ResponseWriter, r *http.Request, name string) {
	if _, ok := f.query(w, r); !ok {
		return
	}
	f.count("delete")
	f.mu.Lock()
	_, there := f.objects[name]
	delete(f.objects, name)
	f.mu.Unlock()
	if !there {
		f.refuse(w, 404, "notFound", "No such object: "+f.bucket+"/"+name)
		return
	}
	w.WriteHeader(204)
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	q, ok := f.query(w, r, "prefix", "startOffset", "maxResults", "pageToken", "fields")
	if !ok {
		return
	}
	limit, err := strconv.Atoi(q.Get("maxResults"))
	if err != nil || limit < 1 || limit > 1000 {
		f.refuse(w, 400, "invalid", "maxResults")
		return
	}
	for _, v := range q {
		if strings.ToValidUTF8(v[0], "") != v[0] {
			f.refuse(w, 400, "invalid", "not UTF-8")
			return
		}
	}
	f.count("list")
	if f.page > 0 {
		limit = min(limit, f.page)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var items []any
	last, next := "", ""
	for _, name := range slices.Sorted(maps.Keys(f.objects)) {
		if !strings.HasPrefix(name, q.Get("prefix")) || name < q.Get("startOffset") || name <= q.Get("pageToken") {
			continue
		}
		if len(items) == limit {
			next = last
			break
		}
		o := f.objects[name]
		items = append(items, map[string]string{"name": name, "size": strconv.Itoa(len(o.body)), "updated": o.time.Format(time.RFC3339Nano)})
		last = name
	}
	answer := map[string]any{}
	if items != nil {
		answer["items"] = items
	}
	if next != "" {
		answer["nextPageToken"] = next
	}
	_ = json.NewEncoder(w).Encode(answer)
}
