package cli

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/job"
)

var at = time.Date(2026, 11, 21, 14, 34, 18, 0, time.Local)

// looked is a map at one moment.
func looked(state job.State, t job.Tally, change func(*drover.MapStatus)) drover.MapStatus {
	s := drover.MapStatus{Status: drover.Status{V: 1, ID: "3xw8", Project: "photos", Task: "resize", State: state}, Time: at, Items: t, Workers: 1}
	if change != nil {
		change(&s)
	}
	return s
}

func unpainted(_ job.State, text string) string { return text }

// points are values, a second and a step apart from a step on.
func pointsFrom(step int64, values ...float64) (out []point) {
	for i, v := range values {
		out = append(out, point{Time: noon.Add(time.Duration(step+int64(i)) * time.Second), Step: step + int64(i), Value: v})
	}
	return out
}

func seriesOf(name string, node, attempt int, points []point) series {
	return series{Name: name, Node: node, Attempt: attempt, Points: points}
}

var screens = flag.Bool("screens", false, "write the screens in testdata/screens anew")

// checkScreen compares lines with what testdata/screens has under a name.
func checkScreen(t *testing.T, name string, lines []string) {
	t.Helper()
	file := filepath.Join("testdata", "screens", name+".txt")
	got := strings.Join(lines, "\n") + "\n"
	if *screens {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); if it is meant: go test ./internal/cli -screens\n%s", name, diff)
	}
}

// noon is when all of these screens are looked at.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// aTraining is what a job of epochs has measured: its losses, a score and a rate.
func aTraining(epochs int) (all []series) {
	began := noon.Add(-time.Duration(epochs) * time.Second)
	for name, value := range map[string]func(x float64) float64{
		"loss":     func(x float64) float64 { return 2.5*math.Exp(-x/20) + 0.3 },
		"val_loss": func(x float64) float64 { return 2.5*math.Exp(-x/18) + 0.5 + x*x/9000 },
		"accuracy": func(x float64) float64 { return 1 - math.Exp(-x/20) },
		"lr":       func(float64) float64 { return 1e-5 },
	} {
		one := series{Name: name, Attempt: 1}
		for i := range epochs {
			one.Points = append(one.Points, point{Time: began.Add(time.Duration(i) * time.Second), Step: int64(i + 1), Value: value(float64(i))})
		}
		all = append(all, one)
	}
	return all
}

// someUsage is what a node used in the last n samples of 5 s.
func someUsage(node, n, gpus int) nodeUsage {
	u := nodeUsage{Node: node, Attempt: 1}
	for i := range n {
		s := sample{Time: noon.Add(time.Duration(i-n) * 5 * time.Second), CPU: 1.5 + math.Sin(float64(i)/4)/2, Memory: 600e6 + int64(i)*2e6, MemoryLimit: 2e9,
			Disk: 5e6, DiskRead: int64(i%7) * 1e6}
		for g := range gpus {
			s.GPU = append(s.GPU, gpuSample{Index: g, Util: 60 + float64(i%30), Memory: 19e9, MemoryTotal: 24e9, Power: 200})
		}
		u.Samples = append(u.Samples, s)
	}
	return u
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
