package env

import (
	"github.com/drover-run/drover/internal/env/envtest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// asdfShim looks for .tool-versions as asdf does, and starts what the nearest that names
// python names, or DEFAULT.
const asdfShim = `#!/bin/sh
# exec asdf exec "python3" "$@"
dir=$PWD
while :; do
	path=$(sed -n 's/^python path://p' "$dir/.tool-versions" 2>/dev/null)
	[ -n "$path" ] && exec "$path/bin/python3" "$@"
	[ "$dir" = / ] && exec DEFAULT "$@"
	dir=$(dirname "$dir")
done
`

func TestAVersionFileAboveAJobsFolderChoosesNoPython(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file, text string // of the code
		own              bool   // its interpreter is taken
	}{
		{name: "no file"},
		{name: "another manager's file", file: ".python-version", text: "3.12\n"},
		{name: "a file that says nothing of python", file: ".tool-versions", text: "nodejs 22 # python\n"},
		{name: "the code's own", file: ".tool-versions", text: "python path:OWN\n", own: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := request(t, "")
			shared := inJob(t, &r)
			bin, own, planted := t.TempDir(), t.TempDir(), t.TempDir()
			touched := filepath.Join(t.TempDir(), "touched")
			envtest.Write(t, filepath.Join(planted, "bin", "python3"), "#!/bin/sh\ntouch "+touched+"\nexec "+realPython(t)+" \"$@\"\n")
			envtest.Write(t, filepath.Join(shared, ".tool-versions"), "python path:"+planted+"\n")
			chosen := filepath.Join(t.TempDir(), "chosen")
			envtest.Write(t, filepath.Join(own, "bin", "python3"), "#!/bin/sh\ntouch "+chosen+"\nexec "+realPython(t)+" \"$@\"\n")
			if c.file != "" {
				envtest.Write(t, filepath.Join(r.Dir, c.file), strings.ReplaceAll(c.text, "OWN", own))
			}
			envtest.Write(t, filepath.Join(bin, "python3"), strings.ReplaceAll(asdfShim, "DEFAULT", realPython(t)))
			r.Python = filepath.Join(bin, "python3")
			if p := resolve(t, r); p.Interpreter != realPython(t) {
				t.Errorf("the interpreter is %s", p.Interpreter)
			}
			if _, err := os.Stat(touched); err == nil {
				t.Error("the program that a file above the job's folder names was run")
			}
			if _, err := os.Stat(chosen); (err == nil) != c.own {
				t.Errorf("the code's own choice: %v, want %t", err, c.own)
			}
		})
	}
}
