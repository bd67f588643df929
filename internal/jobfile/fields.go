package jobfile

import (
	"reflect"
	"strings"
)

// field is one that a table may have.
type field struct {
	name     string // in YAML
	index    []int  // in the struct, and in one that is embedded in it
	required bool   // its tag lacks omitempty, as the schema reads it too
	given    bool
}

// fieldsOf gives the fields of a struct in their order, by their yaml tags.
func fieldsOf(t reflect.Type) []field {
	var all []field
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if options == "inline" {
			for _, f := range fieldsOf(t.Field(i).Type) {
				f.index = append([]int{i}, f.index...)
				all = append(all, f)
			}
		}
		if name == "" || name == "-" {
			continue
		}
		all = append(all, field{name: name, index: []int{i}, required: options != "omitempty"})
	}
	return all
}

func indexOf(known []field, name string) int {
	for i, f := range known {
		if f.name == name {
			return i
		}
	}
	return -1
}

// namesHint names the field that was meant, or else those there are.
func namesHint(known []field, typed string) string {
	best, least := "", 3
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.name
		// Fewer changes than letters, or everything short would mean "on".
		if d := distance(strings.ToLower(typed), f.name, least); d < min(least, len(f.name)) {
			best, least = f.name, d
		}
	}
	if best != "" {
		return "Did you mean " + best + "?"
	}
	return "Use one of " + strings.Join(names, ", ") + "."
}

// distance counts the letters to add, drop or change to make b out of a, up to
// limit.
func distance(a, b string, limit int) int {
	if len(a) > len(b)+limit || len(b) > len(a)+limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return min(row[len(b)], limit)
}
