package line

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/recordtest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// expressions are of all kinds: with and without text that can be looked for, of both
// cases, for whole lines, for nothing, for bytes that are no UTF-8.
var expressions = []string{
	`loss=0\.0`, `(?i)LOSS=0`, `(?i)kelvin`, `error|warn`, `e[0-9]`, `^$`, ``, `^x+$`, `a.*b`, `\xff`, "\uFFFD", `(loss)`, `(ab){2,}`, `\n`, `x*`, `ab|`, `s\b`, `(?i)s|error`,
}

// babble is text of few letters, words that are looked for, newlines, and noise.
func babble(r *rand.Rand) []byte {
	words := []string{"a", "b", "x", "\n", "\n", "loss=0.0", "loss=0.1", "LOSS=0", "lo", "ss=0.0", "error", "warn", "e7", "s", "ſ", "kelvin", "Kelvin", "\xff", "é", " ", "\r\n", "abab"}
	var b []byte
	for range r.IntN(8) {
		b = append(b, words[r.IntN(len(words))]...)
	}
	return b
}

// babel is a log of several writers and objects, with items that print between each other.
func babel(t *testing.T, r *rand.Rand, d *recordtest.Store) {
	items := 1 + r.IntN(12)
	for rank := range 1 + r.IntN(3) {
		w := makeWriter(t, record.Options{Store: d, Rank: rank, ID: fmt.Sprintf("w%d", rank), Clock: recordtest.WanderingClock{Clock: recordtest.BubbleClock, Rand: r}})
		for range r.IntN(4) {
			for range r.IntN(120) {
				recordtest.WriteAll(t, w, record.Stream(1)<<r.IntN(3), uint64(r.IntN(items)), babble(r))
			}
			if r.IntN(8) == 0 { // blocks are closed by size
				recordtest.WriteAll(t, w, record.Stdout, 1, bytes.Repeat(append(babble(r), '\n'), 1+r.IntN(10_000)))
			}
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		recordtest.CloseWriter(t, w)
	}
}

// chosenBy is a filter of any kind.
func chosenBy(r *rand.Rand) (f record.Filter) {
	if r.IntN(3) == 0 {
		f.Item = uint64(r.IntN(6))
	}
	if r.IntN(3) == 0 {
		f.Streams = record.Stdout
	}
	if r.IntN(3) == 0 {
		f.Ranks = []int{r.IntN(3)}
	}
	if r.IntN(4) == 0 {
		f.Since = recordtest.BubbleStart.Add(time.Duration(r.IntN(2000)) * time.Millisecond)
	}
	if r.IntN(4) == 0 {
		f.Until = recordtest.BubbleStart.Add(time.Duration(r.IntN(2000)) * time.Millisecond)
	}
	return f
}

// naiveSearch reads everything, cuts it into the lines of each item and stream, and tries
// the expression on each of them.
func naiveSearch(frames []record.Frame, re *regexp.Regexp) (lines []string) {
	var order []record.Source
	text := map[record.Source][]byte{}
	for i := range frames {
		from := frames[i].Source()
		if text[from] == nil {
			order = append(order, from)
		}
		text[from] = append(text[from], frames[i].Data...)
	}
	for _, from := range order {
		all := text[from]
		for len(all) > 0 {
			line, rest, _ := bytes.Cut(all, []byte("\n"))
			if all = rest; re.Match(line) {
				lines = append(lines, fmt.Sprintf("%v %d %v %q", from.Origin, from.Item, from.Stream, line))
			}
		}
	}
	return lines
}

func heard(t *testing.T, all iter.Seq2[Found, error]) (lines []string, found []Found) {
	t.Helper()
	for f, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		f.Text = bytes.Clone(f.Text)
		if found = append(found, f); f.Match {
			lines = append(lines, fmt.Sprintf("%v %d %v %q", record.Origin{Attempt: f.Attempt, Rank: f.Rank, Writer: f.Writer}, f.Item, f.Stream, f.Text))
		}
	}
	return lines, found
}

// TestASiftFindsWhatAnOracleFinds: the same lines as the naive way, and with their
// context the same sequence as Search gives.
func TestASiftFindsWhatAnOracleFinds(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, seed))
			d := recordtest.NewStore(mem.New())
			babel(t, r, d)
			for range 6 {
				text := expressions[r.IntN(len(expressions))]
				f, re := chosenBy(r), regexp.MustCompile(text)
				before, after := r.IntN(3), r.IntN(3)
				want := naiveSearch(recordtest.AllFrames(t, record.Read(t.Context(), d, recordtest.Prefix, f)), re)
				plain, _ := heard(t, Sift(t.Context(), d, recordtest.Prefix, f, nil, re, 0, 0))
				got, around := heard(t, Sift(t.Context(), d, recordtest.Prefix, f, nil, re, before, after))
				for _, lines := range [][]string{want, got, plain} {
					slices.Sort(lines)
				}
				if diff := cmp.Diff(want, got) + cmp.Diff(want, plain); diff != "" {
					t.Fatalf("seed %d, %q of %+v: %s", seed, text, f, diff)
				}
				_, inOrder := heard(t, Search(Lines(record.Read(t.Context(), d, recordtest.Prefix, f)), re, before, after))
				if diff := cmp.Diff(inOrder, around, recordtest.CompareBytes); diff != "" {
					t.Fatalf("seed %d, %q of %+v, %d before and %d after: %s", seed, text, f, before, after, diff)
				}
			}
		})
	}
}

// TestASiftGoesOnWhereTheStoreEnds: what is not stored yet comes from another source,
// and a line that lies in both is one.
func TestASiftGoesOnWhereTheStoreEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		w := newWriter(t, d, 0, 0, "w")
		recordtest.WriteAll(t, w, record.Stdout, 3, []byte("loss=0.1\nlo"))
		recordtest.CloseWriter(t, w)
		var known map[record.Origin]uint64
		then := func(after map[record.Origin]uint64) iter.Seq2[record.Frame, error] {
			known = after
			return func(yield func(record.Frame, error) bool) {
				_ = yield(record.Frame{Writer: "w", Seq: 2, Item: 4, Stream: record.Stdout, Data: []byte("loss=0.2\n")}, nil) &&
					yield(record.Frame{Writer: "w", Seq: 3, Item: 3, Stream: record.Stdout, Data: []byte("ss=0.3\nlast loss=0.4")}, nil)
			}
		}
		got, _ := heard(t, Sift(t.Context(), d, recordtest.Prefix, record.Filter{}, then, regexp.MustCompile(`loss=0\.[2-9]`), 0, 0))
		at := record.Origin{Attempt: 0, Rank: 0, Writer: "w"}
		want := []string{fmt.Sprintf(`%v 4 stdout "loss=0.2"`, at), fmt.Sprintf(`%v 3 stdout "loss=0.3"`, at), fmt.Sprintf(`%v 3 stdout "last loss=0.4"`, at)}
		if diff := cmp.Diff(want, got) + cmp.Diff(map[record.Origin]uint64{at: 1}, known); diff != "" {
			t.Error(diff)
		}
	})
}

// TestASiftPassesOverWhatIsDamaged: it says the same of damaged, missing and unlisted
// objects as Read, and finds the same in the others.
func TestASiftPassesOverWhatIsDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		d := recordtest.NewStore(mem.New())
		for rank := range 3 {
			w := newWriter(t, d, 0, rank, fmt.Sprintf("w%d", rank))
			for n := range 12 {
				recordtest.WriteAll(t, w, record.Stdout, uint64(n+1), fmt.Appendf(nil, "hit %d of %d\n%s\nrest", n, rank, recordtest.Noise(r, 2000)))
				if err := w.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			recordtest.CloseWriter(t, w)
		}
		key := func(rank, n int) string {
			return record.Origin{Attempt: 0, Rank: rank, Writer: fmt.Sprintf("w%d", rank)}.Key(recordtest.Prefix, n)
		}
		d.HideFromList = func(k string) bool { return k == key(0, 3) || k == key(1, 0) }
		damage(t, d, key(0, 5), func(b []byte) []byte { b[len(b)/2]++; return b })
		damage(t, d, key(1, 2), func(b []byte) []byte { return b[:len(b)/2] })
		damage(t, d, key(2, 7), nil)
		re := regexp.MustCompile("hit")
		hear := func(all iter.Seq2[Found, error]) (said []string) {
			for f, err := range all {
				said = append(said, fmt.Sprint(string(f.Text), err))
			}
			return said
		}
		want := hear(Search(Lines(record.Read(t.Context(), d, recordtest.Prefix, record.Filter{})), re, 0, 0))
		got := hear(Sift(t.Context(), d, recordtest.Prefix, record.Filter{}, nil, re, 0, 0))
		if diff := cmp.Diff(want, got); diff != "" || len(got) != 36 {
			t.Errorf("%d: %s", len(got), diff)
		}
	})
}

// damage changes a stored object; change nil: it is gone.
func damage(t *testing.T, d *recordtest.Store, key string, change func([]byte) []byte) {
	t.Helper()
	body, err := d.Get(t.Context(), key)
	if err == nil {
		err = d.Delete(t.Context(), key)
	}
	if err == nil && change != nil {
		_, _, err = d.CreateOnce(t.Context(), key, change(body))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestWhoStopsASiftLeavesNothingBehind: in a bubble a goroutine that stays is noticed.
func TestWhoStopsASiftLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		babel(t, rand.New(rand.NewPCG(3, 3)), d)
		for range Sift(t.Context(), d, recordtest.Prefix, record.Filter{}, nil, regexp.MustCompile(""), 0, 0) {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var last error
		for _, err := range Sift(ctx, d, recordtest.Prefix, record.Filter{}, nil, regexp.MustCompile(""), 0, 0) {
			last = err
		}
		if last == nil {
			t.Error("a sift that was cancelled said nothing")
		}
	})
}

func TestWhatAnExpressionNeeds(t *testing.T) {
	for _, c := range []struct {
		re, texts  string
		fold, only bool
	}{
		{`loss=0\.0`, `["loss=0.0"]`, false, true},
		{`(loss=0\.0)`, `["loss=0.0"]`, false, true},
		{`loss=0\.0\d+ acc`, `["loss=0.0"]`, false, false},
		{`^(?:error|exception): `, `["rror" "xception"]`, false, false},
		{`cat|dog|bird`, `["cat" "dog" "bird"]`, false, false},
		{`(?i)Segfault`, `["egfault"]`, true, false},
		{`(?i)ss`, `[]`, false, false},
		{`a\nb`, `["a\nb"]`, false, false},
		{`(abc)+x?`, `["abc"]`, false, false},
		{`(abc)*`, `[]`, false, false},
		{`[0-9]{3}`, `[]`, false, false},
		{"ab\uFFFDcde", `["cde"]`, false, false},
		{``, `[]`, false, false},
	} {
		n := needlesOf(regexp.MustCompile(c.re))
		if got := fmt.Sprintf("%q", n.texts); got != c.texts || n.only != c.only || len(n.texts) > 0 && n.fold != c.fold {
			t.Errorf("%q needs %s, fold %v, only %v", c.re, got, n.fold, n.only)
		}
	}
}

// FuzzNeedles: a line that an expression matches is never passed over.
func FuzzNeedles(f *testing.F) {
	for _, text := range expressions {
		f.Add(text, []byte("loss=0.0\nLOSS=0 error\n\nKelvin\xff ababab"))
	}
	f.Fuzz(func(t *testing.T, text string, block []byte) {
		re, err := regexp.Compile(text)
		if err != nil || len(text) > 200 {
			return
		}
		m := newMatcher(re)
		m.beginText(block)
		hits := m.appendMatches(nil, block, 0, len(block))
		from := 0
		for from < len(block) {
			n := bytes.IndexByte(block[from:], '\n')
			if n < 0 {
				break
			}
			line := block[from : from+n]
			is := len(hits) > 0 && hits[0] == span{from, from + n}
			if is {
				hits = hits[1:]
			}
			if want := re.Match(line); is != want || newMatcher(re).matchesLine(line) != want {
				t.Fatalf("%q matches %q: %v, found: %v", text, line, want, is)
			}
			from += n + 1
		}
		if len(hits) > 0 {
			t.Fatalf("%q: found what is not a line: %v in %q", text, hits, block)
		}
	})
}

// BenchmarkSift looks through the logs of 100,000 items, seven lines each.
func BenchmarkSift(b *testing.B) {
	d := recordtest.NewStore(mem.New())
	w := makeWriter(b, record.Options{Store: d, ID: "w", Clock: store.System})
	r := rand.New(rand.NewPCG(1, 1))
	size := 0
	var text []byte
	for item := range uint64(100_000) {
		text = text[:0]
		for n := range 7 {
			text = fmt.Appendf(text, "epoch=%d loss=%.4f accuracy=%.3f\n", n, r.Float64()/float64(n+1), r.Float64())
		}
		recordtest.WriteAll(b, w, record.Stdout, item+1, text)
		size += len(text)
	}
	recordtest.CloseWriter(b, w)
	for _, c := range []struct {
		name, re string
		around   int
	}{{"few", `loss=0\.00\d1`, 0}, {"many", `loss=0\.0`, 0}, {"around", `loss=0\.00\d1`, 2}, {"fold", `(?i)LOSS=0\.00\d1`, 0}, {"blind", `[01]\.00[0-9]1`, 0}} {
		re := regexp.MustCompile(c.re)
		for name, sift := range map[string]func() iter.Seq2[Found, error]{
			"sift": func() iter.Seq2[Found, error] {
				return Sift(b.Context(), d, recordtest.Prefix, record.Filter{}, nil, re, c.around, c.around)
			},
			"search": func() iter.Seq2[Found, error] {
				return Search(Lines(record.Read(b.Context(), d, recordtest.Prefix, record.Filter{})), re, c.around, c.around)
			},
		} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					n := 0
					for _, err := range sift() {
						if n++; err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(n), "lines")
				}
			})
		}
	}
}
