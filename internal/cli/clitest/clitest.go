// Package clitest has what tests of several verbs share: golden screens, and jobs and
// figures to show on them.
package clitest

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

// At is the moment of Looked.
var At = time.Date(2026, 11, 21, 14, 34, 18, 0, time.Local)

// Looked is a map at one moment.
func Looked(state job.State, t job.Tally, change func(*drover.Status)) drover.Status {
	s := drover.Status{V: 1, ID: "3xw8", Project: "photos", Task: "resize", State: state, MapStatus: &drover.MapStatus{Time: At, Items: t, Workers: 1}}
	if change != nil {
		change(&s)
	}
	return s
}

// Unpainted is text without colour.
func Unpainted(_ job.State, text string) string { return text }

// points are values, a second and a step apart from a step on.
func PointsFrom(step int64, values ...float64) (out []drover.Point) {
	for i, v := range values {
		out = append(out, drover.Point{Time: Noon.Add(time.Duration(step+int64(i)) * time.Second), Step: step + int64(i), Value: v})
	}
	return out
}

// SeriesOf is a metric of a node and an attempt.
func SeriesOf(name string, node, attempt int, points []drover.Point) drover.Series {
	return drover.Series{Name: name, Node: node, Attempt: attempt, Points: points}
}

var screens = flag.Bool("screens", false, "write the screens in testdata/screens anew")

// CheckScreen compares lines with what testdata/screens has under a name.
func CheckScreen(t *testing.T, name string, lines []string) {
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
		t.Errorf("%s (-want +got); if it is meant: go test -screens in its package\n%s", name, diff)
	}
}

// Noon is when all of these screens are looked at.
var Noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// ATraining is what a job of epochs has measured: its losses, a score and a rate.
func ATraining(epochs int) (all []drover.Series) {
	began := Noon.Add(-time.Duration(epochs) * time.Second)
	for name, value := range map[string]func(x float64) float64{
		"loss":     func(x float64) float64 { return 2.5*math.Exp(-x/20) + 0.3 },
		"val_loss": func(x float64) float64 { return 2.5*math.Exp(-x/18) + 0.5 + x*x/9000 },
		"accuracy": func(x float64) float64 { return 1 - math.Exp(-x/20) },
		"lr":       func(float64) float64 { return 1e-5 },
	} {
		one := drover.Series{Name: name, Attempt: 1}
		for i := range epochs {
			one.Points = append(one.Points, drover.Point{Time: began.Add(time.Duration(i) * time.Second), Step: int64(i + 1), Value: value(float64(i))})
		}
		all = append(all, one)
	}
	return all
}

// SomeUsage is what a node used in the last n samples of 5 s.
func SomeUsage(node, n, gpus int) drover.NodeUsage {
	u := drover.NodeUsage{Node: node, Attempt: 1}
	for i := range n {
		s := drover.Sample{Time: Noon.Add(time.Duration(i-n) * 5 * time.Second), CPU: 1.5 + math.Sin(float64(i)/4)/2, Memory: 600e6 + int64(i)*2e6, MemoryLimit: 2e9,
			Disk: 5e6, DiskRead: int64(i%7) * 1e6}
		for g := range gpus {
			s.GPU = append(s.GPU, drover.GPUSample{Index: g, Util: 60 + float64(i%30), Memory: 19e9, MemoryTotal: 24e9, Power: 200})
		}
		u.Samples = append(u.Samples, s)
	}
	return u
}

// Write writes a file, and makes its folder.
func Write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
