// Package option holds the table of what is known of each field of a job's Spec: what
// another value of it means to a second command, the flag that sets it and what that flag
// says, the key of the config that gives it. Commands are compared by that table.
//
// It refuses to know how flags are read, and what follows from a difference. A test holds
// the table against the struct.
package option

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/drover-run/drover/job"
)

// Class says what a field of a Spec means to a second command that is typed while the
// task has a job: DESIGN section 7.
type Class int

// The classes. Every field of Spec has one, in options; a test holds that table against
// the struct.
const (
	// ClassCommand is of fields that say which command it is. With another value it is another command:
	// a task without a name gets another name by it.
	ClassCommand Class = iota + 1
	// ClassSetting is of fields that say what the program is given and how it is run: what it finds, sees
	// and may print into. Its results may differ by them.
	ClassSetting
	// ClassBound is of limits and numbers of tries, agents and slots: results do not
	// differ by them, but whether there are any.
	ClassBound
	// ClassLabel is of fields that say when a job has its turn and how it is found. They count while a job
	// has not ended, and are no reason to run a complete one again.
	ClassLabel
	// ClassOnce is of fields of one command alone and are not compared, but for CleanState.
	ClassOnce
)

// Field is one field of a Spec, by its name in Go: those of the structs within it are
// beside the others.
type Field struct {
	Name  string
	Class Class
	index []int
}

// Fields are all fields of a Spec, in their order.
func Fields() []Field {
	classes := map[string]Class{}
	for _, o := range options {
		classes[o.Field] = o.Class
	}
	var all []Field
	var walk func(t reflect.Type, at []int)
	walk = func(t reflect.Type, at []int) {
		for i := range t.NumField() {
			f := t.Field(i)
			index := append(slices.Clone(at), i)
			if f.Anonymous {
				walk(f.Type, index)
				continue
			}
			all = append(all, Field{f.Name, classes[f.Name], index})
		}
	}
	walk(reflect.TypeFor[job.Spec](), nil)
	return all
}

// fields are read once: a plan compares them a few times.
var fields = sync.OnceValue(Fields)

// Difference is a field that two specs do not have in common.
type Difference struct {
	Name    string // of the field, in Go
	Class   Class
	words   string
	was, is string // for people; both "": the values are not said
}

// String names what differs, and from what to what: "--memory (200M, now 1G)".
func (d Difference) String() string {
	if d.was == "" && d.is == "" {
		return d.words
	}
	return fmt.Sprintf("%s (%s, now %s)", d.words, d.was, d.is)
}

// Differences are the fields of s, both in normal form, that o has otherwise, in the
// order of Spec. Where the job lies (project and task) and what is said of one command
// alone does not count; that the state is to be empty counts where o did not say so, and
// what the program reads counts where s has something for it to read.
func Differences(s, o job.Spec) (all []Difference) {
	is, was := reflect.ValueOf(s), reflect.ValueOf(o)
	for _, f := range fields() {
		if f.Name == "Project" || f.Name == "Task" || f.Class == ClassOnce && !(f.Name == "CleanState" && s.CleanState) {
			continue
		}
		a, b := is.FieldByIndex(f.index), was.FieldByIndex(f.index)
		if same(a, b) || f.Name == "StdinOf" && s.StdinOf == "" {
			continue
		}
		d := Difference{Name: f.Name, Class: f.Class, words: Of(f.Name).displayName()}
		switch {
		case f.Name == "Env" || f.Name == "Secrets": // values are not for notes
			d.words = Variables(job.ChangedNames(a.Interface().(map[string]string), b.Interface().(map[string]string)))
		case f.Name == "CleanState" || f.Name == "StdinOf" || f.Class == ClassCommand:
		default:
			d.was, d.is = valueWords(b), valueWords(a)
		}
		if len(d.was) > maxValue || len(d.is) > maxValue { // a Dockerfile, a long list
			d.was, d.is = "", ""
		}
		all = append(all, d)
	}
	return all
}

// maxValue is the longest value that a difference quotes.
const maxValue = 60

// same compares two values; a list or map that is empty is none.
func same(a, b reflect.Value) bool {
	if k := a.Kind(); (k == reflect.Slice || k == reflect.Map) && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// valueWords is a value as a person would type it; "none" for none.
func valueWords(v reflect.Value) string {
	if v.IsZero() {
		return map[bool]string{true: "off", false: "none"}[v.Kind() == reflect.Bool]
	}
	switch v := v.Interface().(type) {
	case bool:
		return "on"
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case []string:
		return strings.Join(v, " ")
	case job.RetryOn:
		return strings.Join(v, ",")
	case map[string]string:
		var pairs []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			pairs = append(pairs, k+"="+v[k])
		}
		return strings.Join(pairs, " ")
	case map[string][]string:
		var words []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			words = append(words, v[k]...)
		}
		return strings.Join(words, " ")
	case []job.Metric:
		var names []string
		for _, m := range v {
			names = append(names, m.Name)
		}
		return strings.Join(names, " ")
	}
	return fmt.Sprint(v.Interface())
}

// Variables says which environment variables differ: "variable A", "variables A and B",
// "variables A, B, C and 2 more".
func Variables(names []string) string {
	switch n := len(names); {
	case n == 1:
		return "variable " + names[0]
	case n <= 3 && n > 0:
		return "variables " + strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	case n > 3:
		return "variables " + strings.Join(names[:3], ", ") + " and " + strconv.Itoa(n-3) + " more"
	}
	return "variables"
}

// SameCommand says whether two specs in normal form ask for the same command, by the fields
// of ClassCommand: another one is never taken for it.
func SameCommand(s, o job.Spec) bool {
	return !slices.ContainsFunc(Differences(s, o), func(d Difference) bool { return d.Class == ClassCommand })
}

// WithSettings is the command of s with the settings, bounds and labels of o.
func WithSettings(s, o job.Spec) job.Spec {
	to, from := reflect.ValueOf(&s).Elem(), reflect.ValueOf(o)
	for _, f := range fields() {
		if f.Class == ClassSetting || f.Class == ClassBound || f.Class == ClassLabel {
			to.FieldByIndex(f.index).Set(from.FieldByIndex(f.index))
		}
	}
	return s
}

// Settings are the settings, bounds and labels of s alone: what WithSettings takes of it.
func Settings(s job.Spec) job.Spec { return WithSettings(job.Spec{}, s) }
