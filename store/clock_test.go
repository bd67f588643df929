package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/drover-run/drover/store"
)

func TestSystemClockSleepsUntilItsContextIsDone(t *testing.T) {
	why := errors.New("notice")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := store.System.Sleep(ctx, time.Hour); !errors.Is(err, why) {
		t.Errorf("slept: %v", err)
	}
	if err := store.System.Sleep(t.Context(), time.Nanosecond); err != nil {
		t.Errorf("slept: %v", err)
	}
}

func TestSystemClockNeverGoesBack(t *testing.T) {
	before := store.System.Boot()
	for range 1000 {
		now := store.System.Boot()
		if now < before || now <= 0 {
			t.Fatalf("%v after %v", now, before)
		}
		before = now
	}
}
