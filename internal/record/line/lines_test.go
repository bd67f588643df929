package line

import (
	"bytes"
	"errors"
	"iter"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/record"
)

func frames(all ...record.Frame) iter.Seq2[record.Frame, error] {
	return func(yield func(record.Frame, error) bool) {
		for n, f := range all {
			f.Seq = uint64(n + 1)
			if !yield(f, nil) {
				return
			}
		}
	}
}

func said(item uint64, s record.Stream, text string) record.Frame {
	return record.Frame{Item: item, Stream: s, Data: []byte(text)}
}

func TestLinesAreWholePerItemAndStream(t *testing.T) {
	type line struct {
		Item  uint64
		From  record.Stream
		Seq   uint64
		Text  string
		Whole bool
	}
	var got []line
	for l, err := range Lines(frames(
		said(1, record.Stdout, "a1\na"), said(1, record.Stderr, "x"), said(2, record.Stdout, "b1\n\nb"), said(1, record.Stdout, "2\n"),
		said(2, record.Stdout, ""), said(1, record.Stderr, "y\n"), said(2, record.Stdout, "3"),
	)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line{l.Item, l.Stream, l.Seq, string(l.Text), l.Whole})
	}
	want := []line{
		{1, record.Stdout, 1, "a1", true}, {2, record.Stdout, 3, "b1", true}, {2, record.Stdout, 3, "", true},
		{1, record.Stdout, 1, "a2", true}, {1, record.Stderr, 2, "xy", true}, {2, record.Stdout, 3, "b3", false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestALongLineIsCutAndCounted(t *testing.T) {
	part := bytes.Repeat([]byte("x"), record.MaxFrame)
	many := make([]record.Frame, 0, 40)
	for range 40 {
		many = append(many, said(0, record.Stdout, string(part)))
	}
	many = append(many, said(0, record.Stdout, "\nnext\n"))
	var got []Line
	for l := range Lines(frames(many...)) {
		got = append(got, l)
	}
	if len(got) != 2 || len(got[0].Text) != MaxLine || got[0].Dropped != 40*record.MaxFrame-MaxLine || string(got[1].Text) != "next" || got[1].Dropped != 0 {
		t.Errorf("got %d lines; first keeps %d and drops %d", len(got), len(got[0].Text), got[0].Dropped)
	}
}

func TestManyOpenLinesAreBounded(t *testing.T) {
	var a assembly
	given := 0
	count := func(Line, error) bool { given++; return true }
	const items = maxOpenLines + 1000
	for item := range uint64(items) {
		a.addFrame(said(item+1, record.Stdout, "no newline"), count)
		if a.count > maxOpenLines || a.count != len(a.far) && a.count > near {
			t.Fatalf("%d lines are open", a.count)
		}
	}
	big := string(make([]byte, record.MaxFrame))
	for item := range uint64(1000) {
		a.addFrame(said(item+1, record.Stderr, big), count)
		if a.bytes > maxOpenBytes {
			t.Fatalf("%d bytes are held", a.bytes)
		}
	}
	a.yieldExcess(0, 0, count)
	if given != items+1000 || a.bytes != 0 {
		t.Errorf("%d lines were given of %d, %d bytes are left", given, items+1000, a.bytes)
	}
}

func TestErrorsPassThroughLinesAndSearch(t *testing.T) {
	no := errors.New("no")
	in := func(yield func(record.Frame, error) bool) {
		_ = yield(said(0, record.Stdout, "a\n"), nil) && yield(record.Frame{}, no) && yield(said(0, record.Stdout, "a\n"), nil)
	}
	var found, errs int
	for _, err := range Search(Lines(in), regexp.MustCompile("a"), 0, 0) {
		if errors.Is(err, no) {
			errs++
		} else {
			found++
		}
	}
	if found != 2 || errs != 1 {
		t.Errorf("found %d and %d errors", found, errs)
	}
}

func TestSearchGivesMatchesWithTheirItemsContext(t *testing.T) {
	in := frames(
		said(1, record.Stdout, "1a\n1b\n"), said(2, record.Stdout, "2a\n"), said(1, record.Stderr, "1c\n"), said(1, record.Stdout, "HIT one HIT\n"),
		said(2, record.Stdout, "2b\n2c\nHIT two\n"), said(1, record.Stdout, "1d\n1e\n1f\nHIT three\n"),
	)
	type found struct {
		Text  string
		Match bool
		Apart bool
	}
	var got []found
	for f, err := range Search(Lines(in), regexp.MustCompile("HIT"), 1, 1) {
		if err != nil {
			t.Fatalf("%+v, %v", f, err)
		}
		got = append(got, found{string(f.Text), f.Match, f.Apart})
	}
	want := []found{
		{"1c", false, true}, {"HIT one HIT", true, false},
		{"2c", false, true}, {"HIT two", true, false},
		{"1d", false, false}, {"1f", false, true}, {"HIT three", true, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSearchRemembersABoundedContext(t *testing.T) {
	s := search{before: 1 << 30, after: 5, yield: func(Found, error) bool { t.Error("given without a match"); return false }}
	text := make([]byte, 3000)
	for n := range uint64(20_000) {
		s.searchLine(Line{Item: 1 + n%7000, Text: text}, false)
		if s.bytes > maxContextBytes || len(s.known) > maxSources || s.order.Len() != len(s.known) {
			t.Fatalf("%d bytes of %d items are remembered", s.bytes, len(s.known))
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\n\nc"), uint8(2))
	f.Add([]byte("\n"), uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, step uint8) {
		var parts []record.Frame
		for rest := b; len(rest) > 0; {
			n := min(len(rest), 1+int(step))
			parts = append(parts, said(0, record.Stdout, string(rest[:n])))
			rest = rest[n:]
		}
		var got []byte
		for l, err := range Lines(frames(parts...)) {
			if err != nil || l.Dropped != 0 || bytes.IndexByte(l.Text, '\n') >= 0 {
				t.Fatalf("%+v, %v", l, err)
			}
			got = append(got, l.Text...)
			if l.Whole {
				got = append(got, '\n')
			}
		}
		if !bytes.Equal(b, got) {
			t.Fatalf("%q became %q", b, got)
		}
	})
}
