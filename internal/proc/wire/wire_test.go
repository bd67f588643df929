package wire

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// A message of any length leaves nothing of itself to what comes after it.
func TestAWireIsLeftBareAfterAMessage(t *testing.T) {
	t.Parallel()
	for n := range 8000 {
		var pipe struct {
			bytes.Buffer
			io.Closer
		}
		w := NewConn(&pipe)
		want := Request{Do: strings.Repeat("x", n)}
		if err := w.Send(want); err != nil {
			t.Fatal(err)
		}
		var got Request
		if err := w.Receive(&got); err != nil || got != want {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if err := w.SkipNewline(&pipe); err != nil || pipe.Len() != 0 {
			t.Fatalf("%d bytes: %v, and %d bytes are left", n, err, pipe.Len())
		}
	}
}
