package mem

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// Setup is the reference set-up: three pieces in memory. It can be cut off after any of
// them, and others can take their names.
type Setup struct {
	mu    sync.Mutex
	owner map[string]string // of a piece, by its name: "" is this set-up
	after int               // calls that still change something; -1: all
}

var _ driver.Setup = (*Setup)(nil)

// NewSetup is a set-up of which nothing is there.
func NewSetup() *Setup { return &Setup{owner: map[string]string{}, after: -1} }

// kinds are those of the pieces, in their order.
var kinds = []string{"role", "network", "queue"}

// pieceName follows from the whole scope, so that scopes are apart.
func pieceName(s driver.Scope, kind string) string {
	sum := sha256.Sum256(fmt.Append(nil, s.Store, "\x00", s.Project, "\x00", s.Detail))
	return fmt.Sprintf("drover-%s-%s-%x", s.Project, kind, sum[:4])
}

// Describe looks into memory.
func (u *Setup) Describe(ctx context.Context, s driver.Scope) (all []driver.Piece, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, kind := range kinds {
		all = append(all, u.piece(s, kind))
	}
	return all, nil
}

// piece is how one stands. Under u.mu.
func (u *Setup) piece(s driver.Scope, kind string) driver.Piece {
	p := driver.Piece{Kind: kind, Name: pieceName(s, kind), State: driver.PieceMissing, Idle: "$0.00"}
	p.Request = "Create " + kind + " " + p.Name
	if owner, there := u.owner[p.Name]; there && owner == "" {
		p.State = driver.PieceThere
	} else if there {
		p.State, p.Why = driver.PieceForeign, "it belongs to "+owner
	}
	return p
}

// Apply makes what is missing.
func (u *Setup) Apply(ctx context.Context, s driver.Scope, made func(driver.Piece)) error {
	all, err := u.Describe(ctx, s)
	if err != nil {
		return err
	}
	for _, p := range all {
		if p.State == driver.PieceForeign {
			return fault.New(fault.Invalid, "Remove it, or choose another project with `-p`.", "set up memory: %s %s: %s", p.Kind, p.Name, p.Why)
		}
	}
	for _, p := range all {
		if p.State != driver.PieceMissing {
			continue
		}
		if err := u.change(func() { u.owner[p.Name] = "" }); err != nil {
			return err
		}
		p.State = driver.PieceThere
		made(p)
	}
	return nil
}

// Destroy takes away what is its own.
func (u *Setup) Destroy(ctx context.Context, s driver.Scope, gone func(driver.Piece)) error {
	all, err := u.Describe(ctx, s)
	if err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- {
		p := all[i]
		if p.State != driver.PieceThere {
			continue
		}
		if err := u.change(func() { delete(u.owner, p.Name) }); err != nil {
			return err
		}
		p.State = driver.PieceMissing
		gone(p)
	}
	return nil
}

// change changes something, unless the set-up was cut off.
func (u *Setup) change(do func()) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.after == 0 {
		return fault.New(fault.Lost, "", "set up memory: cut off")
	}
	u.after--
	do()
	return nil
}

// CutOff lets n more changes happen and refuses all others; -1: none is refused.
func (u *Setup) CutOff(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.after = n
}

// Occupy gives the name of the first piece of a scope to another owner.
func (u *Setup) Occupy(s driver.Scope, owner string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.owner[pieceName(s, kinds[0])] = owner
}
