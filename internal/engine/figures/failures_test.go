package figures

import (
	"regexp"
	"testing"
)

func TestSignatures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want, pattern string }{
		{"PIL.UnidentifiedImageError: cannot identify image file '/data/77.jpg'", "PIL.UnidentifiedImageError: cannot identify image file '...'", `PIL\.UnidentifiedImageError: cannot identify image file`},
		{"ValueError: 17 is not in range 0-9", "ValueError: N is not in range NN", "is not in range"},
		{"open /tmp/a b/c: no such file or directory", "open ... ...: no such file or directory", "no such file or directory"},
		{"killed by 0x7fff12ab at 12:30:01", "killed by N at N", "killed by"},
		{"GET https://example.org/a?b=1: 503", "GET ... N", "GET"},
		{"", "", ""},
		{"'", "'", "'"},
		{"don't, and it isn't", "don'...'t", "don"},
	} {
		if got := signature(c.line); got != c.want {
			t.Errorf("signature of %q is %q, want %q", c.line, got, c.want)
		}
		p := pattern(c.line)
		if p != c.pattern {
			t.Errorf("pattern of %q is %q, want %q", c.line, p, c.pattern)
		}
		if re, err := regexp.Compile(p); err != nil || !re.MatchString(c.line) {
			t.Errorf("pattern %q of %q: %v", p, c.line, err)
		}
	}
}
