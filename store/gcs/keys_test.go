package gcs

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/storetest"
)

// mint gives out tokens that live for an hour.
type mint struct {
	clock *storetest.Clock
	life  time.Duration
	mu    sync.Mutex
	made  int
	err   error
}

func (m *mint) find(context.Context) (credential, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return credential{}, m.err
	}
	m.made++
	return credential{token: fmt.Sprintf("token-%d", m.made), expires: m.clock.Now().Add(m.life)}, nil
}

func TestATokenIsReplacedEarly(t *testing.T) {
	clock := &storetest.Clock{}
	m := &mint{clock: clock, life: time.Hour}
	k := newKeys(clock, m.find)
	after := func(d time.Duration, want string) {
		t.Helper()
		_ = clock.Sleep(t.Context(), d)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { // of many at once, one looks for the next
				if c, err := k.get(t.Context()); err != nil || want != "" && c.token != want {
					t.Errorf("after %v: %q, %v; want %q", d, c.token, err, want)
				}
			})
		}
		all.Wait()
	}
	after(0, "token-1")
	after(54*time.Minute, "token-1")
	after(90*time.Second, "") // some go on with the first meanwhile
	after(0, "token-2")
	m.err = errors.New("away")
	after(56*time.Minute, "token-2") // it works for three minutes more
	if n := m.made; n != 2 {
		t.Errorf("%d tokens were fetched, want 2", n)
	}
	_ = clock.Sleep(t.Context(), 4*time.Minute)
	if _, err := k.get(t.Context()); !errors.Is(err, m.err) {
		t.Errorf("without a token that works: %v", err)
	}
}

func TestATokenThatIsNearlyOverIsNotFetchedForEveryRequest(t *testing.T) {
	clock := &storetest.Clock{}
	m := &mint{clock: clock, life: 4 * time.Minute}
	k := newKeys(clock, m.find)
	for range 100 {
		if _, err := k.get(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if m.made != 1 {
		t.Errorf("%d tokens for 100 requests", m.made)
	}
}

// find asks for a token as Open's buckets do.
func find(ctx context.Context) (credential, error) { return source{}.find(ctx) }

// signed opens a bucket of a server that wants a token.
func signed(t *testing.T, f http.Handler, find func(context.Context) (credential, error)) *Bucket {
	t.Helper()
	server := httptest.NewTLSServer(f)
	t.Cleanup(server.Close)
	b := at(t, server.URL, "gs://b-1")
	b.client, b.keys = newClient(server.Client().Transport), newKeys(b.clock, find)
	return b
}

func TestARefusedTokenIsReplacedOnce(t *testing.T) {
	f := newFake()
	f.token = "token-2"
	m := &mint{clock: &storetest.Clock{}, life: time.Hour}
	b := signed(t, f, m.find)
	if err := b.Create(t.Context(), "k", strings.NewReader("x")); err != nil {
		t.Error(err)
	}
	f.token = "another"
	err := b.Create(t.Context(), "k2", strings.NewReader("x"))
	if fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), "gcloud auth") || errors.Is(err, store.ErrBusy) {
		t.Errorf("says %v, hint %q", err, fault.Hint(err))
	}
	if m.made != 3 {
		t.Errorf("%d tokens were fetched, want 3", m.made)
	}
}

func TestNoTokenGoesWhereItCanBeRead(t *testing.T) {
	f := newFake() // over http
	b := at(t, serve(t, f), "gs://b-1")
	if b.keys != nil {
		t.Error("credentials for an http:// endpoint")
	}
	b, err := Open(t.Context(), "gs://b-1", Options{Anonymous: true})
	if err != nil || b.keys != nil {
		t.Errorf("anonymous: %v, %v", b.keys, err)
	}
	t.Setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:4443")
	b, err = Open(t.Context(), "gs://b-1", Options{})
	if err != nil || b.keys != nil || b.endpoint != "http://127.0.0.1:4443" {
		t.Errorf("an emulator: %v, %v at %s", b.keys, err, b.endpoint)
	}
}

// keyFile writes the key of a service account whose tokens come from at.
func keyFile(t *testing.T, at string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "a@b.iam.gserviceaccount.com", "private_key_id": "1",
		"private_key":      string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
		"quota_project_id": "payer", "token_uri": at})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", path)
	return path
}

func TestAKeyFileSignsAndSaysWhoPays(t *testing.T) {
	tokens := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"of-the-file","expires_in":3600,"token_type":"Bearer"}`)
	})
	keyFile(t, serve(t, tokens))
	f := newFake()
	f.token = "of-the-file"
	b := signed(t, f, find)
	if err := b.Create(t.Context(), "k", strings.NewReader("x")); err != nil {
		t.Error(err)
	}
	if f.payers["payer"] != 1 {
		t.Errorf("the payers are %v", f.payers)
	}
	b.given.Project = "mine"
	if err := b.Delete(t.Context(), "k"); err != nil || f.payers["mine"] != 1 {
		t.Errorf("%v; the payers are %v", err, f.payers)
	}
}

func TestWhoGivesNoTokenIsToldApart(t *testing.T) {
	status := 503
	tokens := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, `{"error":"invalid_grant"}`, status) })
	server := httptest.NewServer(tokens)
	path := keyFile(t, server.URL)
	if _, err := find(t.Context()); !errors.Is(err, store.ErrBusy) {
		t.Errorf("overloaded: %v", err)
	}
	status = 400
	_, err := find(t.Context())
	if fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), path) {
		t.Errorf("refused: %v, hint %q", err, fault.Hint(err))
	}
	server.Close()
	if _, err := find(t.Context()); !errors.Is(err, store.ErrBusy) {
		t.Errorf("away: %v", err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none.json"))
	if _, err := find(t.Context()); fault.KindOf(err) != fault.Denied || fault.Hint(err) == "" {
		t.Errorf("no file: %v", err)
	}
}

func TestAMachineHasAnAccountOfItsOwn(t *testing.T) {
	metadata := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") != "Google" {
			http.Error(w, "", http.StatusForbidden)
			return
		}
		w.Header().Set("Metadata-Flavor", "Google")
		if strings.HasSuffix(r.URL.Path, "/instance/service-accounts/default/token") {
			fmt.Fprint(w, `{"access_token":"of-the-machine","expires_in":600,"token_type":"Bearer"}`)
			return
		}
		fmt.Fprint(w, "project-1")
	})
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("HOME", t.TempDir()) // no login of gcloud's
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(serve(t, metadata), "http://"))
	c, err := find(t.Context())
	if err != nil || c.token != "of-the-machine" {
		t.Errorf("token %q, %v", c.token, err)
	}
}
