// Package discovery holds requests and answers to what Google says of an interface in its discovery document: paths, parameters, members and their
// types, enumerations and forms. A member that the document does not know is refused.
//
// batch-api.json is that of Google Batch, v1, revision 20260723, as google.golang.org/api v0.311.0 has it (BSD-3-Clause, Google LLC). Package gcpbatchtest
// checks every request and answer of its fake by it.
package discovery

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed batch-api.json
var batch []byte

// Document is what Google says of an interface.
type Document struct {
	Schemas    map[string]schema
	Parameters map[string]schema
	Resources  map[string]resource
}

type resource struct {
	Methods   map[string]Method
	Resources map[string]resource
}

// Method is one of the interface's requests.
type Method struct {
	ID         string
	HTTPMethod string
	Path       string
	Parameters map[string]schema
	Request    *schema
	Response   *schema
}

// schema is what a value must be.
type schema struct {
	Type, Format, Pattern, Location string
	Ref                             string `json:"$ref"`
	Enum                            []string
	ReadOnly, Required              bool
	Properties                      map[string]schema
	AdditionalProperties            *schema
	Items                           *schema
}

// Batch gives the document of Google Batch.
func Batch() (*Document, error) {
	d := &Document{}
	return d, json.Unmarshal(batch, d)
}

// Find gives the method of a request, with the path's parameters held to their forms and those of its query to their names.
func (d *Document) Find(r *http.Request) (m Method, err error) {
	for _, m = range d.methods(d.Resources) {
		values, ok := m.match(r)
		if !ok {
			continue
		}
		for name := range r.URL.Query() {
			_, own := m.Parameters[name]
			if _, all := d.Parameters[name]; !own && !all {
				return m, fmt.Errorf("%s has no parameter %q", m.ID, name)
			}
		}
		for name, p := range m.Parameters {
			value, there := values[name]
			if p.Location == "path" && (!there || !matches(p.Pattern, value)) {
				return m, fmt.Errorf("%s: parameter %s=%q is not of the form %s", m.ID, name, value, p.Pattern)
			}
		}
		return m, nil
	}
	return m, fmt.Errorf("%s %s is no method", r.Method, r.URL.Path)
}

func (d *Document) methods(in map[string]resource) (all []Method) {
	for _, r := range in {
		for _, m := range r.Methods {
			all = append(all, m)
		}
		all = append(all, d.methods(r.Resources)...)
	}
	// the longer path first, as {+name} stands for any
	slices.SortFunc(all, func(a, b Method) int { return len(b.Path) - len(a.Path) })
	return all
}

var variable = regexp.MustCompile(`\\\{\\\+([a-zA-Z]+)\\\}`)

// match gives the values of a path's parameters; ok is false for the path of another method.
func (m Method) match(r *http.Request) (values map[string]string, ok bool) {
	form := regexp.MustCompile("^/" + variable.ReplaceAllString(regexp.QuoteMeta(m.Path), `(?P<$1>.+?)`) + "$")
	found := form.FindStringSubmatch(r.URL.Path)
	if r.Method != m.HTTPMethod || found == nil {
		return nil, false
	}
	values = map[string]string{}
	for i, name := range form.SubexpNames() {
		if name == "" {
			continue
		}
		values[name] = found[i]
		if !matches(m.Parameters[name].Pattern, found[i]) {
			return nil, false
		}
	}
	return values, true
}

func matches(pattern, value string) bool {
	ok, err := regexp.MatchString(pattern, value)
	return pattern == "" || err == nil && ok
}

// CheckRequest holds a request's body to its method; members that only Google writes are refused.
func (d *Document) CheckRequest(m Method, body []byte) error {
	return d.check(m.ID, m.Request, body, true)
}

// CheckAnswer holds an answer to its method.
func (d *Document) CheckAnswer(m Method, body []byte) error {
	return d.check(m.ID, m.Response, body, false)
}

func (d *Document) check(id string, s *schema, body []byte, asked bool) error {
	if s == nil {
		if len(body) > 0 {
			return fmt.Errorf("%s takes no body", id)
		}
		return nil
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	return d.value(id, *s, v, asked)
}

func (d *Document) value(at string, s schema, v any, asked bool) error {
	if s.Ref != "" {
		s = d.Schemas[s.Ref]
	}
	switch v := v.(type) {
	case map[string]any:
		return d.object(at, s, v, asked)
	case []any:
		if s.Type != "array" {
			return fmt.Errorf("%s is a list, and should be %s", at, s.Type)
		}
		for i, x := range v {
			if err := d.value(fmt.Sprintf("%s[%d]", at, i), *s.Items, x, asked); err != nil {
				return err
			}
		}
		return nil
	case string:
		return s.text(at, v)
	case float64:
		if s.Type != "integer" && s.Type != "number" || s.Type == "integer" && v != float64(int64(v)) {
			return fmt.Errorf("%s is %v, and should be %s", at, v, s.Type)
		}
		return nil
	case bool:
		if s.Type != "boolean" {
			return fmt.Errorf("%s is %v, and should be %s", at, v, s.Type)
		}
		return nil
	}
	return fmt.Errorf("%s is null", at)
}

func (d *Document) object(at string, s schema, v map[string]any, asked bool) error {
	if s.Type != "object" {
		return fmt.Errorf("%s is an object, and should be %s", at, s.Type)
	}
	for name, x := range v {
		p, known := s.Properties[name]
		if !known && s.AdditionalProperties != nil {
			p, known = *s.AdditionalProperties, true
		}
		switch {
		case !known:
			return fmt.Errorf("%s has no member %q", at, name)
		case asked && p.ReadOnly:
			return fmt.Errorf("%s.%s is written by Google alone", at, name)
		}
		if p.Type == "any" {
			continue
		}
		if err := d.value(at+"."+name, p, x, asked); err != nil {
			return err
		}
	}
	return nil
}

var durationForm = regexp.MustCompile(`^-?[0-9]+(\.[0-9]{1,9})?s$`)

// text holds a text to its form: 64-bit numbers, times and durations are texts too.
func (s schema) text(at, v string) error {
	var err error
	switch {
	case s.Type != "string":
		err = fmt.Errorf("it should be %s", s.Type)
	case len(s.Enum) > 0 && !slices.Contains(s.Enum, v):
		err = fmt.Errorf("it should be one of %s", strings.Join(s.Enum, ", "))
	case s.Format == "int64":
		_, err = strconv.ParseInt(v, 10, 64)
	case s.Format == "google-datetime":
		_, err = time.Parse(time.RFC3339Nano, v)
	case s.Format == "google-duration" && !durationForm.MatchString(v):
		err = fmt.Errorf("it should be of the form 3.5s")
	case s.Format == "byte":
		_, err = base64.StdEncoding.DecodeString(v)
	case !matches(s.Pattern, v):
		err = fmt.Errorf("it should be of the form %s", s.Pattern)
	}
	if err != nil {
		return fmt.Errorf("%s is %q: %w", at, v, err)
	}
	return nil
}
