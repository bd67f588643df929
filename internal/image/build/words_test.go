package build

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The forms here were given to Docker's builder too: see oracles.
func TestWordsAreExpandedAsDockerDoes(t *testing.T) {
	e := expander{escape: '\\', env: []string{"A=1", "SP=x y", "A=2", "E="}}
	for _, c := range []struct {
		text string
		want []string
	}{
		{"plain", []string{"plain"}}, {"$A", []string{"2"}}, {"${A}b", []string{"2b"}}, {"'$A'", []string{"$A"}}, {`"$A"`, []string{"2"}}, {`\$A`, []string{"$A"}},
		{"${NO:-def}", []string{"def"}}, {"${E:-def}", []string{"def"}}, {"${A:-def}", []string{"2"}}, {"${A:+yes}", []string{"yes"}}, {"${NO:+yes}", nil},
		{`a"b c"d`, []string{"ab cd"}}, {"a b", []string{"a", "b"}}, {"$SP", []string{"x", "y"}}, {`"$SP"`, []string{"x y"}}, {`"a\"b\\c\d"`, []string{`a"b\c\d`}},
		{"$", []string{"$"}}, {"$/x", []string{"$/x"}}, {"", nil},
	} {
		got, err := e.expandToWords(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		} else if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.text, diff)
		}
	}
	for _, text := range []string{"'open", `"open`, "$1", "${", "${A", "${A#x}", "${A:?x}", "${A:-$B}", "${}"} {
		if got, err := e.expandToWords(text); !errors.Is(err, errBuilder) {
			t.Errorf("%q is %q, %v: only the builder knows", text, got, err)
		}
	}
}

func TestPairsAreReadInBothForms(t *testing.T) {
	e := expander{escape: '\\'}
	for _, c := range []struct {
		text string
		want [][2]string
	}{
		{"A=1", [][2]string{{"A", "1"}}}, {"A=1 B='x y' C=a\\ b", [][2]string{{"A", "1"}, {"B", "'x y'"}, {"C", "a\\ b"}}}, {"A b  c=d", [][2]string{{"A", "b  c=d"}}}, {"A=", [][2]string{{"A", ""}}},
	} {
		got, err := e.readPairs(c.text)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", c.text, err, diff)
		}
	}
	for _, text := range []string{"", "A", "=1", "A=1 B", "A='x"} {
		if got, err := e.readPairs(text); !errors.Is(err, errBuilder) {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
}

// Quoting a text is undone by expanding it.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"a b", `$A "x" 'y' \z`, "${A:-b}", "\t\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e := expander{escape: '\\', env: []string{"A=1"}}
		e.expandToWords(text) // no panic is what is asked
		e.readPairs(text)
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(text) + `"`
		got, err := e.expandToWord(quoted)
		if err != nil || got != text {
			t.Fatalf("%q, quoted as %s, is %q (%v)", text, quoted, got, err)
		}
		if list, err := e.splitWords(quoted); err != nil || len(list) != 1 || list[0] != quoted {
			t.Fatalf("%s is split into %q (%v)", quoted, list, err)
		}
	})
}
