//go:build !linux

package proc

import (
	"errors"
	"testing"
)

func TestThereAreNoViewsHere(t *testing.T) {
	if _, err := Start(t.Context(), Command{Path: "true", View: &View{}}); !errors.Is(err, ErrNoView) {
		t.Errorf("got %v", err)
	}
}
