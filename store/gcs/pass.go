package gcs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

const (
	// passWait is how long the servers of credentials may take.
	passWait = 15 * time.Second

	machineHint = "let agents use the identity of their machine: `drover config set agent_profile machine`."
	renewHint   = "Go on with the job: `drover resume` makes it anew."
	narrowHint  = "These credentials give no narrower ones: name a service account that you may be, " +
		"`drover config set agent_role NAME@PROJECT.iam.gserviceaccount.com`, or " + machineHint
)

// Pass makes a credential that gives r on this bucket and prefix for an hour: a token of
// account, which the caller must be allowed to use, or without one of the caller's own
// account, inside a boundary that allows no more. The token is tried once. If no such token
// can be made, that is an error: the caller's own credential is never handed over. A bucket
// that asks for no credentials needs none: File is nil.
func (b *Bucket) Pass(ctx context.Context, r store.Rights, account string) (store.Pass, error) {
	doing := "make a credential for " + b.String()
	if account != "" && !IsAccount(account) {
		return store.Pass{}, fault.New(fault.Invalid, "Name a service account: `drover config set agent_role NAME@PROJECT.iam.gserviceaccount.com`.",
			"%s: %q is not a Google account that can be used", doing, account)
	}
	if b.conn.tokens == nil {
		return store.Pass{}, nil
	}
	var made google.Token
	busy := func(err error) bool { return errors.Is(err, store.ErrBusy) }
	err := cloud.Retry(ctx, b.conn.clock, passWait, busy, func(ctx context.Context) (err error) {
		made, err = b.narrowedToken(ctx, r, account)
		return storeBusy(err)
	})
	switch {
	case context.Cause(ctx) != nil:
		return store.Pass{}, context.Cause(ctx)
	case errors.Is(err, store.ErrBusy):
		return store.Pass{}, fault.Wrap(err, fault.Lost, "Try again, or "+machineHint, "%s", doing)
	case err != nil:
		return store.Pass{}, fmt.Errorf("%s: %w", doing, err)
	}
	text, err := google.File{Token: made.Value, Until: made.Expires.UTC(), Comment: "opens " + b.String() + "; written by drover"}.Bytes()
	return store.Pass{File: text, Until: made.Expires}, err
}

// narrowedToken is a token that may do r and no more, and has been tried.
func (b *Bucket) narrowedToken(ctx context.Context, r store.Rights, account string) (made google.Token, err error) {
	root, err := b.conn.source.Token(ctx, google.Platform)
	if err == nil && account != "" {
		root, err = b.conn.source.Impersonate(ctx, root, account)
	}
	if err == nil {
		made, err = b.conn.source.Narrow(ctx, root, b.accessBoundary(r), narrowHint)
	}
	switch {
	case errors.Is(err, google.ErrNoToken):
		return made, fault.Wrap(google.ErrNoToken, fault.Lost, "Try again, or "+machineHint, "narrow the token")
	case err == nil:
		err = b.tryToken(ctx, made, r)
	}
	return made, err
}

// tryToken lists a little with a token: an error here, about something that the boundary
// allows and the bucket does not, is better than one of an agent.
func (b *Bucket) tryToken(ctx context.Context, t google.Token, r store.Rights) error {
	if len(r.Read) == 0 {
		return nil
	}
	trial := &Bucket{place: b.place, conn: &connection{place: b.place, clock: b.conn.clock, client: b.conn.client, patience: b.conn.patience,
		tokens: google.NewTokens(b.conn.clock, func(context.Context) (google.Token, error) { return t, nil })}}
	_, _, err := trial.List(ctx, r.Read[0], "", 1)
	if fault.KindOf(err) == fault.Denied {
		return fault.Wrap(err, fault.Denied, "Boundaries want uniform access to the bucket: `gcloud storage buckets update "+scheme+b.name+
			" --uniform-bucket-level-access`. Or "+machineHint, "try it")
	}
	return err
}
