package job_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

func TestRetryOnIsReadAsTyped(t *testing.T) {
	for text, want := range map[string]job.RetryOn{
		"75":                            {"75"},
		"oom, Timeout,sigsegv ,BUS,070": {"OOM", "timeout", "SIGSEGV", "SIGBUS", "70"},
		"70-79,75,75":                   {"70-79", "75"},
		"any":                           {},
	} {
		got, err := job.ParseRetryOn(text)
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ",", "0", "256", "79-70", "SIGNOTHING", "75,any", "-1", "out of memory"} {
		if got, err := job.ParseRetryOn(text); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q is %v (%v)", text, got, err)
		}
	}
}

func TestRetryOnMatchesItsFailures(t *testing.T) {
	type failure struct {
		code         int
		signal, kind string
	}
	plain, oom, late := failure{code: 1}, failure{code: 137, kind: job.FailMemory}, failure{code: 124, kind: job.FailTime}
	segv, shells, own := failure{139, "SIGSEGV", ""}, failure{code: 139}, failure{code: 124}
	all := []failure{plain, oom, late, segv, shells, own}
	for text, want := range map[string][]failure{
		"any":         all,
		"1":           {plain},
		"OOM":         {oom},
		"timeout":     {late},
		"124":         {own},
		"SIGSEGV":     {segv, shells},
		"SIGKILL":     nil,
		"100-139":     {segv, shells, own},
		"1-3,OOM,139": {plain, oom, segv, shells},
	} {
		on, err := job.ParseRetryOn(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []failure
		for _, f := range all {
			if on.Matches(f.code, f.signal, f.kind) {
				got = append(got, f)
			}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(failure{})); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestMemoryGrowsByStepsUpToABound(t *testing.T) {
	for _, c := range []struct {
		step float64
		n    int
		most job.Bytes
		want job.Bytes
	}{{2, 0, 0, 64 << 20}, {2, 1, 0, 128 << 20}, {1.5, 2, 0, 144 << 20}, {2, 3, 200 << 20, 200 << 20}, {2, 1, 32 << 20, 64 << 20}, {0, 5, 0, 64 << 20}} {
		if got := job.Bytes(64<<20).Stepped(c.step, c.n, c.most); got != c.want {
			t.Errorf("step %v, %d times, at most %v: %v, want %v", c.step, c.n, c.most, got, c.want)
		}
	}
	if got := job.Bytes(1<<30).Stepped(16, 1000, 0); got <= 1<<30 {
		t.Errorf("it came to %v", got)
	}
	for text, want := range map[string]float64{"2x": 2, "1.5X": 1.5, "3": 3, "1x": 0, "0": 0, "x": 0, "17x": 0, "NaN": 0} {
		if got, err := job.ParseStep(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q is %v (%v)", text, got, err)
		}
	}
}
