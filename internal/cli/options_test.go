package cli

import (
	"reflect"
	"slices"
	"testing"

	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/config"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/option"
)

// One table says which flag sets a field of a job, and what it does. A flag that a verb
// binds past the table, or a row that no verb binds, would make help, job file, config and
// the comparison of a second command say different things.
func TestTheTableOfOptionsIsWhatFlagsJobFileAndConfigSay(t *testing.T) {
	texts := map[string][]string{}
	for _, c := range newCommandTree(&app.App{}).newRoot().Commands() {
		if !slices.Contains([]string{"run", "shell", "process", "map"}, c.Name()) {
			continue
		}
		for _, o := range option.All() {
			if f := c.Flags().Lookup(o.Flag); o.Flag != "" && f != nil {
				texts[o.Flag] = append(texts[o.Flag], f.Usage)
				if f.Shorthand != o.Short {
					t.Errorf("%s: --%s is -%s, and -%s in the table", c.Name(), o.Flag, f.Shorthand, o.Short)
				}
			}
		}
	}
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[job.Spec]()) {
		fields[f.Name] = f
	}
	for _, o := range option.All() {
		if o.Flag != "" && !slices.Contains(texts[o.Flag], o.Usage) {
			t.Errorf("no verb has --%s with its text %q: %q", o.Flag, o.Usage, texts[o.Flag])
		}
		if o.ItemsUsage != "" && !slices.Contains(texts[o.Flag], o.ItemsUsage) {
			t.Errorf("drover map has not --%s with its text %q", o.Flag, o.ItemsUsage)
		}
		if name := fields[o.Field].Tag.Get("yaml"); o.Flag != "" && o.Class != option.ClassOnce && (name == "" || name == "-") {
			t.Errorf("--%s has no name in a job file", o.Flag)
		}
		if o.Config != "" && !slices.ContainsFunc(config.Known, func(s config.Setting) bool { return s.Key == o.Config }) {
			t.Errorf("the config has no key %s, which the table names for %s", o.Config, o.Field)
		}
	}
	spec := job.Spec{Python: "a", On: "b", Output: "c", Machine: "d", Where: "e"}
	if got := option.ConfigFields(&spec); len(got) != 5 || *got["python"] != "a" || *got["on"] != "b" || *got["output"] != "c" {
		t.Errorf("the config gives %v", got)
	}
}
