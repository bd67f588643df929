package mem_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/mem"
)

// twistedSetup is mem's with some of its methods replaced.
type twistedSetup struct {
	*mem.Setup
	describe func(context.Context, driver.Scope) ([]driver.Piece, error)
	apply    func(context.Context, driver.Scope, func(driver.Piece)) error
	destroy  func(context.Context, driver.Scope, func(driver.Piece)) error
}

func (u *twistedSetup) Describe(ctx context.Context, s driver.Scope) ([]driver.Piece, error) {
	return u.describe(ctx, s)
}
func (u *twistedSetup) Apply(ctx context.Context, s driver.Scope, made func(driver.Piece)) error {
	return u.apply(ctx, s, made)
}
func (u *twistedSetup) Destroy(ctx context.Context, s driver.Scope, gone func(driver.Piece)) error {
	return u.destroy(ctx, s, gone)
}

func setupPlace(twist func(*twistedSetup)) drivertest.SetupPlace {
	return drivertest.SetupPlace{
		Open: func(*testing.T) driver.Setup {
			m := mem.NewSetup()
			u := &twistedSetup{m, m.Describe, m.Apply, m.Destroy}
			twist(u)
			return u
		},
		CutOff: func(u driver.Setup, n int) { u.(*twistedSetup).CutOff(n) },
		Occupy: func(u driver.Setup, s driver.Scope) { u.(*twistedSetup).Occupy(s, "another team") },
	}
}

func TestMemSetupIsASetup(t *testing.T) { drivertest.RunSetup(t, setupPlace(func(*twistedSetup) {})) }

// setupMutants break one promise each.
var setupMutants = []struct {
	name, promise string
	twist         func(*twistedSetup)
}{
	{"makes what it describes", "describing changes nothing, and names every piece with its request", func(u *twistedSetup) {
		u.describe = func(ctx context.Context, s driver.Scope) ([]driver.Piece, error) {
			u.CutOff(-1)
			_ = u.Setup.Apply(ctx, s, func(driver.Piece) {})
			return u.Setup.Describe(ctx, s)
		}
	}},
	{"hides a request", "describing changes nothing, and names every piece with its request", func(u *twistedSetup) {
		u.describe = func(ctx context.Context, s driver.Scope) ([]driver.Piece, error) {
			all, err := u.Setup.Describe(ctx, s)
			if len(all) > 0 {
				all[0].Request = ""
			}
			return all, err
		}
	}},
	{"makes everything each time", "applying makes every piece, in order, and again nothing", func(u *twistedSetup) {
		u.apply = func(ctx context.Context, s driver.Scope, made func(driver.Piece)) error {
			if err := u.Setup.Destroy(ctx, s, func(driver.Piece) {}); err != nil {
				return err
			}
			return u.Setup.Apply(ctx, s, made)
		}
	}},
	{"refuses what is half made", "an apply that was cut off anywhere goes on", func(u *twistedSetup) {
		u.apply = func(ctx context.Context, s driver.Scope, made func(driver.Piece)) error {
			all, _ := u.Setup.Describe(ctx, s)
			there := slices.ContainsFunc(all, func(p driver.Piece) bool { return p.State == driver.PieceThere })
			missing := slices.ContainsFunc(all, func(p driver.Piece) bool { return p.State == driver.PieceMissing })
			if there && missing {
				return nil
			}
			return u.Setup.Apply(ctx, s, made)
		}
	}},
	{"takes what has the name for its own", "a piece that is foreign is refused before anything is made, and never taken away", func(u *twistedSetup) {
		u.apply = func(ctx context.Context, s driver.Scope, made func(driver.Piece)) error {
			u.Occupy(s, "")
			return u.Setup.Apply(ctx, s, made)
		}
	}},
	{"takes foreign pieces away", "a piece that is foreign is refused before anything is made, and never taken away", func(u *twistedSetup) {
		u.destroy = func(ctx context.Context, s driver.Scope, gone func(driver.Piece)) error {
			u.Occupy(s, "")
			return u.Setup.Destroy(ctx, s, gone)
		}
	}},
	{"takes away in the order of making", "destroying leaves nothing, and again does nothing", func(u *twistedSetup) {
		u.destroy = func(ctx context.Context, s driver.Scope, gone func(driver.Piece)) error {
			var all []driver.Piece
			err := u.Setup.Destroy(ctx, s, func(p driver.Piece) { all = append([]driver.Piece{p}, all...) })
			for _, p := range all {
				gone(p)
			}
			return err
		}
	}},
	{"takes only what is whole away", "a destroy that was cut off anywhere goes on", func(u *twistedSetup) {
		u.destroy = func(ctx context.Context, s driver.Scope, gone func(driver.Piece)) error {
			all, _ := u.Setup.Describe(ctx, s)
			if slices.ContainsFunc(all, func(p driver.Piece) bool { return p.State == driver.PieceMissing }) {
				return nil
			}
			return u.Setup.Destroy(ctx, s, gone)
		}
	}},
	{"takes every project away", "scopes are apart", func(u *twistedSetup) {
		u.destroy = func(ctx context.Context, s driver.Scope, gone func(driver.Piece)) error {
			for _, project := range []string{"suite", "other"} {
				s.Project = project
				if err := u.Setup.Destroy(ctx, s, gone); err != nil {
					return err
				}
			}
			return nil
		}
	}},
	{"works on when cancelled", "a cancelled context makes and takes away nothing", func(u *twistedSetup) {
		u.apply = func(ctx context.Context, s driver.Scope, made func(driver.Piece)) error {
			return u.Setup.Apply(context.WithoutCancel(ctx), s, made)
		}
	}},
}

// TestSetupMutant runs the suite against the mutant in the environment, if any.
func TestSetupMutant(t *testing.T) {
	for _, m := range setupMutants {
		if m.name == os.Getenv(mutantVariable) {
			drivertest.RunSetup(t, setupPlace(m.twist))
		}
	}
}

func TestEveryPromiseOfASetupCatchesItsMutant(t *testing.T) {
	for _, m := range setupMutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			promise := strings.ReplaceAll(m.promise, " ", "_")
			cmd := exec.Command(os.Args[0], "-test.run=^TestSetupMutant$/^"+regexp.QuoteMeta(promise)+"$", "-test.timeout=1m")
			cmd.Env = append(os.Environ(), mutantVariable+"="+m.name, "GORACE=atexit_sleep_ms=0")
			if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), "--- FAIL: TestSetupMutant/"+promise) {
				t.Errorf("the promise %q holds for it: %v\n%s", m.promise, err, out)
			}
		})
	}
}
