package gcs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

const (
	// scope: objects, to read and write, and nothing else of the account.
	scope = "https://www.googleapis.com/auth/devstorage.read_write"
	// platform: what a token must be for to be narrowed, or to take an account.
	platform = "https://www.googleapis.com/auth/cloud-platform"
	// early is how long before its end a token is replaced. A request signed now
	// may be on its way for minutes, and this machine's clock may be off.
	early = 5 * time.Minute
	// spare is the rest of its life in which a token is not used any more.
	spare = 30 * time.Second
	// afterRefusal is the pause between two tries to replace a token that still works.
	afterRefusal = 30 * time.Second
	// fetching a token takes no longer.
	fetchLimit = 30 * time.Second
)

// credential signs a request. The zero value signs nothing.
type credential struct {
	token   string
	project string    // to be charged, as the credentials say; mostly empty
	expires time.Time // zero: never
}

func (c credential) sign(h http.Header, project string) {
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
	if project == "" {
		project = c.project
	}
	if project != "" {
		h.Set("X-Goog-User-Project", project)
	}
}

// keys holds the token of the moment, for all goroutines of a Bucket.
type keys struct {
	clock store.Clock
	find  func(context.Context) (credential, error)
	turn  chan struct{} // holds one: whoever takes it out looks for the next token

	mu    sync.Mutex
	held  credential
	renew time.Time // from here on somebody looks for the next one
}

func newKeys(clock store.Clock, find func(context.Context) (credential, error)) *keys {
	k := &keys{clock: clock, find: find, turn: make(chan struct{}, 1)}
	k.turn <- struct{}{}
	return k
}

// get gives a token that works for a while. It is replaced early by one caller,
// who waits for it, while the others go on with the old one.
func (k *keys) get(ctx context.Context) (credential, error) {
	held, fresh, usable := k.look()
	if fresh {
		return held, nil
	}
	if usable {
		select {
		case <-k.turn:
		default:
			return held, nil
		}
	} else {
		select {
		case <-k.turn:
		case <-ctx.Done():
			return credential{}, context.Cause(ctx)
		}
	}
	defer func() { k.turn <- struct{}{} }()
	held, fresh, usable = k.look() // somebody's turn may just have ended
	if fresh {
		return held, nil
	}
	limited, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	next, err := k.find(limited)
	if err != nil && context.Cause(ctx) != nil {
		return credential{}, context.Cause(ctx)
	}
	if err != nil && !usable {
		return credential{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	if err != nil {
		k.renew = now.Add(afterRefusal)
		return held, nil
	}
	k.held = next
	// A metadata server gives out what it has, also shortly before its end: then
	// half of the rest is late enough.
	left := next.expires.Sub(now)
	k.renew = next.expires.Add(-min(early, left/2))
	if next.expires.IsZero() {
		k.renew = now.Add(time.Hour)
	}
	return next, nil
}

func (k *keys) look() (held credential, fresh, usable bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	usable = k.held.token != "" && (k.held.expires.IsZero() || now.Before(k.held.expires.Add(-spare)))
	return k.held, usable && now.Before(k.renew), usable
}

// reject forgets a token that was refused, unless it is another one by now.
func (k *keys) reject(token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held.token == token {
		k.held = credential{}
	}
}

// errNoKeys: nobody has said where credentials are, and there are none.
var errNoKeys = errors.New("there are none")

// source is where tokens of a person, or of a program, come from. It looks anew each
// time: oauth2 keeps a token until ten seconds before its end, and a file may have
// been replaced.
type source struct {
	account string                 // "": the application default credentials
	over    func() *http.Transport // nil: transport
}

// find is one for objects alone.
func (s source) find(ctx context.Context) (credential, error) { return s.token(ctx, scope) }

// token asks for one: of the file that GOOGLE_APPLICATION_CREDENTIALS names, of
// gcloud's, of the machine's metadata server; or of the account's own.
func (s source) token(ctx context.Context, scope string) (credential, error) {
	client, seen, done := s.client(ctx)
	defer done()
	from, file, err := s.look(client, scope)
	if err != nil {
		return credential{}, err
	}
	t, err := from.Token()
	if err != nil {
		return credential{}, seen.refused("fetch a token for Google Cloud", err, s.hint())
	}
	return credential{token: t.AccessToken, project: payer(file), expires: t.Expiry}, nil
}

// client is what oauth2 asks by, and a witness of the answers; done ends it.
func (s source) client(ctx context.Context) (client context.Context, seen *witness, done func()) {
	over := transport
	if s.over != nil {
		over = s.over
	}
	t := over()
	seen = &witness{RoundTripper: t}
	return clientContext{ctx, &http.Client{Transport: seen}}, seen, t.CloseIdleConnections
}

// look finds credentials, and the file that they are in.
func (s source) look(client context.Context, scope string) (from oauth2.TokenSource, file []byte, err error) {
	const doing = "find credentials for Google Cloud"
	if s.account == "" {
		creds, err := google.FindDefaultCredentials(client, scope)
		if err != nil {
			if os.Getenv("GOOGLE_APPLICATION_CREDENTIALS") == "" {
				err = fmt.Errorf("%w: %w", errNoKeys, err)
			}
			return nil, nil, fault.Wrap(err, fault.Denied, signIn, doing)
		}
		return creds.TokenSource, creds.JSON, nil
	}
	file, err = os.ReadFile(accountFile(s.account))
	if errors.Is(err, fs.ErrNotExist) {
		return google.ComputeTokenSource(s.account, scope), nil, nil // it says where it is none of the machine's
	}
	var kind struct{ Type google.CredentialsType }
	if err == nil && json.Unmarshal(file, &kind) != nil { // its error would quote the file
		err = errors.New("it is not JSON")
	}
	var creds *google.Credentials
	if err == nil {
		creds, err = google.CredentialsFromJSONWithType(client, file, kind.Type, scope)
	}
	if err != nil {
		return nil, nil, fault.Wrap(err, fault.Denied, s.hint(), doing+": read those of %s", s.account)
	}
	return creds.TokenSource, file, nil
}

// accountFile is where gcloud keeps what other programs may use of an account that
// it is signed in with.
func accountFile(account string) string {
	dir := os.Getenv("CLOUDSDK_CONFIG")
	if dir == "" {
		home, _ := os.UserHomeDir() // "": it is not found
		dir = filepath.Join(home, ".config", "gcloud")
	}
	return filepath.Join(dir, "legacy_credentials", account, "adc.json")
}

// hint says how to have credentials that work.
func (s source) hint() string {
	file := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS")
	switch {
	case s.account != "":
		return "Sign this machine in as it: gcloud auth login " + s.account + ", or gcloud auth activate-service-account " + s.account + " --key-file=FILE."
	case file != "":
		return "Look at " + file + ", which GOOGLE_APPLICATION_CREDENTIALS names, or unset it and run gcloud auth application-default login."
	}
	return signIn
}

// payer is the project that gcloud's file of credentials charges.
func payer(file []byte) string {
	var f struct {
		Project string `json:"quota_project_id"`
	}
	_ = json.Unmarshal(file, &f) // its reader has just taken it
	return f.Project
}

// clientContext hands oauth2 a client, which it looks for in its context alone.
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

// witness remembers how the server of tokens last answered: the errors of oauth2
// do not tell a network that is away from an account that is closed.
type witness struct {
	http.RoundTripper
	asked  atomic.Bool
	status atomic.Int64 // 0: no answer
}

func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	w.asked.Store(true)
	w.status.Store(0)
	resp, err := w.RoundTripper.RoundTrip(r)
	if err == nil {
		w.status.Store(int64(resp.StatusCode))
	}
	return resp, err
}

// refused says what an error of oauth2 means: busy, or a person's to mend.
func (w *witness) refused(doing string, err error, hint string) error {
	status := w.status.Load()
	var below net.Error // of a metadata server, which is asked past us
	away := w.asked.Load() && status == 0 || errors.As(err, &below)
	if away || status == http.StatusTooManyRequests || status >= 500 {
		return fmt.Errorf("%s: %w: %w", doing, bare(err), store.ErrBusy)
	}
	return fault.Wrap(errors.New(line(err.Error())), fault.Denied, hint, "%s", doing)
}
