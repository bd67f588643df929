package look

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/clitest"
	"github.com/drover-run/drover/internal/cli/plot"
	"github.com/drover-run/drover/job"
)

// asked is what drover metrics prints of a job that has ended.
func asked(t *testing.T, json bool, m metricsFlags, all []plot.Series, used []plot.NodeUsage) (out, said string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	a := &app.App{Out: &o, Err: &e, Settings: app.Settings{JSON: json}}
	s := drover.Status{ID: "7f3k2a", Job: "vision/resnet/7f3k2a", Project: "vision", Task: "resnet", State: job.Succeeded, Attempt: 2,
		Started: clitest.Noon.Add(-time.Minute), Ended: clitest.Noon}
	err = NewMetrics(a).printMetrics(s, m, slices.Clone(all), slices.Clone(used))
	return o.String(), e.String(), err
}

var everything = metricsFlags{node: -1, attempt: -1}

func TestMetricsInAPipeAreASCIIOf80Columns(t *testing.T) {
	out, _, err := asked(t, false, everything, clitest.ATraining(200), []plot.NodeUsage{clitest.SomeUsage(0, 90, 1), clitest.SomeUsage(1, 40, 0)})
	if err != nil {
		t.Fatal(err)
	}
	clitest.CheckScreen(t, "metrics-pipe", strings.Split(strings.TrimSuffix(out, "\n"), "\n"))
	for _, l := range strings.Split(out, "\n") {
		if len(l) > 80 || strings.ContainsFunc(l, func(r rune) bool { return r >= 0x7f || r < ' ' }) {
			t.Errorf("%d bytes: %q", len(l), l)
		}
	}
	m := everything
	m.usage = true
	out, _, err = asked(t, false, m, nil, []plot.NodeUsage{clitest.SomeUsage(0, 90, 1)})
	if err != nil {
		t.Fatal(err)
	}
	clitest.CheckScreen(t, "metrics-usage", strings.Split(strings.TrimSuffix(out, "\n"), "\n"))
}

func TestMetricsOnATerminal(t *testing.T) {
	p := plot.Paper{Width: 90, Height: 10}
	s := drover.Status{ID: "7f3k2a", Project: "vision", Task: "resnet", State: job.Running, Attempt: 1, Started: clitest.Noon.Add(-time.Hour)}
	all := clitest.ATraining(200)
	lines := append([]string{headline(p, s, all, clitest.Noon.Add(8*time.Second))}, metricLines(p, s, everything, all)...)
	clitest.CheckScreen(t, "metrics-terminal", append(lines, plot.UsageLines(p, []plot.NodeUsage{clitest.SomeUsage(0, 90, 2)})...))
}

func TestMetricsByNameNodeAndAttempt(t *testing.T) {
	all := []plot.Series{clitest.SeriesOf("loss", 0, 1, clitest.PointsFrom(1, 3, 2)), clitest.SeriesOf("loss", 0, 2, clitest.PointsFrom(3, 1)), clitest.SeriesOf("loss", 1, 1, clitest.PointsFrom(1, 5)), clitest.SeriesOf("speed", 0, 1, clitest.PointsFrom(1, 900))}
	for name, row := range map[string]struct {
		m    metricsFlags
		want []string // name, node, attempt of each row
	}{
		"all":         {everything, []string{"loss 0 1", "loss 0 1", "loss 0 2", "loss 1 1", "speed 0 1"}},
		"one":         {metricsFlags{node: -1, attempt: -1, names: []string{"speed"}}, []string{"speed 0 1"}},
		"a node":      {metricsFlags{node: 1, attempt: -1}, []string{"loss 1 1"}},
		"an attempt":  {metricsFlags{node: -1, attempt: 2}, []string{"loss 0 2"}},
		"none of all": {metricsFlags{node: 1, attempt: 2}, nil},
	} {
		row.m.csv = true
		out, _, err := asked(t, false, row.m, all, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil || len(rows) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff([]string{"time", "attempt", "node", "name", "step", "value"}, rows[0]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		var got []string
		for _, r := range rows[1:] {
			got = append(got, strings.Join([]string{r[3], r[2], r[1]}, " "))
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for typed, hint := range map[string]string{"los": "Did you mean loss?", "zzzzzzzzz": "It has loss, speed."} {
		_, _, err := asked(t, false, metricsFlags{node: -1, attempt: -1, names: []string{typed}}, all, nil)
		if fault.KindOf(err) != fault.Missing || fault.Hint(err) != hint {
			t.Errorf("%s: %v, %s", typed, err, fault.Hint(err))
		}
	}
	out, said, err := asked(t, false, everything, nil, nil)
	if err != nil || !strings.Contains(said, "no metrics") || !strings.HasPrefix(out, "7f3k2a vision/resnet") {
		t.Errorf("of none: %v\n%s%s", err, out, said)
	}
	out, _, err = asked(t, false, everything, []plot.Series{clitest.SeriesOf("loss", 0, 1, clitest.PointsFrom(1, math.NaN()))}, nil)
	if err != nil || !strings.Contains(out, "nothing but NaN") {
		t.Errorf("of NaN: %v\n%s", err, out)
	}
}

func TestMetricsForPrograms(t *testing.T) {
	all := []plot.Series{clitest.SeriesOf("loss", 0, 1, clitest.PointsFrom(1, 0.5, math.NaN(), math.Inf(-1))), clitest.SeriesOf(`a,"b`, 0, 1, clitest.PointsFrom(1, 1e-300))}
	out, _, err := asked(t, true, everything, all, []plot.NodeUsage{clitest.SomeUsage(0, 2, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		V      int
		Job    string
		Series []struct {
			Name          string
			Node, Attempt int
			Points        []struct {
				Time  time.Time
				Step  int64
				Value *float64
			}
		}
		Usage []struct {
			Node    int
			Samples []struct{ CPU float64 }
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	first := doc.Series[0].Points
	if doc.V != 1 || doc.Job != "vision/resnet/7f3k2a" || *first[0].Value != 0.5 || first[1].Value != nil || first[2].Value != nil || first[2].Step != 3 ||
		!first[0].Time.Equal(clitest.Noon.Add(time.Second)) || len(doc.Usage) != 1 || doc.Usage[0].Samples[0].CPU != 1.5 {
		t.Errorf("%s", out)
	}
	if out, _, err = asked(t, true, everything, nil, nil); err != nil || out != `{"v":1,"job":"vision/resnet/7f3k2a","series":[],"usage":[]}`+"\n" {
		t.Errorf("of none: %v, %s", err, out)
	}
	m := everything
	m.csv = true
	out, _, err = asked(t, false, m, all, nil)
	rows, rerr := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err := errors.Join(err, rerr); err != nil {
		t.Fatal(err)
	}
	if rows[2][5] != "NaN" || rows[3][5] != "-Inf" || rows[4][3] != `a,"b` || rows[4][5] != "1e-300" {
		t.Errorf("%q", rows)
	}
}

func TestTextFromProgramsIsHarmlessInPlots(t *testing.T) {
	evil := "lo\x1b[2Jss"
	out, _, err := asked(t, false, everything, []plot.Series{clitest.SeriesOf(evil, 0, 1, clitest.PointsFrom(1, 1, 2)), clitest.SeriesOf("lr\x07", 0, 1, clitest.PointsFrom(1, 1, 2))}, nil)
	if err != nil || strings.ContainsAny(out, "\x1b\x07") || !strings.Contains(out, `lo\x1b[2Jss`) || !strings.Contains(out, `lr\x07`) {
		t.Errorf("%v: %q", err, out)
	}
}

func TestTheHintOfAMetricNamesThoseThereAre(t *testing.T) {
	all := []plot.Series{clitest.SeriesOf("loss", 0, 1, nil), clitest.SeriesOf("accuracy", 0, 1, nil)}
	for name, hint := range map[string]string{"los": "Did you mean loss?", "throughput": "It has loss, accuracy."} {
		_, _, err := asked(t, false, metricsFlags{node: -1, attempt: -1, names: []string{name}}, all, nil)
		if fault.KindOf(err) != fault.Missing || !strings.Contains(err.Error(), " has no metric ") || fault.Hint(err) != hint {
			t.Errorf("%s: %v\n  %s", name, err, fault.Hint(err))
		}
	}
}

func TestAJobWithoutMetricsSaysHowTheyArePrinted(t *testing.T) {
	if _, said, err := asked(t, false, metricsFlags{node: -1, attempt: -1}, nil, nil); err != nil || !strings.Contains(said, "no metrics: drover finds name=number in what a program prints; say otherwise with run --metric") {
		t.Errorf("metrics prints %q, %v", said, err)
	}
}
