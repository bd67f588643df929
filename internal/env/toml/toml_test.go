package toml

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plain is a document as JSON has it: numbers and dates are left out, as
// nothing here reads them.
func plain(v any) any {
	switch v := v.(type) {
	case *Table:
		out := map[string]any{}
		for k, n := range v.keys {
			out[k] = plain(n.Value)
		}
		return out
	case []Node:
		out := []any{}
		for _, n := range v {
			out = append(out, plain(n.Value))
		}
		return out
	case bare:
		return nil
	}
	return v
}

// documents are read by Python's own reader too.
var documents = []string{
	"", "# only\n", "a = 1", "a=1\r\nb='x'\r\n", "\ufeffa = true\n",
	"a.b.c = 'x'\na.b.d = \"y\"\n\"a\".\"e f\" = ''\n'g.h' = false # c\n",
	"[t]\nx = 1\n[t.u]\ny = 2\n[t . v]\n[\"quoted key\".w]\nz=3\n[a.b.c]\n[a]\nq=1\n",
	"[[l]]\nn = 'one'\n[[l]]\nn = 'two'\n[l.sub]\nx = 1\n[[l.deep]]\ny = 2\n[[l.deep]]\n",
	"a = [ ]\nb = [1, 'two', [3, [4]], ] # end\nc = [\n  # comment\n  'x', # more\n  'y'\n]\n",
	"a = {}\nb = { c = 1, d.e = 'x', f = { g = [ { h = 1 } ] } }\n",
	`a = "\b\t\n\f\r\"\\ \u00e9 \U0001F600"` + "\n" + `b = 'no \escape'` + "\n",
	"a = \"\"\"\nfirst\n  second \\\n     joined\n\n\"quoted\" \"\"two\"\"\"\"\nb = '''\nraw \\ 'x' ''''\nc = \"\"\"\"\"\"\nd = ''''''\n",
	"i = [0, +1, -1, 1_000, 0xDEAD_beef, 0o17, 0b1_0]\nf = [1.0, -0.01, 5e+22, 1e06, 6.6E-34, inf, -inf, nan, 9_2.2_2]\n",
	"d = [1979-05-27T07:32:00Z, 1979-05-27 07:32:00.5-07:00, 1979-05-27T07:32:00, 1979-05-27, 07:32:00]\n",
	"1234 = 'bare'\n-x_ = 1\n",
	"[project]\nname = \"x\"\ndependencies = [\n  \"numpy>=1.26\", # why\n  'torch; sys_platform == \"linux\"',\n]\n[tool.uv.sources]\ntorch = [{ index = \"cpu\", marker = \"x\" }]\n",
}

const tomllib = `
import json, sys
try: import tomllib as t
except ImportError: import pip._vendor.tomli as t
def plain(v):
    if isinstance(v, dict): return {k: plain(x) for k, x in v.items()}
    if isinstance(v, list): return [plain(x) for x in v]
    return v if isinstance(v, (str, bool)) else None
out = []
for d in json.load(sys.stdin):
    try: out.append(plain(t.loads(d.lstrip("\ufeff"))))
    except t.TOMLDecodeError: out.append("broken")
json.dump(out, sys.stdout)
`

func pythonReads(t *testing.T, docs []string) []any {
	t.Helper()
	in, err := json.Marshal(docs)
	if err != nil {
		t.Fatal(err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("these tests need a python3 that runs")
	}
	cmd := exec.Command(python, "-c", tomllib)
	cmd.Stdin = strings.NewReader(string(in))
	data, err := cmd.Output()
	var out []any
	if err != nil || json.Unmarshal(data, &out) != nil || len(out) != len(docs) {
		t.Fatalf("%v: %s", err, data)
	}
	return out
}

func TestTOMLIsReadAsPythonReadsIt(t *testing.T) {
	for i, want := range pythonReads(t, documents) {
		got, err := Parse(documents[i])
		if err != nil {
			t.Errorf("%q: %v", documents[i], err)
			continue
		}
		if d := cmp.Diff(want, plain(got)); d != "" {
			t.Errorf("%q: %s", documents[i], d)
		}
	}
}

func TestWhatIsNoTOMLIsRefusedWithItsLine(t *testing.T) {
	cases := []struct {
		text, why string
		line      int
	}{
		{"a = 1\nb\n", `the end of the line where "=" should be`, 2},
		{"a = \n", "the end of the line where a value should be", 1},
		{"\n\na = 1 2\n", `"2" where the line should end`, 3},
		{"a = [\n1,\n2\n", `the end where "," or "]" should be`, 4},
		{"a = ['x'\n'y']\n", `"'" where "," or "]" should be`, 2},
		{"a = \"x\nb = 1\n", `a string without its closing "`, 1},
		{"a = '''\nx\n", `a string without its closing '''`, 3},
		{"a = yes\n", `"yes" is not a value; text stands in quotes`, 1},
		{"a = 01\n", `"01" is not a value; text stands in quotes`, 1},
		{"a = 1\na = 2\n", `"a" is there twice`, 2},
		{"[a]\n[b]\n[a]\n", `"a" is there already`, 3},
		{"a = 1\n[a]\n", `"a" is there already`, 2},
		{"a = []\n[[a]]\n", `"a" is there already`, 2},
		{"a = {x=1}\n[a.b]\n", `"a" is there already, and complete`, 2},
		{"a = {x=1}\na.y = 1\n", `"a" is there already`, 2},
		{"[a\n", `the end of the line where "]" should be`, 1},
		{"[[a]\n", `"]" where "]]" should be`, 1},
		{"a = {x=1\n}\n", `the end of the line where "," or "}" should be`, 1},
		{`a = "\q"`, `"\" before "q" means nothing`, 1},
		{`a = "\ud800"`, `"\\ud800" is not a character`, 1},
		{"a = '\x01'", "a control character in a string", 1},
		{"= 1\n", `"=" where a key should be`, 1},
		{"a = " + strings.Repeat("[", 200), "more than 100 values in one another", 1},
		{strings.Repeat("a.", 200) + "a = 1", "more than 100 keys in one another", 1},
	}
	var docs []string
	for _, c := range cases {
		docs = append(docs, c.text)
	}
	theirs := pythonReads(t, docs[:len(docs)-1]) // Python has no bound on keys
	for i, c := range cases {
		_, err := Parse(c.text)
		var b SyntaxError
		if !errors.As(err, &b) || b.Why != c.why || b.Line != c.line {
			t.Errorf("%.40q: %v, want line %d: %s", c.text, err, c.line, c.why)
		}
		if i < len(theirs) && theirs[i] != "broken" {
			t.Errorf("%.40q: python reads it", c.text)
		}
	}
}

func TestValuesKnowTheirLines(t *testing.T) {
	doc, err := Parse("# head\n[project]\ndependencies = [\n  'a',\n\n  '''\nlong''', 'b',\n]\n[[package]]\nname = 'x'\n")
	if err != nil {
		t.Fatal(err)
	}
	deps := doc.Lookup("project", "dependencies")
	lines := []int{deps.Line, doc.Lookup("package").List()[0].Line, doc.Lookup("package").List()[0].Key("name").Line}
	for _, d := range deps.List() {
		lines = append(lines, d.Line)
	}
	if d := cmp.Diff([]int{3, 9, 10, 4, 6, 7}, lines); d != "" {
		t.Error(d)
	}
}

func FuzzTOML(f *testing.F) {
	for _, d := range documents {
		f.Add(d)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := Parse(text)
		var b SyntaxError
		switch {
		case err == nil:
			var w strings.Builder
			Node{Value: doc}.WriteDigest(&w)
			if again, err := Parse(text + "\n"); err != nil || again == nil {
				t.Fatalf("one more line end: %v", err)
			}
		case !errors.As(err, &b) || b.Line < 1 || b.Line > strings.Count(text, "\n")+1:
			t.Fatalf("%v of %d lines", err, strings.Count(text, "\n")+1)
		}
	})
}
