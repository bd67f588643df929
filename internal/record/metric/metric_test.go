package metric

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/recordtest"
	"github.com/drover-run/drover/internal/record/redact"
	"github.com/drover-run/drover/job"
)

var update = flag.Bool("update", false, "write the golden files anew")

func extractor(t testing.TB, metrics ...job.Metric) *Extractor {
	t.Helper()
	e, err := NewExtractor(metrics)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// found is what e finds in text, a point a line: name, step, value.
func found(e *Extractor, pieces ...string) string {
	var b strings.Builder
	for _, piece := range pieces {
		show(&b, e.Feed(recordtest.BubbleStart, []byte(piece)))
	}
	show(&b, e.Rest(recordtest.BubbleStart))
	return b.String()
}

func show(b *strings.Builder, points []Point) {
	for _, p := range points {
		counted := map[bool]string{true: "~"}[p.Counted]
		fmt.Fprintf(b, "%s %s%d %v\n", p.Name, counted, p.Step, p.Value)
	}
}

// parts cuts text at random.
func parts(r *rand.Rand, text string) (pieces []string) {
	for len(text) > 0 {
		n := min(len(text), 1+r.IntN(1+r.IntN(200)))
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

func TestWhatFrameworksPrintIsFound(t *testing.T) {
	outputs, err := filepath.Glob("testdata/metrics/*.txt")
	if err != nil || len(outputs) < 9 {
		t.Fatalf("%d outputs: %v", len(outputs), err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range outputs {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got := found(extractor(t), string(text))
		golden := strings.TrimSuffix(name, ".txt") + ".golden"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for range 5 {
			if again := found(extractor(t), parts(r, string(text))...); again != got {
				t.Errorf("%s: in pieces another answer (-whole +pieces):\n%s", name, cmp.Diff(got, again))
			}
		}
	}
}

func TestAPresetFindsItsOwnOutput(t *testing.T) {
	if got, want := len(byName), len(job.Presets); got != want {
		t.Errorf("%d presets are known, want %d", got, want)
	}
	const (
		dict  = "{'loss': 0.5, 'epoch': 0.5}\n"
		bar   = "Epoch 0:  50%|##   | 2/4 [00:01<00:01,  2.0it/s, train_loss=0.5]\n"
		keras = "2/4 [==>..] - ETA: 1s - acc: 0.5\n"
		plain = "f1=0.5 f2: 0.6\n"
	)
	for _, preset := range job.Presets {
		if _, ok := byName[preset]; !ok {
			t.Errorf("preset %s is not known", preset)
		}
		want := map[string]string{
			"auto": "loss train_loss acc f1 f2", "hf": "loss", "lightning": "train_loss", "keras": "acc", "pairs": "train_loss acc f1 f2", "none": "",
		}[preset]
		var got []string
		for _, line := range strings.Split(strings.TrimSpace(found(extractor(t, job.Metric{Regex: preset}), dict, bar, keras, plain)), "\n") {
			got = append(got, strings.Fields(line + " ")[:min(1, len(strings.Fields(line)))]...)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: found %q, want %q", preset, got, want)
		}
	}
}

// A number may follow its name with nothing between, if the name is that of a loss or a
// score; settings of processes are none in whatever form.
func TestLossesWithoutASignAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"loss 3.31\n":                                                         "loss ~1 3.31\n",
		"train loss 3.32, val loss 3.31\n":                                    "train_loss ~1 3.32\nval_loss ~1 3.31\n",
		"step 10: train loss 4.2, val loss 4.3\n":                             "train_loss 10 4.2\nval_loss 10 4.3\n",
		"iter 20: loss 3.31, time 200.01ms, mfu 1.25%\n":                      "loss 20 3.31\n",
		"step 7 | loss 3.3106 | step time 12.31ms\n":                          "loss 7 3.3106\n",
		"step 500 train loss: 2.5 test loss: 2.6\n":                           "train_loss 500 2.5\ntest_loss 500 2.6\n",
		"epoch 3 val/accuracy 91.5% acc@1 nan\n":                              "val/accuracy 3 91.5\nacc@1 3 NaN\n",
		"lost 3.5 of loss 4, a loss 5s, loss of 3.2, glossary 1.5\n":          "",
		"{'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '29500', 'loss': 0.5}\n": "loss ~1 0.5\n",
	} {
		if diff := cmp.Diff(want, found(extractor(t), text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestAUsersExpressionFindsEveryMatch(t *testing.T) {
	for name, c := range map[string]struct {
		metrics []job.Metric
		text    string
		want    string
	}{
		"several on a line":   {[]job.Metric{{Name: "loss", Regex: `loss ([0-9.]+)`}}, "train loss 0.5 val loss 0.6\nnothing\n", "loss ~1 0.5\nloss ~2 0.6\n"},
		"two groups":          {[]job.Metric{{Regex: `(?P<a>\S+) and (?P<b>\S+)`}}, "1 and 2\n1e3 and x\n", "a ~1 1\nb ~1 2\na ~2 1000\n"},
		"its own step":        {[]job.Metric{{Name: "x", Regex: `at (?P<step>\d+) is (\S+)`}}, "at 7 is 0.1\nat 9 is 0.2\n", "x 7 0.1\nx 9 0.2\n"},
		"the line's step":     {[]job.Metric{{Name: "x", Regex: `is (\S+)`}}, "step 5 is -inf\n", "x 5 -Inf\n"},
		"percent":             {[]job.Metric{{Name: "x", Regex: `done (.*)$`}}, "done 45% \ndone 4 5\ndone 0x10\n", "x ~1 45\n"},
		"not what auto finds": {[]job.Metric{{Name: "x", Regex: `x=(\d+)`}}, "x=1 y=2\n", "x ~1 1\n"},
		"and what auto finds": {[]job.Metric{{Name: "x", Regex: `X(\d+)`}, {Regex: "auto"}}, "X1 y=2\n", "x ~1 1\ny ~1 2\n"},
		"a group not matched": {[]job.Metric{{Regex: `(?P<a>\d+)|(?P<b>z)`}}, "1 z 2\n", "a ~1 1\na ~2 2\n"},
		"any case":            {[]job.Metric{{Name: "l", Regex: `(?i)LOSS (\S+)`}}, "Loss 3\n", "l ~1 3\n"},
	} {
		if diff := cmp.Diff(c.want, found(extractor(t, c.metrics...), c.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, bad := range []job.Metric{{Name: "x", Regex: "("}, {Name: "x", Regex: "x"}, {Regex: "(x)"}} {
		if _, err := NewExtractor([]job.Metric{bad}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: got %v, want a refusal", bad.Regex, err)
		}
	}
}

func TestNamesAreBoundedAcrossStreams(t *testing.T) {
	out := extractor(t)
	err := out.Another()
	kept := 0
	for n := range maxNames {
		e := []*Extractor{out, err}[n%2]
		kept += len(e.Feed(recordtest.BubbleStart, fmt.Appendf(nil, "m%d=1\n", n)))
	}
	if note := out.Note(); kept != maxNames || note != "" {
		t.Fatalf("%d names were kept, and %q said", kept, note)
	}
	if got := found(out, "one_more=1 m3=2\n"); got != "m3 ~1 2\n" {
		t.Errorf("beyond the bound: %q", got)
	}
	if !strings.Contains(err.Note(), "200") || out.Note() != "" {
		t.Error("the note is not given exactly once")
	}
}

func TestASecretNumberIsNoMetric(t *testing.T) {
	e := extractor(t, job.Metric{Regex: "auto"}, job.Metric{Name: "x", Regex: `is (\d+)`})
	e.Redact(redact.NewRedactor(map[string]string{"PIN": "48151623"}))
	const text = "pin=48151623 loss=0.5\nit is 48151623\nit is 7\n48151623_a=1 b48151623: 2\n"
	for _, e := range []*Extractor{e, e.Another()} {
		if diff := cmp.Diff("loss ~1 0.5\nx ~1 7\n", found(e, text)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestHostileLinesAreBounded(t *testing.T) {
	e := extractor(t)
	for name, text := range map[string]string{
		"a long name":        strings.Repeat("n", maxName+1) + "=1\n",
		"no end":             strings.Repeat("loss=1 ", 100_000),
		"brackets":           strings.Repeat("(", 3000) + "\n" + strings.Repeat(")", 3000) + "\n",
		"escapes":            strings.Repeat("\x1b[", 2000) + "\n\x1b]never ended loss=1\n",
		"steps of all sizes": "step 99999999999999999999 step 999999999999999/999999999999999\n",
	} {
		if got := found(e, text); got != "" {
			t.Errorf("%s: found %q", name, got)
		}
		if len(e.held) > 0 || cap(e.held) > 3*maxMetricLine {
			t.Errorf("%s: holds %d bytes in %d", name, len(e.held), cap(e.held))
		}
	}
	if got := found(e, "loss=1\n"); got != "loss ~1 1\n" {
		t.Errorf("after all that: %q", got)
	}
}

func TestNumbersAreReadAsFloatsAre(t *testing.T) {
	for text, want := range map[string]float64{
		"1": 1, "-1.50": -1.5, "+.5": .5, "1e-05x": 1e-5, "2E+3": 2000, "1e": 1, "1.": 1, "1.e3": 1000, "1e999": math.Inf(1), "1e-999": 0,
		"NaN": math.NaN(), "-nan": math.NaN(), "inf": math.Inf(1), "-Infinity": math.Inf(-1), "0000000000000000000000000000000000007": 7,
	} {
		if got, n, _ := number([]byte(text)); n == 0 || !cmp.Equal(got, want, equalNaN) {
			t.Errorf("%q: read %v of %d bytes, want %v", text, got, n, want)
		}
	}
	for _, text := range []string{"", "-", "+.", ".", "e5", "x", "--1", "i", "n", strings.Repeat("1", maxNumber+1)} {
		if got, n, _ := number([]byte(text)); n != 0 {
			t.Errorf("%q: read %v, want nothing", text, got)
		}
	}
}

var equalNaN = cmp.Comparer(func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })

// smalltalk is output without metrics, of the kinds that come in bulk.
var smalltalk = []byte(strings.Repeat(`2024-05-01 12:00:03,123 INFO worker-3: processed batch of documents in shard part-00017, moving on to the next one
Reading /data/sets/images/train/n01440764/n01440764_10026.JPEG (500x375, RGB, 3 channels) without trouble
  0.1231 0.5512 0.9981 0.1231 0.5512 0.9981 0.1231 0.5512 0.9981
collecting https://example.com/simple/numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.whl (18.0 MB)
key=value other=thing http://host:8080/path?x=y (0): Linear(in_features=3, out_features=4) done.
`, 128))

func TestLinesWithoutMetricsAllocateNothing(t *testing.T) {
	for name, e := range map[string]*Extractor{
		"auto": extractor(t), "a user's": extractor(t, job.Metric{Name: "loss", Regex: `loss: ([0-9.]+)`}),
	} {
		for at := 0; at < len(smalltalk); at += 1000 { // what grows once
			e.Feed(recordtest.BubbleStart, smalltalk[at:min(len(smalltalk), at+1000)])
		}
		points := 0
		allocs := testing.AllocsPerRun(20, func() {
			for at := 0; at < len(smalltalk); at += 1000 {
				points += len(e.Feed(recordtest.BubbleStart, smalltalk[at:min(len(smalltalk), at+1000)]))
			}
		})
		if allocs != 0 || points != 0 {
			t.Errorf("%s: %v allocations for %d bytes, %d points", name, allocs, len(smalltalk), points)
		}
	}
}

func BenchmarkExtract(b *testing.B) {
	bars := []byte(strings.Repeat("\r 45%|####      | 45/100 [00:01<00:02, 25.0it/s]", 1000))
	losses := []byte(strings.Repeat("epoch 3 step 50 loss=0.5123 acc: 91.2%\n", 1000))
	for _, c := range []struct {
		name    string
		text    []byte
		metrics []job.Metric
	}{
		{"no metrics", smalltalk, nil},
		{"no metrics, an expression", smalltalk, []job.Metric{{Name: "loss", Regex: `loss: ([0-9.]+)`}}},
		{"bars", bars, nil},
		{"metrics", losses, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := extractor(b, c.metrics...)
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				for part := range slices.Chunk(c.text, record.MaxFrame) {
					e.Feed(recordtest.BubbleStart, part)
				}
			}
		})
	}
}

func FuzzExtract(f *testing.F) {
	outputs, _ := filepath.Glob("testdata/metrics/*.txt")
	for _, name := range outputs {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, uint64(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		whole, pieces := extractor(t), extractor(t)
		want := found(whole, string(b))
		if got := found(pieces, parts(rand.New(rand.NewPCG(seed, 0)), string(b))...); got != want {
			t.Fatalf("at once %q, in pieces %q", want, got)
		}
		for _, p := range append(whole.Feed(recordtest.BubbleStart, b), whole.Rest(recordtest.BubbleStart)...) {
			if !storable(p.Name) || p.Time != recordtest.BubbleStart {
				t.Fatalf("impossible point %+v", p)
			}
			if bytes.ContainsAny([]byte(p.Name), "\r\n\x1b'\"{}()") {
				t.Fatalf("impossible name %q", p.Name)
			}
		}
		if len(whole.names.known) > maxNames || len(whole.held) > 0 {
			t.Fatalf("%d names, %d bytes held", len(whole.names.known), len(whole.held))
		}
	})
}

func FuzzNumber(f *testing.F) {
	for _, s := range []string{"1.5e-3", "-inf", "nan", ".5", "1e999"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, n, whole := number(b)
		if n < 0 || n > maxNumber || n > len(b) {
			t.Fatalf("%q: length %d", b, n)
		}
		again, m, _ := number(appendValue(nil, v))
		if n > 0 && (m == 0 || !cmp.Equal(v, again, equalNaN)) {
			t.Fatalf("%q: %v became %v", b, v, again)
		}
		if whole && strings.ContainsAny(string(b[:n]), ".eE") {
			t.Fatalf("%q is not an integer", b[:n])
		}
	})
}

func TestAMetricWithoutAGroupSaysToPutTheNumberIntoBrackets(t *testing.T) {
	_, err := NewExtractor([]job.Metric{{Name: "loss", Regex: "loss: [0-9.]+"}})
	if err == nil || err.Error() != `find metric "loss": "loss: [0-9.]+" has no group for its number` ||
		fault.Hint(err) != "Put the number into brackets: --metric 'loss=loss: ([0-9.]+)'." || fault.KindOf(err) != fault.Invalid {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
}
