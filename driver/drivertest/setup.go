package drivertest

import (
	"context"
	"slices"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// SetupPlace is what a driver's tests tell the suite of a set-up and its account.
type SetupPlace struct {
	// Open makes a set-up in an account of its own, in which no piece exists.
	Open func(t *testing.T) driver.Setup
	// CutOff lets n more changes happen and makes every later one fail; -1: none fails.
	CutOff func(u driver.Setup, n int)
	// Occupy gives the name of a piece of the scope to something else.
	Occupy func(u driver.Setup, s driver.Scope)
}

// setupPromises are the promises of each driver.Setup.
var setupPromises = []struct {
	name string
	keep func(*testing.T, SetupPlace)
}{
	{"describing changes nothing, and names every piece with its request", describes},
	{"applying makes every piece, in order, and again nothing", applies},
	{"an apply that was cut off anywhere goes on", appliesOn},
	{"a piece that is foreign is refused before anything is made, and never taken away", sparesForeign},
	{"destroying leaves nothing, and again does nothing", destroys},
	{"a destroy that was cut off anywhere goes on", destroysOn},
	{"scopes are apart", scopesApart},
	{"a cancelled context makes and takes away nothing", setupCancelled},
}

// RunSetup proves every promise of a set-up, each in an account of its own.
func RunSetup(t *testing.T, place SetupPlace) {
	for _, p := range setupPromises {
		t.Run(p.name, func(t *testing.T) { p.keep(t, place) })
	}
}

var scope = driver.Scope{Store: "s3://bucket/jobs", Project: "suite"}

// others each differ from scope in one thing.
var others = []driver.Scope{
	{Store: "s3://bucket/jobs", Project: "other"},
	{Store: "s3://another/jobs", Project: "suite"},
}

// pieces are the pieces of a scope; there is at least one.
func pieces(t *testing.T, u driver.Setup, s driver.Scope) []driver.Piece {
	t.Helper()
	all, err := u.Describe(context.Background(), s)
	if err != nil || len(all) == 0 {
		t.Fatalf("Describe gives %v, %v; want pieces", all, err)
	}
	return all
}

// expectStates fails unless all pieces of a scope are in a state.
func expectStates(t *testing.T, u driver.Setup, s driver.Scope, want driver.PieceState) {
	t.Helper()
	for _, p := range pieces(t, u, s) {
		if p.State != want {
			t.Errorf("%s %s is %s, want %s", p.Kind, p.Name, p.State, want)
		}
	}
}

// apply applies the set-up and gives the pieces that were made.
func apply(t *testing.T, u driver.Setup, s driver.Scope) (made []string) {
	t.Helper()
	if err := u.Apply(context.Background(), s, func(p driver.Piece) { made = append(made, p.Name) }); err != nil {
		t.Fatalf("Apply: %v", err)
	}
	return made
}

func destroy(t *testing.T, u driver.Setup, s driver.Scope) (gone []string) {
	t.Helper()
	if err := u.Destroy(context.Background(), s, func(p driver.Piece) { gone = append(gone, p.Name) }); err != nil {
		t.Fatalf("Destroy: %v", err)
	}
	return gone
}

func names(all []driver.Piece) (list []string) {
	for _, p := range all {
		list = append(list, p.Name)
	}
	return list
}

func describes(t *testing.T, place SetupPlace) {
	u := place.Open(t)
	place.CutOff(u, 0)
	all := pieces(t, u, scope)
	for _, p := range all {
		if p.Kind == "" || p.Name == "" || p.Request == "" || p.State != driver.PieceMissing {
			t.Errorf("a piece is %+v, want a kind, a name, a request, and that it is missing", p)
		}
	}
	if again := pieces(t, u, scope); !slices.Equal(all, again) {
		t.Errorf("Describe gives %v, and gave %v", again, all)
	}
}

func applies(t *testing.T, place SetupPlace) {
	u := place.Open(t)
	want := names(pieces(t, u, scope))
	if made := apply(t, u, scope); !slices.Equal(made, want) {
		t.Errorf("Apply makes %q, want %q", made, want)
	}
	expectStates(t, u, scope, driver.PieceThere)
	if made := apply(t, u, scope); len(made) != 0 {
		t.Errorf("a second Apply makes %q", made)
	}
	expectStates(t, u, scope, driver.PieceThere)
}

func appliesOn(t *testing.T, place SetupPlace) {
	for n := range len(pieces(t, place.Open(t), scope)) {
		u := place.Open(t)
		place.CutOff(u, n)
		made := 0
		if err := u.Apply(context.Background(), scope, func(driver.Piece) { made++ }); err == nil || made > n {
			t.Errorf("an Apply that is cut off after %d changes gives %v, and has made %d pieces", n, err, made)
		}
		place.CutOff(u, -1)
		apply(t, u, scope)
		expectStates(t, u, scope, driver.PieceThere)
	}
}

func sparesForeign(t *testing.T, place SetupPlace) {
	u := place.Open(t)
	place.Occupy(u, scope)
	foreign := func() (n int) {
		for _, p := range pieces(t, u, scope) {
			if p.State == driver.PieceForeign && p.Why != "" {
				n++
			} else if p.State != driver.PieceMissing {
				t.Errorf("%s %s is %s, and something else has its name", p.Kind, p.Name, p.State)
			}
		}
		return n
	}
	if n := foreign(); n != 1 {
		t.Fatalf("%d pieces are foreign, and say why; want 1", n)
	}
	err := u.Apply(context.Background(), scope, func(p driver.Piece) { t.Errorf("Apply makes %s", p.Name) })
	if err == nil || fault.KindOf(err) != fault.Invalid {
		t.Errorf("Apply gives %v, want a fault of kind invalid", err)
	}
	if gone := destroy(t, u, scope); len(gone) != 0 {
		t.Errorf("Destroy takes away %q", gone)
	}
	if n := foreign(); n != 1 {
		t.Errorf("%d pieces are foreign after Destroy, want 1", n)
	}
}

func destroys(t *testing.T, place SetupPlace) {
	u := place.Open(t)
	made := apply(t, u, scope)
	slices.Reverse(made)
	if gone := destroy(t, u, scope); !slices.Equal(gone, made) {
		t.Errorf("Destroy takes away %q, want %q", gone, made)
	}
	expectStates(t, u, scope, driver.PieceMissing)
	if gone := destroy(t, u, scope); len(gone) != 0 {
		t.Errorf("a second Destroy takes away %q", gone)
	}
}

func destroysOn(t *testing.T, place SetupPlace) {
	for n := range len(pieces(t, place.Open(t), scope)) {
		u := place.Open(t)
		apply(t, u, scope)
		place.CutOff(u, n)
		if err := u.Destroy(context.Background(), scope, func(driver.Piece) {}); err == nil {
			t.Errorf("a Destroy that is cut off after %d changes gives no error", n)
		}
		place.CutOff(u, -1)
		destroy(t, u, scope)
		expectStates(t, u, scope, driver.PieceMissing)
	}
}

func scopesApart(t *testing.T, place SetupPlace) {
	for _, other := range others {
		u := place.Open(t)
		apply(t, u, scope)
		expectStates(t, u, other, driver.PieceMissing)
		apply(t, u, other)
		destroy(t, u, other)
		expectStates(t, u, scope, driver.PieceThere)
	}
}

func setupCancelled(t *testing.T, place SetupPlace) {
	u := place.Open(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := u.Apply(ctx, scope, func(driver.Piece) {}); err == nil {
		t.Error("Apply gives no error")
	}
	expectStates(t, u, scope, driver.PieceMissing)
	apply(t, u, scope)
	if err := u.Destroy(ctx, scope, func(driver.Piece) {}); err == nil {
		t.Error("Destroy gives no error")
	}
	expectStates(t, u, scope, driver.PieceThere)
}
