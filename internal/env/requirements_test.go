package env

import (
	"slices"
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
	want := []entry{
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
	if d := cmp.Diff(want, parse([]byte(text)), cmpopts.IgnoreUnexported(entry{})); d != "" {
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
		if got := place(entry{Text: text, folder: "/code"}); got != want {
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
		for _, e := range parse(data) {
			if e.Line <= last || e.Line > lines {
				t.Fatalf("line %d after %d of %d", e.Line, last, lines)
			}
			last = e.Line
			if e.Text == "" && !e.Option {
				t.Fatalf("an entry without text at line %d", e.Line)
			}
			if e.Name != normal(e.Name) || strings.ContainsAny(e.Name, " \n[") {
				t.Fatalf("name %q", e.Name)
			}
			place(e)
		}
	})
}

func TestPipsSettingsBecomeUVs(t *testing.T) {
	out := "global.cert='/etc/ca.pem'\n" +
		"global.index-url='https://old.example.org/simple'\n" +
		"install.index-url='https://user:pa\\'ss@example.org/simple'\n" +
		"global.extra-index-url='\\nhttps://a.example.org\\nhttps://b.example.org'\n" +
		":env:.find-links='/nosuch/wheels https://example.org/wheels'\n" +
		"global.find-links='https://hidden.example.org'\n" +
		"download.no-index='true'\n" +
		"global.trusted-host='example.org\\nother.example.org'\n" +
		":env:.default-timeout='180'\n" +
		"not a setting\n"
	environ, args := translate(parsePipConfig(out), []string{"UV_INDEX_STRATEGY=first-index"})
	want := []string{
		"UV_DEFAULT_INDEX=https://user:pa'ss@example.org/simple",
		"UV_INDEX=https://a.example.org https://b.example.org",
		"UV_FIND_LINKS=https://example.org/wheels",
		"UV_INSECURE_HOST=example.org other.example.org",
		"UV_HTTP_TIMEOUT=180",
		"SSL_CERT_FILE=/etc/ca.pem",
	}
	if d := cmp.Diff(want, environ); d != "" {
		t.Error(d)
	}
	if len(args) != 0 {
		t.Errorf("args = %v: a setting for download is not one for install", args)
	}
}

func TestWhatTheCallerTellsUVWins(t *testing.T) {
	pip := map[string]string{"index-url": "https://pip.example.org", "no-index": "1", "cert": "/ca.pem"}
	environ, args := translate(pip, []string{"UV_INDEX_URL=https://uv.example.org", "SSL_CERT_DIR=/certs"})
	if len(environ) != 0 || !slices.Equal(args, []string{"--no-index"}) {
		t.Errorf("translate = %v, %v", environ, args)
	}
}

func FuzzPipConfig(f *testing.F) {
	f.Add("global.index-url='https://x'\n:env:.cert=\"a\\\\b\\n\"\n")
	f.Add("install.a='\\'\nglobal.=''")
	f.Fuzz(func(t *testing.T, out string) {
		for name, value := range parsePipConfig(out) {
			if name == "" || len(value) > len(out) {
				t.Fatalf("%q = %q", name, value)
			}
		}
	})
}
