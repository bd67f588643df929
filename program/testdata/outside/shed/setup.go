package shed

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// Setup is what the shed stands on: files below a folder, each with its owner in it.
type Setup struct {
	dir    string
	before func() error // each change; nil: nothing
}

var _ driver.Setup = (*Setup)(nil)

// owner is what the files of a set-up hold.
const owner = "made by drover target up shed\n"

func (u *Setup) path(s driver.Scope, kind string) string {
	sum := sha256.Sum256([]byte(s.Store)) // scopes are apart
	return filepath.Join(u.dir, "stands-on", fmt.Sprintf("%s-%s-%x", s.Project, kind, sum[:4]))
}

// Describe looks at the files.
func (u *Setup) Describe(ctx context.Context, s driver.Scope) (all []driver.Piece, err error) {
	for _, kind := range []string{"floor", "roof"} {
		p := driver.Piece{Kind: kind, Name: s.Project + "-" + kind, State: driver.PieceMissing, Request: "Write " + u.path(s, kind)}
		switch text, err := os.ReadFile(u.path(s, kind)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case string(text) == owner:
			p.State = driver.PieceThere
		default:
			p.State, p.Why = driver.PieceForeign, "something else made it"
		}
		all = append(all, p)
	}
	return all, context.Cause(ctx)
}

// Apply writes the files that are missing.
func (u *Setup) Apply(ctx context.Context, s driver.Scope, made func(driver.Piece)) error {
	all, err := u.Describe(ctx, s)
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.State == driver.PieceForeign {
			return fault.New(fault.Invalid, "Remove "+u.path(s, p.Kind)+", or choose another project with -p.", "set up shed: %s %s: %s", p.Kind, p.Name, p.Why)
		}
	}
	for _, p := range all {
		if p.State != driver.PieceMissing {
			continue
		}
		if err := u.mayChange(); err != nil {
			return err
		}
		err := os.MkdirAll(filepath.Join(u.dir, "stands-on"), 0o700)
		if err == nil {
			err = os.WriteFile(u.path(s, p.Kind), []byte(owner), 0o600)
		}
		if err != nil {
			return fault.Wrap(err, fault.Denied, "", "set up shed")
		}
		p.State = driver.PieceThere
		made(p)
	}
	return nil
}

// Destroy removes the files that a set-up has made.
func (u *Setup) Destroy(ctx context.Context, s driver.Scope, gone func(driver.Piece)) error {
	all, err := u.Describe(ctx, s)
	if err != nil {
		return err
	}
	for _, p := range slices.Backward(all) {
		if p.State != driver.PieceThere {
			continue
		}
		if err := u.mayChange(); err != nil {
			return err
		}
		if err := os.Remove(u.path(s, p.Kind)); err != nil {
			return fault.Wrap(err, fault.Denied, "", "take away shed")
		}
		p.State = driver.PieceMissing
		gone(p)
	}
	return nil
}

func (u *Setup) mayChange() error {
	if u.before == nil {
		return nil
	}
	return u.before()
}
