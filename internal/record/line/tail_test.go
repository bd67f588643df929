package line

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/recordtest"
	"github.com/drover-run/drover/internal/record/screen"
	"github.com/drover-run/drover/store/mem"
)

func TestALongBarIsOneLineOfItsLastState(t *testing.T) {
	var all []record.Frame
	at := recordtest.BubbleStart
	say := func(text string) {
		f := said(0, record.Stderr, text)
		f.Time = at
		all, at = append(all, f), at.Add(time.Second)
	}
	say("before\n 0%")
	for n := range 3000 { // more than MaxLine
		say("\r" + strings.Repeat("#", 500))
		if n%2 == 0 {
			say(" half")
		}
	}
	say("\r  last st")
	last := at.Add(-time.Second)
	say("ate\r")
	say("\nafter\r\nopen 1%\ropen 2%")
	var got []Line
	for l, err := range Folded(frames(all...)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l)
	}
	texts := ""
	for _, l := range got {
		texts += fmt.Sprintf("%q %v %d\n", l.Text, l.Whole, l.Dropped)
	}
	want := "\"before\" true 0\n\"  last state\\r\" true 0\n\"after\\r\" true 0\n\"open 2%\" false 0\n"
	if diff := cmp.Diff(want, texts); diff != "" || !got[1].Time.Equal(last) || got[1].Seq == 1 {
		t.Errorf("(-want +got):\n%s\nthe bar is of %v, want %v", diff, got[1].Time, last)
	}
}

func FuzzFold(f *testing.F) {
	f.Add([]byte("50%\r100%\r  \x1b[2K\r\n\rx\r\x1b[1mab\x1b"), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		var parts []record.Frame
		for rest := b; len(rest) > 0; {
			n := min(len(rest), 1+int(step))
			parts = append(parts, said(0, record.Stdout, string(rest[:n])))
			rest = rest[n:]
		}
		var want [][]byte
		for l := range Lines(frames(parts...)) {
			want = append(want, screen.Fold(l.Text))
		}
		var got [][]byte
		for l := range Folded(frames(parts...)) {
			got = append(got, screen.Fold(l.Text)) // a line without its end is folded as far as it came
		}
		if !cmp.Equal(want, got, recordtest.CompareBytes) {
			t.Fatalf("in %d pieces %q, at once %q", len(parts), got, want)
		}
		for _, l := range got {
			if again := screen.Fold(l); !bytes.Equal(again, l) {
				t.Fatalf("%q folds again to %q", l, again)
			}
		}
	})
}

// lastOf is what Tail promises, for lines of one writer.
func lastOf(lines []string, n int) []string { return lines[max(0, len(lines)-max(0, n)):] }

func TestTailGivesTheLastLinesAndReadsLittle(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	w := newWriter(t, d, 1, 0, "a")
	r := rand.New(rand.NewPCG(1, 9))
	var lines []string
	var text bytes.Buffer
	for n := range 200_000 {
		l := fmt.Sprintf("line %d %x", n, r.Uint64N(1<<(8*uint(r.IntN(8)))))
		lines = append(lines, l)
		text.WriteString(l + "\n")
	}
	text.WriteString("and no end")
	lines = append(lines, "and no end")
	if _, err := w.Copy(record.Stdout, 0, recordtest.UnevenReader{Reader: &text, Rand: r}); err != nil {
		t.Fatal(err)
	}
	recordtest.CloseWriter(t, w)
	size := 0
	for o := range d.List(t.Context(), recordtest.Prefix+"/") {
		size += int(o.Size)
	}
	for _, n := range []int{0, 1, 2, 10, 1000, 50_000, 1_000_000} {
		d.OpenedBytes = 0
		var got []string
		for l, err := range Tail(Lines(record.ReadTail(t.Context(), d, recordtest.Prefix, record.Filter{}, n)), n) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(l.Text))
		}
		if diff := cmp.Diff(lastOf(lines, n), append([]string{}, got...)); diff != "" {
			t.Errorf("the last %d: %d lines (-want +got):\n%.500s", n, len(got), diff)
		}
		if n <= 1000 && d.OpenedBytes > record.TailSize+record.MaxBlock/2 {
			t.Errorf("the last %d: %d bytes were read of %d", n, d.OpenedBytes, size)
		}
	}
	if size < 4*(record.TailSize+record.MaxBlock/2) {
		t.Errorf("%d bytes are too few to prove that little is read", size)
	}
}

func TestTailAgreesWithReadingAll(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	d := recordtest.NewStore(mem.New())
	for _, id := range []string{"a", "b"} {
		w := newWriter(t, d, 1, int(id[0]-'a'), id)
		for range 3000 {
			text := recordtest.Noise(r, r.IntN(900))
			for i := range text {
				if text[i] == 0 && r.IntN(9) == 0 {
					text[i] = '\n'
				}
			}
			recordtest.WriteAll(t, w, []record.Stream{record.Stdout, record.Stderr}[r.IntN(2)], uint64(r.IntN(3)), text)
		}
		recordtest.CloseWriter(t, w)
	}
	type line struct {
		Text   string
		Item   uint64
		Stream record.Stream
	}
	for range 20 {
		f := record.Filter{Ranks: []int{r.IntN(2)}, Item: uint64(r.IntN(3)), Streams: record.Stream(r.IntN(4))}
		var want []line
		for l := range Lines(record.Read(t.Context(), d, recordtest.Prefix, f)) {
			want = append(want, line{string(l.Text), l.Item, l.Stream})
		}
		n := r.IntN(2000)
		var got []line
		for l, err := range Tail(Lines(record.ReadTail(t.Context(), d, recordtest.Prefix, f, n)), n) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, line{string(l.Text), l.Item, l.Stream})
		}
		if diff := cmp.Diff(want[max(0, len(want)-n):], got); diff != "" {
			t.Fatalf("%+v, the last %d (-want +got):\n%.1000s", f, n, diff)
		}
	}
}

func TestTailOfManyWritersGivesTheNewest(t *testing.T) {
	line := func(writer string, second int) Line {
		return Line{Writer: writer, Time: recordtest.BubbleStart.Add(time.Duration(second) * time.Second), Text: fmt.Appendf(nil, "%s%d", writer, second)}
	}
	no := errors.New("no")
	in := func(yield func(Line, error) bool) {
		_ = yield(line("a", 1), nil) && yield(line("a", 9), nil) && yield(line("a", 3), nil) && yield(Line{}, no) &&
			yield(line("b", 2), nil) && yield(line("b", 4), nil) && yield(line("c", 0), nil)
	}
	for n, want := range map[int]string{-1: "", 0: "", 1: "b4", 2: "a3 b4", 3: "a9 a3 b4", 5: "a1 a9 a3 b2 b4", 99: "a1 a9 a3 b2 b4 c0"} {
		var got []string
		errs := 0
		for l, err := range Tail(in, n) {
			if errors.Is(err, no) {
				errs++
				continue
			}
			got = append(got, string(l.Text))
		}
		if strings.Join(got, " ") != want || errs != 1 {
			t.Errorf("the last %d: got %v and %d errors, want %s", n, got, errs, want)
		}
	}
}

func TestTailOfABarThatNeverEndsItsLine(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	w := newWriter(t, d, 1, 0, "a")
	recordtest.WriteAll(t, w, record.Stderr, 0, bytes.Repeat([]byte("\r"+strings.Repeat("#", 99)), (record.MaxTail+(8<<20))/100))
	recordtest.WriteAll(t, w, record.Stderr, 0, []byte("\r 99%"))
	recordtest.CloseWriter(t, w)
	given := 0
	var last Line
	for l, err := range Folded(func(yield func(record.Frame, error) bool) {
		for f, err := range record.ReadTail(t.Context(), d, recordtest.Prefix, record.Filter{}, 5) {
			given += len(f.Data)
			if !yield(f, err) {
				return
			}
		}
	}) {
		if err != nil {
			t.Fatal(err)
		}
		last = l
	}
	if string(last.Text) != " 99%" || given > record.MaxTail+record.MaxBlock {
		t.Errorf("%q after %d bytes", last.Text, given)
	}
}

func TestTailSaysWhatIsDamagedOrMissing(t *testing.T) {
	d := recordtest.NewStore(mem.New())
	w := newWriter(t, d, 1, 0, "a")
	for n := range 6 {
		recordtest.WriteAll(t, w, record.Stdout, 0, fmt.Appendf(nil, "line %d\n", n))
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	recordtest.CloseWriter(t, w)
	if err := d.Put(t.Context(), record.Origin{Attempt: 1, Rank: 0, Writer: "a"}.Key(recordtest.Prefix, 4), []byte("not a log")); err != nil {
		t.Fatal(err)
	}
	d.HideFromList = func(key string) bool {
		return key == record.Origin{Attempt: 1, Rank: 0, Writer: "a"}.Key(recordtest.Prefix, 3)
	} // there, but not listed
	var got []string
	errs := 0
	for l, err := range Tail(Lines(record.ReadTail(t.Context(), d, recordtest.Prefix, record.Filter{}, 3)), 3) {
		if err != nil {
			errs++
			continue
		}
		got = append(got, string(l.Text))
	}
	if diff := cmp.Diff([]string{"line 2", "line 3", "line 5"}, got); diff != "" || errs != 1 {
		t.Errorf("%d errors (-want +got):\n%s", errs, diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range record.ReadTail(ctx, d, recordtest.Prefix, record.Filter{}, 3) {
		if err == nil {
			t.Error("a frame after the end of ctx")
		}
	}
}

func newWriter(t testing.TB, s record.Store, attempt, rank int, id string) *record.Writer {
	t.Helper()
	return makeWriter(t, record.Options{Store: s, Attempt: attempt, Rank: rank, ID: id, Clock: recordtest.BubbleClock})
}

func makeWriter(t testing.TB, o record.Options) *record.Writer {
	t.Helper()
	o.Prefix = recordtest.Prefix
	w, err := record.NewWriter(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
