package gcs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google/downscope"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

const (
	// How long an account's token is asked for. Agents work with nobody attached, and
	// then nobody renews it; Google gives an hour where the account's organisation has
	// allowed no more. One's own token lasts an hour, and so does what comes of it.
	accountLife, plainLife = 12 * time.Hour, time.Hour
	// passWait is how long the servers of passes may take.
	passWait = 15 * time.Second

	machineHint = "let agents use the identity of their machine: drover config set agent_profile machine."
	renewHint   = "Go on with the job: drover resume makes it anew."
)

// passFile is the file's form: a token, never what a token is made from.
type passFile struct {
	Token   string    `json:"token"`
	Until   time.Time `json:"until"`
	Comment string    `json:"comment"`
}

// Pass makes one that gives r on this place for an hour: a token of account, which
// we must be allowed to be, or without one of whoever we are, inside a boundary that
// allows no more. It is tried once. Where none is to be had that is an error: what we
// use ourselves is never the pass. Places that ask for no credentials need none: its
// File is nil.
func (b *Bucket) Pass(ctx context.Context, r store.Rights, account string) (store.Pass, error) {
	doing := "make a credential for " + b.String()
	if account != "" && !IsAccount(account) {
		return store.Pass{}, fault.New(fault.Invalid, "Name a service account: drover config set agent_role NAME@PROJECT.iam.gserviceaccount.com.",
			"%s: %q is not a Google account that can be used", doing, account)
	}
	if b.keys == nil {
		return store.Pass{}, nil
	}
	made, err := b.patiently(ctx, func(ctx context.Context) (credential, error) { return b.narrowed(ctx, r, account) })
	switch {
	case context.Cause(ctx) != nil:
		return store.Pass{}, context.Cause(ctx)
	case errors.Is(err, store.ErrBusy):
		return store.Pass{}, fault.Wrap(err, fault.Lost, "Try again, or "+machineHint, "%s", doing)
	case err != nil:
		return store.Pass{}, fmt.Errorf("%s: %w", doing, err)
	}
	text, err := json.Marshal(passFile{Token: made.token, Until: made.expires.UTC(), Comment: "opens " + b.String() + "; written by drover"})
	return store.Pass{File: append(text, '\n'), Until: made.expires}, err
}

// patiently asks until the answer is clear, for passWait.
func (b *Bucket) patiently(ctx context.Context, ask func(context.Context) (credential, error)) (c credential, err error) {
	limited, cancel := context.WithTimeout(ctx, passWait)
	defer cancel()
	for begun, try := b.clock.Boot(), 0; ; try++ {
		c, err = ask(limited)
		if err == nil || !errors.Is(err, store.ErrBusy) || b.clock.Boot()-begun > passWait || b.pause(limited, try, 0) != nil {
			return c, err
		}
	}
}

// narrowed is a token that may do r and no more, and has been tried.
func (b *Bucket) narrowed(ctx context.Context, r store.Rights, account string) (made credential, err error) {
	root, err := b.source.token(ctx, platform)
	if err == nil && account != "" {
		root, err = b.taken(ctx, root, account)
	}
	if err == nil {
		made, err = b.exchanged(ctx, root, b.boundary(r))
	}
	if err == nil {
		err = b.tried(ctx, made, r)
	}
	return made, err
}

// taken is a token of an account that root's owner may be, for as long as is to be had.
func (b *Bucket) taken(ctx context.Context, root credential, account string) (c credential, err error) {
	const doing = "be "
	client, seen, done := b.source.client(ctx)
	defer done()
	for _, life := range []time.Duration{accountLife, plainLife} {
		c, err = askFor(client, root, account, life)
		if seen.status.Load() != http.StatusBadRequest { // longer than is allowed
			break
		}
	}
	if err != nil {
		return c, seen.refused(doing+account, err, "Let its owner run gcloud iam service-accounts add-iam-policy-binding "+account+
			" --member=user:YOU --role=roles/iam.serviceAccountTokenCreator.")
	}
	return c, nil
}

// askFor asks once for a token of account that lasts for a life.
func askFor(client context.Context, root credential, account string, life time.Duration) (c credential, err error) {
	body, err := json.Marshal(map[string]any{"scope": []string{platform}, "lifetime": fmt.Sprintf("%.0fs", life.Seconds())})
	if err != nil {
		return c, err
	}
	req, err := http.NewRequestWithContext(client, http.MethodPost,
		"https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"+account+":generateAccessToken", bytes.NewReader(body))
	if err != nil {
		return c, err
	}
	req.Header.Set("Content-Type", "application/json")
	root.sign(req.Header, "")
	resp, err := oauth2.NewClient(client, nil).Do(req)
	if err != nil {
		return c, bare(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c, errors.New(listen(resp).message)
	}
	var said struct {
		AccessToken string
		ExpireTime  time.Time
	}
	if json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&said) != nil || said.AccessToken == "" || said.ExpireTime.IsZero() {
		return c, errors.New("the server has answered, and given no token") // an error of JSON would quote it
	}
	return credential{token: said.AccessToken, expires: said.ExpireTime}, nil
}

// exchanged is root's token inside a boundary.
func (b *Bucket) exchanged(ctx context.Context, root credential, rules []downscope.AccessBoundaryRule) (credential, error) {
	client, seen, done := b.source.client(ctx)
	defer done()
	from, err := downscope.NewTokenSource(client, downscope.DownscopingConfig{Rules: rules,
		RootSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: root.token, Expiry: root.expires})})
	if err != nil {
		return credential{}, fault.Wrap(err, fault.Bug, "", "narrow the token")
	}
	t, err := from.Token()
	switch {
	case err != nil:
		return credential{}, seen.refused("narrow the token", whyNot(err), "These credentials give no narrower ones: name a service account that you may be, "+
			"drover config set agent_role NAME@PROJECT.iam.gserviceaccount.com, or "+machineHint)
	case t.AccessToken == "":
		return credential{}, fault.New(fault.Lost, "Try again, or "+machineHint, "narrow the token: the server has answered, and given none")
	case t.Expiry.IsZero():
		t.Expiry = b.clock.Now().Add(plainLife / 2) // nobody has said, and none is older than that
	}
	return credential{token: t.AccessToken, expires: t.Expiry}, nil
}

// whyNot is the server's own reason in an error of downscope's.
func whyNot(err error) error {
	var said struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	_, body, _ := strings.Cut(err.Error(), "Server responded: ")
	if json.Unmarshal([]byte(body), &said) != nil || said.Error == "" {
		return err
	}
	return errors.New(strings.TrimSuffix(said.Error+": "+said.Description, ": "))
}

// tried lists a little with a token: what a boundary allows and the bucket does not
// is better said here than by an agent.
func (b *Bucket) tried(ctx context.Context, c credential, r store.Rights) error {
	if len(r.Read) == 0 {
		return nil
	}
	trial := &Bucket{place: b.place, clock: b.clock, client: b.client, patience: b.patience,
		keys: newKeys(b.clock, func(context.Context) (credential, error) { return c, nil })}
	_, _, err := trial.List(ctx, r.Read[0], "", 1)
	if fault.KindOf(err) == fault.Denied {
		return fault.Wrap(err, fault.Denied, "Boundaries want uniform access to the bucket: gcloud storage buckets update "+scheme+b.name+
			" --uniform-bucket-level-access. Or "+machineHint, "try it")
	}
	return err
}

// passed reads tokens from a file that somebody may replace by newer ones.
type passed struct {
	path  string
	clock store.Clock
}

// find is the newest one. One that has ended is waited for: whoever made it may
// renew it.
func (p passed) find(context.Context) (credential, error) {
	f, err := p.read()
	if err != nil {
		return credential{}, fault.Wrap(err, fault.Denied, renewHint, "read the credential")
	}
	if !p.clock.Now().Before(f.Until) {
		return credential{}, fmt.Errorf("read the credential: it expired at %s: %w", f.Until.UTC().Format(time.RFC3339), store.ErrBusy)
	}
	return credential{token: f.Token, expires: f.Until}, nil
}

func (p passed) read() (f passFile, err error) {
	text, err := os.ReadFile(p.path)
	if err != nil {
		return f, err
	}
	if json.Unmarshal(text, &f) != nil || f.Token == "" || f.Until.IsZero() { // an error of JSON would quote it
		return f, fmt.Errorf("read %s: it holds no credential", p.path)
	}
	return f, nil
}
