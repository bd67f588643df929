package gcs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
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

// find asks the application default credentials for a token: the file that
// GOOGLE_APPLICATION_CREDENTIALS names, gcloud's, the machine's metadata server.
// It looks anew each time: a source of tokens keeps one until ten seconds before
// its end, and a file may have been replaced.
func find(ctx context.Context) (credential, error) {
	seen := &witness{RoundTripper: transport()}
	defer seen.RoundTripper.(*http.Transport).CloseIdleConnections()
	creds, err := google.FindDefaultCredentials(clientContext{ctx, &http.Client{Transport: seen}}, scope)
	if err != nil {
		if os.Getenv("GOOGLE_APPLICATION_CREDENTIALS") == "" {
			err = fmt.Errorf("%w: %w", errNoKeys, err)
		}
		return credential{}, fault.Wrap(err, fault.Denied, signIn, "find credentials for Google Cloud")
	}
	t, err := creds.TokenSource.Token()
	if err != nil {
		return credential{}, seen.refused(err)
	}
	return credential{token: t.AccessToken, project: payer(creds.JSON), expires: t.Expiry}, nil
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

func (w *witness) refused(err error) error {
	status := w.status.Load()
	var below net.Error // of a metadata server, which is asked past us
	away := w.asked.Load() && status == 0 || errors.As(err, &below)
	if away || status == http.StatusTooManyRequests || status >= 500 {
		return fmt.Errorf("fetch a token for Google Cloud: %w: %w", bare(err), store.ErrBusy)
	}
	hint := signIn
	if file := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"); file != "" {
		hint = "Look at " + file + ", which GOOGLE_APPLICATION_CREDENTIALS names, or unset it and run gcloud auth application-default login."
	}
	return fault.Wrap(errors.New(line(err.Error())), fault.Denied, hint, "fetch a token for Google Cloud")
}
