// Package google opens Google Cloud from this machine: it finds the account and the tokens to
// use. Credentials come from where the vendor's tools have them, in their order: the file that
// GOOGLE_APPLICATION_CREDENTIALS names, gcloud's own, the machine's metadata server; or from an
// account of the machine that is named; or from a file that was handed over (File). Tokens are
// replaced before they end (Tokens), and narrowed to what a boundary allows (Source.Narrow).
//
// A store and a driver make a Source each, and sign their requests by Tokens. Nothing is sent
// before a token is asked for.
//
// It refuses to know what is asked of a service. Its tests prove it, and those of store/gcs.
package google

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/oauth2"
	oauth "golang.org/x/oauth2/google"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/fault"
)

// ErrNone: no source of credentials is named, and none was found.
var ErrNone = errors.New("there are none")

// SignInHint says what to do where there are no credentials, or none that are accepted.
const SignInHint = "Run gcloud auth application-default login, or point GOOGLE_APPLICATION_CREDENTIALS at a file of credentials."

// Source is where tokens of a person, or of a program, come from. It looks again each time,
// without a cache: oauth2's cache keeps a token until ten seconds before its end, and a file may
// have been replaced.
type Source struct {
	Account string                 // "": the application default credentials
	Over    func() *http.Transport // nil: Transport
	Clock   cloud.Clock            // nil: cloud.System
}

// Token asks for a token with a scope. Its source is the file that GOOGLE_APPLICATION_CREDENTIALS
// names, gcloud's file, or the machine's metadata server; or the account's own, where Account is
// set. Its error is a *cloud.Away, or a fault that says how to get credentials that work.
func (s Source) Token(ctx context.Context, scope string) (Token, error) {
	client, seen, done := s.client(ctx)
	defer done()
	from, file, err := s.find(client, scope)
	if err != nil {
		return Token{}, err
	}
	t, err := from.Token()
	if err != nil {
		return Token{}, seen.refused("fetch a token for Google Cloud", err, s.signInHint())
	}
	return Token{Value: t.AccessToken, Project: payer(file), Expires: t.Expiry}, nil
}

// client is the context for oauth2's requests, and a witness of their answers; done ends it.
func (s Source) client(ctx context.Context) (client context.Context, seen *witness, done func()) {
	over := Transport
	if s.Over != nil {
		over = s.Over
	}
	t := over()
	seen = &witness{RoundTripper: t}
	return clientContext{ctx, &http.Client{Transport: seen}}, seen, t.CloseIdleConnections
}

// find returns credentials, and the file that they are in.
func (s Source) find(client context.Context, scope string) (from oauth2.TokenSource, file []byte, err error) {
	const doing = "find credentials for Google Cloud"
	if s.Account == "" {
		creds, err := oauth.FindDefaultCredentials(client, scope)
		if err != nil {
			if os.Getenv("GOOGLE_APPLICATION_CREDENTIALS") == "" {
				err = fmt.Errorf("%w: %w", ErrNone, err)
			}
			return nil, nil, fault.Wrap(err, fault.Denied, SignInHint, doing)
		}
		return creds.TokenSource, creds.JSON, nil
	}
	file, err = os.ReadFile(accountFile(s.Account))
	if errors.Is(err, fs.ErrNotExist) {
		return oauth.ComputeTokenSource(s.Account, scope), nil, nil // its first request fails if the account is not the machine's
	}
	var kind struct{ Type oauth.CredentialsType }
	if err == nil && json.Unmarshal(file, &kind) != nil { // its error would quote the file
		err = errors.New("it is not JSON")
	}
	var creds *oauth.Credentials
	if err == nil {
		creds, err = oauth.CredentialsFromJSONWithType(client, file, kind.Type, scope)
	}
	if err != nil {
		return nil, nil, fault.Wrap(err, fault.Denied, s.signInHint(), doing+": read those of %s", s.Account)
	}
	return creds.TokenSource, file, nil
}

// gcloudFolder is where gcloud keeps its credentials.
func gcloudFolder() string {
	if dir := os.Getenv("CLOUDSDK_CONFIG"); dir != "" {
		return dir
	}
	home, _ := os.UserHomeDir() // "": it is not found
	return filepath.Join(home, ".config", "gcloud")
}

// accountFile is where gcloud keeps the credentials of one of its accounts for other
// programs.
func accountFile(account string) string {
	return filepath.Join(gcloudFolder(), "legacy_credentials", account, "adc.json")
}

// signInHint says how to get credentials that work.
func (s Source) signInHint() string {
	file := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS")
	switch {
	case s.Account != "":
		return "Sign this machine in as it: gcloud auth login " + s.Account + ", or gcloud auth activate-service-account " + s.Account + " --key-file=FILE."
	case file != "":
		return "Look at " + file + ", which GOOGLE_APPLICATION_CREDENTIALS names, or unset it and run gcloud auth application-default login."
	}
	return SignInHint
}

// payer is the project that is charged, by gcloud's file of credentials.
func payer(file []byte) string {
	var f struct {
		Project string `json:"quota_project_id"`
	}
	_ = json.Unmarshal(file, &f) // it has been parsed once already
	return f.Project
}

// clientContext gives oauth2 a client, for which it looks only in its context.
type clientContext struct {
	context.Context
	client *http.Client
}

func (c clientContext) Value(key any) any {
	if key == oauth2.HTTPClient {
		return c.client
	}
	return c.Context.Value(key)
}
