package programs

import "testing"

func TestAnInterpretersWordsNameWhatItRuns(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args           []string
		script, module string
	}{
		{[]string{"t.py", "-m", "x"}, "t.py", ""},
		{[]string{"-u", "t.py"}, "t.py", ""},
		{[]string{"-uB", "-W", "ignore", "-X", "dev", "sub/t.py"}, "sub/t.py", ""},
		{[]string{"-Wignore", "-Xdev", "t.py"}, "t.py", ""},
		{[]string{"-bW", "ignore", "t.py"}, "t.py", ""},
		{[]string{"--check-hash-based-pycs", "always", "t.py"}, "t.py", ""},
		{[]string{"--", "-t.py"}, "-t.py", ""},
		{[]string{"-m", "pkg.tool", "t.py"}, "", "pkg.tool"},
		{[]string{"-um", "pkg"}, "", "pkg"},
		{[]string{"-mpkg"}, "", "pkg"},
		{[]string{"-c", "print(1)", "t.py"}, "", ""},
		{[]string{"-uc", "print(1)"}, "", ""},
		{[]string{"-", "t.py"}, "", ""},
		{[]string{"--version"}, "", ""},
		{[]string{"-m"}, "", ""},
		{nil, "", ""},
	} {
		if script, module := PythonLine(row.args); script != row.script || module != row.module {
			t.Errorf("%q: script %q, module %q", row.args, script, module)
		}
	}
	for name, want := range map[string]bool{"python": true, "python3": true, "/usr/bin/python3.12": true, ".venv/bin/python": true, "pypy3": true,
		"python3-config": false, "t.py": false, "ipython": false, "pythonw": false} {
		if IsInterpreter(name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
}

func FuzzPythonLine(f *testing.F) {
	f.Add("-um", "pkg", "t.py")
	f.Add("-X", "", "-")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if script, module := PythonLine([]string{a, b, c}); script != "" && module != "" {
			t.Errorf("%q %q %q: both %q and %q", a, b, c, script, module)
		}
	})
}
