// Package gcs keeps objects in a bucket of Google Cloud Storage, through its JSON
// API and net/http: one condition on a write, ifGenerationMatch=0, is all that a
// log needs, and Google's own client links 30 MB for it.
//
// What is sent carries its CRC32C, which the server checks before the object
// appears; what is read whole is checked again here. A large body goes up in a
// session that is taken up where it broke off, and so does a download.
//
// It refuses to know what the objects are, and how buckets are made. storetest
// proves it: over a strict fake, over the same one behind a proxy that loses,
// cuts and refuses, and over a real server.
package gcs

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

const (
	scheme = "gs://"
	home   = "https://storage.googleapis.com"
	// maxPrefix leaves store.MaxKey below the 1,024 bytes of a name, slash included.
	maxPrefix = 1024 - store.MaxKey - 1
)

// Options say how to reach a bucket. The zero value is right for most people.
type Options struct {
	// Endpoint is a server's scheme and host. Empty: that of STORAGE_EMULATOR_HOST
	// (which is asked without credentials), or else Google's. No credential ever
	// goes to an http:// one.
	Endpoint string
	// Anonymous asks without credentials: enough to read a public bucket.
	Anonymous bool
	// Foreign takes the bucket as it is: names that no key may have are listed,
	// read and written too (store.CheckName).
	Foreign bool
	// Unsigned allows to ask without credentials where this machine has none, as
	// for public buckets, and is told once when that begins. Nil: such requests fail.
	Unsigned func()
	// Project is charged for the requests, as buckets whose requester pays want
	// it. Empty: GOOGLE_CLOUD_QUOTA_PROJECT, or what the credentials say.
	Project string
	// Clock is waited by. Nil: store.System.
	Clock store.Clock
}

// Bucket is a prefix of a bucket of Google Cloud Storage. Any number of them, in
// any number of processes and machines, may share one.
type Bucket struct {
	name     string // of the bucket
	prefix   string // before every key; ends in a slash unless it is empty
	endpoint string
	project  string
	clock    store.Clock
	client   *http.Client
	keys     *keys // nil: anonymous
	patience func(size int64) time.Duration
	foreign  bool
	unsigned struct {
		say  func() // nil: never
		once sync.Once
	}
}

var _ store.Bucket = (*Bucket)(nil)

// Open names a place, "gs://bucket" or "gs://bucket/prefix". It sends nothing:
// credentials are looked for, and the bucket is met, by the first request. ctx
// only stops Open itself.
func Open(ctx context.Context, place string, o Options) (*Bucket, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	name, prefix, err := split(place)
	if err != nil {
		return nil, err
	}
	if o.Endpoint == "" {
		o.Endpoint = os.Getenv("STORAGE_EMULATOR_HOST")
		o.Anonymous = o.Anonymous || o.Endpoint != ""
	}
	endpoint, err := parseEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if o.Project == "" {
		o.Project = os.Getenv("GOOGLE_CLOUD_QUOTA_PROJECT")
	}
	if o.Clock == nil {
		o.Clock = store.System
	}
	b := &Bucket{name: name, prefix: prefix, endpoint: endpoint, project: o.Project, clock: o.Clock,
		client: newClient(transport()), patience: patience, foreign: o.Foreign}
	b.unsigned.say = o.Unsigned
	if !o.Anonymous && strings.HasPrefix(endpoint, "https:") {
		b.keys = newKeys(o.Clock, find)
	}
	return b, nil
}

// split takes a place apart. The prefix is held to the rules of a key: what is
// below it then is too, and the whole fits into a name.
func split(place string) (name, prefix string, err error) {
	rest, ok := strings.CutPrefix(place, scheme)
	name, prefix, _ = strings.Cut(rest, "/")
	const hint = "Write it as gs://BUCKET/PREFIX: --store gs://my-bucket/drover."
	if !ok || !isBucketName(name) {
		return "", "", fault.New(fault.Invalid, hint, "open store %q: no name of a bucket", place)
	}
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix == "" {
		return name, "", nil
	}
	if err := store.CheckKey(prefix); err != nil {
		return "", "", fault.Wrap(err, fault.Invalid, hint, "open store %q", place)
	}
	if len(prefix) >= maxPrefix {
		return "", "", fault.New(fault.Invalid, hint, "open store %q: its prefix is longer than %d bytes", place, maxPrefix-1)
	}
	return name, prefix + "/", nil
}

// isBucketName lets through what Google may have: 3 to 63 of [a-z0-9_.-], longer
// with dots, a letter or digit at both ends.
func isBucketName(s string) bool {
	if len(s) < 3 || len(s) > 222 {
		return false
	}
	plain := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	for i := range len(s) {
		if !plain(s[i]) && !strings.ContainsRune("_.-", rune(s[i])) {
			return false
		}
	}
	return plain(s[0]) && plain(s[len(s)-1])
}

func parseEndpoint(s string) (string, error) {
	if s == "" {
		return home, nil
	}
	whole := s
	if !strings.Contains(s, "://") {
		whole = "http://" + s // as Google's clients read STORAGE_EMULATOR_HOST
	}
	u, err := url.Parse(whole)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "http" && u.Scheme != "https" {
		return "", fault.New(fault.Invalid, "Write it as http://HOST:PORT: export STORAGE_EMULATOR_HOST=http://127.0.0.1:4443.",
			"open store: %q is no endpoint", s)
	}
	return u.Scheme + "://" + u.Host, nil
}

// String is the place, as it is typed after --store.
func (b *Bucket) String() string {
	return scheme + b.name + strings.TrimSuffix("/"+b.prefix, "/")
}

// Policy is the command that grants what a store's users need, agents or not: no
// narrower role replaces objects, as heartbeats are, and a condition on names
// does not reach listings.
func (b *Bucket) Policy() string {
	return "gcloud storage buckets add-iam-policy-binding " + scheme + b.name + " --member=serviceAccount:NAME@PROJECT.iam.gserviceaccount.com --role=roles/storage.objectUser\n"
}

// Create implements store.Bucket.
func (b *Bucket) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	return b.write(ctx, "create", key, body, url.Values{"ifGenerationMatch": {"0"}})
}

// Put implements store.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return b.write(ctx, "put", key, body, url.Values{})
}

// Delete implements store.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := b.check(key); err != nil {
		return err
	}
	resp, err := b.do(ctx, &call{doing: "delete " + key + " in " + b.String(), landed: always, names: true, absent: true,
		method: http.MethodDelete, url: b.object(key)})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// check refuses what is no key here.
func (b *Bucket) check(key string) error {
	if b.foreign {
		return store.CheckName(key)
	}
	return store.CheckKey(key)
}

func (b *Bucket) checkPrefix(prefix string) error {
	if b.foreign && prefix != "" {
		return store.CheckName(prefix)
	}
	return store.CheckPrefix(prefix)
}

// object is the address of key.
func (b *Bucket) object(key string) string {
	return b.endpoint + "/storage/v1/b/" + b.name + "/o/" + url.PathEscape(b.prefix+key)
}

// uploads is the address that takes new objects.
func (b *Bucket) uploads(q url.Values) string {
	return b.endpoint + "/upload/storage/v1/b/" + b.name + "/o?" + q.Encode()
}

func (b *Bucket) doing(verb, key string) string { return fmt.Sprintf("%s %s in %s", verb, key, b) }
