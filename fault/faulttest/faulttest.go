// Package faulttest compares what a user reads with golden files: the sentences of
// errors and their next steps, each beside what leads to it. Tests collect them where
// they drive the code to them anyway. It knows none of the packages with those sentences;
// their tests prove it.
package faulttest

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drover-run/drover/fault"
)

var write = flag.Bool("sayings", false, "write the golden files of sentences anew")

// Sayings are sentences by what leads to them. The zero value is ready, and may be
// filled from several goroutines.
type Sayings struct {
	mu     sync.Mutex
	said   map[string][]string
	hidden []string
}

// Hide has a text that differs from run to run, such as a temporary folder, written as
// another one.
func (s *Sayings) Hide(text, as string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = append(s.hidden, text, as)
}

// Add notes a sentence.
func (s *Sayings) Add(what, sentence string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said == nil {
		s.said = map[string][]string{}
	}
	s.said[what] = append(s.said[what], strings.ReplaceAll(sentence, "\n", "\n    "))
}

// Error notes an error, of a fault also its kind and its hint. nil is noted as no error.
func (s *Sayings) Error(what string, err error) {
	if err == nil {
		s.Add(what, "no error")
		return
	}
	kind := ""
	if f := new(fault.Fault); errors.As(err, &f) {
		kind = f.Kind.String() + ": "
	}
	s.Add(what, kind+err.Error())
	if hint := fault.Hint(err); hint != "" {
		s.Add(what, "Next: "+hint)
	}
}

// Compare compares them with testdata/sayings/NAME.golden, word for word, in the order
// of the alphabet.
func (s *Sayings) Compare(t testing.TB, name string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	hide := strings.NewReplacer(s.hidden...)
	said := map[string]string{}
	for what, sentences := range s.said {
		said[hide.Replace(what)] = hide.Replace(strings.Join(sentences, "\n    "))
	}
	var all strings.Builder
	for _, what := range slices.Sorted(maps.Keys(said)) {
		fmt.Fprintf(&all, "%s:\n    %s\n", what, said[what])
	}
	got := all.String()
	file := filepath.Join("testdata", "sayings", name+".golden")
	if *write {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s (-want +got); go test -sayings writes it anew:\n%s", file, differences(string(want), got))
	}
}

// differences are the lines that only one of two texts has.
func differences(want, got string) string {
	var all strings.Builder
	for _, x := range []struct{ sign, text, other string }{{"-", want, got}, {"+", got, want}} {
		others := strings.Split(x.other, "\n")
		for line := range strings.SplitSeq(x.text, "\n") {
			if !slices.Contains(others, line) {
				all.WriteString(x.sign + line + "\n")
			}
		}
	}
	if all.Len() == 0 {
		return "the same lines in another order or number\n"
	}
	return all.String()
}
