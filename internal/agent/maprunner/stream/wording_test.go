package stream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
)

func TestASocketThatCannotBeMadeSaysWhatToSet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		dir, temp string
		kind      fault.Kind
		hint      string
	}{
		{filepath.Join(t.TempDir(), "none"), "", fault.Invalid, "Set TMPDIR to a folder with a short name."},
		{filepath.Join(t.TempDir(), strings.Repeat("n", longest)), file, fault.Full, "Free some space in TMPDIR."},
	} {
		if row.temp != "" {
			t.Setenv("TMPDIR", row.temp)
			if err := os.Mkdir(row.dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		s := &slot{r: &Runner{c: Config{Dir: row.dir}}}
		err := s.openSocket()
		if err == nil || !strings.HasPrefix(err.Error(), "make socket for items: ") || fault.Hint(err) != row.hint || fault.KindOf(err) != row.kind {
			t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
		}
	}
}
