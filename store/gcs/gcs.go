// Package gcs keeps objects in a bucket of Google Cloud Storage, through its JSON
// API and net/http: one condition on a write, ifGenerationMatch=0, is all that a
// log needs, and Google's own client links 30 MB for it.
//
// A body is sent with its CRC32C, which the server checks before the object appears; an object
// that is read whole is checked again here. A large body is sent in a session, which goes on
// where it broke off; so does a download.
//
// It refuses to know what the objects are, and how buckets are made. storetest
// proves it: over a strict fake, over the same one behind a proxy that loses,
// cuts and refuses, and over a real server.
package gcs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// Options say how to reach a bucket. The zero value is right for most people.
type Options struct {
	// Endpoint is a server's scheme and host. "": the server of STORAGE_EMULATOR_HOST (which
	// gets no credentials), or else Google's. A credential is never sent to an http:// server.
	Endpoint string
	// Account is the account of this machine to use: one that gcloud is signed in with, or
	// one that the machine has. "": the application default credentials.
	Account string
	// Anonymous sends requests without credentials: enough to read a public bucket.
	Anonymous bool
	// Foreign opens the bucket for names that drover does not make: names that no key may have
	// are listed, read and written too (store.CheckName).
	Foreign bool
	// Unsigned allows requests without credentials where this machine has none, as for public
	// buckets, and is called once when they begin. Nil: such requests fail.
	Unsigned func()
	// Project is charged for the requests, for requester-pays buckets. "":
	// GOOGLE_CLOUD_QUOTA_PROJECT, or the project that the credentials name.
	Project string
	// PassFile is the path of a file that Pass made. It is read again before its credential
	// ends and when that is refused; while the credential has ended, requests are busy. It
	// comes before all other credentials. "": none.
	PassFile string
	// Clock is the clock for waiting. Nil: store.System.
	Clock store.Clock
}

// Bucket is a prefix of a bucket of Google Cloud Storage. Any number of Buckets, in any number
// of processes and machines, may share it.
type Bucket struct {
	place
	conn *connection
}

var _ store.Bucket = (*Bucket)(nil)

// Open reads a URL, "gs://bucket" or "gs://bucket/prefix", with what Options has as a query
// (?account=, ?anonymous=true, ?endpoint=, ?project=); where the URL and o differ, the URL
// counts. It sends nothing: the first request looks for credentials and shows whether the
// bucket exists. ctx only stops Open itself.
func Open(ctx context.Context, text string, o Options) (*Bucket, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	p, err := parse(text, o)
	if err != nil {
		return nil, err
	}
	c := &connection{place: p, clock: o.Clock, client: newClient(google.Transport()), patience: patience}
	if c.clock == nil {
		c.clock = store.System
	}
	c.source = google.Source{Account: p.given.Account, Clock: c.clock}
	switch {
	case p.given.Anonymous || !strings.HasPrefix(p.endpoint, "https:"):
	case o.PassFile != "":
		file := google.FileSource{Path: o.PassFile, Clock: c.clock}
		if _, err := file.Read(); err != nil {
			return nil, fault.Wrap(err, fault.Invalid, renewHint, "open store %s: read the credential", p)
		}
		c.tokens = google.NewTokens(c.clock, tokenOf(file))
	default:
		c.tokens = google.NewTokens(c.clock, c.objectToken)
	}
	return &Bucket{place: p, conn: c}, nil
}

// Create implements store.Bucket.
func (b *Bucket) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	err := b.writeObject(ctx, "create", key, body, url.Values{"ifGenerationMatch": {"0"}})
	var no forbidden
	if errors.As(err, &no) && b.objectExists(ctx, key) {
		// A caller that may create and not replace may get "forbidden" for an existing object.
		return fmt.Errorf("%s: %w", b.describeRequest("create", key), store.ErrExists)
	}
	return err
}

func (b *Bucket) objectExists(ctx context.Context, key string) bool {
	r, err := b.Get(ctx, key, 0, 0)
	return err == nil && r.Close() == nil
}

// Put implements store.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return b.writeObject(ctx, "put", key, body, url.Values{})
}

// Delete implements store.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := b.checkKey(key); err != nil {
		return err
	}
	resp, err := b.conn.sendRequest(ctx, &call{doing: "delete " + key + " in " + b.String(), landed: always, names: true, absent: true,
		method: http.MethodDelete, url: b.objectURL(key)})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// checkKey refuses what is no key here.
func (b *Bucket) checkKey(key string) error {
	if b.given.Foreign {
		return store.CheckName(key)
	}
	return store.CheckKey(key)
}

func (b *Bucket) checkPrefix(prefix string) error {
	if b.given.Foreign && prefix != "" {
		return store.CheckName(prefix)
	}
	return store.CheckPrefix(prefix)
}
