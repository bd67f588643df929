// Package s3test is a small strict S3 server in memory, for tests: it refuses
// what a real one refuses, and can be made to behave like those that should be
// refused. Hostile goes in front of any server and loses what nets lose.
//
// It refuses to be a server for anything but tests: signatures are looked at,
// not computed; a real server does that in store/s3's real tests.
package s3test

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is one S3 server with one bucket. The fields are set before it is used.
type Server struct {
	Bucket string // the one there is
	Region string // requests signed for another are sent there; "": us-east-1
	Owner  string // the account's number; "": not looked at
	Key    string // the access key; "": "test"
	Public bool   // also unsigned requests may read

	Careless bool // looks at no If-None-Match, as rclone serve s3
	Pages    int  // keys in a page of a listing; 0: 1,000

	// Before may answer a request itself; then it returns true.
	Before func(w http.ResponseWriter, r *http.Request) bool

	mu      sync.Mutex
	token   string // the session token that is good; "": none is asked for
	objects map[string]object
	uploads map[string]*upload
	serial  int
	lines   []string
}

type object struct {
	body []byte
	at   time.Time
	tag  string
	sum  string // "": of an object that was sent without

	kind  string // of sum; "": CRC32C
	first int    // bytes of its first part; 0: it has none
}

func (o object) checksumKind() string { return cmp.Or(o.kind, "CRC32C") }

type upload struct {
	key   string
	parts map[int]object
}

// Expire makes token the only session token that is good from now on.
func (s *Server) Expire(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// Requests are the lines of the requests so far, with the headers that decide
// something; it begins anew.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := s.lines
	s.lines = nil
	return lines
}

// Uploads is how many multipart uploads are open.
func (s *Server) Uploads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.uploads)
}

// Parts is how many parts there are of the uploads that are open.
func (s *Server) Parts() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.uploads {
		n += len(u.parts)
	}
	return n
}

// DropUploads throws away what is open, as a lifecycle rule does.
func (s *Server) DropUploads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.uploads)
}

// Set puts an object there, whatever its key and without a checksum.
func (s *Server) Set(key, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putObject(key, []byte(body), "")
}

// SetSum puts an object there with a checksum of a kind, of all of it or of its parts,
// the first of which has so many bytes.
func (s *Server) SetSum(key, body, kind, sum string, first int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.putObject(key, []byte(body), sum)
	o.kind, o.first = kind, first
	s.objects[key] = o
}

// Rot changes an object and leaves its checksum as it was.
func (s *Server) Rot(key, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[key]
	o.body = []byte(body)
	s.objects[key] = o
}

// refusal is an answer that is none of 2xx.
type refusal struct {
	status    int
	code, say string
	region    string
}

var (
	noSuchKey    = &refusal{status: 404, code: "NoSuchKey", say: "The specified key does not exist."}
	noSuchUpload = &refusal{status: 404, code: "NoSuchUpload", say: "The specified upload does not exist."}
	precondition = &refusal{status: 412, code: "PreconditionFailed", say: "At least one of the pre-conditions you specified did not hold"}
	badDigest    = &refusal{status: 400, code: "BadDigest", say: "The checksum you specified did not match what we received."}
	denied       = &refusal{status: 403, code: "AccessDenied", say: "Access Denied"}
)

// Refuse writes a refusal as S3 does.
func Refuse(w http.ResponseWriter, status int, code, say string) {
	(&refusal{status: status, code: code, say: say}).writeRefusal(w)
}

func (f *refusal) writeRefusal(w http.ResponseWriter) {
	if f.region != "" {
		w.Header().Set("X-Amz-Bucket-Region", f.region)
	}
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("X-Amz-Request-Id", "TEST")
	w.WriteHeader(f.status)
	fmt.Fprintf(w, "<?xml version=\"1.0\"?>\n<Error><Code>%s</Code><Message>%s</Message><Region>%s</Region></Error>", f.code, f.say, f.region)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		Refuse(w, 400, "IncompleteBody", "You did not provide the number of bytes specified by the Content-Length header.")
		return
	}
	s.noteRequest(r)
	if s.Before != nil && s.Before(w, r) {
		return
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	refused := s.checkSignature(r)
	if refused == nil && bucket != s.Bucket {
		refused = &refusal{status: 404, code: "NoSuchBucket", say: "The specified bucket does not exist"}
	}
	if refused == nil {
		refused = intact(r, body)
	}
	if refused == nil {
		refused = s.answerRequest(w, r, key, body)
	}
	if refused != nil {
		refused.writeRefusal(w)
	}
}

// noteRequest keeps what decides: never dates, signatures or agents.
func (s *Server) noteRequest(r *http.Request) {
	line := r.Method + " " + r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		line += "?" + r.URL.RawQuery
	}
	for _, name := range []string{"Range", "If-Match", "If-None-Match", "X-Amz-Checksum-Crc32c", "X-Amz-Checksum-Type", "X-Amz-Expected-Bucket-Owner", "X-Amz-Mp-Object-Size"} {
		if v := r.Header.Get(name); v != "" {
			line += " " + name + ": " + v
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *Server) checkSignature(r *http.Request) *refusal {
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	region := s.Region
	if region == "" {
		region = "us-east-1"
	}
	if owner := r.Header.Get("X-Amz-Expected-Bucket-Owner"); owner != "" && s.Owner != "" && owner != s.Owner {
		return denied
	}
	auth, signed := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=")
	if !signed {
		if s.Public && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			return nil
		}
		return denied
	}
	key := s.Key
	if key == "" {
		key = "test"
	}
	scope := strings.Split(strings.SplitN(auth, ",", 2)[0], "/")
	switch {
	case len(scope) != 5 || scope[3] != "s3" || !strings.Contains(auth, "Signature="):
		return &refusal{status: 400, code: "AuthorizationHeaderMalformed", say: "The authorization header is malformed."}
	case scope[2] != region:
		return &refusal{status: 301, code: "PermanentRedirect", say: "The bucket is in another region.", region: region}
	case scope[0] != key:
		return &refusal{status: 403, code: "InvalidAccessKeyId", say: "The AWS Access Key Id you provided does not exist in our records."}
	case token != "" && r.Header.Get("X-Amz-Security-Token") != token:
		return &refusal{status: 400, code: "ExpiredToken", say: "The provided token has expired."}
	}
	return nil
}

// intact looks at everything that was said of the body.
func intact(r *http.Request, body []byte) *refusal {
	if r.Method == http.MethodPut && r.ContentLength < 0 {
		return &refusal{status: 411, code: "MissingContentLength", say: "You must provide the Content-Length HTTP header."}
	}
	if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return &refusal{status: 501, code: "NotImplemented", say: "A header you provided implies functionality that is not implemented"}
	}
	sum := sha256.Sum256(body)
	if said := r.Header.Get("X-Amz-Content-Sha256"); len(said) == 64 && said != hex.EncodeToString(sum[:]) {
		return &refusal{status: 400, code: "XAmzContentSHA256Mismatch", say: "The provided 'x-amz-content-sha256' header does not match what was computed."}
	}
	if said := r.Header.Get("X-Amz-Checksum-Crc32c"); r.Method == http.MethodPut && said != "" && said != checksum(body) {
		return badDigest
	}
	return nil
}

func checksum(body []byte) string {
	sum := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

func (s *Server) answerRequest(w http.ResponseWriter, r *http.Request, key string, body []byte) *refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodHead && key == "":
		return nil
	case r.Method == http.MethodGet && key == "" && q.Get("list-type") == "2":
		return s.listObjects(w, r)
	case r.Method == http.MethodGet && q.Has("uploadId"):
		return s.listParts(w, q)
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && key != "":
		return s.getObject(w, r, key)
	case r.Method == http.MethodDelete && q.Has("uploadId"):
		if s.uploads[q.Get("uploadId")] == nil {
			return noSuchUpload
		}
		delete(s.uploads, q.Get("uploadId"))
		w.WriteHeader(http.StatusNoContent)
		return nil
	case r.Method == http.MethodDelete && key != "":
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
		return nil
	case r.Method == http.MethodPut && q.Has("uploadId"):
		return s.putPart(w, r, body)
	case r.Method == http.MethodPut && key != "":
		if s.keyIsTaken(r, key) {
			return precondition
		}
		w.Header().Set("ETag", s.putObject(key, body, r.Header.Get("X-Amz-Checksum-Crc32c")).tag)
		return nil
	case r.Method == http.MethodPost && q.Has("uploads"):
		return s.beginUpload(w, key)
	case r.Method == http.MethodPost && q.Has("uploadId"):
		return s.completeUpload(w, r, key, body)
	}
	return &refusal{status: 501, code: "NotImplemented", say: "This server does not do that."}
}

func (s *Server) keyIsTaken(r *http.Request, key string) bool {
	_, held := s.objects[key]
	return held && !s.Careless && r.Header.Get("If-None-Match") == "*"
}

func (s *Server) putObject(key string, body []byte, sum string) object {
	if s.objects == nil {
		s.objects = map[string]object{}
	}
	o := object{body: body, at: time.Now(), tag: fmt.Sprintf("\"%x\"", md5.Sum(body)), sum: sum}
	s.objects[key] = o
	return o
}

func (s *Server) getObject(w http.ResponseWriter, r *http.Request, key string) *refusal {
	o, held := s.objects[key]
	if !held {
		return noSuchKey
	}
	if tag := r.Header.Get("If-Match"); tag != "" && tag != o.tag {
		return precondition
	}
	w.Header().Set("ETag", o.tag)
	w.Header().Set("Last-Modified", o.at.UTC().Format(http.TimeFormat))
	if n, err := strconv.Atoi(r.URL.Query().Get("partNumber")); err == nil && r.Method == http.MethodHead {
		if n != 1 || o.first == 0 {
			return &refusal{status: 416, code: "InvalidPartNumber", say: "The requested partnumber is not satisfiable"}
		}
		w.Header().Set("Content-Length", strconv.Itoa(o.first))
		w.WriteHeader(http.StatusPartialContent)
		return nil
	}
	if o.sum != "" && r.Header.Get("Range") == "" {
		w.Header().Set("X-Amz-Checksum-"+o.checksumKind(), o.sum)
		w.Header().Set("X-Amz-Checksum-Type", "FULL_OBJECT")
		if strings.Contains(o.sum, "-") {
			w.Header().Set("X-Amz-Checksum-Type", "COMPOSITE")
		}
	}
	if r.Header.Get("Range") != "" && len(o.body) == 0 {
		return &refusal{status: 416, code: "InvalidRange", say: "The requested range is not satisfiable"}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(o.body))
	return nil
}

type listing struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name, Prefix          string
	EncodingType          string
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []line
}

type line struct {
	Key          string
	LastModified string
	ETag         string
	Size         int
}

func (s *Server) listObjects(w http.ResponseWriter, r *http.Request) *refusal {
	q := r.URL.Query()
	after := q.Get("start-after")
	if t := q.Get("continuation-token"); t != "" {
		name, err := hex.DecodeString(t)
		if err != nil {
			return &refusal{status: 400, code: "InvalidArgument", say: "The continuation token provided is incorrect"}
		}
		after = string(name)
	}
	limit := 1000
	if s.Pages > 0 {
		limit = s.Pages
	}
	if n, err := strconv.Atoi(q.Get("max-keys")); err == nil {
		limit = min(limit, n)
	}
	var keys []string
	for key := range s.objects {
		if strings.HasPrefix(key, q.Get("prefix")) && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	l := listing{Name: s.Bucket, Prefix: q.Get("prefix"), EncodingType: q.Get("encoding-type")}
	if len(keys) > limit {
		keys, l.IsTruncated = keys[:limit], true
		l.NextContinuationToken = hex.EncodeToString([]byte(keys[limit-1]))
	}
	for _, key := range keys {
		o, name := s.objects[key], key
		if l.EncodingType == "url" {
			name = escape(key)
		}
		l.Contents = append(l.Contents, line{Key: name, LastModified: o.at.UTC().Format(time.RFC3339Nano), ETag: o.tag, Size: len(o.body)})
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(l) // a test that reads half of it says so
	return nil
}

// escape is as S3 does it: slashes stay.
func escape(key string) string {
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		if c == ' ' {
			b.WriteByte('+')
		} else if c > ' ' && c < 0x7f && !strings.ContainsRune("%+&<>", rune(c)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
