package record

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-run/drover/internal/record/recordtest"
	"github.com/drover-run/drover/internal/record/redact"
	"github.com/drover-run/drover/store/mem"
)

// TestWhatIsHeldBackIsShownToWhoWaits: a prompt may end in what begins a secret.
func TestWhatIsHeldBackIsShownToWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		w := makeWriter(t, Options{Store: d, ID: "a", Clock: recordtest.BubbleClock, Redact: redact.NewRedactor(map[string]string{"A": "y or n, who knows"})})
		in, program := io.Pipe()
		done := make(chan error, 1)
		go func() { _, err := w.Copy(Stdout, 0, in); done <- err }()
		say := func(text, want string) {
			t.Helper()
			if _, err := program.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * tick)
			synctest.Wait()
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := stored(t, d); got != want {
				t.Errorf("after %q: %q, want %q", text, got, want)
			}
		}
		say("Continue? y or n", "Continue? y or n")
		say(", who", "Continue? y or n, who")
		say(" knows what", "Continue? y or n, who[redacted A] what")
		say("y", "Continue? y or n, who[redacted A] whaty")
		program.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		recordtest.CloseWriter(t, w)
		if len(w.outlets) != 0 {
			t.Errorf("%d outlets are left", len(w.outlets))
		}
	})
}

func stored(t *testing.T, s Store) string {
	t.Helper()
	var said []byte
	for _, f := range recordtest.AllFrames(t, Read(t.Context(), s, recordtest.Prefix, Filter{})) {
		said = append(said, f.Data...)
	}
	return string(said)
}

// TestRedactedOutputComesInFrames: a mask is longer than a short secret, and a
// frame has its limit.
func TestRedactedOutputComesInFrames(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	w := makeWriter(t, Options{Store: d, ID: "a", Clock: recordtest.BubbleClock, Redact: redact.NewRedactor(map[string]string{"A_LONG_NAME": "hunter"})})
	recordtest.WriteAll(t, w, Stdout, 0, []byte(strings.Repeat("hunter ", 30000)+"hunte"))
	recordtest.CloseWriter(t, w)
	if got, want := stored(t, d), strings.Repeat("[redacted A_LONG_NAME] ", 30000)+"hunte"; got != want {
		t.Errorf("%d bytes came back, want %d", len(got), len(want))
	}
}

// TestStreamsAreRedactedApart: what one pipe and the other say is not one text.
func TestStreamsAreRedactedApart(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	w := makeWriter(t, Options{Store: d, ID: "a", Clock: recordtest.BubbleClock, Redact: redact.NewRedactor(map[string]string{"A": "hunter22"})})
	recordtest.WriteAll(t, w, Stdout, 0, []byte("hunt"))
	recordtest.WriteAll(t, w, Stderr, 0, []byte("er22 hunter22"))
	recordtest.WriteAll(t, w, Stdout, 1, []byte("er22"))
	w.Note("it said hunter22")
	recordtest.CloseWriter(t, w)
	if got, want := stored(t, d), "hunter22 [redacted A]er22it said [redacted A]\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
