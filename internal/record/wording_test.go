package record

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/record/recordtest"
	"github.com/drover-run/drover/store/mem"
)

func TestAWriterThatCannotBeNamedSaysWhy(t *testing.T) {
	for want, o := range map[string]Options{
		"record output: attempt -1 is not within 0 and 999999":         {Prefix: recordtest.Prefix, ID: "a", Attempt: -1},
		"record output: rank 1000000 is not within 0 and 999999":       {Prefix: recordtest.Prefix, ID: "a", Rank: 1000000},
		`record output: writer id "a-b" is not 1 to 32 of a-z and 0-9`: {Prefix: recordtest.Prefix, ID: "a-b"},
	} {
		if _, err := NewWriter(o); err == nil || err.Error() != want || fault.KindOf(err) != fault.Bug {
			t.Errorf("kind %v, %v\nwant %s", fault.KindOf(err), err, want)
		}
	}
}

func TestLiveOutputThatCannotBeServedSaysWhere(t *testing.T) {
	w := newWriter(t, recordtest.NewStore(mem.New()), 1, 0, "a")
	defer recordtest.CloseWriter(t, w)
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Listen(file); err == nil || !strings.HasPrefix(err.Error(), "serve live output in "+file+": ") || fault.KindOf(err) != fault.Bug {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
	if _, err := w.Listen(folder); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if _, err := w.Listen(other); err == nil || err.Error() != "serve live output in "+other+": the writer listens already, or is closed" || fault.KindOf(err) != fault.Bug {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
}

func TestOutputThatIsLostIsCounted(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	d.BeforeCreate = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
	w := newWriter(t, d, 3, 4, "a")
	recordtest.WriteAll(t, w, Stdout, 0, []byte("12345"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the machine goes away"))
	if err := w.Close(ctx); err == nil || !strings.HasPrefix(err.Error(), "store output of attempt 3, rank 4") ||
		!strings.Contains(err.Error(), " bytes are lost: the machine goes away") || fault.KindOf(err) != fault.Lost {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
}

func TestAStoreThatDoesNotAnswerIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		open := make(chan struct{})
		d.BeforeCreate = func(context.Context, string) error { <-open; return nil }
		w := makeWriter(t, Options{Store: d, ID: "a", Clock: recordtest.BubbleClock})
		recordtest.WriteAll(t, w, Stdout, 0, []byte("x"))
		time.Sleep(flushEvery + slow + time.Second) // of the bubble's clock
		if err := w.Err(); err == nil || !strings.Contains(err.Error(), ": no answer for ") || fault.KindOf(err) != fault.Lost {
			t.Errorf("kind %v, %v", fault.KindOf(err), err)
		}
		close(open)
		recordtest.CloseWriter(t, w)
		if err := w.Err(); err != nil {
			t.Errorf("after the answer: %v", err)
		}
	})
}

func TestASecondWriterOfOneNameIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		var heard []error
		for _, text := range []string{"one", "other"} {
			w := makeWriter(t, Options{Store: d, ID: "same", Clock: recordtest.BubbleClock, OnError: func(err error) { heard = append(heard, err) }})
			recordtest.WriteAll(t, w, Stdout, 0, []byte(text))
			recordtest.CloseWriter(t, w)
		}
		if len(heard) == 0 || !strings.HasSuffix(heard[0].Error(), ": another writer was given the same id") || fault.KindOf(heard[0]) != fault.Bug {
			t.Errorf("heard %v", heard)
		}
	})
}
