package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

func TestAJobThatIsNotThereIsMissing(t *testing.T) {
	t.Parallel()
	gone := plain()
	gone.task("gc", `"removed":{"job":"abcdabcdabcdabcd"}`)
	for name, s := range map[string]*story{"never": {}, "removed": gone} {
		if _, err := Verify(t.Context(), s.store(t), mapPath, nil); fault.KindOf(err) != fault.Missing {
			t.Errorf("%s: %v, want a fault of kind Missing", name, err)
		}
	}
}

func TestLogsReadsNoOutputs(t *testing.T) {
	t.Parallel()
	s := plain()
	s.dropLike(t, "/out/")
	r, err := Logs(t.Context(), s.store(t), mapPath, nil)
	if err != nil || !r.Sound() || r.Outputs != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestProgressIsTold(t *testing.T) {
	t.Parallel()
	var last report.VerifyProgress
	calls := 0
	r, err := Verify(t.Context(), handed().store(t), mapPath, func(p report.VerifyProgress) {
		if p.Items < last.Items || p.Chunks < last.Chunks {
			t.Errorf("%+v after %+v", p, last)
		}
		last = p
		calls++
	})
	if err != nil {
		t.Fatal(err)
	}
	if last.Items != 6 || last.Of != 6 || last.Chunks != 3 || last.Entries != r.Entries || calls < 3 {
		t.Errorf("at last %+v, %d calls", last, calls)
	}
}

// hooked is a bucket in which something happens before an object is read or a
// prefix is listed for the first time.
type hooked struct {
	store.Bucket
	hooks map[string]func() error
}

func (b hooked) hook(key string) error {
	h := b.hooks[key]
	delete(b.hooks, key)
	if h == nil {
		return nil
	}
	return h()
}

func (b hooked) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := b.hook(key); err != nil {
		return nil, err
	}
	return b.Bucket.Get(ctx, key, off, n)
}

func (b hooked) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	if err := b.hook(prefix); err != nil {
		return nil, false, err
	}
	return b.Bucket.List(ctx, prefix, after, limit)
}

func TestWhatTheStoreCannotAnswerIsAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is broken")
	whole := outputs()
	whole.objects[jobDir+"/results/000000_00000002_0_0_2_2_0_0_0"] = `{"v":2,"id":"000000","n":2,"cut":true}`
	s := whole.store(t)
	if r, err := Verify(t.Context(), s, mapPath, nil); err != nil || !r.Sound() {
		t.Fatalf("%v, %v", r.Findings, err)
	}
	keys := []string{taskLog + "/", jobDir + "/log/", jobDir + "/chunks/", jobDir + "/results/", at(taskLog, 1), at(jobDir+"/log", 2), at(dirOf("000000"), 3)}
	for key := range whole.objects {
		keys = append(keys, key)
	}
	for _, key := range keys {
		b := hooked{mem.New(), map[string]func() error{key: func() error { return broken }}}
		whole.fill(t, b)
		_, err := Verify(t.Context(), store.New(b, store.Options{}), mapPath, nil)
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// fill puts all objects into a bucket.
func (s *story) fill(t testing.TB, b store.Bucket) {
	t.Helper()
	for key, text := range s.objects {
		if err := b.Create(t.Context(), key, bytes.NewReader([]byte(text))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestALiveJobGivesNoDoubt: whatever is written while it is read.
func TestALiveJobGivesNoDoubt(t *testing.T) {
	t.Parallel()
	meanwhile := map[string]struct {
		when string
		do   func(s *story)
	}{
		"cancelled": {at(dirOf("000000"), 0), func(s *story) {
			s.job("cli", `"cancelled":{}`)
			s.own("000000", "a", 1, `"ended":{"by":4}`)
			s.chunk("000001", "b", `"ended":{"by":4}`)
			s.settle("CANCELLED", 0, 6, 1, 0, 0, 5)
			s.close()
		}},
		"more retries": {at(dirOf("000000"), 2), func(s *story) {
			s.job("cli", `"amended":{"retries":9}`)
			s.own("000000", "a", 1, results("2f", "2f", "2f", "2f", "2f", "2f"))
		}},
		"reopened": {at(dirOf("000001"), 0), func(s *story) {
			s.whole("000001", "b", "4f", "4f", "4F", "5", "6")
			s.job("cli", `"reopened":{}`)
			s.chunk("000001", "b", `"again":{"by":4,"items":[[4,4]]}`)
		}},
		"more items": {at(dirOf("000000"), 0), func(s *story) {
			s.job("cli", `"extended":{"manifest":{"count":1},"first":7,"size":1}`)
			s.objects[jobDir+"/chunks/ae/x4-000000/00000000"] = entry("c", `"claimed":{"agent":"c","n":1,"why":"untouched"}`)
		}},
		"settled and submitted again": {jobDir + "/log/", func(s *story) {
			s.job("cli", `"cancelled":{}`)
			s.own("000000", "a", 1, `"ended":{"by":4}`)
			s.chunk("000001", "b", `"ended":{"by":4}`)
			s.settle("CANCELLED", 0, 6, 1, 0, 0, 5)
			s.close()
			s.submit()
			s.job("cli", `"reopened":{"submission":2}`)
			s.chunk("000001", "b", `"again":{"by":6,"items":[[4,6]]}`)
		}},
	}
	for name, m := range meanwhile {
		t.Run(name, func(t *testing.T) {
			s := live()
			b := mem.New()
			s.fill(t, b)
			before := len(s.objects)
			h := hooked{b, map[string]func() error{m.when: func() error {
				old := s.objects
				s.objects = map[string]string{}
				m.do(s)
				s.fill(t, b)
				for key, text := range s.objects {
					old[key] = text
				}
				s.objects = old
				return nil
			}}}
			r, err := Verify(t.Context(), store.New(h, store.Options{}), mapPath, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Sound() || r.Told > 0 {
				t.Errorf("doubts %v, notes %v", r.Findings, r.Ignored)
			}
			if len(s.objects) == before {
				t.Error("nothing happened meanwhile")
			}
			if again := s.verify(t); !again.Sound() && name != "more items" { // its manifest is no range
				t.Errorf("afterwards: %v", again.Findings)
			}
		})
	}
}

// TestManyItemsTakeLittleMemory: what a chunk takes for results with long texts, and
// three bits for each item.
func TestManyItemsTakeLittleMemory(t *testing.T) {
	items, size := 25_000, 4096
	if os.Getenv("DROVER_TEST_REAL") != "" {
		items = 1_000_000
	}
	s := begin(items, size, 0)
	s.settle("SUCCEEDED", 0, items, items, 0, 0, 0)
	b := mem.New()
	s.fill(t, b)
	made := &maker{Bucket: b, items: items, size: size}
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	most := uint64(0)
	r, err := Verify(t.Context(), store.New(made, store.Options{}), mapPath, func(p report.VerifyProgress) {
		if p.Chunks%2 == 0 {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse)
		}
	})
	if err != nil || !r.Sound() || r.State != job.Succeeded || r.Items != items {
		t.Fatalf("%v, %d doubts, %v", err, r.Doubted, r.Findings[:min(3, len(r.Findings))])
	}
	if grown := int64(most) - int64(before.HeapInuse); grown > 48<<20 {
		t.Errorf("it took %d MB", grown>>20)
	}
}

// maker is a bucket that makes chunks' logs when they are read.
type maker struct {
	store.Bucket
	items, size int
}

func (m *maker) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	var hh, chunk, number int
	if _, err := fmt.Sscanf(key, jobDir+"/chunks/%x/%d/%d", &hh, &chunk, &number); err != nil || off != 0 || chunk*m.size >= m.items {
		return m.Bucket.Get(ctx, key, off, n)
	}
	const entries = 8 // of results in a chunk
	each := m.size / entries
	if number == 0 {
		text := entry("a", `"claimed":{"agent":"a","n":1,"why":"untouched","risk":512}`)
		return io.NopCloser(strings.NewReader(text)), nil
	}
	from := chunk*m.size + (number-1)*each
	to := min(from+each, m.items)
	if number > entries || from >= m.items {
		return m.Bucket.Get(ctx, key, off, n)
	}
	var text strings.Builder
	head := strings.Repeat("x", 400)
	for item := from + 1; item <= to; item++ {
		fmt.Fprintf(&text, `,{"i":%d,"e":1767322985000000,"t":1500,"u":900,"m":1048576,"h":%q,"n":400}`, item, head)
	}
	facts := `"claim":1,"results":[` + text.String()[1:] + `]`
	if number == entries || to == m.items {
		facts += `,"ended":{}`
	}
	return io.NopCloser(strings.NewReader(entry("a", facts))), nil
}

func TestAReportIsBounded(t *testing.T) {
	t.Parallel()
	n := 3 * maxNamed
	s := begin(n, n, 0)
	s.claim("000000", "a", 1, "untouched")
	var all []string
	for item := 1; item <= n; item++ {
		all = append(all, fmt.Sprintf(`{"i":%d,"y":"t","o":[{"n":"x","s":1,"d":"e"}]}`, item))
	}
	s.own("000000", "a", 1, `"results":[`+strings.Join(all, ",")+`]`, ended)
	r := s.verify(t)
	if r.Doubted != n || len(r.Findings) != maxNamed || r.Sound() {
		t.Errorf("%d doubts, %d named", r.Doubted, len(r.Findings))
	}
}
