package bundle

import (
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/bundletest"
)

func TestCodeThatCannotBeShippedSaysWhy(t *testing.T) {
	t.Parallel()
	at, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, other := filepath.Join(at, "code"), filepath.Join(at, "other")
	bundletest.WriteFiles(t, dir, map[string]string{"main.py": "x", "sub/x": "x"})
	bundletest.WriteFiles(t, other, map[string]string{"clash/main.py": "y", "main.py/x": "y", "out.py": "y"})
	pipe := filepath.Join(other, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	main, clash, inner, out := filepath.Join(dir, "main.py"), filepath.Join(other, "clash/main.py"), filepath.Join(other, "main.py/x"), filepath.Join(other, "out.py")
	for _, row := range []struct {
		source     Source
		kind       fault.Kind
		text, hint string
	}{
		{Source{Dir: at + "/no"}, fault.Missing, `scan code: "` + at + `/no": no such folder`, ""},
		{Source{Dir: main}, fault.Invalid, `scan code: "` + main + `": not a folder`, ""},
		{Source{Dir: dir, Script: "no.py"}, fault.Missing, `scan code: "no.py": no such file in ` + dir, ""},
		{Source{Dir: dir, Script: "sub"}, fault.Invalid, `scan code: "sub": not a file`, ""},
		{Source{Dir: dir, Script: out}, fault.Invalid, `scan code: "` + out + `": the script is outside ` + dir, "Choose a folder that holds the script with -s DIR."},
		{Source{Dir: dir, Extra: []string{pipe}}, fault.Invalid, `scan code: "` + pipe + `": neither a file nor a folder`, ""},
		{Source{Dir: dir, Extra: []string{clash}}, fault.Invalid, `scan code: "main.py": both ` + main + ` and ` + clash + ` would get this name`, "Rename one of them."},
		{Source{Dir: dir, Extra: []string{filepath.Dir(inner)}}, fault.Invalid, `scan code: "main.py": ` + main + ` would be a file and ` + inner + ` needs a folder there`, "Rename one of them."},
	} {
		_, err := Scan(t.Context(), row.source)
		bundletest.CheckError(t, err, row.kind, row.text, row.hint)
	}
}

func TestAFileThatGrewSaysHowToLeaveItOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"a": "x"})
	l := scan(t, Source{Dir: dir, Caps: Caps{Bytes: 10}})
	bundletest.WriteFiles(t, dir, map[string]string{"a": "much more than was there"})
	_, err := Pack(t.Context(), l, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "read 24 B, grown since it was scanned: ") || fault.Hint(err) != "Leave it out with a line in .droverignore." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
}
