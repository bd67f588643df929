package glob

import (
	"path"
	"slices"
	"strings"
	"testing"
)

func TestBracketsMeanWhatTheyDoInAShell(t *testing.T) {
	for _, row := range []struct{ pattern, takes, refuses string }{
		{"[!a]", "b!^", "a"},
		{"[^a]", "b!", "a"},
		{"[]a]", "]a", "b["},
		{"[!]a]", "b[", "]a"},
		{"[a-]", "a-", "b"},
		{"[-a]", "a-", "b"},
		{"[[]", "[", "]"},
		{"[a-c]", "abc", "d-"},
		{`\*`, "*", "a"},
		{"?", "a*", ""},
	} {
		for _, name := range strings.Split(row.takes+row.refuses, "") {
			if ok, err := path.Match(Spell(row.pattern), name); err != nil || ok != strings.Contains(row.takes, name) {
				t.Errorf("%s and %s: %v, %v", row.pattern, name, ok, err)
			}
		}
	}
}

func TestAPatternIsCutAtItsFirstStar(t *testing.T) {
	for pattern, want := range map[string][]string{
		"a/b/*.txt":    {"a/b", "*.txt"},
		"*.txt":        {".", "*.txt"},
		"/*/a":         {"/", "*", "a"},
		"a/**/**//./b": {"a", "**", "b"},
		"a/b":          {"a/b"},
	} {
		fixed, parts := Cut(pattern)
		if got := append([]string{fixed}, parts...); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
	if IsSound(Spell("[a")) || !IsSound(Spell("[a]")) || IsPattern("a.txt") {
		t.Error("an open bracket is sound, or a closed one is not, or a name is a pattern")
	}
}

func FuzzCut(f *testing.F) {
	for _, seed := range []string{"a/*.txt", "/**/[!a-]", "[]", `a\*/b`, "a//./**/**", "[[]x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		fixed, parts := Cut(pattern)
		if IsPattern(fixed) || !IsPattern(pattern) && (fixed != pattern || parts != nil) {
			t.Fatalf("%q: the part before the first star is %q, then %q", pattern, fixed, parts)
		}
		for i, p := range parts {
			if p == "" || p == "." || strings.Contains(p, "/") || i > 0 && p == "**" && parts[i-1] == "**" {
				t.Fatalf("%q: %q is one of its names", pattern, p)
			}
			if !strings.ContainsAny(p, `[\`) && !strings.Contains(pattern, p) {
				t.Fatalf("%q: %q is not in it", pattern, p)
			}
			if IsSound(p) {
				if _, err := path.Match(p, strings.Trim(p, `*?[]\`)); err != nil {
					t.Fatalf("%q: %q is sound, and matching says %v", pattern, p, err)
				}
			}
		}
	})
}
