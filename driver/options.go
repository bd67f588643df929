package driver

import (
	"maps"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
)

// UnknownOption refuses an argument of --target-arg, NAME=VALUE, that a target does not know. engine is
// the target's name for people, forms are its options with a value that shows the form of each, and page
// is the page that describes them.
func UnknownOption(engine, arg string, forms map[string]string, page string) error {
	name, _, _ := strings.Cut(arg, "=")
	all := slices.Sorted(maps.Keys(forms))
	hint := "There are " + strings.Join(all, ", ") + ": " + page + "."
	if near := fault.Nearest(name, all); near != "" {
		hint = "Do you mean `--target-arg " + near + "=" + forms[near] + "`?"
	}
	return fault.New(fault.Invalid, hint, "read --target-arg %q: %s has no such option here", arg, engine)
}
