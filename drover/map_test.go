package drover

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

// list stores items below a job, as a submit does.
func (d *desk) list(p job.Path, format, text string) job.Manifest {
	d.t.Helper()
	l, err := items.Collect(d.t.Context(), items.Source{From: "-", Format: format, Stdin: strings.NewReader(text)}, d.t.TempDir())
	d.check(err)
	defer l.Close()
	m, err := l.Put(d.t.Context(), d.world.Store, protocol.ItemsPrefix(p))
	d.check(err)
	return job.Manifest(m)
}

// submitMap makes a map of these items the live job of its task, in chunks of three.
func (d *desk) submitMap(task, format, text string, change func(*job.Spec)) *Job {
	d.t.Helper()
	return d.submitChunks(task, format, text, 3, change)
}

func (d *desk) submitChunks(task, format, text string, size int, change func(*job.Spec)) *Job {
	d.t.Helper()
	spec := job.Spec{Project: "demo", Task: task, Verb: job.Map, Program: "./work.sh", Args: []string{"{}"}, On: mem.Name, Items: job.Items{From: "-"}}
	if change != nil {
		change(&spec)
	}
	spec, err := spec.Normal()
	d.check(err)
	j := job.Job{V: job.Format, Spec: spec, ChunkSize: size}
	d.check(tasks.NameJob(d.t.Context(), d.world, &j))
	j.Manifest = d.list(j.Path(), format, text)
	_, mine, err := tasks.SubmitJob(d.t.Context(), d.world, j, "cli-1")
	if d.check(err); !mine {
		d.t.Fatal("another job is live")
	}
	return d.newJob(j.Path())
}

// work does the job's items, as outcome says, until it has settled.
func (d *desk) work(j *Job, agent string, outcome func(mapagent.Try) protocol.Result) {
	d.t.Helper()
	ctx := d.t.Context()
	rec, err := j.Spec(ctx)
	d.check(err)
	m := mapagent.NewMapMember(d.world, rec, agent, protocol.Host{Boot: "here", PID: 1}, mapagent.MapOptions{Slots: 2, Near: true})
	m.Ready()
	for m.Map().Settled == nil {
		_, err := m.Poll(ctx)
		d.check(err)
		for _, h := range m.Owned() {
			for t, ok := h.Next(); ok; t, ok = h.Next() {
				h.Done(outcome(t))
			}
			_, err := h.Flush(ctx)
			d.check(err)
		}
		_, err = m.Seek(ctx)
		d.check(err)
	}
	d.check(m.Leave(ctx))
}

// tried is a result of a try that printed text; one with a code has failed.
func tried(t mapagent.Try, text string, code int) protocol.Result {
	return protocol.Result{Item: t.Item, Failed: code != 0, Code: code, Ended: 1_700_000_000_000_000, Wall: 1_500_000, CPU: 250_000, MaxRSS: 4096, Head: text, Size: int64(len(text))}
}

// output stores a file that a try left.
func (d *desk) output(j *Job, t mapagent.Try, name, text string) protocol.Output {
	d.t.Helper()
	sum := sha256.Sum256([]byte(text))
	d.check(d.world.Store.CreateFile(d.t.Context(), protocol.OutKey(j.path, t.Item, t.Name, name), strings.NewReader(text)))
	return protocol.Output{Name: name, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:])}
}

func (d *desk) results(j *Job, states ...job.ItemState) (all []ItemResult) {
	d.t.Helper()
	for r, err := range j.Results(d.t.Context(), ResultOptions{States: states}) {
		d.check(err)
		all = append(all, r)
	}
	return all
}

func TestResultsComeInTheOrderOfTheManifest(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var text strings.Builder
	for i := range 10 {
		fmt.Fprintf(&text, "item %d\n", i+1)
	}
	j := d.submitMap("lines", "", text.String(), nil)
	if all := d.results(j); len(all) != 10 || all[9].Value != "item 10" || all[9].State != job.ItemPending || all[9].Code != nil {
		t.Errorf("before: %+v", all)
	}
	d.work(j, "1-0-a", func(try mapagent.Try) protocol.Result {
		return tried(try, fmt.Sprintf("out %d\n", try.Item), map[int]int{4: 3}[try.Item])
	})
	var got []string
	for _, r := range d.results(j) {
		got = append(got, fmt.Sprintf("%d %s %s %d %s %.2f %.2f", r.Item, r.Value, r.State, *r.Code, strings.TrimSpace(r.Stdout), r.Seconds, r.CPU))
	}
	var want []string
	for i := 1; i <= 10; i++ {
		state, code := job.ItemSucceeded, 0
		if i == 4 {
			state, code = job.ItemFailed, 3
		}
		want = append(want, fmt.Sprintf("%d item %d %s %d out %d 1.50 0.25", i, i, state, code, i))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if bad := d.results(j, job.ItemFailed); len(bad) != 1 || bad[0].Item != 4 || bad[0].Value != "item 4" || bad[0].FailedWhy() != "exit status 3" {
		t.Errorf("failed: %+v", bad)
	}
	for r, err := range j.Results(t.Context(), ResultOptions{}) { // a reader may stop before the end
		if err != nil || r.Item == 2 {
			break
		}
	}
}

func TestItemsThatWereAddedHaveTheirOwnValues(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submitMap("table", "csv", "name,size\nann,1\nbob,2\n", nil)
	rec, err := j.Spec(t.Context())
	d.check(err)
	d.work(j, "1-0-a", func(try mapagent.Try) protocol.Result { return tried(try, "", try.Item-1) })
	more := &protocol.Extended{Manifest: d.list(j.path, "csv", "name,size\n\"cy, the third\",3\n"), Size: 3}
	_, ok, err := control.ReopenMap(t.Context(), d.world, rec, "cli-2", control.Round{Again: &protocol.Reopened{}, More: more})
	if d.check(err); !ok {
		t.Fatal("it was not reopened")
	}
	d.work(j, "2-0-b", func(try mapagent.Try) protocol.Result { return tried(try, "again", 0) })
	want := []map[string]string{{"name": "ann", "size": "1"}, {"name": "bob", "size": "2"}, {"name": "cy, the third", "size": "3"}}
	var got []map[string]string
	for _, r := range d.results(j, job.ItemSucceeded) {
		got = append(got, r.Fields)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if names, err := j.Fields(t.Context()); err != nil || !slices.Equal(names, []string{"name", "size"}) {
		t.Errorf("fields %q, %v", names, err)
	}
	second, err := j.Item(t.Context(), 2)
	d.check(err)
	if len(second.Tries) != 2 || !second.Tries[0].Failed || second.Tries[0].Why() != "exit status 1" || second.Tries[0].Agent != "1-0-a" ||
		second.Tries[1].Failed || second.Tries[1].Agent != "2-0-b" || second.State != job.ItemSucceeded || second.Stdout != "again" {
		t.Errorf("item 2: %+v", second)
	}
	third, err := j.Item(t.Context(), 3)
	d.check(err)
	if third.Fields["name"] != "cy, the third" || len(third.Tries) != 1 || third.Failures != 0 {
		t.Errorf("item 3: %+v", third)
	}
	for _, n := range []int{0, -1, 4} {
		if _, err := j.Item(t.Context(), n); fault.KindOf(err) != fault.Missing || fault.Hint(err) != "Its items are 1 to 3." {
			t.Errorf("item %d: %v", n, err)
		}
	}
}

func TestARunHasNoItems(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submit("demo", "digits", 1)
	if s, err := j.Status(t.Context()); err != nil || s.MapStatus != nil {
		t.Errorf("status: %+v, %v", s, err)
	}
	if _, err := j.Item(t.Context(), 1); fault.KindOf(err) != fault.Invalid {
		t.Errorf("item: %v", err)
	}
	for _, err := range j.Results(t.Context(), ResultOptions{}) {
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("results: %v", err)
		}
	}
	for _, err := range j.Logs(t.Context(), LogOptions{Item: 1}) {
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("logs: %v", err)
		}
	}
}

func TestAMapIsWatchedUntilItHasSettled(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submitMap("watched", "", "a\nb\nc\nd\n", func(s *job.Spec) { s.Workers = 2 })
	s, err := j.Status(t.Context())
	d.check(err)
	if s.State != job.Pending || s.Items != (job.Tally{Items: 4}) || s.Workers != 0 || s.Code != nil {
		t.Errorf("at first: %+v", s)
	}
	d.check(liveness.WriteHeartbeat(t.Context(), d.world, j.path, protocol.Heartbeat{Agent: "1-0-a", Phase: "preparing", Note: "building environment"}))
	d.check(liveness.WriteHeartbeat(t.Context(), d.world, j.path, protocol.Heartbeat{Agent: "1-1-b", Phase: "running", Slots: 8, Flight: 3}))
	if s, err = j.Status(t.Context()); err != nil || s.State != job.Running || s.Workers != 2 || s.Slots != 8 || s.Running != 3 ||
		!slices.Equal(s.Doing, []string{"preparing: building environment"}) {
		t.Errorf("half-way: %+v, %v", s, err)
	}
	began := make(chan struct{})
	go func() {
		<-began
		d.work(j, "1-1-b", func(try mapagent.Try) protocol.Result { return tried(try, "", 0) })
	}()
	var last Status
	looks := 0
	for s, err := range j.Statuses(t.Context()) {
		d.check(err)
		if last = s; looks == 0 {
			close(began)
		}
		looks++
	}
	if looks < 2 || last.State != job.Succeeded || last.Items != (job.Tally{Items: 4, Succeeded: 4}) || *last.Code != 0 || last.Ended.IsZero() {
		t.Errorf("%d looks, the last %+v", looks, last)
	}
}

func TestGetItemsBringsEachOutputOnceAndVerified(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submitMap("files", "", "a\nb\nc\nd\n", func(s *job.Spec) { s.Out = []string{"{}.txt"} })
	names := map[int][]string{1: {"a.txt", "deep/er/a.bin"}, 2: {"a.txt"}, 3: {"c.txt"}, 4: {"d.txt"}}
	d.work(j, "1-0-a", func(try mapagent.Try) protocol.Result {
		r := tried(try, "", map[int]int{4: 1}[try.Item])
		for _, name := range names[try.Item] {
			r.Outputs, r.Try = append(r.Outputs, d.output(j, try, name, fmt.Sprintf("%s of %d", name, try.Item))), try.Name
		}
		return r
	})
	dir := filepath.Join(t.TempDir(), "out")
	told := 0
	got, err := j.Get(t.Context(), dir, GetOptions{Watch: func(GotItems) { told++ }})
	d.check(err)
	want := Got{Dir: dir, Items: &GotItems{Items: 3, Files: 3, Bytes: 10 + 18 + 10, Left: 1}, Notes: []string{"items 1 and 2 both made a.txt: item 1's is here"}}
	if diff := cmp.Diff(want, got); diff != "" || told != 4 {
		t.Errorf("told %d times, got (-want +got):\n%s", told, diff)
	}
	content := fileTree{"a.txt": "a.txt of 1", "deep/er/a.bin": "deep/er/a.bin of 1", "c.txt": "c.txt of 3"}
	if diff := cmp.Diff(content, read(t, dir)); diff != "" {
		t.Errorf("folder (-want +got):\n%s", diff)
	}
	write(t, dir, fileTree{"c.txt": "C.txt of 3", "mine": "stays"}) // as long as it was
	id := d.short(j)
	content["mine"], content["c.txt"], content["c."+id+".txt"] = "stays", "C.txt of 3", "c.txt of 3"
	before, err := os.Stat(filepath.Join(dir, "a.txt"))
	d.check(err)
	if got, err = j.Get(t.Context(), dir, GetOptions{}); err != nil || got.Items.Files != 3 || got.Items.There != 2 {
		t.Errorf("again: %+v, %v", got, err)
	}
	after, err := os.Stat(filepath.Join(dir, "a.txt"))
	if d.check(err); !os.SameFile(before, after) {
		t.Error("what was there was copied again")
	}
	if diff := cmp.Diff(content, read(t, dir)); diff != "" || got.Kept != 1 || got.Beside[0] != (Beside{Name: "c.txt", Path: "c." + id + ".txt"}) {
		t.Errorf("folder, again (-want +got):\n%s\n%+v", diff, got)
	}
	if got, err = j.Get(t.Context(), dir, GetOptions{}); err != nil || got.Items.There != 3 || got.Kept != 1 {
		t.Errorf("the third time: %+v, %v", got, err)
	}

	// Another job's outputs take the place of these, but not of what is the user's.
	next := d.submitMap("files", "", "a\nb\nc\nd\n", func(s *job.Spec) { s.Out = []string{"{}.txt"} })
	d.work(next, "1-0-a", func(try mapagent.Try) protocol.Result {
		r := tried(try, "", 0)
		name := string(rune('a'+try.Item-1)) + ".txt"
		r.Outputs, r.Try = append(r.Outputs, d.output(next, try, name, "new")), try.Name
		return r
	})
	for _, what := range []string{"at first", "again"} {
		got, err := next.Get(t.Context(), dir, GetOptions{})
		d.check(err)
		want := fileTree{"a.txt": "new", "b.txt": "new", "c.txt": "C.txt of 3", "c." + d.short(next) + ".txt": "new", "d.txt": "new", "deep/er/a.bin": "deep/er/a.bin of 1", "mine": "stays"}
		if diff := cmp.Diff(want, read(t, dir)); diff != "" || got.Kept != 1 {
			t.Errorf("another job's, %s (-want +got):\n%s\n%+v", what, diff, got)
		}
	}
	d.check(os.Rename(filepath.Join(dir, "c.txt"), filepath.Join(dir, "moved")))
	if _, err := next.Get(t.Context(), dir, GetOptions{}); err != nil || read(t, dir)["c.txt"] != "new" || len(read(t, dir)) != 7 {
		t.Errorf("when the name is free: %v, %v", err, read(t, dir))
	}
	write(t, dir, fileTree{"a.txt": "mine"})
	if _, err := next.Get(t.Context(), dir, GetOptions{Overwrite: true}); err != nil || read(t, dir)["a.txt"] != "new" {
		t.Errorf("overwritten: %v, %v", err, read(t, dir))
	}
}

func TestGetOfItemsRefusesWhatWasNotRecorded(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*protocol.Output)
		kind   fault.Kind
	}{
		"other bytes":       {func(o *protocol.Output) { o.SHA256 = strings.Repeat("0", 64) }, fault.Lost},
		"another size":      {func(o *protocol.Output) { o.Size++ }, fault.Lost},
		"a name that leads": {func(o *protocol.Output) { o.Name = "../a.txt" }, fault.Invalid},
		"an absolute name":  {func(o *protocol.Output) { o.Name = "/tmp/a.txt" }, fault.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			j := d.submitMap("files", "", "a\n", func(s *job.Spec) { s.Out = []string{"{}.txt"} })
			d.work(j, "1-0-a", func(try mapagent.Try) protocol.Result {
				r := tried(try, "", 0)
				r.Try, r.Outputs = try.Name, []protocol.Output{d.output(j, try, "a.txt", "text")}
				row.change(&r.Outputs[0])
				return r
			})
			dir := filepath.Join(t.TempDir(), "in", "out")
			if _, err := j.Get(t.Context(), dir, GetOptions{}); fault.KindOf(err) != row.kind || !strings.HasPrefix(err.Error(), "get outputs: item 1: ") {
				t.Errorf("%v", err)
			}
			if left := read(t, filepath.Dir(dir)); len(left) != 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

func TestWhyAMapStandsWhereItDoes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	j := d.submitMap("why", "", strings.Repeat("x\n", 12), func(s *job.Spec) { s.ItemTimeout = job.Duration(5 * time.Second) })
	w, err := j.Why(t.Context())
	d.check(err)
	if w.State != job.Pending || w.Answer != "no agent has been requested yet" || w.Next != "drover resume "+w.ID {
		t.Errorf("at first %+v", w)
	}
	logs, err := record.NewWriter(record.Options{Store: d.world.Store, Prefix: protocol.LogsPrefix(j.path), ID: "a", Clock: d.world.Store.Clock()})
	d.check(err)
	d.work(j, "1-0-a", func(try mapagent.Try) protocol.Result {
		r := tried(try, "", map[int]int{2: 3, 5: 3, 11: 3, 7: 124}[try.Item])
		if r.Code == 124 {
			r.Why = "timed out after 5s"
		}
		if r.Failed {
			if r.Why == "" {
				r.Why = fmt.Sprintf("no such file: %d", try.Item)
			}
			_, err := logs.Copy(record.Stderr, uint64(try.Item), strings.NewReader(fmt.Sprintf("first\nno such file: %d\n\n", try.Item)))
			d.check(err)
		}
		return r
	})
	d.check(logs.Close(t.Context()))
	w, err = j.Why(t.Context())
	d.check(err)
	want := Reason{V: 1, ID: w.ID, Project: "demo", Task: "why", State: job.Failed, Answer: "4 of 12 items failed", Code: w.Code,
		Detail: []string{"3 × no such file: N (exit status 3), such as item 2", "    drover retry " + w.ID + " --error 'no such file'",
			"1 × timed out after 5s (exit status 124), such as item 7", "    drover retry " + w.ID + " --error 'timed out after' --timeout 10s"},
		Next: "drover logs " + w.ID + " --item 2"}
	if diff := cmp.Diff(want, w); diff != "" || *w.Code != 1 {
		t.Errorf("why (-want +got):\n%s", diff)
	}
	var raw bytes.Buffer
	for o, err := range j.Logs(t.Context(), LogOptions{Item: 5}) {
		d.check(err)
		if o.Item != 5 || o.Stream != "stderr" {
			t.Errorf("item %d, %s", o.Item, o.Stream)
		}
		raw.Write(o.Data)
	}
	if raw.String() != "first\nno such file: 5\n\n" {
		t.Errorf("item 5 printed %q", raw.String())
	}
	found := map[int]bool{}
	for l, err := range j.Lines(t.Context(), LogOptions{Stderr: true}) {
		d.check(err)
		found[l.Item] = true
	}
	if len(found) != 4 || !found[11] {
		t.Errorf("lines of %v", found)
	}
}

func TestValuesAreLines(t *testing.T) {
	t.Parallel()
	values := []string{"a", " b ", "-c", "ü", strings.Repeat("x", 10_000)}
	for _, size := range []int{1, 2, 7, 64 << 10} {
		var got bytes.Buffer
		if _, err := io.CopyBuffer(&got, struct{ io.Reader }{&valueReader{left: values}}, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if want := strings.Join(values, "\n") + "\n"; got.String() != want {
			t.Errorf("size %d: %d bytes, want %d", size, got.Len(), len(want))
		}
	}
	d := newDesk(t)
	for name, s := range map[string]MapSpec{
		"a line break": {Values: []string{"a", "b\nc"}}, "NUL": {Values: []string{"a\x00"}}, "an empty one": {Values: []string{""}},
		"two sources": {Values: []string{"a"}, Spec: job.Spec{Items: job.Items{From: "items.txt"}}},
	} {
		s.Program = "true"
		if _, err := d.planMap(context.Background(), s); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	p, err := d.planMap(t.Context(), MapSpec{Spec: job.Spec{Project: "demo", Program: "true", On: mem.Name}, Values: values})
	d.check(err)
	defer p.Close()
	if p.Items.Count != len(values) || p.Spec.Verb != job.Map || p.Action != "start" {
		t.Errorf("%+v", p.Items)
	}
}
