package manifest_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/items/itemstest"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// randomLine is short mostly, and now and then longer than a block.
func randomLine(rnd *rand.Rand) string {
	n := 1 + rnd.IntN(40)
	switch rnd.IntN(400) {
	case 0:
		n = 1 + rnd.IntN(manifest.TestBlockSize*2)
	case 1:
		n = manifest.TestBlockSize - rnd.IntN(20)
	}
	b := make([]byte, n)
	for i := range b {
		if b[i] = byte(rnd.UintN(256)); b[i] == 0 || b[i] == '\n' || b[i] == '\r' {
			b[i] = 'x'
		}
	}
	return string(b)
}

func TestAListComesBackAsItWas(t *testing.T) {
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		want := make([]string, 1+rnd.IntN(3000))
		for i := range want {
			want[i] = randomLine(rnd)
		}
		l := itemstest.ListOf(t, want...)
		first := 1 + rnd.IntN(2)*rnd.IntN(1_000_000)
		_, r := itemstest.Store(t, mem.New(), l, first)
		if l.Count() != len(want) || r.First() != first || r.Last() != first+len(want)-1 {
			t.Fatalf("seed %d: %d items of %d, numbers %d to %d", seed, l.Count(), len(want), r.First(), r.Last())
		}
		if diff := cmp.Diff(want, itemstest.ReadTexts(t, r)); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		for range 20 {
			from := rnd.IntN(len(want))
			to := from + rnd.IntN(len(want)-from+1) // excluded
			var got []string
			for it, err := range r.Range(t.Context(), first+from, first+to-1) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, it.Text)
			}
			if diff := cmp.Diff(want[from:to], got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("seed %d, items %d to %d: %s", seed, from, to, diff)
			}
			n := rnd.IntN(len(want))
			it, err := r.One(t.Context(), first+n)
			if err != nil || it.Text != want[n] || it.N != first+n {
				t.Fatalf("seed %d, item %d: %+v, %v", seed, n, it, err)
			}
		}
	}
}

func TestPartsAreSmallAndNamedByWhatIsInThem(t *testing.T) {
	lines := itemstest.Incompressible(9000, 1000)
	l := itemstest.ListOf(t, lines...)
	s, r := itemstest.Store(t, mem.New(), l, 1)
	parts, blocks := 0, 0
	for o, err := range s.List(t.Context(), "p/t/j/items/") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(o.Key, ".zst") {
			parts++
		}
		if o.Size > manifest.TestPartSize {
			t.Errorf("%s has %d bytes", o.Key, o.Size)
		}
	}
	for _, b := range manifest.BlocksOf(r) {
		blocks++
		if b.Raw > manifest.TestBlockSize {
			t.Errorf("a block has %d bytes", b.Raw)
		}
	}
	if parts != 3 || blocks != 35 {
		t.Errorf("9 MB are %d parts and %d blocks", parts, blocks)
	}
	if diff := cmp.Diff(lines, itemstest.ReadTexts(t, r)); diff != "" {
		t.Error(diff)
	}
	m, err := l.Put(t.Context(), s, "p/t/j/items/")
	if diff := cmp.Diff(r.Manifest(), m); diff != "" || err != nil {
		t.Errorf("stored again: %s, %v", diff, err)
	}
}

func TestEqualListsHaveEqualDigests(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	digest := func(s items.Source) string {
		t.Helper()
		s.Dir = dir
		l, err := items.Collect(t.Context(), s, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Digest()
	}
	want := collected(t, manifest.Lines, "a\nb\nc").Digest()
	for _, s := range []items.Source{
		{From: write("plain.txt", "a\nb\nc\n")},
		{From: write("crlf.txt", "a\r\nb\r\nc\r\n")},
		{From: write("mark.txt", "\xef\xbb\xbfa\n\n\nb\nc")},
		{From: write("x.csv", "a\nb\nc\n"), Format: manifest.Lines},
	} {
		if got := digest(s); got != want {
			t.Errorf("%s has another digest", s.From)
		}
	}
	for _, s := range []items.Source{
		{From: write("order.txt", "a\nc\nb\n")},
		{From: write("more.txt", "a\nb\nc\nc\n")},
		{From: write("joined.txt", "ab\nc\n")},
		{From: write("head.csv", "a\nb\nc\n")},
	} {
		if got := digest(s); got == want {
			t.Errorf("%s has the same digest", s.From)
		}
	}
	one, two := collected(t, manifest.CSV, "a,b\n1,2\n").Digest(), collected(t, manifest.CSV, "a,c\n1,2\n").Digest()
	if one == two {
		t.Error("another header has the same digest")
	}
	if digest(items.Source{From: "1-100:5"}) != digest(items.Source{From: "1-96:5"}) || digest(items.Source{From: "7-7:3"}) != digest(items.Source{From: "7-7"}) {
		t.Error("ranges of the same numbers differ")
	}
	if digest(items.Source{From: "1-100:5"}) == digest(items.Source{From: "1-100"}) {
		t.Error("ranges of other numbers do not")
	}
}

func TestARangeIsNeverWrittenOut(t *testing.T) {
	var said faulttest.Sayings
	dir := filepath.Join(t.TempDir(), "none")
	for from, want := range map[string][]string{
		"1-3": {"1", "2", "3"}, "0-9:4": {"0", "4", "8"}, "5-5": {"5"}, "0-0": {"0"},
	} {
		l, err := items.Collect(t.Context(), items.Source{From: from}, dir)
		if err != nil {
			t.Fatal(err)
		}
		s, r := itemstest.Store(t, mem.New(), l, 11)
		if diff := cmp.Diff(want, itemstest.ReadTexts(t, r)); diff != "" {
			t.Errorf("%s: %s", from, diff)
		}
		for o := range s.List(t.Context(), "") {
			t.Errorf("%s wrote %s", from, o.Key)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	big, err := items.Collect(t.Context(), items.Source{From: "1-1000000000"}, dir)
	if err != nil || big.Count() != 1_000_000_000 {
		t.Errorf("a billion: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder was made")
	}
	for from, hint := range map[string]string{
		"9-1": "1-9", "01-10": "seq -w 01 10", "1-9:0": "step", "0-1000000000": "Split", "1-99999999999999999999": "10^18",
	} {
		_, err := items.Collect(t.Context(), items.Source{From: from}, dir)
		said.Error(from, err)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), hint) {
			t.Errorf("%s: %v; %s", from, err, fault.Hint(err))
		}
	}
	_, err = items.Collect(t.Context(), items.Source{From: "1-9", Format: manifest.CSV}, dir)
	said.Error("a range as CSV", err)
	if fault.KindOf(err) != fault.Invalid {
		t.Errorf("a range as CSV: %v", err)
	}
	said.Compare(t, "ranges")
}

func TestARangeBesideAFileOfThatNameIsSaid(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "1-3"), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := items.Collect(t.Context(), items.Source{From: "1-3", Dir: dir}, t.TempDir())
	if err != nil || l.Count() != 3 || len(l.Notes()) != 1 || !strings.Contains(l.Notes()[0], "./1-3") {
		t.Errorf("%d items, %q, %v", l.Count(), l.Notes(), err)
	}
	l, err = items.Collect(t.Context(), items.Source{From: "./1-3", Dir: dir}, t.TempDir())
	if err != nil || l.Count() != 1 {
		t.Errorf("the file: %v", err)
	}
	l.Close()
}

func TestCloseLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	empty := func(when string) {
		t.Helper()
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%s: %v, %v", when, left, err)
		}
	}
	l, err := items.Collect(t.Context(), items.Source{From: "-", Stdin: strings.NewReader("a\nb\n")}, dir)
	if err != nil {
		t.Fatal(err)
	}
	fresh, _, err := manifest.New(t.Context(), l, []*manifest.Reader{itemstest.ListOf(t, "a").Reader()}, dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := fresh.Close(); err != nil {
			t.Error(err)
		}
	}
	empty("after Close")
	if _, err := items.Collect(t.Context(), items.Source{From: "-", Stdin: strings.NewReader("a\n\x00\n")}, dir); err == nil {
		t.Error("NUL was taken")
	}
	empty("after a refusal")
}

func TestAnIDIsOfTextAndOccurrence(t *testing.T) {
	// Ids stand in what people have written down: they may not change.
	if got := manifest.ID("a", 1); got != "e3254ea61c09ead5" {
		t.Errorf("the id of the first a is %s", got)
	}
	seen := map[string]string{}
	for _, text := range []string{"", "a", "\x01a", "aa", "b"} {
		for n := 1; n <= 200; n++ {
			id, who := manifest.ID(text, n), fmt.Sprintf("%q %d", text, n)
			if len(id) != 16 || seen[id] != "" {
				t.Fatalf("%s has the id %s of %s", who, id, seen[id])
			}
			seen[id] = who
		}
	}
}

func TestTenMegabytesInALine(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789"), 1_000_000)
	want := []string{"a", string(long), "b", string(long[1:]), "c"}
	l := itemstest.ListOf(t, want...)
	_, r := itemstest.Store(t, mem.New(), l, 1)
	got := itemstest.ReadTexts(t, r)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("item %d came back with %d bytes of %d", i+1, len(got[i]), len(want[i]))
		}
	}
	if len(manifest.BlocksOf(r)) != 5 {
		t.Errorf("%d blocks", len(manifest.BlocksOf(r)))
	}
}

func TestADoneContextStopsEverything(t *testing.T) {
	why := fmt.Errorf("asked to")
	ctx, cancel := context.WithCancelCause(t.Context())
	l := itemstest.ListOf(t, "a", "b")
	cancel(why)
	for what, err := range map[string]error{
		"collect": second(items.Collect(ctx, items.Source{From: "-", Stdin: strings.NewReader("a\n")}, t.TempDir())),
		"folder":  second(items.Collect(ctx, items.Source{From: t.TempDir()}, t.TempDir())),
		"put":     second(l.Put(ctx, store.New(mem.New(), store.Options{}), "x")),
		"one":     second(l.Reader().One(ctx, 1)),
		"range":   second(manifest.NewRange(manifest.Range{From: 1, To: 5, Step: 1}).Reader().One(ctx, 1)),
	} {
		if err == nil || !strings.Contains(err.Error(), "asked to") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
