package stream

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lines that programs may write, and some that they should not.
var lines = []string{
	`{"want":10}`, `{"done":[{"n":1,"result":9}],"want":10}`, `{"done":[{"n":1},{"n":2,"result":"text"}]}`, "{\"want\":1}\r\n",
	`{"done":[{"n":1,"result":{"a":[1,"}]",null]}},{"n":2,"result":-1.5e3},{"n":3,"result":true},{"n":4,"result":null}],"want":1}`,
	`{"done":[{"n":1,"result":"\u00fcn\"i\\"}]}`, `{"done":[{"n":1,"result":"ünï"}]}`, "{\"done\":[{\"n\":1,\"result\":\"\xff\"}]}",
	`{"done":[{"n":1,"result":9}],"fail":[{"n":2,"error":"too large","retry":false}],"want":10}`, `{"back":[5,6],"bye":true}`,
	`{ "want" : 3 }`, `{}`, `{"want":1,"want":2}`, `{"done":null}`, `{"done":[],"want":1}`, `{"WANT":4}`, `{"n":1}`,
	`{"want":01}`, `{"want":-1}`, `{"want":1e2}`, `{"want":99999999999999999999}`, `{"want":1} x`, `{"want":1`, `[1]`, `null`, ``,
	`{"done":[{"n":1,"result":}]}`, `{"done":[{"n":1,"result":01}]}`, `{"done":[{"n":1,"result":[}]}]}`, `{"done":[{"n":1,"result":1,2}]}`,
	"{\"done\":[{\"n\":1,\"result\":\"a\nb\"}]}", `{"done":[{"n":1,"result":"a}]}`, `{"done":[{"n":1,"result":nul}]}`, `{"done":[{"n":1,"result":7}],}`,
}

// asJSON is what package json reads from a line.
func asJSON(line string) (q request, err error) {
	err = json.Unmarshal([]byte(line), &q)
	return q, err
}

func TestARequestIsReadAsPackageJSONReadsIt(t *testing.T) {
	t.Parallel()
	var q request // used again, as a connection does
	for _, line := range lines {
		same(t, &q, line)
	}
}

func same(t *testing.T, q *request, line string) {
	t.Helper()
	want, wrong := asJSON(line)
	err := q.parseLine([]byte(line))
	if (err != nil) != (wrong != nil) {
		t.Fatalf("%s: %v, and package json says %v", line, err, wrong)
	}
	if err != nil {
		return
	}
	got := *q
	if len(got.Done)+len(want.Done) == 0 {
		got.Done, want.Done = nil, nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-json +ours):\n%s", line, diff)
	}
}

func TestTheHurriedReadTheCommonLines(t *testing.T) {
	t.Parallel()
	for _, line := range lines[:8] {
		var q request
		s := scanner{text: line}
		if !s.scanRequest(&q, nil) {
			t.Errorf("%s is left to package json", line)
		}
	}
}

func FuzzARequestIsReadAsPackageJSONReadsIt(f *testing.F) {
	for _, line := range lines {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) { same(t, new(request), line) })
}
