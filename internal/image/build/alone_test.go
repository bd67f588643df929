package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image"
)

// spoken passes on what a builder says.
type spoken chan string

func (s spoken) Write(b []byte) (int, error) {
	s <- string(b)
	return len(b), nil
}

// Of two builds of the same for Docker one waits, and can be stopped there; others
// do not.
func TestOneBuildsAndTheOthersWait(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	said := make(spoken, 1)
	b := &Builder{Docker: &Docker{}, Words: said}
	order := Order{Plan: &image.Plan{Digest: "0123456789abcdef0123456789abcdef"}}
	done, waited, err := b.lockBuild(t.Context(), order)
	if err != nil || waited {
		t.Fatalf("the first: waited %t, %v", waited, err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := b.lockBuild(ctx, order)
		ended <- err
	}()
	<-said
	stop(errors.New("enough"))
	if err := <-ended; fault.KindOf(err) != fault.Interrupted {
		t.Errorf("one who waits is stopped with %v", err)
	}
	for _, other := range []Order{{Plan: &image.Plan{Digest: "123456789abcdef0123456789abcdef0"}}, {Plan: order.Plan, File: "a.tar"}} {
		done, waited, err := b.lockBuild(t.Context(), other)
		if err != nil || waited {
			t.Errorf("another order: waited %t, %v", waited, err)
		}
		done()
	}
	go func() {
		done, waited, err := b.lockBuild(t.Context(), order)
		done()
		if !waited {
			err = errors.Join(err, errors.New("it did not wait"))
		}
		ended <- err
	}()
	<-said
	done()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Another user that knows the name of a lock cannot make a build wait for it.
func TestNoBuildWaitsForALockThatAnotherUserCouldHold(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	digest := "0123456789abcdef0123456789abcdef"
	own := filepath.Join(temp, fmt.Sprintf("drover-%d", os.Geteuid()))
	if err := errors.Join(os.Mkdir(own, 0o700), os.Chmod(own, 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(own, "build-"+digest[:20]), filepath.Join(temp, fmt.Sprintf("drover-build-%d-%s", os.Getuid(), digest[:20]))} {
		f, err := os.Create(name)
		if err == nil {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var said bytes.Buffer
	words := writerFunc(func(b []byte) {
		if said.Write(b); strings.Contains(string(b), "waiting") {
			stop()
		}
	})
	b := &Builder{Docker: &Docker{}, Words: words}
	done, waited, err := b.lockBuild(ctx, Order{Plan: &image.Plan{Digest: digest}})
	if done(); waited || err != nil || !strings.Contains(said.String(), own+": it is drwxrwxrwx") {
		t.Errorf("it waited: %t, %v, saying %q", waited, err, said.String())
	}
}

type writerFunc func(b []byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}
