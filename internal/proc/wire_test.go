package proc

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
		w := newWire(&pipe)
		want := word{Do: strings.Repeat("x", n)}
		if err := w.sendMessage(want); err != nil {
			t.Fatal(err)
		}
		var got word
		if err := w.readMessage(&got); err != nil || got != want {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if err := w.skipNewline(&pipe); err != nil || pipe.Len() != 0 {
			t.Fatalf("%d bytes: %v, and %d bytes are left", n, err, pipe.Len())
		}
	}
}
