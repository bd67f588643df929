package maprunner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/agent/maprunner/recorder"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

func command(program string, args ...string) job.Spec { return job.Spec{Program: program, Args: args} }

// shell is a program that gives its items as $1 to a line of the shell.
func shell(line string) job.Spec { return command("sh", "-c", line, "sh", "{}") }

func TestEachItemRunsOnceAndItsResultIsRecorded(t *testing.T) {
	t.Parallel()
	s := newRange(t, command("echo", "{}", "{n}"), 3000, 700)
	s.run(4)
	s.wants(job.Succeeded, job.Tally{Items: 3000, Succeeded: 3000})
	all := s.results()
	for i, r := range all {
		n := i + 1
		want := fmt.Sprintf("%d %d\n", n, n)
		if r.N != n || r.State != job.ItemSucceeded || r.Result == nil || r.Result.Head != want || r.Result.Size != int64(len(want)) ||
			r.Result.Ended == 0 || r.Result.Wall <= 0 || r.Result.MaxRSS == 0 {
			t.Fatalf("item %d: %+v %+v", n, r, r.Result)
		}
	}
	for _, n := range []int{1, 700, 701, 2999, 3000} {
		if got, want := s.said(n, record.Stdout|record.Stderr), fmt.Sprintf("%d %d\n", n, n); got != want {
			t.Errorf("item %d printed %q, want %q", n, got, want)
		}
	}
}

func TestWhatAnItemIsGiven(t *testing.T) {
	t.Parallel()
	hostile := []string{"plain", "two  words", `qu"o'te`, "../up", "-rf", "$HOME `id` *", "ünï"}
	t.Run("as an argument and a variable", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, shell(`printf '%s|%s|%s|%s|%s' "$1" "$DROVER_ITEM" $DROVER_ITEM_N $DROVER_ITEM_TRY "${DROVER_JOB:+job}"`), hostile...)
		s.run(2)
		for i, r := range s.results() {
			if want := fmt.Sprintf("%s|%s|%d|1|job", hostile[i], hostile[i], i+1); r.Result == nil || r.Result.Head != want {
				t.Errorf("item %d: %+v, want %q", i+1, r.Result, want)
			}
		}
	})
	t.Run("on its input", func(t *testing.T) {
		t.Parallel()
		spec := command("cat")
		spec.Stdin = true
		s := newSite(t, spec, append(hostile, strings.Repeat("long ", 60_000))...)
		s.run(2)
		for i, r := range s.results() {
			want := strings.Repeat("long ", 60_000)
			if i < len(hostile) {
				want = hostile[i]
			}
			want += "\n"
			if r.Result == nil || r.Result.Size != int64(len(want)) || r.Result.Head != want[:min(len(want), recorder.HeadSize)] || r.Result.Tail != want[max(min(len(want), recorder.HeadSize), len(want)-recorder.TailSize):] {
				t.Errorf("item %d: %+v", i+1, r.Result)
			}
		}
	})
	t.Run("by a shell", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, job.Spec{Program: `printf '%s' {} | wc -c`, Items: job.Items{ByShell: true}}, hostile...)
		s.run(2)
		for i, r := range s.results() {
			if r.Result == nil || strings.TrimSpace(r.Result.Head) != fmt.Sprint(len(hostile[i])) {
				t.Errorf("item %d: %+v", i+1, r.Result)
			}
		}
	})
	t.Run("by fields", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, command("sh", "-c", `printf '%s|%s|%s|%s' "$1" "$DROVER_ITEM_WORD" "${DROVER_ITEM_SIZE-none}" "$DROVER_ITEM_N"`, "sh", "{word}"),
			`{"word":"a\nb ' c","size":7,"n":"not this"}`, `{"word":""}`)
		s.run(2)
		for i, want := range []string{"a\nb ' c|a\nb ' c|7|1", "||none|2"} {
			if r := s.results()[i]; r.Result == nil || r.Result.Head != want {
				t.Errorf("item %d: %+v, want %q", i+1, r.Result, want)
			}
		}
	})
}

func TestHowAnItemEnds(t *testing.T) {
	t.Parallel()
	type end struct {
		Failed bool
		Code   int
		Signal string
		Why    string
	}
	for _, row := range []struct {
		line string
		want end
	}{
		{"exit 0", end{}},
		{"echo first >&2; printf 'why not\n\n' >&2; exit 3", end{true, 3, "", "why not"}},
		{"kill -9 $$", end{true, 137, "SIGKILL", ""}},
		{"exec 0<&- 1>&- 2>&-; exit 0", end{}},
		{"kill -STOP $$; exit 0", end{true, 124, "SIGTERM", "timed out after 1s"}},
		{"trap 'exit 0' TERM; while :; do sleep 0.1; done", end{true, 124, "", "timed out after 1s"}},
		{"(setsid sh -c 'trap : TERM HUP; sleep 1000 & sleep 1000' & ) >/dev/null 2>&1; exit 0", end{}},
		{"sleep 1000 & exit 5", end{true, 5, "", ""}},
	} {
		t.Run(row.line, func(t *testing.T) {
			t.Parallel()
			spec := command("sh", "-c", row.line)
			if spec.Grace = job.Duration(time.Second / 2); row.want.Code == 124 {
				spec.ItemTimeout = job.Duration(time.Second)
			}
			s := newRange(t, spec, 2, 0)
			s.run(2)
			for _, r := range s.results() {
				if r.Result == nil {
					t.Fatalf("item %d has no result", r.N)
				}
				got := end{r.Result.Failed, r.Result.Code, r.Result.Signal, r.Result.Why}
				if diff := cmp.Diff(row.want, got); diff != "" {
					t.Errorf("item %d (-want +got):\n%s", r.N, diff)
				}
			}
		})
	}
}

func TestAFailureIsTriedAgain(t *testing.T) {
	t.Parallel()
	spec := shell(`[ "$1" != 3 ] || exit 7; [ "$1" != 5 ] || [ $DROVER_ITEM_TRY -gt 1 ]`)
	spec.Retries = 1
	s := newRange(t, spec, 20, 0)
	s.run(3)
	s.wants(job.Failed, job.Tally{Items: 20, Succeeded: 19, Failed: 1})
	v := views.NewMapView(s.World, s.job)
	for item, tries := range map[int]int{3: 2, 4: 1, 5: 2} {
		r, err := v.One(t.Context(), item)
		if s.check(err); len(r.Tries) != tries {
			t.Errorf("item %d: %d tries, want %d", item, len(r.Tries), tries)
		}
	}
}

func TestAnItemThatCannotBeGivenFailsAlone(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200<<10)
	for name, spec := range map[string]job.Spec{"an argument": command("echo", "{}"), "a variable": command("echo")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, spec, "short", long, "short too")
			s.run(2)
			s.wants(job.Failed, job.Tally{Items: 3, Succeeded: 2, Failed: 1})
			if r := s.results()[1].Result; r == nil || !r.Failed || !strings.Contains(r.Why, "argument") && !strings.Contains(r.Why, "variable") {
				t.Errorf("it failed with %+v", r)
			}
		})
	}
}

func TestTwoAgentsShareAMap(t *testing.T) {
	t.Parallel()
	spec := command("echo", "{}")
	spec.Workers = 2
	s := newRange(t, spec, 2000, 100)
	agents := []*agent{s.start(2, nil), s.start(2, nil)}
	for _, a := range agents {
		a.leave(0)
	}
	s.wants(job.Succeeded, job.Tally{Items: 2000, Succeeded: 2000})
	var by []string
	for _, r := range s.results() {
		if r.Result == nil || r.Result.Head != fmt.Sprintf("%d\n", r.N) {
			t.Fatalf("item %d: %+v", r.N, r.Result)
		}
		by = append(by, r.Agent)
	}
	slices.Sort(by)
	if by = slices.Compact(by); len(by) != 2 {
		t.Errorf("all was done by %v", by)
	}
}
