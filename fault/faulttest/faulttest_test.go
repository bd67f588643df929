package faulttest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
)

// failing is a test that only notes what it is told.
type failing struct {
	testing.TB
	said []string
}

func (f *failing) Helper()                   {}
func (f *failing) Errorf(_ string, a ...any) { f.said = append(f.said, a[len(a)-1].(string)) }

func TestSentencesAreComparedWordForWord(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("testdata/sayings", 0o700); err != nil {
		t.Fatal(err)
	}
	golden := "a folder:\n    invalid: open HERE/x: it is a file\n    Next: Name a folder.\nnothing:\n    no error\nother:\n    torn\n"
	if err := os.WriteFile(filepath.Join("testdata", "sayings", "all.golden"), []byte(golden), 0o600); err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string][]string{"torn": nil, "burnt": {"-    torn\n+    burnt\n"}} {
		var s Sayings
		s.Hide("/tmp/17", "HERE")
		s.Error("nothing", nil)
		s.Error("other", errors.New(word))
		s.Error("a folder", fault.New(fault.Invalid, "Name a folder.", "open /tmp/17/x: it is a file"))
		f := &failing{TB: t}
		if s.Compare(f, "all"); strings.Join(f.said, "|") != strings.Join(want, "|") {
			t.Errorf("of %s it says %q, want %q", word, f.said, want)
		}
	}
}
