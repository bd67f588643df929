package protocol

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// plain is what package json makes of a result.
func plain(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestResultsAreWrittenAsPackageJSONWouldWriteThem(t *testing.T) {
	t.Parallel()
	for _, r := range []Result{
		{}, {Item: 7, Ended: 1790000000000000, Wall: 12, Head: "49", Size: 2},
		{Item: -1, Try: "000001-1-2", Failed: true, Final: true, Code: 137, Signal: "SIGKILL", Why: "it said \"no\"\t<&>", Wall: -3, CPU: 4, MaxRSS: 5, Tail: "ünï\u2028"},
		{Item: 3, Outputs: []Output{{Name: "a b", Size: 3, SHA256: "00", Mode: 0o755}}, Head: "x"},
	} {
		if diff := cmp.Diff(plain(t, r), string(AppendResult(nil, &r))); diff != "" {
			t.Errorf("%+v (-json +ours):\n%s", r, diff)
		}
	}
}

// A field that is added to Result must be written, too.
func TestEveryFieldOfAResultIsWritten(t *testing.T) {
	t.Parallel()
	for i := range reflect.TypeFor[Result]().NumField() {
		var r Result
		switch f := reflect.ValueOf(&r).Elem().Field(i); f.Kind() {
		case reflect.Int, reflect.Int64:
			f.SetInt(7)
		case reflect.String:
			f.SetString("seven")
		case reflect.Bool:
			f.SetBool(true)
		default:
			r.Outputs = []Output{{Name: "seven", Size: 7, SHA256: "07"}}
		}
		if diff := cmp.Diff(plain(t, r), string(AppendResult(nil, &r))); diff != "" {
			t.Errorf("%s (-json +ours):\n%s", reflect.TypeFor[Result]().Field(i).Name, diff)
		}
	}
}

func TestAnEntryIsReadAsItWasMeant(t *testing.T) {
	t.Parallel()
	for _, e := range []ChunkEntry{
		{Header: Header{V: Format, Nonce: "n", By: "a", At: time.Unix(1790000000, 5).UTC()}, Claim: 2, Results: []Result{{Item: 1, Head: "1"}, {Item: 2, Failed: true}}, Ended: &Ended{}},
		{Header: Header{V: Format}, Claim: 1, Starting: []int{3}},
	} {
		var got ChunkEntry
		if err := Decode(EncodeEntry(e), &got, &got.V, "key"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	var s Snapshot
	want := Snapshot{V: Format, ID: "000001", N: 3, Results: []Result{{Item: 1}, {Item: 2, Head: "x"}}}
	body := WithResults(Encode(Snapshot{V: Format, ID: "000001", N: 3}), appendResults(appendResults(nil, want.Results[:1]), want.Results[1:]))
	if err := Decode(body, &s, &s.V, "key"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("a snapshot (-want +got):\n%s", diff)
	}
}

func FuzzResultsAreWrittenAsPackageJSONWouldWriteThem(f *testing.F) {
	f.Add(1, "SIGSEGV", "why", int64(3), "head", true)
	f.Add(-4, "", "\xff\u2029</script>", int64(-1), "\x00\x7f", false)
	f.Fuzz(func(t *testing.T, n int, signal, why string, wall int64, head string, failed bool) {
		r := Result{Item: n, Failed: failed, Code: n, Signal: signal, Why: why, Wall: wall, Head: head, Tail: why, Size: wall}
		if got, want := string(AppendResult(nil, &r)), plain(t, r); got != want {
			t.Errorf("%s, and json has %s", got, want)
		}
	})
}
