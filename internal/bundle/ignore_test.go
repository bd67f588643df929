package bundle

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/internal/bundle/bundletest"
)

func TestPatternsMatchAsInGitsManual(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no string // names, separated by spaces; "/" at the end: a folder
	}{
		{"foo", "foo a/foo foo/", "food a/b"},
		{"foo/", "foo/ a/foo/", "foo a/foo"},
		{"/foo", "foo foo/", "a/foo"},
		{"a/foo", "a/foo", "b/a/foo foo"},
		{"*.pyc", "x.pyc a/b.pyc .pyc", "x.py x.pyc.bak"},
		{"doc/*.txt", "doc/a.txt", "doc/s/a.txt x/doc/a.txt"},
		{"**/foo", "foo a/foo a/b/foo", "foo2 a/xfoo"},
		{"**/foo/bar", "foo/bar a/foo/bar", "foo/x/bar"},
		{"abc/**", "abc/x abc/x/y", "abc abc/ x/abc/y"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "a/xb ab x/a/b"},
		{"a/**b", "a/b a/xb", "a/x/b"},
		{"a**/b", "a/b axx/b", "a/x/b"},
		{"**", "a a/b", ""},
		{"a?c", "abc a-c", "ac a/c abbc"},
		{"[a-c]x", "ax bx cx", "dx -x"},
		{"[!a-c]x", "dx -x", "ax /x"},
		{"[^a]x", "bx", "ax"},
		{"[]-]x", "]x -x", "ax"},
		{"[a\\]]x", "]x ax", "\\x"},
		{"[[:digit:][:upper:]]x", "0x Ax", "ax"},
		{"[[:nope:]]x", "", "nx :x"},
		{"[ab", "", "[ab a b"},
		{"\\!x", "!x", "x"},
		{"\\#x", "#x", "x"},
		{"#x", "", "#x x"},
		{"x\\", "", "x x\\"},
		{"a\\*b", "a*b", "axb"},
		{"a*b*c", "abc axbyc", "ab acb"},
		{"", "", "a"},
		{"/", "", "a a/"},
		{"\xef\xbb\xbffoo", "foo", ""},
		{"foo\r", "foo", ""},
	} {
		rules := parseIgnore([]byte(c.pattern + "\n"))
		match := func(name string) bool {
			plain, folder := strings.CutSuffix(name, "/")
			return last(rules, plain, folder) != nil
		}
		for _, name := range strings.Fields(c.yes) {
			if !match(name) {
				t.Errorf("%q leaves %q in", c.pattern, name)
			}
		}
		for _, name := range strings.Fields(c.no) {
			if match(name) {
				t.Errorf("%q leaves %q out", c.pattern, name)
			}
		}
	}
	for in, want := range map[string]string{"a  ": "a", "a\\ ": "a\\ ", "a\\  ": "a\\ ", "a b ": "a b", "   ": "", "a\\": "a\\"} {
		if got := trimSpaces(in); got != want {
			t.Errorf("trimSpaces(%q) = %q, want %q", in, got, want)
		}
	}
}

// Git is the judge: random ignore files in nested folders, random names.
func TestIgnoreFilesMeanWhatTheyMeanToGit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	rnd := rand.New(rand.NewPCG(7, 11))
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	line := func() string {
		var s strings.Builder
		s.WriteString(pick("", "", "", "!", "/", "**/", "\\", "#"))
		for range 1 + rnd.IntN(5) {
			s.WriteString(pick("a", "b", "c", "a", "b", "/", "/", "*", "*", "**", "?", "[ab]", "[!a]", "[^b-z]", "[]a]", "[a-", "[[:alpha:]]", "[[:bad:]]", "\\a", "\\*", "**/", "/**", " ", "[a-c", "]", "-"))
		}
		s.WriteString(pick("", "", "", "/", "/**", " ", "\\ ", "\r", "\\"))
		return s.String()
	}
	var names []string
	var into func(dir string, depth int)
	into = func(at string, depth int) {
		for _, n := range []string{"a", "b", "c", "ab", "ba", "a b", "*", "-", "]"} {
			name := at + n
			names = append(names, name)
			if depth > 0 && len(n) == 1 && strings.Contains("abc", n) {
				if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
					t.Fatal(err)
				}
				into(name+"/", depth-1)
			}
		}
	}
	into("", 2)
	compared, ignored := 0, 0
	for round := range 60 {
		for _, at := range []string{"", "a", "b/a"} {
			var lines []string
			for range rnd.IntN(4) {
				lines = append(lines, line())
			}
			bundletest.WriteFiles(t, dir, map[string]string{filepath.Join(at, ".gitignore"): strings.Join(lines, "\n")})
		}
		said := checkIgnore(t, dir, names)
		g := newIgnorer(dir, nil, ".gitignore")
		for _, name := range names {
			fi, err := os.Lstat(filepath.Join(dir, name))
			ours := g.leavesOut(name, err == nil && fi.IsDir())
			if ours {
				ignored++
			}
			if compared++; ours != said[name] {
				t.Fatalf("round %d: %q: git leaves it out: %t, drover: %t\n%s", round, name, said[name], ours, rulesText(dir))
			}
		}
	}
	if ignored < 500 || compared < ignored+500 {
		t.Fatalf("compared only %d answers, %d of them yes", compared, ignored)
	}
}

func rulesText(dir string) string {
	var s strings.Builder
	for _, at := range []string{"", "a", "b/a"} {
		text, _ := os.ReadFile(filepath.Join(dir, at, ".gitignore"))
		fmt.Fprintf(&s, "%s/.gitignore: %q\n", at, text)
	}
	return s.String()
}

// checkIgnore asks git which names it ignores, by whatever stands last.
func checkIgnore(t *testing.T, dir string, names []string) map[string]bool {
	t.Helper()
	cmd := exec.Command("git", "check-ignore", "--no-index", "-v", "-n", "-z", "--stdin")
	cmd.Dir, cmd.Env = dir, gitEnv(os.Environ())
	cmd.Stdin = strings.NewReader(strings.Join(names, "\x00") + "\x00")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	said := map[string]bool{}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for f := range slices.Chunk(fields, 4) { // source, line, pattern, name
		said[f[3]] = f[2] != "" && !strings.HasPrefix(f[2], "!")
	}
	return said
}

func FuzzIgnoreFilesNeverHangOrPanic(f *testing.F) {
	f.Add([]byte("*a*a*a*a*a*a*a*a*a*a*a*a*b\n!x/\n"), strings.Repeat("a", 200))
	f.Add([]byte("**/**/**/**/**/x"), strings.Repeat("a/", 60))
	f.Add([]byte("[[:alpha:]-z]\n[\\"), "a/b")
	f.Add([]byte("[z-a]\n[a-\\"), "m")
	f.Fuzz(func(t *testing.T, rules []byte, name string) {
		last(parseIgnore(rules), name, len(name)%2 == 0)
	})
}
