package figures

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

func TestOldSummariesAreForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range rememberedMost + 7 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.json", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		when := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).AddDate(0, 0, -i)
		if err := os.Chtimes(filepath.Join(dir, fmt.Sprintf("%03d.json", i)), when, when); err != nil {
			t.Fatal(err)
		}
	}
	forget(dir)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != rememberedMost || left[len(left)-1].Name() != fmt.Sprintf("%03d.json", rememberedMost-1) {
		t.Errorf("%d are left, %v", len(left), err)
	}
}

// someFigures are n items that used so much each, and one that used most.
func someFigures(n int, l job.Limits, usual, most float64, cores float64) (f report.Figures) {
	for i := range n {
		f.Memory.AddValue(usual, i+1)
		f.Cores.AddValue(cores, i+1)
	}
	f.Memory.AddValue(most, n+1)
	f.Limits = l
	return f
}

func TestAdviceIsGivenWhenItChangesSomething(t *testing.T) {
	t.Parallel()
	const mb, gb = 1 << 20, 1 << 30
	for name, row := range map[string]struct {
		f      report.Figures
		cores  int
		memory int64
		want   string
	}{
		"too much memory": {someFigures(100, job.Limits{Memory: 4 * gb}, 200*mb, 300*mb, 1), 16, 16 * gb,
			"no item had a process of more than 300 MB of the 4 GB asked for: --memory 384M would let 16 run at once on a worker, not 4"},
		"a few need much": {someFigures(100, job.Limits{Memory: 4 * gb}, 200*mb, 3900*mb, 1), 64, 16 * gb,
			"95 % of items had no process of more than 200 MB of the 4 GB asked for (item 101: 3.8 GB; drover retry --memory 4G runs such again): --memory 256M would let 64 run at once on a worker, not 4"},
		"too many cores": {someFigures(100, job.Limits{CPUs: 4}, mb, mb, 0.9), 8, 16 * gb,
			"95 % of items kept at most 0.9 of 4 cores busy: --cpus 1 would let 8 run at once on a worker, not 2"},
		"both": {someFigures(100, job.Limits{CPUs: 4, Memory: 4 * gb}, mb, mb, 0.9), 8, 16 * gb,
			"no item had a process of more than 1 MB of the 4 GB asked for, and 95 % of items kept at most 0.9 of 4 cores busy: --memory 64M --cpus 1 would let 8 run at once on a worker, not 2"},
		"nothing was asked for": {someFigures(100, job.Limits{}, mb, mb, 0.9), 8, 16 * gb, ""},
		"the cores are fewer":   {someFigures(100, job.Limits{Memory: 4 * gb}, mb, mb, 1), 2, 16 * gb, ""},
		"it is used":            {someFigures(100, job.Limits{Memory: 4 * gb}, 3*gb, 3*gb, 1), 64, 16 * gb, ""},
		"too few items":         {someFigures(10, job.Limits{Memory: 4 * gb}, mb, mb, 1), 64, 16 * gb, ""},
	} {
		got := Advise(row.f, row.cores, row.memory)
		if got == nil {
			got = &report.Advice{}
		}
		if got.Text != row.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got.Text, row.want)
		}
	}
}
