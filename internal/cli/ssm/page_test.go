package ssm

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The page for users of the tool has each flag, with the verbs that have
// it, and each difference, as it stands in the tables.
func TestThePageHasEveryFlagAndDifference(t *testing.T) {
	b, err := os.ReadFile("../../../docs/coming-from-ssm.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for i := range options {
		o := &options[i]
		var verbs []string
		for _, v := range []Verb{Run, Shell, Process, Data} {
			if o.belongsTo(v) {
				verbs = append(verbs, string(v)[:1])
			}
		}
		row := fmt.Sprintf("| `%s` | %s | ", strings.Join(o.names, "`, `"), strings.Join(verbs, " "))
		line, ok := lineWith(page, row)
		if !ok {
			t.Errorf("docs/coming-from-ssm.md has no row %q", row)
		}
		if o.aws != strings.Contains(line, "nothing off AWS") {
			t.Errorf("docs/coming-from-ssm.md: %q: whether it means something off AWS is not what the table says", line)
		}
	}
	for _, d := range Differences {
		if row := fmt.Sprintf("| `%s` | %s | %s | %s |", d.Line, d.Tool, d.Here, d.Reason); !strings.Contains(page, row+"\n") {
			t.Errorf("docs/coming-from-ssm.md lacks\n%s", row)
		}
	}
	if n := strings.Count(page, "\n| `--"); n < len(options) {
		t.Errorf("%d rows of flags, want %d", n, len(options))
	}
	if !strings.Contains(page, "simple-sagemaker "+Release) {
		t.Errorf("docs/coming-from-ssm.md does not say that it is about %s", Release)
	}
}

func lineWith(page, begin string) (string, bool) {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, begin) {
			return line, true
		}
	}
	return "", false
}

func TestHintsInItsWords(t *testing.T) {
	for hint, want := range map[string]string{
		"":                       "",
		"Check the path.":        "Check the path.",
		"Use --nodes 1 to 1000.": "Use --ic 1 to 1000.",
		"Name a folder with -o.": "Name a folder with -o.",
		"complete since Monday; --force runs it again":                            "complete since Monday; --force_running runs it again",
		"Add --secret NAME.":                                                      "",
		"Add -y to go on without a question.":                                     "",
		"Try drover run train.py.":                                                "",
		"See what there is: drover data a --json.":                                "See what there is: drover data a --json.",
		"Ask for less, or choose another target with --on.":                       "Ask for less, or choose another target with DROVER_ON.",
		"Check the spelling; drover's own flags come before the script.":          "",
		"Set it, or write --env NAME=VALUE.":                                      "Set it, or write --env NAME=VALUE.",
		"Name a bucket: --store s3://bucket/prefix, or wait.":                     "Name a bucket: DROVER_STORE=s3://bucket/prefix, or wait.",
		"Wait longer, or use --on-demand.":                                        "Wait longer, or use --no_spot.",
		"Write it as --tag team=vision.":                                          "Write it as --tag team vision.",
		"Use --input NAME=URI.":                                                   "Use --iis NAME URI.",
		"Write it as --metric NAME=REGEX, or name the groups: (?P<loss>[0-9.]+).": "Write it as --md NAME REGEX, or name the groups: (?P<loss>[0-9.]+).",
	} {
		if got := InWords(hint); got != want {
			t.Errorf("%q becomes %q, want %q", hint, got, want)
		}
	}
}
