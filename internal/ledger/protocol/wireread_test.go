package protocol

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// agree reads an entry both ways.
func agree(t *testing.T, text string) ChunkEntry {
	t.Helper()
	var want, got ChunkEntry
	wantErr := Decode([]byte(text), &want, &want.V, "key")
	err := DecodeResults([]byte(text), &got, &got.Results, &got.V, "key")
	if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		t.Fatalf("%s: %v, and package json: %v", text, err, wantErr)
	}
	if diff := cmp.Diff(want, got); err == nil && diff != "" {
		t.Fatalf("%s (-json +ours):\n%s", text, diff)
	}
	return got
}

var entries = []string{
	`{"v":1,"by":"a","claim":2,"results":[{"i":1,"h":"49","n":2},{"i":2,"y":"000001-1-2","f":true,"z":true,"c":137,"s":"SIGKILL","k":"memory","w":"it said \"no\"","e":17,"t":3,"u":4,"m":5,"l":"ünï\u2028"}]}`,
	`{"v":1,"results":[{"i":1,"o":[{"n":"a b","s":3,"d":"00","m":493},{"n":"c","s":0,"d":""}]}]}`,
	`{"v":1,"results":[]}`, `{"v":1,"results":[{}]}`, `{"v":1,"results":[{"i":1}]} `, `{"v":1,"results":[{"i":1}],"claim":3}`,
	`{"v":1,"by":",\"results\":[{}]}","results":[{"i":1}]}`, `{"results":[{"i":1}]}`, `{"v":99,"results":[{"i":1}]}`,
	`{"v":1,"results":[{"i":01}]}`, `{"v":1,"results":[{"i":1.5}]}`, `{"v":1,"results":[{"i":-0,"c":-3}]}`, `{"v":1,"results":[{"i":99999999999999999999}]}`,
	`{"v":1,"results":[{"h":"x","i":1}]}`, `{"v":1,"results":[{"i":1,"h":"a` + "\x01" + `"}]}`, `{"v":1,"results":[{"i":1,"h":"\ud800"}]}`, `{"v":1,"results":[{"i":1,"h":"` + "\xff" + `"}]}`,
	`{"v":1,"results":[{"i":1,"h":"a\qb"}]}`, `{"v":1,"results":[{"i":1,"h":"a`, `{"v":1,"results":[{"i":1},]}`, `{"v":1,"results":[{"i":1}]}{}`, `{"v":1,"results":[{"i":1,"x":3}]}`,
	`{"v":1,"results":[{"i":1,"o":[{"n":"a","m":-1}]}]}`, `{"v":1,"x":{"y":1,"results":[{"i":1}]}}`, `{"v":1,"results":[{"i":1}],"results":[{"i":2}]}`, `{"v":1,"results":[{"i":,"c":2}]}`,
	`{,"results":[{}]}`, `{ ,"results":[{}]}`,
}

func TestResultsAreReadAsPackageJSONReadsThem(t *testing.T) {
	t.Parallel()
	for _, text := range entries {
		agree(t, text)
	}
	e := agree(t, string(EncodeEntry(ChunkEntry{Header: Header{V: Format, At: time.Unix(1, 0).UTC()}, Results: []Result{{Item: 7, Head: "x"}, {Item: 8, Outputs: []Output{{Name: "o", Mode: 0o755}}}}})))
	if len(e.Results) != 2 {
		t.Errorf("%d results", len(e.Results))
	}
}

// What is written by us is read by us: else it would only be slow, without a sign.
func TestOurOwnResultsNeedNoPackageJSON(t *testing.T) {
	t.Parallel()
	body := string(EncodeEntry(ChunkEntry{Header: Header{V: Format}, Results: []Result{
		{Item: 1, Try: "t", Failed: true, Final: true, Code: -7, Signal: "SIGSEGV", Kind: "memory", Why: "<w>", Ended: 1, Wall: 2, CPU: 3, MaxRSS: 4, Head: "h\n", Tail: "ü", Size: 5},
		{Item: 2, Outputs: []Output{{Name: "n", Size: 1, SHA256: "d", Mode: 1}, {Name: "m"}}},
	}}))
	_, results, _ := strings.Cut(body, resultsField)
	if all, ok := (&scanner{text: results}).readResults(); !ok || len(all) != 2 {
		t.Errorf("%v, %t: %s", all, ok, results)
	}
}

func FuzzResultsAreReadAsPackageJSONReadsThem(f *testing.F) {
	for _, text := range entries {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { agree(t, text) })
}

func BenchmarkReadResults(b *testing.B) {
	var e ChunkEntry
	for i := range 1000 {
		e.Results = append(e.Results, Result{Item: i, Ended: 1790000000000000, Wall: 12345, CPU: 1234, MaxRSS: 12345678, Head: "1234", Size: 4})
	}
	e.V = 1
	body := EncodeEntry(e)
	for name, read := range map[string]func(*ChunkEntry) error{
		"ours": func(e *ChunkEntry) error { return DecodeResults(body, e, &e.Results, &e.V, "") },
		"json": func(e *ChunkEntry) error { return Decode(body, e, &e.V, "") },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for range b.N {
				var e ChunkEntry
				if err := read(&e); err != nil || len(e.Results) != 1000 {
					b.Fatal(err, len(e.Results))
				}
			}
		})
	}
}
