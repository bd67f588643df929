package env

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
