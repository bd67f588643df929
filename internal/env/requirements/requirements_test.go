package requirements

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRequirementsAreReadAsPipReadsThem(t *testing.T) {
	text := "\xef\xbb\xbf# head\r\n" +
		"scikit-learn>=1.3   # why\r\n" +
		"\n" +
		"Ruamel.YAML[jinja2] ; python_version < \"3.12\"\n" +
		"numpy==1.26.4 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n" +
		"torch \\\n# a comment ends it\n" +
		"url#fragment\n" +
		"pkg @ https://example.org/pkg.zip#sha256=aa\n" +
		"https://example.org/x-1.0-py3-none-any.whl\n" +
		"git+ssh://git@example.org/x.git@main#egg=x\n" +
		"./local[extra]\n" +
		"wheels/x-1.0-py3-none-any.whl\n" +
		"--editable=../lib\n" +
		"-e .\n" +
		"-r base.txt\n" +
		"-cbounds.txt\n" +
		"--extra-index-url https://example.org/simple\n" +
		"--pre"
	want := []Entry{
		{Line: 2, Text: "scikit-learn>=1.3", Name: "scikit-learn"},
		{Line: 4, Text: `Ruamel.YAML[jinja2] ; python_version < "3.12"`, Name: "ruamel-yaml"},
		{Line: 5, Text: "numpy==1.26.4", Name: "numpy"},
		{Line: 8, Text: "torch", Name: "torch"},
		{Line: 10, Text: "url#fragment"},
		{Line: 11, Text: "pkg @ https://example.org/pkg.zip#sha256=aa", Name: "pkg"},
		{Line: 12, Text: "https://example.org/x-1.0-py3-none-any.whl"},
		{Line: 13, Text: "git+ssh://git@example.org/x.git@main#egg=x"},
		{Line: 14, Text: "./local[extra]"},
		{Line: 15, Text: "wheels/x-1.0-py3-none-any.whl"},
		{Line: 16, Text: "-e ../lib"},
		{Line: 17, Text: "-e ."},
		{Line: 18, Text: "-r base.txt", Option: true},
		{Line: 19, Text: "-cbounds.txt", Option: true},
		{Line: 20, Text: "--extra-index-url https://example.org/simple", Option: true},
		{Line: 21, Text: "--pre", Option: true},
	}
	if d := cmp.Diff(want, Parse([]byte(text)), cmpopts.IgnoreUnexported(Entry{})); d != "" {
		t.Error(d)
	}
}

func TestLocalPlacesAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"numpy": "", "--pre": "", "--index-url https://example.org/a/b": "", "x @ https://example.org/x.zip": "",
		"-e git+https://example.org/x.git": "",
		"-e .":                             "/code", "-e ../lib[a]": "/lib", "./pkg ; os_name == 'posix'": "/code/pkg", "a/b": "/code/a/b",
		"x @ file:///w/x.whl": "/w/x.whl", "x-1.0.tar.gz": "/code/x-1.0.tar.gz", "-f wheels": "/code/wheels", "--find-links=/w": "/w",
	} {
		if got := place(Entry{Text: text, Folder: "/code"}); got != want {
			t.Errorf("place(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzRequirements(f *testing.F) {
	f.Add([]byte("a\\\nb # c\n-r x\n--hash=1\n"))
	f.Add([]byte("\\"))
	f.Add([]byte("-\n-=\n--\n-e\n@\n;[\n\x00\r"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := strings.Count(strings.ReplaceAll(string(data), "\r", "\n"), "\n") + 1
		last := 0
		for _, e := range Parse(data) {
			if e.Line <= last || e.Line > lines {
				t.Fatalf("line %d after %d of %d", e.Line, last, lines)
			}
			last = e.Line
			if e.Text == "" && !e.Option {
				t.Fatalf("an entry without text at line %d", e.Line)
			}
			if e.Name != Normal(e.Name) || strings.ContainsAny(e.Name, " \n[") {
				t.Fatalf("name %q", e.Name)
			}
			place(e)
		}
	})
}

// What PEP 723's own reference implementation takes out of a script, as its
// expression says; the last ones are no blocks of that name.
func TestBlocksAreFoundAsThePEPSays(t *testing.T) {
	for text, want := range map[string]string{
		"# /// script\n# a = 1\n#\n#   b = 2\n# ///\n":                      "a = 1\n\n  b = 2\n",
		"x = 1\n# /// script\r\n# a = 1\r\n# ///\r\ny = 2\n":                "a = 1\n",
		"# /// other\n# /// script\n# b\n# ///\n\n# /// script\n# a\n# ///": "a\n",
		"# /// script\n# a\n# ///\n# b\n# ///\n":                            "a\n///\nb\n",
		" # /// script\n# a\n# ///\n":                                       "",
		"# /// scripts\n# a\n# ///\n":                                       "",
		"print('# /// script')\n":                                           "",
	} {
		got, offset, err := findBlock(strings.ReplaceAll(text, "\r\n", "\n"), "s.py")
		if err != nil || got != want || (want == "") != (offset == 0) {
			t.Errorf("%q: %q after line %d, %v; want %q", text, got, offset, err, want)
		}
	}
}

// Boundaries that PEP 440 draws, as Python's own packaging draws them.
func TestPythonVersionsAreComparedAsPackagingDoes(t *testing.T) {
	specs := []string{"", ">=3.9", ">3.11", "<3.12,>=3.8", "==3.11.*", "!=3.11.*", "==3.11", "~=3.9", "~=3.11.2", "<=3.11", ">=3.11.7", "<3.11.7", "===3.11.7", "> 3.10 , != 3.11.6", ">=3.13.0rc1"}
	versions := []string{"3.8.18", "3.9.0", "3.10.13", "3.11.0", "3.11.6", "3.11.7", "3.12.1", "3.13.0", "4.0.0"}
	script := "import sys\nfrom pip._vendor.packaging.specifiers import SpecifierSet as S\n" +
		"for s in sys.argv[1].split(';'):\n  for v in sys.argv[2].split(';'): print(int(S(s).contains(v)))"
	out, err := exec.Command("python3", "-c", script, strings.Join(specs, ";"), strings.Join(versions, ";")).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(out))
	for i, s := range specs {
		b, err := NewBound(s, "")
		if err != nil {
			t.Fatal(err)
		}
		for j, v := range versions {
			if got := b.AllowsVersion(v); got != (want[i*len(versions)+j] == "1") {
				t.Errorf("%q allows %s: %t", s, v, got)
			}
		}
	}
	for _, s := range []string{"3.9", ">=", "^3.9", ">=3.9 || <2", ">=3.9 and a lot"} {
		if _, err := NewBound(s, ""); err == nil {
			t.Errorf("%q is taken for a range", s)
		}
	}
}

func TestPipfilesBecomeLinesToInstall(t *testing.T) {
	r := Request{Dir: t.TempDir(), Environ: []string{"LANG=C.UTF-8"}}
	lock := `{"_meta": {"sources": [
		{"url": "https://${USER}:${TOKEN}@own.example.org/simple", "verify_ssl": false}, {"url": "https://pypi.org/simple/"}, {"url": "https://two.example.org/simple"}]},
	"default": {
		"b": {"version": "==2", "extras": ["x", "y"], "markers": "os_name == 'posix'", "hashes": ["sha256:01", "sha256:02"]},
		"a": {"version": "==1"},
		"c": {"git": "https://example.org/c.git", "ref": "abc", "subdirectory": "py"},
		"d": {"path": "./libs/d", "editable": true},
		"e": {"file": "https://example.org/e.whl"},
		"f": {"version": "*"}}}`
	if err := os.WriteFile(filepath.Join(r.Dir, "Pipfile.lock"), []byte(lock), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := readPipfile(r)
	if err != nil {
		t.Fatal(err)
	}
	heads := []string{"--index-url https://${USER}:${TOKEN}@own.example.org/simple", "--trusted-host own.example.org", "--extra-index-url https://two.example.org/simple"}
	want := [][]string{
		append(heads[:3:3], "b[x,y]==2 ; os_name == 'posix' --hash=sha256:01 --hash=sha256:02"),
		append(heads[:3:3], "a==1", "c @ git+https://example.org/c.git@abc#subdirectory=py", "d @ file://"+r.Dir+"/libs/d", "e @ https://example.org/e.whl", "f"),
	}
	if d := cmp.Diff(want, m.Batches); d != "" {
		t.Error(d)
	}
}

func FuzzBlocks(f *testing.F) {
	f.Add("#!/usr/bin/env python3\n# /// script\n# dependencies = []\n# ///\nimport alpha\n")
	f.Add("# /// script\n#x\n# ///\n# /// a\n# ///")
	f.Fuzz(func(t *testing.T, text string) {
		_, offset, _ := findBlock(text, "s.py")
		if lines := strings.Split(text, "\n"); offset > 0 && lines[offset-1] != "# /// script" {
			t.Fatalf("line %d is %q", offset, lines[offset-1])
		}
	})
}

func FuzzCondaSpecs(f *testing.F) {
	f.Add("conda-forge::numpy >=1.2,<2")
	f.Add("a=1.*=x[build=1]")
	f.Fuzz(func(t *testing.T, text string) {
		var c CondaFile
		c.readDependency(text)
		for _, n := range c.Needs {
			if n[0] == "" || strings.ContainsAny(n[1], " |[") {
				t.Fatalf("%q", n)
			}
		}
	})
}
