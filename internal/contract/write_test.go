package contract_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/internal/contract"
)

func TestWriteMakesWhatFilesAndPathsSay(t *testing.T) {
	for _, f := range []contract.Facts{alone(), processing(0, 1)} {
		view := t.TempDir()
		for _, place := range []struct{ root, at string }{
			{t.TempDir(), ""}, // the program sees the machine as it is
			{"", view},        // it sees view as "/"
			{"/inner", view},
		} {
			f = moved(f, place.root)
			for range 2 { // a second time changes nothing
				if err := f.Write(place.at); err != nil {
					t.Fatal(err)
				}
			}
			written(t, f, place.at)
		}
	}
}

// moved is f with all folders below another root.
func moved(f contract.Facts, root string) contract.Facts {
	inputs := map[string]string{}
	for name, folder := range f.Inputs {
		inputs[name] = root + strings.TrimPrefix(folder, f.Root)
	}
	f.Root, f.Inputs = root, inputs
	return f
}

func written(t *testing.T, f contract.Facts, at string) {
	t.Helper()
	for _, folder := range f.Paths().Folders() {
		if s, err := os.Stat(filepath.Join(at, folder)); err != nil || !s.IsDir() {
			t.Errorf("%s is not a folder: %v", folder, err)
		}
	}
	if f.Process {
		for _, folder := range f.Inputs {
			if s, err := os.Stat(filepath.Join(at, filepath.Dir(folder))); err != nil || !s.IsDir() {
				t.Errorf("input %s has nothing to be made in: %v", folder, err)
			}
		}
	}
	for path, want := range f.Files() {
		got, err := os.ReadFile(filepath.Join(at, path))
		if err != nil || string(got) != string(want) || !json.Valid(got) {
			t.Errorf("%s holds %q (%v), want %q", path, got, err, want)
		}
	}
	p := f.Paths()
	for _, absent := range []string{p.Failure, p.Message, filepath.Join(p.Output, "intermediate")} {
		if _, err := os.Lstat(filepath.Join(at, absent)); !os.IsNotExist(err) {
			t.Errorf("%s was made: %v", absent, err)
		}
	}
}

func TestWriteSaysWhereItStopped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, place := range []struct{ root, at string }{{file, ""}, {"", file}} {
		err := moved(alone(), place.root).Write(place.at)
		if err == nil || !strings.HasPrefix(err.Error(), "write contract: mkdir "+file) {
			t.Errorf("text is %v", err)
		}
	}
}
