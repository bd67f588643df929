package build

import (
	"context"
	"errors"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image"
)

// spoken passes on what a builder says.
type spoken chan string

func (s spoken) Write(b []byte) (int, error) {
	s <- string(b)
	return len(b), nil
}

// Of two who build the same for Docker one waits, and can be stopped there; others
// do not.
func TestOneBuildsAndTheOthersWait(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	said := make(spoken, 1)
	b := &Builder{Docker: &Docker{}, Words: said}
	order := Order{Plan: &image.Plan{Digest: "0123456789abcdef0123456789abcdef"}}
	done, waited, err := b.alone(t.Context(), order)
	if err != nil || waited {
		t.Fatalf("the first: waited %t, %v", waited, err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := b.alone(ctx, order)
		ended <- err
	}()
	<-said
	stop(errors.New("enough"))
	if err := <-ended; fault.KindOf(err) != fault.Interrupted {
		t.Errorf("one who waits is stopped with %v", err)
	}
	for _, other := range []Order{{Plan: &image.Plan{Digest: "123456789abcdef0123456789abcdef0"}}, {Plan: order.Plan, File: "a.tar"}} {
		done, waited, err := b.alone(t.Context(), other)
		if err != nil || waited {
			t.Errorf("another order: waited %t, %v", waited, err)
		}
		done()
	}
	go func() {
		done, waited, err := b.alone(t.Context(), order)
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
