package gcs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/store"
)

func TestEveryAnswerHasItsMeaning(t *testing.T) {
	var said faulttest.Sayings
	for _, c := range []struct {
		status          int
		reason, message string
		write, read     error // what it is; nil: a fault of kind
		kind            fault.Kind
		hint            string
	}{
		{412, "conditionNotMet", "", store.ErrExists, store.ErrExists, 0, ""},
		{429, "rateLimitExceeded", "slow", store.ErrBusy, store.ErrBusy, 0, ""},
		{403, "userRateLimitExceeded", "slow", store.ErrBusy, store.ErrBusy, 0, ""},
		{409, "conflict", "", store.ErrUnclear, store.ErrBusy, 0, ""},
		{408, "", "", store.ErrUnclear, store.ErrBusy, 0, ""},
		{500, "backendError", "", store.ErrUnclear, store.ErrBusy, 0, ""},
		{503, "", "", store.ErrUnclear, store.ErrBusy, 0, ""},
		{403, "forbidden", "a@b does not have storage.objects.create access", nil, nil, fault.Denied, "add-iam-policy-binding gs://b-1"},
		{401, "required", "Anonymous caller", nil, nil, fault.Denied, "gcloud auth application-default login"},
		{400, "userProjectMissing", "Bucket is a requester pays bucket", nil, nil, fault.Invalid, "GOOGLE_CLOUD_QUOTA_PROJECT"},
		{400, "invalid", "Provided CRC32C \"a\" doesn't match", store.ErrBusy, store.ErrBusy, 0, ""},
		{404, "notFound", "The specified bucket does not exist.", nil, nil, fault.Missing, "gcloud storage buckets create gs://b-1"},
		{302, "", "", nil, nil, fault.Invalid, ""},
		{400, "invalid", "what\n\x1b[31m is this", nil, nil, fault.Invalid, ""},
	} {
		f := newFake()
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.refuse(w, c.status, c.reason, c.message) })
		endpoint := serve(t, h)
		said.Hide(endpoint, "http://server")
		b := at(t, endpoint, "gs://b-1/p")
		_, readErr := b.Get(t.Context(), "k", 0, -1)
		for doing, got := range map[string][2]error{"create": {b.Create(t.Context(), "k", strings.NewReader("x")), c.write}, "get": {readErr, c.read}} {
			err, want := got[0], got[1]
			said.Error(fmt.Sprint(c.status, " ", c.reason, " ", doing), err)
			if want != nil && !errors.Is(err, want) || want == nil && (fault.KindOf(err) != c.kind || again(err)) {
				t.Errorf("%d %s: %s says %v", c.status, c.reason, doing, err)
			}
			if want != store.ErrUnclear && errors.Is(err, store.ErrUnclear) {
				t.Errorf("%d %s: %s is unclear: %v", c.status, c.reason, doing, err)
			}
			if !strings.Contains(fault.Hint(err), c.hint) {
				t.Errorf("%d %s: %s hints %q, want %q", c.status, c.reason, doing, fault.Hint(err), c.hint)
			}
			if strings.ContainsAny(err.Error(), "\n\x1b") || !strings.HasPrefix(err.Error(), doing+" k ") {
				t.Errorf("%d %s: %q is not one plain line that says what was done", c.status, c.reason, err)
			}
		}
	}
	said.Compare(t, "answers")
}

func TestWhoseConnectionIsRefusedDidNothing(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	b := at(t, server.URL, "gs://b-1")
	if err := b.Create(t.Context(), "k", strings.NewReader("x")); !errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrUnclear) {
		t.Errorf("create says %v", err)
	}
}

func TestAStrangersCertificateIsRefused(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = nil
	server.StartTLS()
	defer server.Close()
	b, err := Open(t.Context(), "gs://b-1", Options{Endpoint: server.URL, Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), "k"); fault.KindOf(err) != fault.Denied || again(err) {
		t.Errorf("delete says %v", err)
	}
}

func TestAnEarlierRequestMayStillLand(t *testing.T) {
	f := newFake()
	denied := func(w http.ResponseWriter, r *http.Request) { f.refuse(w, 403, "forbidden", "no") }
	s := &script{server: f, steps: []http.HandlerFunc{answer(503), denied}}
	b := at(t, serve(t, s), "gs://b-1")
	err := b.Create(t.Context(), "k", strings.NewReader("x"))
	if !errors.Is(err, store.ErrUnclear) || fault.KindOf(err) != fault.Denied {
		t.Errorf("says %v, and the first one may still land", err)
	}
	s.steps = []http.HandlerFunc{loseReply(f), nil}
	if err := b.Create(t.Context(), "k2", strings.NewReader("x")); !errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrUnclear) {
		t.Errorf("says %v: the key holds an object, so nothing lands on it", err)
	}
}

func TestOpenTakesPlacesAndNothingElse(t *testing.T) {
	var said faulttest.Sayings
	t.Cleanup(func() { said.Compare(t, "places") })
	for place, want := range map[string]string{
		"gs://b-1": "gs://b-1", "gs://b-1/": "gs://b-1", "gs://b-1/p": "gs://b-1/p", "gs://b_1.example.com/p/q/": "gs://b_1.example.com/p/q",
		"gs://": "", "gs:///p": "", "gs://B/p": "", "gs://ab": "", "gs://-ab": "", "gs://b-1/../x": "", "gs://b-1//p": "", "gs://b-1/a b": "",
		"gs://b-1?account=a@b.c&anonymous=true": "", "gs://b-1?account=arn:aws:iam::1:role/x": "", "gs://b-1?account=../x@y": "", "gs://b-1?endpoint=ftp://h": "",
		"gs://b-1/p?account=a@p.iam.gserviceaccount.com": "gs://b-1/p?account=a@p.iam.gserviceaccount.com", "gs://b-1?anonymous=true&project=x": "gs://b-1?anonymous=true&project=x",
		"gs://b-1?endpoint=http://h:1": "gs://b-1?endpoint=http://h:1", "gs://b-1?anonymous=true&endpoint=https://h": "gs://b-1?anonymous=true&endpoint=https://h",
		"gs://b-1?x=y": "", "s3://b-1": "", "b-1": "", "gs://b-1/" + strings.Repeat("x", 123): "", "gs://b-1/" + strings.Repeat("x", 122): "gs://b-1/" + strings.Repeat("x", 122),
	} {
		b, err := Open(t.Context(), place, Options{})
		if want == "" {
			said.Error(place, err)
		}
		switch {
		case want == "" && (fault.KindOf(err) != fault.Invalid || err == nil || fault.Hint(err) == ""):
			t.Errorf("%q: %v", place, err)
		case want != "" && (err != nil || b.String() != want):
			t.Errorf("%q is called %v, %v", place, b, err)
		}
	}
	for _, text := range []string{"gs://AKIA:hush@bucket/x", "gs://AKIA:hu/sh+hush@bucket", "gs://bucket?endpoint=http://me:hush@h",
		"gs://bucket/x/https://u:hush@h", "gs://bucket/p&endpoint=http://u:hush@h", "gs://bucket?http://u:hush@h", "gs://bucket?endpoint=u:hush@h:1/x"} {
		if _, err := parse(text, Options{}); err == nil || strings.Contains(err.Error()+fault.Hint(err), "hush") {
			t.Errorf("%s: %v", text, err) // a key typed where none belongs is a real one
		}
	}
	for endpoint, want := range map[string]string{"": home, "h:1": "http://h:1", "https://h": "https://h", "http://h:1/": "http://h:1",
		"ftp://h": "", "http://": "", "http://u:p@h": "", "http://h/x": "", "http://h?x": ""} {
		if got, err := parseEndpoint(endpoint); got != want || (want == "") != (err != nil) {
			t.Errorf("endpoint %q is %q, %v", endpoint, got, err)
		}
	}
}

// A server that takes a request and then says nothing, on a network of pipes, in
// time that does not pass by itself.
func TestARequestInWhichNothingMovesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := Open(t.Context(), "gs://b-1", Options{Endpoint: "http://silent"})
		if err != nil {
			t.Fatal(err)
		}
		silent := google.Transport()
		silent.Proxy = nil
		dialed := 0
		silent.DialContext = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			dialed++
			go func() { // until the client hangs up
				buf := make([]byte, 4096)
				for {
					if _, err := theirs.Read(buf); err != nil {
						theirs.Close()
						return
					}
				}
			}()
			return ours, nil
		}
		b.conn.client = newClient(silent)
		begun := time.Now()
		err = b.Put(t.Context(), "beat", strings.NewReader("x"))
		if !errors.Is(err, store.ErrUnclear) || !strings.Contains(fmt.Sprint(err), "nothing moves for 15s") {
			t.Errorf("says %v", err)
		}
		if took := time.Since(begun); dialed != tries || took < tries*15*time.Second || took > tries*18*time.Second {
			t.Errorf("%d tries took %v", dialed, took)
		}
		silent.CloseIdleConnections()
		synctest.Wait()
	})
}

func FuzzParseContentRange(f *testing.F) {
	for _, s := range []string{"bytes 3-6/10", "bytes */10", "bytes 0-0/1", "bytes -1-2/3", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		first, end, total, err := parseContentRange(s)
		if err == nil && (first < 0 || end <= first || total < end) {
			t.Errorf("%q is %d to %d of %d", s, first, end, total)
		}
	})
}

func FuzzOpen(f *testing.F) {
	for _, s := range []string{"gs://b-1", "gs://b-1/p/q/", "gs://b-1/../x", "gs://b-1/%2e%2e", "gs://b-1?account=a@b.c&project=p", "gs://b-1?endpoint=h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := Open(t.Context(), s, Options{})
		if err != nil {
			return
		}
		again, err := Open(t.Context(), b.String(), Options{})
		if err != nil || again.String() != b.String() || again.name != b.name || again.prefix != b.prefix {
			t.Errorf("%q is %v, and that is %v, %v", s, b, again, err)
		}
	})
}

// A listing that ends before its last page, because the server answers no more, says that
// there is more: otherwise its reader would take the rest for absent (L6).
func TestAListingThatBreaksOffSaysThatThereIsMore(t *testing.T) {
	f := newFake()
	f.page = 2
	b := at(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("pageToken") {
			f.refuse(w, 503, "backendError", "later")
			return
		}
		f.ServeHTTP(w, r)
	})), "gs://b-1")
	for _, key := range []string{"a", "b", "c"} {
		if err := b.Create(t.Context(), key, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	found, more, err := b.List(t.Context(), "", "", 10)
	if err != nil || len(found) != 2 || !more {
		t.Errorf("of three objects it lists %d, more %t, %v", len(found), more, err)
	}
}
