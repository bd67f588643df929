package drover

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/store"
)

// TestTheLastLinesOfAMapThatGoesOn: with and without follow, each line once, and only the
// end is read.
func TestTheLastLinesOfAMapThatGoesOn(t *testing.T) {
	t.Parallel()
	d, b := newCountedDesk(t)
	ctx := t.Context()
	j := d.submitMap("tail", "lines", "a\nb\nc\n", nil)
	w, err := record.NewWriter(record.Options{Store: d.world.Store, Prefix: protocol.LogsPrefix(j.path), Attempt: 1, Rank: 0, ID: "w", Clock: store.System})
	d.check(err)
	say := func(item uint64, text string) {
		t.Helper()
		_, err := w.Copy(record.Stdout, item, strings.NewReader(text))
		d.check(err)
		d.check(w.Flush(ctx))
	}
	for n := range 50 {
		say(1, fmt.Sprintf("line %d\n", n))
	}
	say(2, "half ")
	say(3, "three\n")
	read := func(o LogOptions) (lines []string) {
		t.Helper()
		for l, err := range j.Lines(ctx, o) {
			d.check(err)
			lines = append(lines, fmt.Sprintf("%d %s", l.Item, l.Text))
		}
		return lines
	}
	b.since()
	got := read(LogOptions{Tail: 3})
	if diff := cmp.Diff([]string{"1 line 49", "3 three", "2 half "}, got); diff != "" {
		t.Errorf("just now (-want +got):\n%s", diff)
	}
	if reads := b.gets.Swap(0); reads > 15 {
		t.Errorf("it took %d reads of 52 objects", reads)
	}

	var followed []string
	enough := make(chan struct{})
	for l, err := range j.Lines(ctx, LogOptions{Tail: 3, Follow: true, Enough: enough}) {
		d.check(err)
		if followed = append(followed, fmt.Sprintf("%d %s", l.Item, l.Text)); len(followed) == 3 {
			say(2, "and half\n")
			say(1, "the end\n")
			d.check(w.Close(ctx))
			close(enough)
		}
	}
	if diff := cmp.Diff([]string{"1 line 48", "1 line 49", "3 three", "2 half and half", "1 the end"}, followed); diff != "" {
		t.Errorf("followed (-want +got):\n%s", diff)
	}
}
