package terminal

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAllJSONIsPrintedByOneEncoder: what --json shows is harmless in a terminal because
// there is one printer of it.
func TestAllJSONIsPrintedByOneEncoder(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../*/*.go")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(file) != "json.go" && !strings.HasSuffix(file, "_test.go") && (bytes.Contains(text, []byte("json.NewEncoder(")) || bytes.Contains(text, []byte("json.MarshalIndent("))) {
			t.Errorf("%s encodes JSON by itself: print it with newJSON", file)
		}
	}
	var out bytes.Buffer
	if err := NewJSON(&out).Encode(map[string]string{"reason": "\u009b31m\u202e\x7f<"}); err != nil || out.String() != `{"reason":"\u009b31m\u202e\u007f\u003c"}`+"\n" {
		t.Errorf("printed %s, %v", &out, err)
	}
}
