package main_test

import (
	"os/exec"
	"strings"
	"testing"
)

// Only the program that make chaos builds for itself can make its store misbehave.
func TestTheReleasedProgramHasNoWeather(t *testing.T) {
	t.Parallel()
	for tags, want := range map[string]bool{"grpcnotrace": false, "grpcnotrace,chaos": true} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", tags, ".").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := strings.Contains(string(out), "/store/flaky\n"); got != want {
			t.Errorf("-tags %s: store/flaky is linked: %v, want %v", tags, got, want)
		}
	}
}
