package google

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/drover-run/drover/cloud"
)

const (
	// Objects is the scope of a token that may read and write objects, and nothing else of the
	// account.
	Objects = "https://www.googleapis.com/auth/devstorage.read_write"
	// Platform is the scope that a token needs to be narrowed, to be another account's, or to
	// start machines.
	Platform = "https://www.googleapis.com/auth/cloud-platform"
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

// Token signs a request. The zero value signs nothing.
type Token struct {
	Value   string    // a secret
	Project string    // to be charged, as the credentials say; mostly empty
	Expires time.Time // zero: never
}

// Sign adds the token to a request's header. project is charged; "": the one that the credentials name.
func (t Token) Sign(h http.Header, project string) {
	if t.Value != "" {
		h.Set("Authorization", "Bearer "+t.Value)
	}
	if project = cmp.Or(project, t.Project); project != "" {
		h.Set("X-Goog-User-Project", project)
	}
}

// Tokens keeps the current token, for all goroutines of a client.
type Tokens struct {
	clock cloud.Clock
	find  func(context.Context) (Token, error)
	turn  chan struct{} // holds one value: the goroutine that receives it finds the next token

	mu    sync.Mutex
	held  Token
	renew time.Time // from here on a new one is asked for
}

// NewTokens keeps the tokens that find returns, such as Source.Token. A nil clock is cloud.System.
func NewTokens(clock cloud.Clock, find func(context.Context) (Token, error)) *Tokens {
	if clock == nil {
		clock = cloud.System
	}
	k := &Tokens{clock: clock, find: find, turn: make(chan struct{}, 1)}
	k.turn <- struct{}{}
	return k
}

// Get returns a token that works for a while. One caller asks for its replacement early, and
// waits for it, while the others go on with the old one.
func (k *Tokens) Get(ctx context.Context) (Token, error) {
	held, fresh, usable := k.newest()
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
			return Token{}, context.Cause(ctx)
		}
	}
	defer func() { k.turn <- struct{}{} }()
	held, fresh, usable = k.newest() // another goroutine may just have replaced it
	if fresh {
		return held, nil
	}
	limited, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	next, err := k.find(limited)
	if err != nil && context.Cause(ctx) != nil {
		return Token{}, context.Cause(ctx)
	}
	if err != nil && !usable {
		return Token{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	if err != nil {
		k.renew = now.Add(afterRefusal)
		return held, nil
	}
	k.held = next
	// A metadata server gives out the token that it has, also shortly before its end: then
	// half of the remaining time is soon enough.
	left := next.Expires.Sub(now)
	k.renew = next.Expires.Add(-min(early, left/2))
	if next.Expires.IsZero() {
		k.renew = now.Add(time.Hour)
	}
	return next, nil
}

func (k *Tokens) newest() (held Token, fresh, usable bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	usable = k.held.Value != "" && (k.held.Expires.IsZero() || now.Before(k.held.Expires.Add(-spare)))
	return k.held, usable && now.Before(k.renew), usable
}

// Reject forgets a token that was refused, unless it has been replaced by now.
func (k *Tokens) Reject(value string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held.Value == value {
		k.held = Token{}
	}
}
