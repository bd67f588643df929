//go:build !linux

package proc

import (
	"errors"
	"testing"

	"github.com/drover-run/drover/internal/proc/mount"
)

func TestThereAreNoViewsHere(t *testing.T) {
	if _, err := Start(t.Context(), Command{Path: "true", View: &mount.View{}}); !errors.Is(err, mount.ErrNoView) {
		t.Errorf("got %v", err)
	}
}
