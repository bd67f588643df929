package maprunner

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// depot is a server with files that come when the test says so: the file of /x/NAME is
// NAME, of /gone it is not there, of /ill the server is ill.
type depot struct {
	*httptest.Server
	t     *testing.T
	asked chan string // names, as they are asked for
	open  chan struct{}

	mu    sync.Mutex
	gates map[string]chan struct{}
	all   []string
}

// newDepot makes the server; free says that files come at once.
func newDepot(t *testing.T, free bool) *depot {
	t.Helper()
	d := &depot{t: t, asked: make(chan string, 1000), gates: map[string]chan struct{}{}, open: make(chan struct{})}
	if free {
		close(d.open)
	}
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Close)
	return d
}

func (d *depot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := filepath.Base(r.URL.Path)
	d.mu.Lock()
	d.all = append(d.all, name)
	d.mu.Unlock()
	d.asked <- name
	switch name {
	case "gone":
		w.WriteHeader(http.StatusNotFound)
		return
	case "ill":
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	select {
	case <-d.open:
	case <-d.gate(name):
	case <-r.Context().Done():
		return
	}
	fmt.Fprintln(w, name)
}

func (d *depot) gate(name string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gates[name] == nil {
		d.gates[name] = make(chan struct{})
	}
	return d.gates[name]
}

// comes lets a file come.
func (d *depot) comes(name string) { close(d.gate(name)) }

// hears waits until n more files were asked for, and says which.
func (d *depot) hears(n int) (names []string) {
	d.t.Helper()
	for range n {
		select {
		case name := <-d.asked:
			names = append(names, name)
		case <-time.After(patience / 3):
			d.t.Fatalf("only %q were asked for", names)
		}
	}
	slices.Sort(names)
	return names
}

// uris are the addresses of files a1, a2 ...
func (d *depot) uris(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("%s/x/a%d.txt?k=1", d.URL, i+1))
	}
	return lines
}

// fetching is a spec of a shell line for each item's file.
func fetching(line string) job.Spec {
	s := shell(line)
	s.Fetch = true
	return s
}

// hasty has nothing waited for between two requests.
func hasty(c *Config, _ *Prepared) {
	c.pause = func(context.Context, time.Duration) error { return nil }
}

func TestItemsBeginWithTheirFiles(t *testing.T) {
	t.Parallel()
	d := newDepot(t, true)
	spec := fetching(`cat "$1" && echo "$2 $DROVER_ITEM $(basename "$DROVER_ITEM_FILE")" && cp "$1" "$3"`)
	spec.Args = append(spec.Args, "{.stem}", "{out}")
	spec.Out = []string{"got/{.stem}.out"}
	s := newSite(t, spec, d.uris(40)...)
	s.run(3)
	s.wants(job.Succeeded, job.Tally{Items: 40, Succeeded: 40})
	for i, r := range s.results() {
		if want := fmt.Sprintf("a%d.txt\na%d %s/x/a%d.txt?k=1 a%d.txt\n", r.N, r.N, d.URL, r.N, r.N); r.Result.Head != want {
			t.Errorf("item %d printed %q, want %q", i+1, r.Result.Head, want)
		}
		if diff := cmp.Diff(map[string]string{fmt.Sprintf("got/a%d.out", r.N): fmt.Sprintf("a%d.txt\n", r.N)}, s.outputs(r)); diff != "" {
			t.Errorf("item %d (-want +got):\n%s", r.N, diff)
		}
	}
	if len(d.all) != 40 {
		t.Errorf("the server was asked %d times", len(d.all))
	}
}

func TestTheNextFilesComeWhileItemsRun(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	fence := filepath.Join(t.TempDir(), "fence")
	spec := fetching(`: >"$DROVER_ITEM_N.runs"; while [ ! -e ` + fence + ` ]; do sleep 0.01; done`)
	s := newLines(t, spec, 30, d.uris(30)...)
	a := s.start(1, nil)
	// A few at a time, in order.
	if diff := cmp.Diff([]string{"a1.txt", "a2.txt", "a3.txt", "a4.txt"}, d.hears(fetchesAtOnce)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	d.comes("a1.txt")
	s.until(func() bool { _, err := os.Stat(filepath.Join(a.code, "1.runs")); return err == nil }) // the second has not come
	// While it runs, as many come as may be ahead, and no more.
	d.hears(1)
	for i := 2; i <= ahead(1)+1; i++ {
		d.comes(fmt.Sprintf("a%d.txt", i))
	}
	d.hears(ahead(1) - fetchesAtOnce)
	s.until(func() bool {
		came, err := filepath.Glob(filepath.Join(a.c.Root, inName, "*", "a*.txt"))
		s.check(err)
		return len(came) == ahead(1)+1 // with the one that runs
	})
	if len(d.asked) > 0 {
		t.Errorf("%d more were asked for", len(d.asked))
	}
	close(d.open)
	s.check(os.WriteFile(fence, nil, 0o600))
	a.leave(0)
	s.wants(job.Succeeded, job.Tally{Items: 30, Succeeded: 30})
}

func TestTheDiskThatFilesTakeIsBounded(t *testing.T) {
	t.Parallel()
	d := newDepot(t, true)
	spec := fetching(`find "$(dirname "$1")/.." -name 'a*.txt' -size +0 | wc -l`)
	spec.Disk = 1 << 20
	big := strings.Repeat("x", 400<<10) // two of them fit
	d.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, big) })
	s := newSite(t, spec, d.uris(20)...)
	s.run(2)
	s.wants(job.Succeeded, job.Tally{Items: 20, Succeeded: 20})
	for _, r := range s.results() {
		if n := strings.TrimSpace(r.Result.Head); n != "1" && n != "2" {
			t.Errorf("item %d saw %s files", r.N, n)
		}
	}
}

func TestAFileThatCannotBeHadFailsItsItemAlone(t *testing.T) {
	t.Parallel()
	d := newDepot(t, true)
	spec := fetching(`cat "$1"`)
	spec.Retries = 1
	long := strings.Repeat("y", 600)
	s := newSite(t, spec, d.URL+"/gone", d.URL+"/"+long+"/gone", d.URL+"/ill", "/no/such/file", "s3://b/k", "file://elsewhere/x", d.URL+"/fine")
	s.start(2, hasty).leave(0)
	s.wants(job.Failed, job.Tally{Items: 7, Succeeded: 1, Failed: 6})
	for i, want := range []struct {
		why      string
		failures int
	}{
		{"fetch " + d.URL + "/gone: the server answers 404 Not Found", 1},
		{"yyy/gone: the server answers 404 Not Found", 1},
		{"fetch " + d.URL + "/ill: the server answers 502 Bad Gateway", 2},
		{`find "/no/such/file": it is not there`, 1},
		{`read input "s3://b/k": this agent opens no buckets`, 1},
		{`read input "file://elsewhere/x": it names the machine "elsewhere"`, 1},
	} {
		r := s.results()[i]
		if !strings.HasSuffix(r.Result.Why, want.why) || r.Failures != want.failures || r.Result.Code != 125 {
			t.Errorf("item %d: %d failures, status %d, %q; want %d, %q", i+1, r.Failures, r.Result.Code, r.Result.Why, want.failures, want.why)
		}
	}
}

// fetchFrom runs the job with an agent to which every place but s3://closed opens as
// theirs, and says how often it opened each.
func (s *site) fetchFrom(theirs store.Bucket) map[string]int {
	var mu sync.Mutex
	opened := map[string]int{}
	s.start(2, func(c *Config, _ *Prepared) {
		c.OpenPlace = func(_ context.Context, url string) (store.Bucket, error) {
			mu.Lock()
			defer mu.Unlock()
			opened[url]++
			if url == "s3://closed" {
				return nil, fault.New(fault.Denied, "Ask for it.", "open s3://closed: it is not yours")
			}
			return theirs, nil
		}
	}).leave(0)
	return opened
}

func TestObjectsOfBucketsAreFetched(t *testing.T) {
	t.Parallel()
	theirs := mem.New()
	for key, text := range map[string]string{"p/a.txt": "one", "p/b.txt": "two"} {
		if err := theirs.Put(t.Context(), key, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t, fetching(`echo "$(cat "$1") $(basename "$1") $DROVER_ITEM"`), "s3://b/p/a.txt", "s3://b/p/b.txt", "s3://b/p/none", "gs://c/p/a.txt?anonymous=true", "s3://closed/k")
	s.job.Manifest.Places = []string{"s3://b?endpoint=http://h:1", "gs://c?endpoint=http://g:2"}
	opened := s.fetchFrom(theirs)
	s.wants(job.Failed, job.Tally{Items: 5, Succeeded: 3, Failed: 2})
	all := s.results()
	for n, want := range map[int]string{1: "one a.txt s3://b/p/a.txt\n", 2: "two b.txt s3://b/p/b.txt\n", 4: "one a.txt gs://c/p/a.txt?anonymous=true\n"} {
		if got := all[n-1].Result.Head; got != want {
			t.Errorf("item %d printed %q", n, got)
		}
	}
	for n, want := range map[int]string{3: "fetch s3://b/p/none: the bucket has no such object", 5: "fetch s3://closed/k: open s3://closed: it is not yours"} {
		if r := all[n-1]; r.Result.Why != want || r.Failures != 1 {
			t.Errorf("item %d: %q after %d failures", n, r.Result.Why, r.Failures)
		}
	}
	want := map[string]int{"s3://b?endpoint=http://h:1": 1, "gs://c?endpoint=http://g:2&anonymous=true": 1, "s3://closed": 1}
	if diff := cmp.Diff(want, opened); diff != "" {
		t.Errorf("buckets that were opened (-want +got):\n%s", diff)
	}
}

// Items that came later are had as their giver has them; where that says nothing, as the
// first ones are.
func TestObjectsOfLaterItemsAreFetchedAsTheirGiverHasThem(t *testing.T) {
	t.Parallel()
	theirs := mem.New()
	if err := theirs.Put(t.Context(), "k", strings.NewReader("one")); err != nil {
		t.Fatal(err)
	}
	from := filepath.Join(t.TempDir(), "items.txt")
	s := &site{t: t, bucket: &bucket{Bucket: mem.New()}, ready: func(j *job.Job, _ string) {
		j.Manifest.Places = []string{"s3://b?endpoint=http://h:1", "s3://d?endpoint=http://h:1"}
	}}
	s.check(os.WriteFile(from, []byte("s3://b/k\n"), 0o600))
	s.submit(fetching(`cat "$1"`), from, 0)
	s.check(os.WriteFile(from, []byte("s3://b/k\ns3://c/k\ns3://d/k\n"), 0o600))
	list, err := items.Collect(t.Context(), items.Source{From: from}, t.TempDir())
	s.check(err)
	m, err := list.Put(t.Context(), s.Store, protocol.ItemsPrefix(s.job.Path()))
	s.check(err)
	s.check(list.Close())
	m.Places = []string{"s3://b?endpoint=http://h:2", "s3://c?profile=two"}
	_, ok, err := control.ReopenMap(t.Context(), s.World, s.job, "cli-2", control.Round{More: &protocol.Extended{Manifest: m, Size: 3}})
	if s.check(err); !ok {
		t.Fatal("no more items")
	}
	opened := s.fetchFrom(theirs)
	s.wants(job.Succeeded, job.Tally{Items: 4, Succeeded: 4})
	want := map[string]int{"s3://b?endpoint=http://h:1": 1, "s3://b?endpoint=http://h:2": 1, "s3://c?profile=two": 1, "s3://d?endpoint=http://h:1": 1}
	if diff := cmp.Diff(want, opened); diff != "" {
		t.Errorf("buckets that were opened (-want +got):\n%s", diff)
	}
}

func TestFilesThatAreHereAreUsedInPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	here := filepath.Join(dir, "two words.txt")
	if err := os.WriteFile(here, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, fetching(`printf '%s|' "$1" "$DROVER_ITEM_FILE"; cat "$1"`), here, "file://"+dir+"/two%20words.txt", "near.txt")
	s.start(1, func(_ *Config, k *Prepared) {
		s.check(os.WriteFile(filepath.Join(k.Dir, "near.txt"), []byte("near"), 0o600))
	}).leave(0)
	s.wants(job.Succeeded, job.Tally{Items: 3, Succeeded: 3})
	for i, want := range []string{here + "|" + here + "|mine", here + "|" + here + "|mine", "near.txt|near.txt|near"} {
		if got := s.results()[i].Result.Head; got != want {
			t.Errorf("item %d printed %q, want %q", i+1, got, want)
		}
	}
	if text, err := os.ReadFile(here); err != nil || string(text) != "mine" {
		t.Errorf("it is %q now (%v)", text, err)
	}
}

func TestHostileNamesMakeHarmlessFiles(t *testing.T) {
	t.Parallel()
	d := newDepot(t, true)
	names := map[string]string{
		"/../../etc/passwd": "passwd", "/a%2f..%2f..%2fb.png": "b.png", "/" + strings.Repeat("n", 1000) + ".jpeg": strings.Repeat("n", 195) + ".jpeg",
		"": "download", "/x.png?name=../../y.sh&q=1#z": "x.png", "/-rf": "-rf", "/.parts": "_parts", "/%0a%00": "__", "/$(touch%20x)'.txt": "$(touch x)'.txt",
	}
	var lines, want []string
	for path, name := range names {
		lines, want = append(lines, d.URL+path), append(want, name)
	}
	s := newSite(t, fetching(`[ -f "$1" ] && printf %s "${1##*/}"`), lines...)
	a := s.run(2)
	for i, r := range s.results() {
		if r.Result.Head != want[i] {
			t.Errorf("%s is called %q, want %q (%s)", lines[i], r.Result.Head, want[i], r.Result.Why)
		}
	}
	if left, err := os.ReadDir(a.code); err != nil || len(left) > 0 {
		t.Errorf("left: %v (%v)", left, err)
	}
}

func TestItemsOfOneAddressShareNothing(t *testing.T) {
	t.Parallel()
	d := newDepot(t, true)
	same := d.URL + "/same.txt"
	s := newSite(t, fetching(`echo more >>"$1" && wc -l <"$1"`), slices.Repeat([]string{same}, 12)...)
	s.run(4)
	s.wants(job.Succeeded, job.Tally{Items: 12, Succeeded: 12})
	for _, r := range s.results() {
		if strings.TrimSpace(r.Result.Head) != "2" {
			t.Errorf("item %d saw %s lines", r.N, r.Result.Head)
		}
	}
}

func TestFieldsThatAreAddressesAreFetched(t *testing.T) {
	t.Parallel()
	d := newDepot(t, true)
	row := func(n string) string {
		return fmt.Sprintf(`{"image": "%s/i%s.png", "mask": "%s/m%s.png", "page": "%s/page", "label": "cat"}`, d.URL, n, d.URL, n, d.URL)
	}
	spec := command("sh", "-c", `cat "$1" "$2"; echo "$3 ${DROVER_ITEM_IMAGE#http} $DROVER_ITEM_LABEL"; cmp "$1" "$DROVER_ITEM_IMAGE_FILE"`, "sh", "{image}", "{mask}", "{mask.stem}")
	spec.Fetch = true
	s := newSite(t, spec, row("1"), row("2"))
	s.run(2)
	s.wants(job.Succeeded, job.Tally{Items: 2, Succeeded: 2})
	for _, r := range s.results() {
		want := fmt.Sprintf("i%d.png\nm%d.png\nm%d %s/i%d.png cat\n", r.N, r.N, r.N, strings.TrimPrefix(d.URL, "http"), r.N)
		if r.Result.Head != want {
			t.Errorf("item %d printed %q, want %q", r.N, r.Result.Head, want)
		}
	}
	if slices.Contains(d.all, "page") {
		t.Error("a field that the command does not use was fetched")
	}
}

func TestProgramsThatStayGetFiles(t *testing.T) {
	t.Parallel()
	d := newDepot(t, true)
	spec := python("for item in drover.items(): item.done([open(item.file).read(), item.value])")
	spec.Fetch = true
	s := newSite(t, spec, d.uris(50)...)
	s.stream(2)
	s.wants(job.Succeeded, job.Tally{Items: 50, Succeeded: 50})
	for i, r := range s.results() {
		if want := fmt.Sprintf(`["a%d.txt\n","%s/x/a%d.txt?k=1"]`, i+1, d.URL, i+1); r.Result.Head != want {
			t.Errorf("item %d: %s, want %s", i+1, r.Result.Head, want)
		}
	}
	t.Run("by field", func(t *testing.T) {
		spec := python("for item in drover.items(): item.done([open(item.file['u']).read(), sorted(item.file), item.value['l']])")
		spec.Fetch = true
		s := newSite(t, spec, fmt.Sprintf(`{"u": "%s/one", "l": "cat"}`, d.URL))
		s.stream(1)
		if got, want := s.results()[0].Result.Head, `["one\n",["u"],"cat"]`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func TestAnAgentThatMustGoLeavesNoFiles(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	spec := fetching(`cat "$1"`)
	s := newSite(t, spec, d.uris(10)...)
	a := s.start(2, nil)
	d.hears(fetchesAtOnce) // two of them for free slots
	a.notice <- node.Notice{Why: "the machine goes away"}
	a.leave(75)
	close(d.open)
	s.run(2)
	s.wants(job.Succeeded, job.Tally{Items: 10, Succeeded: 10})
	for _, r := range s.results() {
		if r.Failures > 0 || r.Interruptions > 0 || r.Blames > 0 {
			t.Errorf("item %d: %+v", r.N, r.Carry)
		}
	}
}

func TestTwoAgentsShareItemsThatComeSlowly(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	spec := fetching(`cat "$1"`)
	spec.Workers = 2
	s := newSite(t, spec, d.uris(16)...)
	a, b := s.start(1, nil), s.start(1, nil)
	d.hears(8)
	close(d.open)
	a.leave(0)
	b.leave(0)
	s.wants(job.Succeeded, job.Tally{Items: 16, Succeeded: 16})
}

func TestASuspectIsGivenItsFileAgain(t *testing.T) {
	t.Parallel()
	d := newDepot(t, true)
	spec := fetching(`case $DROVER_ITEM in */bad*) [ -e "$DROVER_JOB.once" ] || { : >"$DROVER_JOB.once"; kill -9 $PPID; sleep 10; };; esac; cat "$1"`)
	s := newSite(t, spec, append(d.uris(6), d.URL+"/bad")...)
	s.run(7)
	s.wants(job.Succeeded, job.Tally{Items: 7, Succeeded: 7})
}

func TestACancelEndsWhatIsComing(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	s := newLines(t, fetching(`cat "$1"`), 10, d.uris(10)...)
	a := s.start(2, nil)
	d.hears(fetchesAtOnce)
	d.comes("a1.txt")
	s.until(func() bool {
		rep, err := views.NewMapView(s.World, s.job).Refresh(t.Context())
		s.check(err)
		return rep.Tally.Succeeded == 1
	})
	_, err := control.CancelJob(t.Context(), s.World, s.job.Path(), "cli", "enough")
	s.check(err)
	a.leave(0)
	s.wants(job.Cancelled, job.Tally{Items: 10, Succeeded: 1, Cancelled: 9})
}
