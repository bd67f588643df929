package google

import (
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
	"testing"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/fault"
)

// fetch asks for a token by the application default credentials.
func fetch(t *testing.T) (Token, error) {
	t.Helper()
	return Source{}.Token(t.Context(), Objects)
}

// keyFile writes the key of a service account that gets its tokens at an address.
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

func TestAKeyFileSignsAndSaysWhatPays(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"of-the-file","expires_in":3600,"token_type":"Bearer"}`)
	}))
	t.Cleanup(server.Close)
	keyFile(t, server.URL)
	token, err := fetch(t)
	if err != nil {
		t.Fatal(err)
	}
	for project, want := range map[string]string{"": "payer", "mine": "mine"} {
		h := http.Header{}
		token.Sign(h, project)
		if h.Get("Authorization") != "Bearer of-the-file" || h.Get("X-Goog-User-Project") != want {
			t.Errorf("for the project %q it signs with %v", project, h)
		}
	}
	h := http.Header{}
	Token{}.Sign(h, "")
	if len(h) != 0 {
		t.Errorf("no token signs with %v", h)
	}
}

func TestWhoGivesNoTokenIsToldApart(t *testing.T) {
	var away *cloud.Away
	status := 503
	tokens := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, `{"error":"invalid_grant"}`, status) })
	server := httptest.NewServer(tokens)
	path := keyFile(t, server.URL)
	if _, err := fetch(t); !errors.As(err, &away) {
		t.Errorf("overloaded: %v", err)
	}
	status = 400
	_, err := fetch(t)
	if fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), path) {
		t.Errorf("refused: %v, hint %q", err, fault.Hint(err))
	}
	server.Close()
	if _, err := fetch(t); !errors.As(err, &away) {
		t.Errorf("away: %v", err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "none.json"))
	if _, err := fetch(t); fault.KindOf(err) != fault.Denied || fault.Hint(err) == "" {
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
	server := httptest.NewServer(metadata)
	t.Cleanup(server.Close)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("HOME", t.TempDir()) // no login of gcloud's
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(server.URL, "http://"))
	c, err := fetch(t)
	if err != nil || c.Value != "of-the-machine" {
		t.Errorf("token %q, %v", c.Value, err)
	}
}
