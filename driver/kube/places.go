package kube

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/driver/folder"
)

// placesFile has the sites where this machine has started something, one on a line.
func placesFile(state string) string { return filepath.Join(state, "places") }

// readPlaces reads it; what cannot be read is empty.
func readPlaces(state string) (all []string) {
	text, err := os.ReadFile(placesFile(state))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// notePlace adds a site, before anything is started there.
func notePlace(state string, s site) error {
	if slices.Contains(readPlaces(state), s.String()) {
		return nil
	}
	err := os.MkdirAll(state, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return folder.Refused(state, "start agents", err)
	}
	f, err := os.OpenFile(placesFile(state), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return folder.Refused(state, "start agents", err)
	}
	_, err = f.WriteString("\n" + s.String() + "\n") // the first newline ends a line that was truncated
	return folder.Refused(state, "start agents", errors.Join(err, f.Close()))
}
