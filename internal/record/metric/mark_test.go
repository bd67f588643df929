package metric

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/drover-run/drover/internal/record/redact"
	"github.com/drover-run/drover/job"
)

// What a program says is a metric is one, whatever is looked for; its other output is
// looked at as ever.
func TestWhatAProgramSaysIsAMetricIsOne(t *testing.T) {
	text := "loss=1\n" + MetricMark + "port=3 step=7 loss=0.5 acc=nan\n" +
		"half a line " + MetricMark + "val/loss=1e-05 epoch=2\n" + MetricMark + "x==1 y= z=1s step=9\n" + MetricMark + "w=inf"
	for preset, want := range map[string]string{
		"none": "port 7 3\nloss 7 0.5\nacc 7 NaN\nval/loss 2 1e-05\nw ~1 +Inf\n",
		"auto": "loss ~1 1\nport 7 3\nloss ~2 0.5\nacc 7 NaN\nval/loss 2 1e-05\nw ~1 +Inf\n",
	} {
		for seed := range uint64(50) {
			r := rand.New(rand.NewPCG(seed, 7))
			if got := found(extractor(t, job.Metric{Regex: preset}), parts(r, text)...); got != want {
				t.Fatalf("%s found\n%swant\n%s", preset, got, want)
			}
		}
	}
	secret := extractor(t, job.Metric{Regex: "none"})
	secret.Redact(redact.NewRedactor(map[string]string{"PIN": "31415926"}))
	if got := found(secret, MetricMark+"pin=31415926 loss=2\n"); got != "loss ~1 2\n" {
		t.Errorf("found %q", got)
	}
}

func TestMarksAreTakenOutAndNothingElse(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"plain\n":                    "plain\n",
		MetricMark + "a=1\n":         "a=1\n",
		"x" + MetricMark:             "x",
		MetricMark + MetricMark:      "",
		"\x1b[1mbold\x1b]drover;3\a": "\x1b[1mbold\x1b]drover;3\a",
		"\x1b" + MetricMark + "\x1b": "\x1b\x1b",
		MetricMark[:7]:               MetricMark[:7],
		strings.Repeat("y\n"+MetricMark+"z=1\n", 9999): strings.Repeat("y\nz=1\n", 9999),
	} {
		for name, reader := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "by bytes": iotest.OneByteReader, "by halves": iotest.HalfReader, "with its end": iotest.DataErrReader,
		} {
			u := &Unmarked{In: reader(strings.NewReader(in))}
			var out bytes.Buffer
			b := make([]byte, 64)
			for {
				n, err := u.Read(b)
				out.Write(b[:n])
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if out.String() != want {
				t.Errorf("%.40q %s gives %.40q, want %.40q", in, name, out.String(), want)
			}
		}
	}
}
