package line

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/recordtest"
	"github.com/drover-run/drover/store/mem"
)

// TestTailOfAMapReadsItsEnd: each item prints one line, so that none is known to be
// whole by one before it. Only the last object is read, and little of the one before.
func TestTailOfAMapReadsItsEnd(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	w := newWriter(t, d, 1, 0, "a")
	r := rand.New(rand.NewPCG(1, 9))
	var lines []string
	for item := range uint64(30_000) {
		lines = append(lines, fmt.Sprintf("%d %x", item+1, recordtest.Noise(r, 100)))
		recordtest.WriteAll(t, w, record.Stdout, item+1, []byte(lines[item]+"\n"))
	}
	recordtest.CloseWriter(t, w)
	size := 0
	for o := range d.List(t.Context(), recordtest.Prefix+"/") {
		size += int(o.Size)
	}
	for _, n := range []int{1, 10, 1000} {
		d.OpenedBytes = 0
		var got []string
		after, objects := map[record.Origin]uint64{}, map[record.Origin]int{}
		for l, err := range Tail(Lines(record.ReadTailTo(t.Context(), d, recordtest.Prefix, record.Filter{}, n, after, objects)), n) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(l.Text))
		}
		if diff := cmp.Diff(lines[len(lines)-n:], got); diff != "" {
			t.Errorf("the last %d: %d lines (-want +got):\n%.500s", n, len(got), diff)
		}
		if d.OpenedBytes > 2*(record.TailSize+record.MaxBlock) || d.OpenedBytes*2 > size {
			t.Errorf("the last %d: %d bytes were read of %d", n, d.OpenedBytes, size)
		}
		if diff := cmp.Diff(map[record.Origin]uint64{{Attempt: 1, Rank: 0, Writer: "a"}: 30_000}, after); diff != "" {
			t.Errorf("the end (-want +got):\n%s", diff)
		}
		d.OpenedBytes = 0
		ended := make(chan struct{})
		close(ended)
		for f, err := range record.Follow(t.Context(), record.FollowOptions{Store: d, Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock, After: after, Objects: objects, Ended: ended}) {
			t.Fatalf("more than there is: %+v, %v", f, err)
		}
		if d.OpenedBytes > 0 {
			t.Errorf("to go on from there %d bytes were read", d.OpenedBytes)
		}
	}
}

// TestTailOfAMapGivesWholeLines: an item begins a line, others print much, it ends the
// line; one prints on stderr alone, and one ends no line.
func TestTailOfAMapGivesWholeLines(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	w := newWriter(t, d, 1, 0, "a")
	r := rand.New(rand.NewPCG(2, 9))
	recordtest.WriteAll(t, w, record.Stdout, 7, []byte("first\nworking ..."))
	for item := range uint64(9000) {
		recordtest.WriteAll(t, w, record.Stdout, item+100, fmt.Appendf(nil, "%x\n", recordtest.Noise(r, 100)))
	}
	recordtest.WriteAll(t, w, record.Stderr, 5000, []byte("warning\n"))
	recordtest.WriteAll(t, w, record.Stdout, 7, []byte(" done\n"))
	recordtest.WriteAll(t, w, record.Stdout, 9100, []byte("the last\n"))
	recordtest.WriteAll(t, w, record.Stdout, 9101, []byte("99%"))
	recordtest.CloseWriter(t, w)
	var got []string
	for l, err := range Tail(Lines(record.ReadTail(t.Context(), d, recordtest.Prefix, record.Filter{}, 4)), 4) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %s %s", l.Item, l.Stream, l.Text))
	}
	want := []string{"5000 stderr warning", "7 stdout working ... done", "9100 stdout the last", "9101 stdout 99%"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
