package maprunner

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store/mem"
)

func TestAnItemThatLeavesMoreThanMayBeStoredFailsAlone(t *testing.T) {
	t.Parallel()
	const many = "its outputs are more than 10000 files, or their names more than 1 MB: have it put them into an archive"
	for name, row := range map[string]struct{ line, why string }{
		"names":   {`cd "$1" && seq -f %0250.0f 5000 | xargs touch`, many},
		"bytes":   {`truncate -s 1T "$1/huge"`, "its outputs are 1 TB, above 1 MB: --disk"},
		"files":   {`cd "$1" && seq 10001 | xargs touch`, many},
		"folders": {`cd "$1" && seq 20001 | xargs mkdir`, many},
		"a path": {`cd "$1" && for i in $(seq 60); do mkdir ` + strings.Repeat("d", 75) + `; cd -P ./ddd*; done; echo x >leaf`,
			`a path of 3113 bytes, above 3072: it is not stored`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := command("sh", "-c", `case $2 in 2) `+row.line+`;; *) echo x >"$1/x";; esac`, "sh", "{out}", "{n}")
			spec.Out, spec.Disk = []string{"o{n}/"}, 1<<20
			s := newRange(t, spec, 3, 0)
			s.start(1, func(c *Config, _ *Prepared) { c.MaxStored = int64(spec.Disk) }).leave(0)
			s.wants(job.Failed, job.Tally{Items: 3, Succeeded: 2, Failed: 1})
			r := s.results()[1].Result
			if name == "a path" { // to where it was too long, a few bytes more or less
				row.why = "bytes, above 3072: it is not stored"
			}
			if !r.Failed || !strings.HasSuffix(r.Why, row.why) || len(r.Outputs) > 0 {
				t.Errorf("it failed with %+v", r)
			}
		})
	}
}

// slow is a bucket that takes an output only as long as its writer waits for it.
type slow struct {
	*bucket
	began chan struct{}
}

func (b slow) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	if !strings.Contains(key, "/out/") {
		return b.bucket.Create(ctx, key, body)
	}
	b.began <- struct{}{}
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestACancelEndsTheStoringOfOutputs(t *testing.T) {
	t.Parallel()
	spec := command("sh", "-c", `echo x >"$1"`, "sh", "{out}")
	spec.Out, spec.Grace = []string{"{n}"}, job.Duration(100*time.Millisecond)
	s := &site{t: t}
	b := slow{&bucket{Bucket: mem.New()}, make(chan struct{}, 100)}
	s.other = b
	s.submit(spec, "1-3", 3)
	a := s.start(1, nil)
	select {
	case <-b.began:
	case <-time.After(patience):
		t.Fatal("nothing is stored")
	}
	if _, err := control.CancelJob(t.Context(), s.World, s.job.Path(), "cli-1", "enough"); err != nil {
		t.Fatal(err)
	}
	a.leave(0)
	s.wants(job.Cancelled, job.Tally{Items: 3, Cancelled: 3})
	if !a.noted("its outputs are not stored: the job was stopped") {
		t.Errorf("it noted %q", a.notes)
	}
}
