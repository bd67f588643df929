package s3_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/s3"
	"github.com/drover-run/drover/store/s3/s3test"
	"github.com/drover-run/drover/store/storetest"
)

var agents = store.Rights{Read: []string{"blobs/", "demo/"}, Create: []string{"blobs/"}, Write: []string{"demo/train/"}}

// key is the access key that signed a request.
func key(r *http.Request) string {
	_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	id, _, _ := strings.Cut(rest, "/")
	return id
}

// front is a server that is asked after before, which may answer itself.
func front(t *testing.T, server *s3test.Server, before func(http.ResponseWriter, *http.Request) bool) (endpoint string) {
	server.Bucket = "facts"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !before(w, r) {
			server.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// sessions answers as a server of sessions does, that last so long.
func sessions(t *testing.T, life time.Duration, policy *string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || r.URL.Path != "/" {
			return false
		}
		if err := r.ParseForm(); err != nil || r.Form.Get("Action") != "AssumeRole" {
			t.Errorf("asked for %v, %v", r.Form, err)
		}
		*policy = r.Form.Get("Policy")
		fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials><AccessKeyId>SESSION</AccessKeyId>`+
			`<SecretAccessKey>of-the-session</SecretAccessKey><SessionToken>token</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`,
			time.Now().Add(life).UTC().Format(time.RFC3339))
		return true
	}
}

func keep(t *testing.T, p store.Pass) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pass")
	if err := os.WriteFile(path, p.File, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAPassIsASessionThatAllowsNoMore(t *testing.T) {
	var policy string
	var by atomic.Value
	hand := sessions(t, time.Hour, &policy)
	server := &s3test.Server{}
	o := s3.Options{Endpoint: front(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		by.Store(key(r))
		return hand(w, r)
	})}
	p, err := open(t, "s3://facts/team", o).Pass(t.Context(), agents, "")
	if err != nil || p.Wide || time.Until(p.Until) < 50*time.Minute {
		t.Fatalf("%+v, %v", p, err)
	}
	want := `{"Version":"2012-10-17","Statement":[` +
		`{"Sid":"Read","Effect":"Allow","Action":["s3:GetObject"],"Resource":["arn:aws:s3:::facts/team/blobs/*","arn:aws:s3:::facts/team/demo/*"]},` +
		`{"Sid":"List","Effect":"Allow","Action":["s3:ListBucket"],"Resource":["arn:aws:s3:::facts"],"Condition":{"StringLike":{"s3:prefix":["team/blobs/*","team/demo/*"]}}},` +
		`{"Sid":"Write","Effect":"Allow","Action":["s3:PutObject","s3:AbortMultipartUpload"],"Resource":["arn:aws:s3:::facts/team/blobs/*","arn:aws:s3:::facts/team/demo/train/*"]}]}`
	if policy != want {
		t.Errorf("its policy is\n%s, want\n%s", policy, want)
	}
	if strings.Contains(string(p.File), "testtest") {
		t.Error("it holds the caller's own key")
	}
	// The process that opens the store with it has nothing else, not even a profile.
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_PROFILE", "of-another-machine")
	server.Key = "SESSION"
	o.PassFile = keep(t, p)
	if err := open(t, "s3://facts/team?profile=nosuch", o).Put(t.Context(), "k", strings.NewReader("x")); err != nil || by.Load() != "SESSION" {
		t.Errorf("as %v: %v", by.Load(), err)
	}
}

// A bad minute of the server is waited for: it must not cost one's own key.
func TestAPassIsNotOnesOwnKeyBecauseTheServerIsBusy(t *testing.T) {
	server := &s3test.Server{}
	o := s3.Options{Clock: &storetest.Clock{}, Endpoint: front(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	})}
	p, err := open(t, "s3://facts", o).Pass(t.Context(), agents, "")
	if fault.KindOf(err) != fault.Lost || p.File != nil || !strings.Contains(fault.Hint(err), "--agent-profile") {
		t.Errorf("%+v, %v", p, err)
	}
}

// A server that knows no sessions leaves the user's own key, and that is said; a user
// that names a role does not mean that key.
func TestAPassIsOnesOwnKeyWhereNothingElseIsToBeHad(t *testing.T) {
	server := &s3test.Server{Before: func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && r.URL.Path == "/" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "<ErrorResponse><Error><Code>AccessDenied</Code><Message>Not you.</Message></Error></ErrorResponse>")
			return true
		}
		return false
	}}
	o := s3.Options{Endpoint: serve(t, server, nil)}
	b := open(t, "s3://facts", o)
	p, err := b.Pass(t.Context(), agents, "")
	if err != nil || !p.Wide || !p.Until.IsZero() || !strings.Contains(p.Why, "AccessDenied") {
		t.Fatalf("%+v, %v", p, err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	o.PassFile = keep(t, p)
	if err := open(t, "s3://facts", o).Put(t.Context(), "k", strings.NewReader("x")); err != nil {
		t.Error(err)
	}
	const role = "arn:aws:iam::123456789012:role/agents"
	if _, err := b.Pass(t.Context(), agents, role); fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), role) {
		t.Errorf("with a role: %v: %s", err, fault.Hint(err))
	}
	if p, err := open(t, "s3://facts?anonymous=true", s3.Options{}).Pass(t.Context(), agents, ""); err != nil || p.File != nil {
		t.Errorf("to a public bucket: %+v, %v", p, err)
	}
}

// A pass that has ended is waited for, and used as soon as it has been renewed.
func TestAPassIsReadAgainWhenItHasEnded(t *testing.T) {
	server := &s3test.Server{Key: "NEW", Before: func(w http.ResponseWriter, r *http.Request) bool {
		if key(r) == "OLD" {
			s3test.Refuse(w, http.StatusBadRequest, "ExpiredToken", "The provided token has expired.")
			return true
		}
		return false
	}}
	path := keep(t, store.Pass{File: []byte(`{"key":"OLD","secret":"s","token":"t"}`)})
	b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, nil), PassFile: path})
	if err := b.Put(t.Context(), "k", strings.NewReader("x")); !errors.Is(err, store.ErrBusy) {
		t.Errorf("with a stale pass: %v", err)
	}
	if err := os.WriteFile(path, []byte(`{"key":"NEW","secret":"s","token":"t"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "k", strings.NewReader("x")); err != nil {
		t.Errorf("after it was renewed: %v", err)
	}
}

// Before its end it is looked for another one, which has come meanwhile.
func TestAPassIsReadAgainBeforeItEnds(t *testing.T) {
	var by atomic.Value
	server := &s3test.Server{}
	server.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		by.Store(key(r))
		server.Key = key(r)
		return false
	}
	text := func(key string, left time.Duration) []byte {
		return fmt.Appendf(nil, `{"key":%q,"secret":"s","token":"t","until":%q}`, key, time.Now().Add(left).UTC().Format(time.RFC3339))
	}
	path := keep(t, store.Pass{File: text("FIRST", time.Minute)})
	b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, nil), PassFile: path})
	for _, want := range []string{"FIRST", "SECOND"} {
		if err := b.Put(t.Context(), "k", strings.NewReader("x")); err != nil || by.Load() != want {
			t.Errorf("as %v: %v, want %s", by.Load(), err, want)
		}
		if err := os.WriteFile(path, text("SECOND", time.Hour), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFileThatIsNoPassIsNotQuoted(t *testing.T) {
	path := keep(t, store.Pass{File: []byte(`{"key":"sesame`)})
	_, err := s3.Open(t.Context(), "s3://facts", s3.Options{PassFile: path})
	if err == nil || strings.Contains(err.Error(), "sesame") || !strings.Contains(fault.Hint(err), "drover resume") {
		t.Errorf("%v: %s", err, fault.Hint(err))
	}
}

// Amazon says "forbidden" for what is absent to a caller that may list a part of the
// bucket: it must get "absent" for that, and "denied" for what is there.
func TestForbiddenIsAbsentWhereAListingSaysSo(t *testing.T) {
	server := &s3test.Server{}
	closed := false
	server.Before = func(w http.ResponseWriter, r *http.Request) bool {
		forbidden := r.Method == http.MethodGet && strings.Count(r.URL.Path, "/") > 1 && (closed || strings.HasSuffix(r.URL.Path, "absent"))
		if forbidden {
			s3test.Refuse(w, http.StatusForbidden, "AccessDenied", "Access Denied.")
		}
		return forbidden
	}
	b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, nil)})
	if err := b.Put(t.Context(), "here", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if err := drain(b.Get(t.Context(), "absent", 0, -1)); !errors.Is(err, store.ErrNotExist) {
		t.Errorf("of what is absent: %v", err)
	}
	if err := drain(b.Get(t.Context(), "here", 0, -1)); err != nil {
		t.Errorf("of what is there: %v", err)
	}
	closed = true
	if err := drain(b.Get(t.Context(), "here", 0, -1)); fault.KindOf(err) != fault.Denied || errors.Is(err, store.ErrNotExist) {
		t.Errorf("of what is there and forbidden: %v", err)
	}
}

// An agent may outlive its pass and the folder that it was in. One may be put there
// again; what is no pass is nothing to wait for.
func TestAPassWhoseFileHasGoneIsWaitedFor(t *testing.T) {
	text := fmt.Appendf(nil, `{"key":"OLD","secret":"s","token":"t","until":%q}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	path := keep(t, store.Pass{File: text})
	b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, &s3test.Server{Key: "OLD"}, nil), PassFile: path})
	if err := b.Put(t.Context(), "k", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "k", strings.NewReader("x")); !errors.Is(err, store.ErrBusy) {
		t.Errorf("without a file: %v", err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := b.Put(t.Context(), "k", strings.NewReader("x"))
	if fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), "drover resume") {
		t.Errorf("with a file that is not a pass: %v: %s", err, fault.Hint(err))
	}
}
