// Package amend changes requests of drover's to AWS as a user says, with JSON in the form that AWS's own tool
// reads.
//
// It refuses to know which requests there are: a request is a struct of Amazon's client. The tests of package batch
// prove it.
package amend

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"unicode"

	"github.com/drover-run/drover/fault"
)

var unknownField = regexp.MustCompile(`unknown field "(.*)"`)

// Merge adds the fields of a JSON object to a request, a pointer to a struct of Amazon's client: objects and
// maps are merged, and all else is replaced. A field that the request has not is a fault that names the option and the nearest field. "" adds nothing.
func Merge(option, text string, into any) error {
	if text == "" {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	said := reflect.New(reflect.TypeOf(into).Elem()) // a decoder would write into what the request shares with others
	err := d.Decode(said.Interface())
	if err == nil {
		mergeValue(reflect.ValueOf(into).Elem(), said.Elem())
		return nil
	}
	hint := "Give it as AWS's own tool takes it: `--target-arg " + option + "=@FILE`."
	if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
		if near := fault.Nearest(m[1], fieldsOf(reflect.TypeOf(into), map[reflect.Type]bool{})); near != "" {
			hint = "Do you mean " + near + "?"
		}
	}
	return fault.New(fault.Invalid, hint, "read --target-arg %s: %v", option, err)
}

// mergeValue puts what is set in one value into another one of its type.
func mergeValue(into, said reflect.Value) {
	switch {
	case said.IsZero():
	case said.Kind() == reflect.Struct:
		for i := range said.NumField() {
			if said.Type().Field(i).IsExported() {
				mergeValue(into.Field(i), said.Field(i))
			}
		}
	case said.Kind() == reflect.Pointer && !into.IsNil() && said.Elem().Kind() == reflect.Struct:
		mergeValue(into.Elem(), said.Elem())
	case said.Kind() == reflect.Map && !into.IsNil():
		for _, name := range said.MapKeys() {
			into.SetMapIndex(name, said.MapIndex(name))
		}
	default:
		into.Set(said)
	}
}

// fieldsOf are the names of all fields of a request, as AWS Batch spells them.
func fieldsOf(t reflect.Type, seen map[reflect.Type]bool) (all []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return nil
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		first, rest := f.Name[:1], f.Name[1:]
		all = append(all, string(unicode.ToLower(rune(first[0])))+rest)
		all = append(all, fieldsOf(f.Type, seen)...)
	}
	return all
}
