package job

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/drover-run/drover/fault"
)

// Metric is a number to be found in what the program prints.
type Metric struct {
	// Name is the metric's. It may be left out when the expression names groups:
	// then each group is a metric of its name.
	Name string `json:"name,omitempty" yaml:"name,omitempty" jsonschema:"description=The metric's name. It may be left out when the expression names its groups"`
	// Regex is matched against each line, as often as it fits; its first group
	// holds the number. It may also be one of Presets, without a Name.
	Regex string `json:"regex" yaml:"regex" jsonschema:"description=Regular expression (RE2) whose first group is the number\\, or a preset: auto\\, hf\\, lightning\\, keras\\, pairs\\, none"`
}

// Presets are the expressions that have names: what common frameworks print.
// A job that names no metric gets "auto", which is all of them; "none" is none.
var Presets = []string{"auto", "hf", "lightning", "keras", "pairs", "none"}

const (
	maxMetrics = 100
	maxTags    = 50
)

func checkMetrics(s Spec) error {
	if len(s.Metrics) > maxMetrics {
		return fault.New(fault.Invalid, "One expression may hold several named groups.", "check job: %d metrics, at most %d", len(s.Metrics), maxMetrics)
	}
	for _, m := range s.Metrics {
		if m.Name == "" && slices.Contains(Presets, m.Regex) {
			continue
		}
		hint := "Put the number into brackets: `--metric 'loss=loss: ([0-9.]+)'`."
		if near := fault.Nearest(m.Regex, Presets); near != "" && m.Name == "" {
			hint = "Did you mean `--metric " + near + "`?"
		}
		re, err := regexp.Compile(m.Regex)
		if err != nil {
			return fault.New(fault.Invalid, hint, "check job: metric %q: %q is not a regular expression: %v", m.Name, m.Regex, err)
		}
		named := slices.ContainsFunc(re.SubexpNames(), func(n string) bool { return n != "" })
		switch {
		case re.NumSubexp() == 0:
			return fault.New(fault.Invalid, hint, "check job: metric %q: %q has no group", m.Name, m.Regex)
		case m.Name == "" && !named:
			return fault.New(fault.Invalid, "Write it as `--metric NAME=REGEX`, or name the groups: (?P<loss>[0-9.]+).", "check job: the metric of %q has no name", m.Regex)
		}
		if m.Name != "" && (len(m.Name) > 100 || strings.ContainsFunc(m.Name, unsaid)) {
			return fault.New(fault.Invalid, "Use letters, digits and _ - . / : up to 100.", "check job: %q is not a valid metric name", m.Name)
		}
	}
	return nil
}

// unsaid are letters that no name for people has.
func unsaid(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '=' || r == ',' }

func checkTags(s Spec) error {
	if len(s.Tags) > maxTags {
		return fault.New(fault.Invalid, "", "check job: %d tags, at most %d", len(s.Tags), maxTags)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Tags)) {
		v := s.Tags[k]
		if k == "" || len(k) > 128 || strings.ContainsFunc(k, unsaid) {
			return fault.New(fault.Invalid, "Write it as `--tag team=vision`.", "check job: %q is not a valid tag name", k)
		}
		if len(v) > 256 || strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return fault.New(fault.Invalid, "Use up to 256 printable letters.", "check job: tag %s: %q is not a value", k, v)
		}
	}
	return nil
}
