package folder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// PlacesFile has the places of a target where this machine has started something, one on a line.
func PlacesFile(state string) string { return filepath.Join(state, "places") }

// ReadPlaces gives the places of a target where this machine has started something; state is the
// target's folder. What cannot be read is left out.
func ReadPlaces(state string) (all []string) {
	text, err := os.ReadFile(PlacesFile(state))
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

// NotePlace adds a place, before anything is started there.
func NotePlace(state, place string) error {
	if slices.Contains(ReadPlaces(state), place) {
		return nil
	}
	err := os.MkdirAll(state, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return Refused(state, "start agents", err)
	}
	f, err := os.OpenFile(PlacesFile(state), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return Refused(state, "start agents", err)
	}
	_, err = f.WriteString("\n" + place + "\n") // the first newline ends a line that was truncated
	return Refused(state, "start agents", errors.Join(err, f.Close()))
}
