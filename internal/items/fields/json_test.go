package fields

import "testing"

// FuzzJSONFields reads what no Collect has looked at: it may give nonsense, and
// must not fall over.
func FuzzJSONFields(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"a":`, `{"a`, `{"a":"\u12`, `{"a":]}`, `{,}`, `{"a":1,`, `{"a"}`, `{"a":{"b":[}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fields, err := OfJSON(NewNames([]string{"a", "b"}), text)
		if err == nil && fields != nil && len(fields) != 2 {
			t.Fatalf("%q: %q", text, fields)
		}
	})
}
