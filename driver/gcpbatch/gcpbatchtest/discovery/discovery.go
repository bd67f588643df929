// Package discovery holds requests and answers to what Google says of an interface in its discovery document: paths, parameters, members and their
// types, enumerations and forms. A member that the document does not know is refused.
//
// The documents are those of google.golang.org/api v0.311.0 (BSD-3-Clause, Google LLC): that of Google Batch, v1, revision 20260723, as it is; of the
// others the methods that drover sends with all schemas that these name, without the words of either. Package gcpbatchtest checks every request and
// answer of its fake by them.
package discovery

import (
	"embed"
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

//go:embed *-api.json
var documents embed.FS

// Document is what Google says of an interface.
type Document struct {
	ServicePath string // begins the paths of its methods
	Schemas     map[string]schema
	Parameters  map[string]schema
	Resources   map[string]resource
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

// Read gives the document of a service, as batch.
func Read(service string) (*Document, error) {
	text, err := documents.ReadFile(service + "-api.json")
	if err != nil {
		return nil, fmt.Errorf("read the discovery document of %s: there is none", service)
	}
	d := &Document{}
	return d, json.Unmarshal(text, d)
}

// Find gives the method of a request, with the path's parameters held to their forms and those of its query to their names.
func (d *Document) Find(r *http.Request) (m Method, err error) {
	for _, m = range d.methods(d.Resources) {
		values, ok := m.match(d.ServicePath, r)
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
	// the longer path first, as {+name} stands for more than one part
	slices.SortFunc(all, func(a, b Method) int { return len(b.Path) - len(a.Path) })
	return all
}

// variable is a parameter in a path: {+name} is several of its parts, {name} is one.
var variable = regexp.MustCompile(`\\\{(\\\+)?([a-zA-Z]+)\\\}`)

// match gives the values of a path's parameters; ok is false for the path of another method.
func (m Method) match(servicePath string, r *http.Request) (values map[string]string, ok bool) {
	form := variable.ReplaceAllStringFunc(regexp.QuoteMeta(servicePath+m.Path), func(v string) string {
		part := variable.FindStringSubmatch(v)
		if part[1] == "" {
			return "(?P<" + part[2] + ">[^/]+?)"
		}
		return "(?P<" + part[2] + ">.+?)"
	})
	path := regexp.MustCompile("^/" + form + "$")
	found := path.FindStringSubmatch(r.URL.Path)
	if r.Method != m.HTTPMethod || found == nil {
		return nil, false
	}
	values = map[string]string{}
	for i, name := range path.SubexpNames() {
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
