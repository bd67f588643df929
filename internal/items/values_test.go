package items

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/items/fields"
	"github.com/drover-run/drover/internal/items/itemstest"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/store/mem"
)

func TestFieldsOfCSV(t *testing.T) {
	l := collected(t, manifest.CSV, "name, age ,\nAnn,007,x\n\"Lee, \"\"J\"\"\nR\",,\"\"\n")
	if diff := cmp.Diff([]string{"name", "age", ""}, l.Fields()); diff != "" {
		t.Error(diff)
	}
	_, r := itemstest.Store(t, mem.New(), l, 1)
	want := []manifest.Item{
		{N: 1, Text: "Ann,007,x", Fields: []string{"Ann", "007", "x"}},
		{N: 2, Text: "\"Lee, \"\"J\"\"\nR\",,\"\"", Fields: []string{"Lee, \"J\"\nR", "", ""}},
	}
	if diff := cmp.Diff(want, itemstest.ReadItems(t, r)); diff != "" {
		t.Error(diff)
	}
}

func TestFieldsOfJSONLines(t *testing.T) {
	l := collected(t, manifest.JSONL, `{"b":"x\ny","a":1.50}
{"a":12345678901234567890.10,"c":{"k": [1, 2 ,"a b"]},"\u00e4 \"q\"":null,"b":"\ud83d\ude00\/"}
 {}
[1]
"s"
{"b":" ","a":true}`)
	if diff := cmp.Diff([]string{"b", "a", "c", `ä "q"`}, l.Fields()); diff != "" {
		t.Error(diff)
	}
	_, r := itemstest.Store(t, mem.New(), l, 1)
	want := [][]string{
		{"x\ny", "1.50", fields.Absent, fields.Absent},
		{"😀/", "12345678901234567890.10", `{"k":[1,2,"a b"]}`, "null"},
		{fields.Absent, fields.Absent, fields.Absent, fields.Absent},
		nil,
		nil,
		{" ", "true", fields.Absent, fields.Absent},
	}
	for i, it := range itemstest.ReadItems(t, r) {
		if diff := cmp.Diff(want[i], it.Fields); diff != "" {
			t.Errorf("item %d: %s", it.N, diff)
		}
	}
}

func TestNotEveryKeyIsAPlaceholder(t *testing.T) {
	var b strings.Builder
	for i := range fields.MaxNames + 5 {
		fmt.Fprintf(&b, "{\"k%d\":%d}\n", i, i)
	}
	l := collected(t, manifest.JSONL, b.String())
	if got := l.Fields(); len(got) != fields.MaxNames || got[fields.MaxNames-1] != "k999" || len(l.Notes()) != 1 {
		t.Errorf("%d fields, notes %q", len(got), l.Notes())
	}
	it, err := l.Reader().One(t.Context(), fields.MaxNames+3)
	if err != nil || it.Text != `{"k1002":1002}` || it.Fields[0] != fields.Absent {
		t.Errorf("%v, %v", it, err)
	}
}

// TestCSVIsReadAsTheLibraryReadsIt compares with encoding/csv, which takes more
// (it drops the spaces of no one, and allows fewer fields only when asked).
func TestCSVIsReadAsTheLibraryReadsIt(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		columns := 1 + rnd.IntN(4)
		want := [][]string{}
		for range 1 + rnd.IntN(20) {
			row := make([]string, columns)
			for i := range row {
				b := make([]rune, rnd.IntN(6))
				for j := range b {
					b[j] = []rune(`a,"` + "\n" + ` ä`)[rnd.IntN(6)]
				}
				row[i] = string(b)
			}
			if columns > 1 || row[0] != "" { // an empty line is none
				want = append(want, row)
			}
		}
		if len(want) == 0 {
			continue
		}
		var text bytes.Buffer
		for i := range columns {
			fmt.Fprintf(&text, ",h%d", i)
		}
		text.Next(1)
		text.WriteByte('\n')
		w := csv.NewWriter(&text)
		w.UseCRLF = seed%2 == 1
		w.WriteAll(want)
		l := collected(t, manifest.CSV, text.String())
		got := [][]string{}
		for _, it := range itemstest.ReadItems(t, l.Reader()) {
			got = append(got, it.Fields)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{"a,b\n1,2\n", "a\n\"x\ny\"\n", "\xef\xbb\xbfa,\"b\"\"c\"\n,\n", "a\r\n\"\r\n", "a,b\n1,\"2\"3\n", "\"\"\n\"\"\n", "a\n\n\n1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Collect(t.Context(), Source{From: "-", Format: manifest.CSV, Stdin: strings.NewReader(text)}, t.TempDir())
		if err != nil {
			itemstest.CheckRefused(t, err)
			return
		}
		defer l.Close()
		lib := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\xef\xbb\xbf")))
		lib.FieldsPerRecord = -1
		rows, libErr := lib.ReadAll()
		if strings.Contains(text, "\r") {
			libErr = errors.New("a CR is taken otherwise where it ends no line")
		}
		items := itemstest.ReadItems(t, l.Reader())
		if libErr == nil && len(rows) != len(items)+1 {
			t.Fatalf("%q: %d items, the library has %d", text, len(items), len(rows)-1)
		}
		for i, it := range items {
			if !utf8.ValidString(it.Text) || len(it.Fields) != len(l.Fields()) {
				t.Fatalf("%q: item %+v", text, it)
			}
			if libErr == nil && !cmp.Equal(rows[i+1], it.Fields) {
				t.Fatalf("%q: %s", text, cmp.Diff(rows[i+1], it.Fields))
			}
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":"x"}`, "{ \"a\" : [ 1 , {\"b\":\"}\\\"\"} ] ,\"c\":null}\n[]", `{"\u0061":"\ud83d\ude00"}`, "{}\n1\n\"x\"", `{"":{}}`, `{"a":"\\"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Collect(t.Context(), Source{From: "-", Format: manifest.JSONL, Stdin: strings.NewReader(text)}, t.TempDir())
		if err != nil {
			itemstest.CheckRefused(t, err)
			return
		}
		defer l.Close()
		for _, it := range itemstest.ReadItems(t, l.Reader()) {
			checkFields(t, l.Fields(), it)
		}
	})
}

// checkFields compares what was found in an object with what the library finds.
func checkFields(t *testing.T, names []string, it manifest.Item) {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(it.Text), &object); err != nil || object == nil {
		if it.Fields != nil {
			t.Fatalf("%q has fields %q", it.Text, it.Fields)
		}
		return
	}
	for i, name := range names {
		raw, there := object[name]
		want := fields.Absent
		if there {
			var b bytes.Buffer
			if err := json.Compact(&b, raw); err != nil {
				t.Fatal(err)
			}
			want = b.String()
			if raw[0] == '"' {
				want = ""
				if err := json.Unmarshal(raw, &want); err != nil {
					t.Fatal(err)
				}
			}
		}
		if it.Fields[i] != want {
			t.Fatalf("%q: %q is %q, not %q", it.Text, name, it.Fields[i], want)
		}
	}
	if len(names) < fields.MaxNames && len(object) > len(names) {
		t.Fatalf("%q: %d keys, %d names", it.Text, len(object), len(names))
	}
}

// collected reads text as it would come through a pipe.
func collected(t testing.TB, format, text string) *manifest.List {
	t.Helper()
	l, err := Collect(t.Context(), Source{From: "-", Format: format, Stdin: strings.NewReader(text)}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
