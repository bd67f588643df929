package ssm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
)

func (c *Command) addNote(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !slices.Contains(c.Notes, line) {
		c.Notes = append(c.Notes, line)
	}
}

// reportNotes says what was read other than it may look. With --strict the likely slips
// of the pen among them are refused.
func (c *Command) reportNotes() error {
	if len(c.Inputs) > 1 {
		var out []string
		for _, in := range c.Inputs[1:] {
			out = append(out, in.Path)
		}
		c.addNote("only the first -i counts, as always with ssm: left out is %s; --iis NAME PATH adds data", strings.Join(out, ", "))
	}
	if len(c.Inputs) > 0 && c.DataDistribution() != c.Inputs[0].Distribution {
		c.addNote("-i is %s, not %s: with ssm the last --iis, or else --iit, decides for -i too", c.DataDistribution(), c.Inputs[0].Distribution)
	}
	for _, h := range c.Hyperparameters {
		if err := c.noteName(h); err != nil {
			return err
		}
	}
	return nil
}

// noteName warns of a hyperparameter with nearly the name of a flag: its beginning,
// which the tool took for the flag itself, or two letters away.
func (c *Command) noteName(h Hyperparameter) error {
	name := "--" + strings.ReplaceAll(h.Name, "-", "_")
	var begins, near string
	for _, flag := range longNames(c.Verb) {
		switch {
		case strings.HasPrefix(flag, name):
			begins = flag
		case len(flag) >= nearest5 && near == "" && fault.Distance(name, flag) <= 2:
			near = flag
		}
	}
	flag := begins
	if flag == "" {
		flag = near
	}
	switch {
	case flag != "" && c.Strict:
		return refuse("Did you mean "+flag+"?", "ssm %s has no flag %q", c.Verb, "--"+h.Name)
	case begins != "":
		c.addNote("--%s is a hyperparameter; the flag is written out: %s", h.Name, begins)
	case near != "":
		c.addNote("--%s is a hyperparameter; it is close to the flag %s", h.Name, near)
	case elsewhere[h.Name] != "" && c.Verb != Process:
		c.addNote("--%s is a hyperparameter; %s", h.Name, elsewhere[h.Name])
	}
	return nil
}

// nearest5 is the least length, dashes and all, of flags that a name is compared
// with: two letters from --fr or --it is half of all short names, --lr too.
const nearest5 = len("--xxxxx")

// elsewhere are names that look like flags, and were never ssm's.
var elsewhere = map[string]string{
	"env":       "only ssm process has the flag",
	"image_uri": "ssm chooses images with --df and -f",
	"role_name": "ssm has no such flag",
}

// longNames are the names of a verb's flags that begin with two dashes.
func longNames(v Verb) (names []string) {
	for i := range options {
		if o := &options[i]; o.belongsTo(v) {
			for _, n := range o.names {
				if strings.HasPrefix(n, "--") {
					names = append(names, n)
				}
			}
		}
	}
	return names
}

// OnlyAWS are the flags that were typed and that mean nothing outside AWS, by
// their names in full.
func (c Command) OnlyAWS() (names []string) {
	for i := range options {
		if o := &options[i]; o.aws && o.belongsTo(c.Verb) && c.Typed[o.typedKey()] {
			names = append(names, o.names[0])
		}
	}
	return names
}

func nearest(typed string, names []string) string { return fault.Nearest(typed, names) }

// meant is a hint for a word of which there are few.
func meant(typed string, words []string, otherwise string) string {
	for _, w := range words {
		if near := nearest(typed, words); near != "" {
			return "Did you mean " + near + "?"
		}
		if typed != "" && strings.HasPrefix(strings.ToLower(w), strings.ToLower(typed)) {
			return "Did you mean " + w + "?"
		}
	}
	return otherwise
}

func counted(n int) string {
	switch n {
	case 0:
		return "nothing stands after it"
	case 1:
		return "one word stands after it"
	}
	return fmt.Sprintf("%d words stand after it", n)
}
