package folder

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// publish makes a placement with that request.
func publish(dir, who string) error {
	return Publish(dir, who, func(tmp string) error { return Touch(filepath.Join(tmp, "of "+who)) })
}

// alone fails the test unless the names in dir are want, in order.
func alone(t *testing.T, dir string, want ...string) {
	t.Helper()
	var have []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		have = append(have, e.Name())
	}
	if err != nil || !slices.Equal(have, want) {
		t.Errorf("in the folder are %q, %v; want %q", have, err, want)
	}
}

func TestAPlacementIsMadeByOneStarter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	base := filepath.Join(dir, "abcd2345-1")
	if err := publish(base, "one"); err != nil {
		t.Fatal(err)
	}
	if err := publish(base, "two"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the second starter is told %v, want fs.ErrExist", err)
	}
	var who string
	if err := ReadJSON(RequestFile(base), &who); err != nil || who != "one" {
		t.Errorf("the request is %q, %v; want that of the first", who, err)
	}
	alone(t, base, "of one", "request")
	alone(t, dir, "abcd2345-1")
}

func TestAPlacementThatCannotBeFilledIsNotMade(t *testing.T) {
	dir := t.TempDir()
	full := errors.New("full")
	if err := Publish(filepath.Join(dir, "abcd2345-1"), 1, func(string) error { return full }); !errors.Is(err, full) {
		t.Errorf("it gives %v, want its reason", err)
	}
	alone(t, dir)
}

func TestAPlacementIsHeldByOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "abcd2345-1")
	if _, err := Hold(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("to hold what is not there gives %v, want fs.ErrNotExist", err)
	}
	if err := publish(dir, "one"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		lock, err := Hold(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Hold(dir); !errors.Is(err, ErrHeld) || !IsHeld(dir) {
			t.Errorf("while one holds it another one is told %v", err)
		}
		lock.Close()
		if IsHeld(dir) {
			t.Error("it is held by nobody, and yet held")
		}
	}
}

// A process that opened the folder before it was exchanged has locked another one.
func TestAnExchangedPlacementIsNotHeld(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "abcd2345-1")
	if err := publish(dir, "one"); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(RequestFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := isStill(f); err != nil {
		t.Errorf("untouched it gives %v", err)
	}
	if err := TakeAway(dir); err != nil {
		t.Fatal(err)
	}
	if err := isStill(f); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("taken away it gives %v, want fs.ErrNotExist", err)
	}
	if err := publish(dir, "two"); err != nil {
		t.Fatal(err)
	}
	if err := isStill(f); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("exchanged it gives %v, want fs.ErrNotExist", err)
	}
}

// The first claimant is refused, and removes its folder: the other one makes its own.
func TestAClaimOutlivesTheOneBeforeIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "abcd2345-1")
	if err := publish(dir, "one"); err != nil {
		t.Fatal(err)
	}
	first, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	waits, looks := make(chan bool), 0
	go func() {
		<-waits
		if err := TakeAway(dir); err != nil {
			t.Error(err)
		}
		first.Close()
	}()
	lock, err := Claim(t.Context(), dir, func(dir string) (*os.File, error) {
		if looks++; looks == 2 { // it has found the lock taken
			close(waits)
		}
		return Hold(dir)
	}, func() error { return publish(dir, "two") })
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	var who string
	if err := ReadJSON(lock.Name(), &who); err != nil || who != "two" {
		t.Errorf("it holds the placement of %q, %v; want its own", who, err)
	}
}

func TestAClaimWaitsNoLongerThanItsCaller(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "abcd2345-1")
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := Claim(ctx, dir, func(string) (*os.File, error) {
		cancel(gone)
		return nil, ErrHeld
	}, func() error { return publish(dir, "one") })
	if !errors.Is(err, gone) {
		t.Errorf("it gives %v, want why its caller went", err)
	}
	full := errors.New("full")
	if _, err := Claim(t.Context(), dir, nil, func() error { return full }); !errors.Is(err, full) {
		t.Errorf("what cannot be made gives %v, want its reason", err)
	}
}

func TestAFileSystemWithoutLocksIsNamed(t *testing.T) {
	for answer, want := range map[error]error{unix.EWOULDBLOCK: ErrHeld, unix.ENOLCK: ErrNoLocks, unix.EOPNOTSUPP: ErrNoLocks, unix.ENOSYS: ErrNoLocks, unix.EIO: unix.EIO, nil: nil} {
		if err := refusedLock(answer); !errors.Is(err, want) || want != ErrNoLocks && errors.Is(err, ErrNoLocks) {
			t.Errorf("%v means %v, want %v", answer, err, want)
		}
	}
	if err := Refused("/x", "start agents", refusedLock(unix.ENOLCK)); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("a person is told %v", err)
	}
	if err := Refused("/x", "start agents", nil); err != nil {
		t.Errorf("nothing is made %v", err)
	}
}

func TestWhatIsTakenAwayGoesWhole(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "abcd2345-1")
	if err := publish(base, "one"); err != nil {
		t.Fatal(err)
	}
	shut := filepath.Join(base, "shut")
	for _, err := range []error{os.Mkdir(shut, 0o700), Touch(filepath.Join(shut, "file")), os.Chmod(shut, 0)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := TakeAway(base); err != nil {
		t.Fatal(err)
	}
	alone(t, dir)
	if err := TakeAway(base); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a second time it gives %v, want fs.ErrNotExist", err)
	}
}

func TestListTakesAwayWhatDeadStartersAndRemoversLeft(t *testing.T) {
	dir := t.TempDir()
	old, young, grave := making+"old", making+"young", going+"x"
	for _, name := range []string{old, young, grave, "abcd2345-2", "abcd2345-1", "abcd2345-3", "notes"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "in"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * stale)
	if err := os.Chtimes(filepath.Join(dir, old), past, past); err != nil {
		t.Fatal(err)
	}
	held, err := List(dir, "local", func(h driver.Handle, base string) (bool, error) {
		err := os.RemoveAll(filepath.Join(base, "in"))
		if h.Placement == 1 {
			err = errors.New("its request is damaged") // and hides no other
		}
		return h.Placement == 3, err
	})
	want := []driver.Handle{{Target: "local", Job: "abcd2345", Placement: 1}, {Target: "local", Job: "abcd2345", Placement: 2}}
	if diff := cmp.Diff(want, held); diff != "" || err != nil {
		t.Errorf("listed, %v: difference:\n%s", err, diff)
	}
	alone(t, dir, young, "abcd2345-1", "abcd2345-2", "abcd2345-3", "notes") // its starter may live
	if held, err := List(filepath.Join(dir, "none"), "local", nil); held != nil || err != nil {
		t.Errorf("in no folder are %v, %v", held, err)
	}
}

func TestAPlacementIsSweptOnlyWhenItIsTo(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "abcd2345-1")
	broken := errors.New("broken")
	sweep := func(alive func() (bool, error)) (bool, error) {
		return Sweep(base, Hold, alive, func() error { return TakeAway(base) })
	}
	dead := func() (bool, error) { return false, nil }
	if gone, err := sweep(dead); gone || err != nil {
		t.Errorf("one that was never there: %v, %v", gone, err)
	}
	if err := publish(base, "one"); err != nil {
		t.Fatal(err)
	}
	if gone, err := sweep(dead); gone || err != nil {
		t.Errorf("nobody has asked for it: %v, %v", gone, err)
	}
	if err := Touch(RemoveFile(base)); err != nil {
		t.Fatal(err)
	}
	if gone, err := sweep(func() (bool, error) { return true, nil }); gone || err != nil {
		t.Errorf("an agent lives: %v, %v", gone, err)
	}
	if gone, err := sweep(func() (bool, error) { return false, broken }); gone || !errors.Is(err, broken) {
		t.Errorf("nobody knows whether one lives: %v, %v", gone, err)
	}
	lock, err := Hold(base)
	if err != nil {
		t.Fatal(err)
	}
	if gone, err := sweep(dead); gone || err != nil {
		t.Errorf("somebody is at it: %v, %v", gone, err)
	}
	lock.Close()
	alone(t, dir, "abcd2345-1")
	exchange := func() (bool, error) {
		return false, errors.Join(TakeAway(base), publish(base, "two"), Touch(RemoveFile(base)))
	}
	if gone, err := sweep(exchange); gone || err != nil {
		t.Errorf("it was exchanged while we looked: %v, %v", gone, err)
	}
	alone(t, base, "of two", "remove", "request")
	if gone, err := sweep(dead); !gone || err != nil {
		t.Errorf("it is to go: %v, %v", gone, err)
	}
	alone(t, dir)
	if err := errors.Join(publish(base, "three"), Touch(RemoveFile(base))); err != nil {
		t.Fatal(err)
	}
	if gone, err := sweep(func() (bool, error) { return false, errors.Join(TakeAway(base), broken) }); !gone || err != nil {
		t.Errorf("another one was quicker: %v, %v", gone, err)
	}
}
