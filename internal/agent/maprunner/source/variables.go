package source

import (
	"strconv"
	"strings"

	"github.com/drover-run/drover/internal/items/manifest"
)

const (
	itemVariable = "DROVER_ITEM"
	fileVariable = "DROVER_ITEM_FILE"
	SlotVariable = "DROVER_SLOT"
	// MaxVariable is where a text is left out of the environment: Linux takes
	// 128 KiB with its name.
	MaxVariable = 100 << 10
)

// variables are what items' fields are called in their environment. A name that no
// shell can say, or that is taken, has none.
func variables(fields []string, fetch bool) []string {
	taken := map[string]bool{"": true, "N": true, "TRY": true, "FILE": fetch}
	vars := make([]string, len(fields))
	for i, name := range fields {
		name = strings.ToUpper(name)
		plain := !strings.ContainsFunc(name, func(r rune) bool {
			return (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_'
		})
		if plain && !taken[name] {
			taken[name] = true
			vars[i] = itemVariable + "_" + name + "="
		}
	}
	return vars
}

// Environ are the variables of a try of an item.
func (s *Source) Environ(it manifest.Item, try int, places []string, files []ProvidedFile) []string {
	env := make([]string, 0, 5+len(it.Fields)+len(files))
	if len(it.Text) <= MaxVariable {
		env = append(env, itemVariable+"="+it.Text)
	}
	env = append(env, itemVariable+"_N="+strconv.Itoa(it.N), itemVariable+"_TRY="+strconv.Itoa(try))
	for i, value := range it.Fields {
		if i < len(s.vars) && s.vars[i] != "" && len(value) <= MaxVariable && strings.IndexByte(value, 0) < 0 {
			env = append(env, s.vars[i]+value)
		}
	}
	if len(places) > 0 {
		env = append(env, "DROVER_OUT="+places[0])
	}
	for i, f := range files {
		if i == 0 {
			env = append(env, fileVariable+"="+f.file)
		}
		if f.field >= 0 && s.vars[f.field] != "" {
			env = append(env, strings.TrimSuffix(s.vars[f.field], "=")+"_FILE="+f.file)
		}
	}
	return env
}
