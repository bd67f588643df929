package jobfile_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"

	"github.com/drover-run/drover/internal/jobfile"
	"github.com/drover-run/drover/job"
)

var update = flag.Bool("update", false, "write the schema anew")

// published is where people and editors find the schema.
const published = "../../docs/job.schema.json"

// generate makes the schema from job.Spec's structs and tags.
func generate(t *testing.T) []byte {
	t.Helper()
	r := jsonschema.Reflector{FieldNameTag: "yaml", Anonymous: true, ExpandedStruct: true, DoNotReference: true, Mapper: asWritten}
	s := r.Reflect(job.Spec{})
	s.Title = "drover job"
	s.Description = "One job for drover run: everything that flags can say. Relative paths are relative to the file."
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

// asWritten describes what looks different in YAML than in Go.
func asWritten(t reflect.Type) *jsonschema.Schema {
	word := &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}
	switch t {
	case reflect.TypeFor[job.Duration]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?d?|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`},
			{Type: "number", Minimum: "0"},
		}}
	case reflect.TypeFor[job.Bytes]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "string", Pattern: `^[0-9]+(\.[0-9]+)? ?([kKmMgGtT][iI]?)?[bB]?$`},
			{Type: "number", Minimum: "0"},
		}}
	case reflect.TypeFor[[]string]():
		return &jsonschema.Schema{Type: "array", Items: word}
	case reflect.TypeFor[map[string]string]():
		return &jsonschema.Schema{Type: "object", AdditionalProperties: word}
	}
	return nil
}

func TestTheSchemaIsThatOfTheSpec(t *testing.T) {
	want := generate(t)
	if again := generate(t); !bytes.Equal(want, again) {
		t.Fatal("two schemas of one spec differ")
	}
	if *update {
		for _, file := range []string{"schema.json", published} {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, file := range []string{"schema.json", published} {
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale: go test ./internal/jobfile -update (-want +got):\n%s", file, diff)
		}
	}
	if !*update && !bytes.Equal(jobfile.Schema(), want) {
		t.Error("the embedded schema is another")
	}
}

// property is as much of a schema as the next test asks for.
type property struct {
	Type        string
	Description string
	AnyOf       []property
	Items       *property
	Properties  map[string]property
	Required    []string
	// AdditionalProperties is false or a property.
	AdditionalProperties json.RawMessage
}

// TestSchemaAndParseAgree: each property, given a value of its type, is read;
// each left out that is required is refused; and no other is known.
func TestSchemaAndParseAgree(t *testing.T) {
	var s property
	if err := json.Unmarshal(jobfile.Schema(), &s); err != nil {
		t.Fatal(err)
	}
	agree(t, "", s, func(fields map[string]any) any { return fields })
	in := s.Properties["inputs"].Items
	if in == nil {
		t.Fatal("inputs have no items")
	}
	agree(t, "inputs", *in, func(fields map[string]any) any {
		return map[string]any{"program": "a", "inputs": []any{fields}}
	})
}

func agree(t *testing.T, where string, s property, file func(map[string]any) any) {
	t.Helper()
	if string(s.AdditionalProperties) != "false" {
		t.Errorf("%s: unknown fields are allowed", where)
	}
	read := func(fields map[string]any) error {
		b, err := json.Marshal(file(fields))
		if err != nil {
			t.Fatal(err)
		}
		_, err = jobfile.Parse("x.yaml", b)
		return err
	}
	least := map[string]any{}
	for _, name := range s.Required {
		least[name] = sample(t, s.Properties[name])
	}
	if err := read(least); err != nil {
		t.Errorf("%s: the least there may be is refused: %v", where, err)
	}
	for _, name := range s.Required {
		fields := with(least, "", nil)
		delete(fields, name)
		if read(fields) == nil {
			t.Errorf("%s: required %s may be left out", where, name)
		}
	}
	for name, p := range s.Properties {
		if p.Description == "" {
			t.Errorf("%s: %s has no description", where, name)
		}
		if err := read(with(least, name, sample(t, p))); err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
	err := read(with(least, "nosuchfield", "x"))
	if err == nil || !strings.Contains(err.Error(), `unknown field "nosuchfield"`) {
		t.Errorf("%s: an unknown field is read: %v", where, err)
	}
}

// with copies fields, and adds one unless name is "".
func with(fields map[string]any, name string, value any) map[string]any {
	more := map[string]any{}
	for k, v := range fields {
		more[k] = v
	}
	if name != "" {
		more[name] = value
	}
	return more
}

// sample is a value the schema accepts.
func sample(t *testing.T, p property) any {
	t.Helper()
	switch {
	case len(p.AnyOf) > 0:
		return sample(t, p.AnyOf[len(p.AnyOf)-1])
	case p.Type == "string":
		return "x"
	case p.Type == "integer", p.Type == "number":
		return 1
	case p.Type == "boolean":
		return true
	case p.Type == "array":
		return []any{sample(t, *p.Items)}
	case p.Type == "object" && p.Properties == nil:
		var one property
		if err := json.Unmarshal(p.AdditionalProperties, &one); err != nil {
			t.Fatal(err)
		}
		return map[string]any{"A": sample(t, one)}
	case p.Type == "object":
		fields := map[string]any{}
		for name, one := range p.Properties {
			fields[name] = sample(t, one)
		}
		return fields
	}
	t.Fatalf("no sample for %+v", p)
	return nil
}
