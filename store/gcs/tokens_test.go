package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// signed opens a bucket of a server that wants a token.
func signed(t *testing.T, f http.Handler, find func(context.Context) (google.Token, error)) *Bucket {
	t.Helper()
	server := httptest.NewTLSServer(f)
	t.Cleanup(server.Close)
	b := at(t, server.URL, "gs://b-1")
	b.conn.client, b.conn.tokens = newClient(server.Client().Transport), google.NewTokens(b.conn.clock, find)
	return b
}

func TestARefusedTokenIsReplacedOnce(t *testing.T) {
	f := newFake()
	f.token = "token-2"
	made := 0
	mint := func(context.Context) (google.Token, error) {
		made++
		return google.Token{Value: fmt.Sprintf("token-%d", made)}, nil
	}
	b := signed(t, f, mint)
	if err := b.Create(t.Context(), "k", strings.NewReader("x")); err != nil {
		t.Error(err)
	}
	f.token = "another"
	err := b.Create(t.Context(), "k2", strings.NewReader("x"))
	if fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), "gcloud auth") || errors.Is(err, store.ErrBusy) {
		t.Errorf("says %v, hint %q", err, fault.Hint(err))
	}
	if made != 3 {
		t.Errorf("%d tokens were fetched, want 3", made)
	}
}

func TestNoTokenGoesWhereItCanBeRead(t *testing.T) {
	f := newFake() // over http
	b := at(t, serve(t, f), "gs://b-1")
	if b.conn.tokens != nil {
		t.Error("credentials for an http:// endpoint")
	}
	b, err := Open(t.Context(), "gs://b-1", Options{Anonymous: true})
	if err != nil || b.conn.tokens != nil {
		t.Errorf("anonymous: %v, %v", b.conn.tokens, err)
	}
	t.Setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:4443")
	b, err = Open(t.Context(), "gs://b-1", Options{})
	if err != nil || b.conn.tokens != nil || b.endpoint != "http://127.0.0.1:4443" {
		t.Errorf("an emulator: %v, %v at %s", b.conn.tokens, err, b.endpoint)
	}
}

func TestAProjectIsChargedThatTheCredentialsOrThePlaceName(t *testing.T) {
	f := newFake()
	f.token = "of-the-file"
	b := signed(t, f, func(context.Context) (google.Token, error) {
		return google.Token{Value: "of-the-file", Project: "payer"}, nil
	})
	if err := b.Create(t.Context(), "k", strings.NewReader("x")); err != nil {
		t.Error(err)
	}
	if f.payers["payer"] != 1 {
		t.Errorf("the payers are %v", f.payers)
	}
	b.conn.given.Project = "mine"
	if err := b.Delete(t.Context(), "k"); err != nil || f.payers["mine"] != 1 {
		t.Errorf("%v; the payers are %v", err, f.payers)
	}
}
