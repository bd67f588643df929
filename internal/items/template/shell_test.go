package template

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/items/manifest"
)

// shellsHere are those that text is read by: POSIX's, and bash if there is one.
func shellsHere(t *testing.T) []string {
	t.Helper()
	here := []string{"/bin/sh"}
	for _, name := range []string{"bash", "dash"} {
		if path, err := exec.LookPath(name); err == nil {
			here = append(here, path)
		}
	}
	return here
}

// hostile values, and some drawn by chance from bytes that mean something.
func hostile() []string {
	values := []string{
		"plain", "", " ", "a b", "it's", "'", "''", `"`, `\`, `\'`, `$HOME`, "`id`", "$(id)", "; id", "\nid\n", "#", "-rf", "~", "*", "{}", "!", "a\\",
		"'; id; '", `"; id; "`, "\r\n", "\x01\x7f\xff\xfe", "a[$(id >&2)]", "é", "$'", `$"`, "\\\n",
	}
	rnd := rand.New(rand.NewPCG(1, 7))
	for range 60 {
		b := make([]byte, rnd.IntN(30))
		for i := range b {
			b[i] = byte(1 + rnd.UintN(255))
			if rnd.IntN(2) == 0 {
				const signs = "'\"\\$`(){};&|<>#~*?! \n\t-=ax"
				b[i] = signs[rnd.IntN(len(signs))]
			}
		}
		values = append(values, string(b))
	}
	return values
}

// Each text prints the item, between < and > and as often as it stands there.
var quotedWhere = map[string]string{
	"a word":                "printf '<%s>' {}",
	"words side by side":    "printf '<%s>' x{}y",
	"twice":                 "printf '<%s><%s>' {} {}",
	"single quotes":         "printf '<%s>' 'x{}y'",
	"only single quotes":    "printf '<%s>' '{}'",
	"double quotes":         `printf '<%s>' "x{}y"`,
	"only double quotes":    `printf '<%s>' "{}"`,
	"double, with others":   `y=1; printf '<%s>' "x$y$(echo z)${y}{}\\"`,
	"in a command":          `x=$(printf '%s.' {}); printf '<%s>' "${x%.}"`,
	"in a quoted command":   `x="$(printf '%s.' {})"; printf '<%s>' "${x%.}"`,
	"quoted in it":          `x="$(printf '%s.' "{}")"; printf '<%s>' "${x%.}"`,
	"single in it":          `x="$(printf '%s.' '{}')"; printf '<%s>' "${x%.}"`,
	"two levels":            `x="$(y="$(printf '%s..' "{}")"; printf '%s' "${y%.}")"; printf '<%s>' "${x%.}"`,
	"a group":               `(printf '<%s>' {})`,
	"a group in a command":  `x="$( (printf '%s.' {}) )"; printf '<%s>' "${x%.}"`,
	"braces":                `{ printf '<%s>' {}; }`,
	"a function":            `f() { printf '<%s>' "$1"; }; f {}`,
	"after a comment":       "# it's $(not \" text {}\nprintf '<%s>' {}",
	"after a # in a word":   "x=a#b'c'; printf '<%s>' {}",
	"after a joined line":   "printf \\\n'<%s>' {}",
	"a # behind a command":  "x=$(echo a)#; printf '<%s>' {}",
	"a # behind a sum":      "x=$((1))#; printf '<%s>' {}",
	"a comment behind a )":  "(true)# it's\nprintf '<%s>' {}",
	"after backticks":       "x=`echo \"a'b\"`; printf '<%s>' {}",
	"after arithmetic":      "x=$(( (1 + 2) * 3 )); printf '<%s>' {}",
	"after a variable":      `x=${x:-a}${#x}; printf '<%s>' {}`,
	"after escapes":         `printf \<%s\> {}; true \' \" \\`,
	"after quotes joined":   `x='a'"b"c\ d; printf '<%s>' {}`,
	"assigned":              `x={}; printf '<%s>' "$x"`,
	"case":                  `case x in x) printf '<%s>' {};; esac`,
	"its own case":          `case {} in *) printf '<%s>' {};; esac`,
	"a pipe":                `printf '<%s>' {} | cat`,
	"after a number":        `test {n} -eq $(({n} + 0)) && printf '<%s>' {}`,
	"a field":               `printf '<%s>' {f}`,
	"a field as it stands":  `printf '<%s>' "x{f}y"`,
	"doubled braces beside": `printf '<%s>' {}; true '{{it}}' "{{}}"`,
}

func TestAShellReadsBackWhatWasFilled(t *testing.T) {
	values := hostile()
	for _, sh := range shellsHere(t) {
		for name, text := range quotedWhere {
			tmpl, err := Parse([]string{text}, TemplateOptions{Shell: true, Fields: []string{"f"}})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			// All values in one script, a NUL behind each: a process for each would take minutes.
			var script, want strings.Builder
			for i, value := range values {
				line, err := tmpl.Fill(manifest.Item{N: i, Text: value, Fields: []string{value}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				script.WriteString(line[0] + "\nprintf '\\000'\n")
				x, y := "", ""
				if strings.Contains(text, "x{") && strings.Contains(text, "}y") {
					x, y = "x", "y"
				}
				if name == "double, with others" {
					x, y = "x1z1", `\`
				}
				want.WriteString(strings.Repeat("<"+x+value+y+">", max(1, strings.Count(text, "<%s>"))) + "\x00")
			}
			run := exec.Command(sh)
			run.Stdin = strings.NewReader(script.String())
			var said bytes.Buffer
			run.Stderr = &said
			got, err := run.Output()
			if err != nil || said.Len() > 0 {
				t.Errorf("%s in %s: %v: %.300q", name, sh, err, said.String())
			}
			wants, gots := strings.Split(want.String(), "\x00"), strings.Split(string(got), "\x00")
			for i := range min(len(wants), len(gots)) {
				if wants[i] != gots[i] {
					t.Errorf("%s in %s: %q came as %q", name, sh, wants[i], gots[i])
				}
			}
			if len(wants) != len(gots) {
				t.Errorf("%s in %s: %d values of %d", name, sh, len(gots), len(wants))
			}
		}
	}
}

func TestWhereNoQuotesHoldAnItemIsRefused(t *testing.T) {
	var said faulttest.Sayings
	for name, text := range map[string]string{
		"arithmetic":              "echo $(({} + 1))",
		"arithmetic in quotes":    `echo "$(({} + 1))"`,
		"a command of arithmetic": "(( {} > 1 ))",
		"a loop of bash":          "for ((i = 0; i < {}; i++)); do echo; done",
		"old arithmetic":          "echo $[{} + 1]",
		"backticks":               "echo `cat {}`",
		"backticks in quotes":     "echo \"`cat {}`\"",
		"quotes in backticks":     "echo `cat '{}'`",
		"a variable's default":    "echo ${x:-{}}",
		"quoted in a variable":    `echo "${x:-'{}'}"`,
		"after a quote in one":    `echo "${x:-it's}" {}`,
		"after two quotes in one": `echo "${x:-'"'}" {}`,
		"a here-document":         "cat <<EOF\n{}\nEOF",
		"after a here-document":   "cat <<E\nit's\nE\necho {}",
		"bash's string":           `echo $'{}'`,
		"after bash's string":     `echo $'\'' {}`,
		"after a $":               "echo ${}",
		"case in a command":       `echo "$(case x in x) echo {};; esac)"`,
		"after case in a command": `echo "$(case x in x) echo;; esac)" {}`,
		"maybe commands in ((":    `echo "$((echo a # )` + "\n" + `); echo {})"`,
		"a staging path too":      "echo `cat {out}`",
		"a field too":             "echo $(({f}))",
	} {
		_, err := Parse([]string{text}, TemplateOptions{Shell: true, Fields: []string{"f"}, Out: []string{"{n}"}})
		said.Error(name, err)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), "$DROVER_ITEM") || !strings.Contains(err.Error(), "where it cannot be quoted safely") {
			t.Errorf("%s: %v", name, err)
		}
	}
	said.Compare(t, "quotes")
}

func TestAShellTextThatEndsTooSoonIsRefused(t *testing.T) {
	for _, text := range []string{"echo 'it", `echo "it`, "echo `it", "echo $(it", "echo ${it", "(it", "echo $((1"} {
		if _, err := Parse([]string{text}, TemplateOptions{Shell: true}); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "does not close it") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestACommentKeepsItsBraces(t *testing.T) {
	tmpl, err := Parse([]string{"true # {} isn't {n}\necho {n}"}, TemplateOptions{Shell: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := tmpl.Fill(manifest.Item{N: 1, Text: "\nid"}, nil)
	if err != nil || got[0] != "true # {} isn't {n}\necho 1" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestItemsAreNotPastedIntoTheTextOfAShell(t *testing.T) {
	var said faulttest.Sayings
	for _, args := range [][]string{
		{"sh", "-c", "cat {}"}, {"/bin/bash", "-ec", "cat {.stem}"}, {"bash", "-euo", "pipefail", "-c", "x {f}"}, {"bash", "-c", "-e", "x {}"},
		{"env", "A=1", "sh", "-c", "cat {}"}, {"bash", "--norc", "-c", "cat {}"}, {"bash", "+x", "-c", "--", "cat {}"}, {"nice", "-n", "5", "zsh", "-lc", "cat {}"},
	} {
		_, err := Parse(args, TemplateOptions{Fields: []string{"f"}})
		said.Error(strings.Join(args, " "), err)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), "drover map --shell") {
			t.Errorf("%q: %v", args, err)
		}
	}
	for _, args := range [][]string{
		{"sh", "-c", `cat "$1"`, "sh", "{}"}, {"sh", "-c", "echo {n}"}, {"sh", "work.sh", "-c", "{}"}, {"sh", "{}"}, {"grep", "-c", "sh", "{}"}, {"grep", "sh", "-c", "{}"},
		{"env", "bash", "-x", "work.sh", "{}"}, {"sh", "-c"}, {"sh"}, {"sh", "", "-c", "{}"},
	} {
		if _, err := Parse(args, TemplateOptions{}); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	said.Compare(t, "shells")
}

// TestNoShellTextRunsAnItem makes texts of pieces that shells read in hard ways:
// whatever they mean, a value that was filled into one runs nothing.
func TestNoShellTextRunsAnItem(t *testing.T) {
	pieces := []string{
		"{}", "{}", "{}", "{}", " ", " ", "\n", ";", "'", `"`, "`", `\`, "$", "$(", "$((", "((", "(", ")", "))", "${x", "${x:-", "${", "}", "{ ", "#", " #",
		"echo ", "x=", "case x in x) ", ";; esac", "'a'", `"a"`, "<<E\n", "\nE\n", "|", "&&", "<", ">/dev/null ", "$'", `$"`, "[[ ", " ]]", "!", "~", "$x", "{n}", "{{}}", "\\\n",
		"$(echo a)", "$((1))", "((1))", "(echo)", "`echo b`", "${x}", "#it's", "# it's\n", `"$(echo `, `)"`, "echo ", "echo ", "\n", "\n", "x=(", "f()",
	}
	const run = "echo PW$((1+1))ED >&2" // what it says stands in no text
	values := []string{"$(" + run + ")", "`" + run + "`", "\n" + run + "\n", "; " + run + ";", "'; " + run + "; '", `"; ` + run + `; "`, "a[$(" + run + ")]", ") " + run, "\\'; " + run + " #"}
	rnd := rand.New(rand.NewPCG(6, 8))
	filled, texts := 0, 400
	if os.Getenv("DROVER_TEST_REAL") != "" {
		texts = 100_000
	}
	for range texts {
		var text strings.Builder
		for range 2 + rnd.IntN(12) {
			text.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		tmpl, err := Parse([]string{text.String()}, TemplateOptions{Shell: true})
		if err != nil || !tmpl.Uses() {
			continue
		}
		filled++
		var value strings.Builder
		for range 1 + rnd.IntN(3) {
			value.WriteString(values[rnd.IntN(len(values))])
		}
		line, err := tmpl.Fill(manifest.Item{N: 1, Text: value.String()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, sh := range shellsHere(t) {
			var said bytes.Buffer
			cmd := exec.Command(sh, "-c", line[0])
			cmd.Dir, cmd.Stderr = t.TempDir(), &said
			cmd.Env = []string{"PATH=/nowhere"}
			cmd.Run()
			if strings.Contains(said.String(), "PW2ED") {
				t.Errorf("%s ran the item %q, filled into %q: %q", sh, value.String(), text.String(), line[0])
			}
		}
	}
	if filled < texts/10 {
		t.Errorf("only %d texts of %d were taken", filled, texts)
	}
}
