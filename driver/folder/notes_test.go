package folder

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type note struct {
	Who int
	Why string `json:",omitempty"`
}

// Wherever a writer dies, what others say before and after it is heard.
func TestANoteThatIsTornTakesNoOtherWithIt(t *testing.T) {
	first, torn, last := note{1, "up"}, note{2, "a\nb"}, note{Who: 3}
	var line bytes.Buffer
	if err := Say(&line, torn); err != nil {
		t.Fatal(err)
	}
	whole := bytes.IndexByte(line.Bytes(), '}') + 1
	for cut := range line.Len() {
		path := filepath.Join(t.TempDir(), "notes")
		if err := SayIn(path, first); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(line.Bytes()[:cut]); err != nil {
			t.Fatal(err)
		}
		f.Close()
		want := []note{first}
		if cut >= whole {
			want = append(want, torn)
		}
		if diff := cmp.Diff(want, HearIn[note](path)); diff != "" {
			t.Errorf("cut at %d: difference:\n%s", cut, diff)
		}
		if err := SayIn(path, last); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append(want, last), HearIn[note](path)); diff != "" {
			t.Errorf("cut at %d, and one after it: difference:\n%s", cut, diff)
		}
	}
}

func TestManyMaySpeakAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	const writers, each = 8, 50
	var all sync.WaitGroup
	for who := range writers {
		all.Go(func() {
			for range each {
				if err := SayIn(path, note{who, strings.Repeat("x", who*10)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	heard := map[note]int{}
	for _, n := range HearIn[note](path) {
		heard[n]++
	}
	for who := range writers {
		if n := heard[note{who, strings.Repeat("x", who*10)}]; n != each {
			t.Errorf("%d of %d notes of writer %d are heard", n, each, who)
		}
	}
}

func TestNobodysNotesAreNone(t *testing.T) {
	if notes := HearIn[note](filepath.Join(t.TempDir(), "notes")); notes != nil {
		t.Errorf("in no file is heard %v", notes)
	}
}

func FuzzWhatWasSaidIsHeard(f *testing.F) {
	f.Add([]byte(`{"Who":7}` + "\n" + `{"Why":"x"}` + "\n"))
	f.Add([]byte("{\"Who\":\"a\"}\n\n\x00{}"))
	f.Add([]byte(`{"Who":7`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > maxNotes/2 {
			return
		}
		before, err := Hear[json.RawMessage](bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		more := bytes.NewBuffer(slices.Clone(text))
		if err := Say(more, note{Who: 1}); err != nil {
			t.Fatal(err)
		}
		after, err := Hear[json.RawMessage](more)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append(before, json.RawMessage(`{"Who":1}`)), after); diff != "" {
			t.Errorf("%q and a note: difference:\n%s", text, diff)
		}
	})
}
