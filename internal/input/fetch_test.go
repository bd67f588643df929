package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
)

// origin is a server of one file, with the manners that a test asks for.
type origin struct {
	*httptest.Server
	mu       sync.Mutex
	body     []byte
	header   map[string]string // ETag, Last-Modified
	plain    bool              // knows no ranges
	cut      []int             // how many bytes the next answers give before the connection breaks
	status   []int             // what the next answers are instead
	requests []string          // "range if-range if-none-match if-modified-since -> status"
}

func serve(t *testing.T, body string, header map[string]string) *origin {
	t.Helper()
	o := &origin{body: []byte(body), header: header}
	o.Server = httptest.NewServer(o)
	t.Cleanup(o.Close)
	return o
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, value := range o.header {
		w.Header().Set(name, value)
	}
	h := r.Header
	if o.plain {
		h.Del("Range")
	}
	if len(o.status) > 0 {
		o.note(r, o.status[0])
		w.WriteHeader(o.status[0])
		o.status = o.status[1:]
		return
	}
	if len(o.cut) > 0 {
		n := o.cut[0]
		o.cut = o.cut[1:]
		from := 0
		if text, ok := strings.CutPrefix(h.Get("Range"), "bytes="); ok {
			from, _ = strconv.Atoi(strings.TrimSuffix(text, "-"))
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(o.body)-1, len(o.body)))
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(o.body)-from))
		status := 200
		if from > 0 {
			status = 206
		}
		o.note(r, status)
		w.WriteHeader(status)
		w.Write(o.body[from : from+n])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	rec := &status{w, 200}
	modified, _ := http.ParseTime(o.header["Last-Modified"]) // the zero time says nothing
	http.ServeContent(rec, r, "", modified, bytes.NewReader(o.body))
	o.note(r, rec.code)
}

func (o *origin) note(r *http.Request, status int) {
	var said []string
	for _, name := range []string{"Range", "If-Range", "If-None-Match", "If-Modified-Since"} {
		if v := r.Header.Get(name); v != "" {
			said = append(said, v)
		}
	}
	o.requests = append(o.requests, strings.TrimSpace(strings.Join(said, " ")+fmt.Sprintf(" -> %d", status)))
}

type status struct {
	http.ResponseWriter
	code int
}

func (s *status) WriteHeader(code int) { s.code = code; s.ResponseWriter.WriteHeader(code) }

// set changes what is served.
func (o *origin) set(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

// saw gives what was asked since the last time.
func (o *origin) saw() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	said := o.requests
	o.requests = nil
	return said
}

// quick is a fetcher that waits for nothing.
func quick() *fetcher {
	return &fetcher{silence: time.AfterFunc, pause: func(context.Context, time.Duration) error { return nil }}
}

func fetched(t *testing.T, f *fetcher, uri, cache, want string) string {
	t.Helper()
	file, err := f.fetchFile(t.Context(), uri, cache)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != want {
		t.Fatalf("%s holds %.80q, want %.80q (%v)", file, text, want, err)
	}
	return file
}

func holds(file, want string) bool {
	text, err := os.ReadFile(file)
	return err == nil && string(text) == want
}

func TestAFileIsFetchedOnceAndThenAskedAfter(t *testing.T) {
	t.Parallel()
	const date = "Mon, 02 Jan 2006 15:04:05 GMT"
	for name, row := range map[string]struct {
		header map[string]string
		second string
	}{
		"ETag":          {map[string]string{"ETag": `"v1"`, "Last-Modified": date}, `"v1" -> 304`},
		"weak ETag":     {map[string]string{"ETag": `W/"v1"`}, `W/"v1" -> 304`},
		"Last-Modified": {map[string]string{"Last-Modified": date}, date + " -> 304"},
		"neither":       {nil, "-> 200"},
	} {
		o, cache := serve(t, "first", row.header), t.TempDir()
		first := fetched(t, quick(), o.URL+"/d/a.csv?k=v", cache, "first")
		if filepath.Base(first) != "a.csv" || !strings.HasPrefix(first, cache) {
			t.Errorf("%s: it is %s", name, first)
		}
		before, err := os.Stat(first)
		if err != nil {
			t.Fatal(err)
		}
		second := fetched(t, quick(), o.URL+"/d/a.csv?k=v", cache, "first")
		after, err := os.Stat(second)
		if err != nil || second != first || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) {
			t.Errorf("%s: the same file is another one: %s, %s (%v)", name, first, second, err)
		}
		if diff := cmp.Diff([]string{"-> 200", row.second}, o.saw()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		// Changed on the server: the new one is brought, and the old one stays
		// for its reader, until the next.
		for i, text := range []string{"second", "third"} {
			o.set(func() {
				o.body = []byte(text)
				for name := range o.header {
					o.header[name] = map[string]string{"ETag": fmt.Sprintf(`"w%d"`, i), "Last-Modified": fmt.Sprintf("Mon, 02 Jan 2006 15:04:1%d GMT", i)}[name]
				}
			})
			fetched(t, quick(), o.URL+"/d/a.csv?k=v", cache, text)
			if _, err := os.Stat(first); (err == nil) != (i == 0) {
				t.Errorf("%s: after %s the first one: %v", name, text, err)
			}
		}
		// Another address is another file.
		if other := fetched(t, quick(), o.URL+"/d/a.csv?k=w", cache, "third"); filepath.Dir(filepath.Dir(other)) == filepath.Dir(filepath.Dir(first)) {
			t.Errorf("%s: two addresses share %s", name, other)
		}
	}
}

func TestACopyThatWasTouchedIsFetchedAgain(t *testing.T) {
	t.Parallel()
	o, cache := serve(t, "right", map[string]string{"ETag": `"v1"`}), t.TempDir()
	file := fetched(t, quick(), o.URL+"/a", cache, "right")
	if err := os.WriteFile(file, []byte("wrong"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	fetched(t, quick(), o.URL+"/a", cache, "right")
}

func TestADownloadThatStoppedGoesOn(t *testing.T) {
	t.Parallel()
	const body = "0123456789"
	const tag = `"v1"`
	for name, row := range map[string]struct {
		header map[string]string
		plain  bool
		want   []string
	}{
		"ETag":       {map[string]string{"ETag": tag}, false, []string{"-> 200", `bytes=4- "v1" -> 206`, `bytes=7- "v1" -> 206`}},
		"no ranges":  {map[string]string{"ETag": tag}, true, []string{"-> 200", `"v1" -> 200`, `"v1" -> 200`}},
		"weak ETag":  {map[string]string{"ETag": "W/" + tag}, false, []string{"-> 200", "-> 200", "-> 200"}},
		"no version": {nil, false, []string{"-> 200", "-> 200", "-> 200"}},
	} {
		o := serve(t, body, row.header)
		o.cut, o.plain = []int{4, 3}, row.plain
		var told []string
		f := quick()
		f.told = func(line string) { told = append(told, line) }
		fetched(t, f, o.URL+"/a", t.TempDir(), body)
		if diff := cmp.Diff(row.want, o.saw()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if text := strings.Join(told, "\n"); strings.Count(text, "trying again") != 2 {
			t.Errorf("%s: it told %q", name, told)
		}
	}
}

// The next command goes on where the last one was ended.
func TestADownloadThatWasEndedGoesOnInTheNextCommand(t *testing.T) {
	t.Parallel()
	const body = "0123456789"
	ended := errors.New("ctrl-c")
	begin := func(o *origin, cache string) {
		t.Helper()
		o.set(func() { o.cut = []int{4} })
		ctx, cancel := context.WithCancelCause(t.Context())
		f := quick()
		f.pause = func(ctx context.Context, _ time.Duration) error { cancel(ended); return context.Cause(ctx) }
		if _, err := f.fetchFile(ctx, o.URL+"/a", cache); !errors.Is(err, ended) {
			t.Fatal(err)
		}
		o.saw()
	}
	o, cache := serve(t, body, map[string]string{"ETag": `"v1"`}), t.TempDir()
	begin(o, cache)
	fetched(t, quick(), o.URL+"/a", cache, body)
	if diff := cmp.Diff([]string{`bytes=4- "v1" -> 206`}, o.saw()); diff != "" {
		t.Errorf("the same (-want +got):\n%s", diff)
	}
	fetched(t, quick(), o.URL+"/a", cache, body)
	if diff := cmp.Diff([]string{`"v1" -> 304`}, o.saw()); diff != "" {
		t.Errorf("and once more (-want +got):\n%s", diff)
	}
	// Changed meanwhile: nothing of the old one is in the new one.
	o, cache = serve(t, body, map[string]string{"ETag": `"v1"`}), t.TempDir()
	begin(o, cache)
	o.set(func() { o.body, o.header["ETag"] = []byte("abcdefghij"), `"v2"` })
	fetched(t, quick(), o.URL+"/a", cache, "abcdefghij")
	if diff := cmp.Diff([]string{`bytes=4- "v1" -> 200`}, o.saw()); diff != "" {
		t.Errorf("another (-want +got):\n%s", diff)
	}
	// 416: what is here is of no use.
	o, cache = serve(t, body, map[string]string{"ETag": `"v1"`}), t.TempDir()
	begin(o, cache)
	o.set(func() { o.status = []int{416} })
	fetched(t, quick(), o.URL+"/a", cache, body)
	if diff := cmp.Diff([]string{`bytes=4- "v1" -> 416`, "-> 200"}, o.saw()); diff != "" {
		t.Errorf("416 (-want +got):\n%s", diff)
	}
	// A part that another process changed is hashed as it is, and told by its length.
	o, cache = serve(t, body, map[string]string{"ETag": `"v1"`}), t.TempDir()
	begin(o, cache)
	parts, err := filepath.Glob(cache + "/*/part")
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	if err := os.Truncate(parts[0], 2); err != nil {
		t.Fatal(err)
	}
	fetched(t, quick(), o.URL+"/a", cache, body)
}

// A server that answers a request for the rest with something else.
func TestARestThatDoesNotFitIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter){
		"from elsewhere": func(w http.ResponseWriter) { w.Header().Set("Content-Range", "bytes 3-9/10") },
		"not to the end": func(w http.ResponseWriter) { w.Header().Set("Content-Range", "bytes 4-8/10") },
		"of another": func(w http.ResponseWriter) {
			w.Header().Set("Content-Range", "bytes 4-9/10")
			w.Header().Set("ETag", `"v2"`)
		},
		"of other size": func(w http.ResponseWriter) { w.Header().Set("Content-Range", "bytes 4-10/11") },
		"of no size":    func(w http.ResponseWriter) { w.Header().Set("Content-Range", "bytes 4-9/*") },
		"no range":      func(http.ResponseWriter) {},
	} {
		var asked atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"v1"`)
			switch asked.Add(1) {
			case 1:
				w.Header().Set("Content-Length", "10")
				w.Write([]byte("0123"))
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			case 2:
				answer(w)
				w.WriteHeader(206)
				w.Write([]byte("XXXXXX"))
			default:
				w.Write([]byte("0123456789"))
			}
		}))
		if file, err := quick().fetchFile(t.Context(), s.URL+"/a", t.TempDir()); err != nil || !holds(file, "0123456789") {
			t.Errorf("%s: %s, %v", name, file, err)
		}
		s.Close()
	}
}

func TestAServerThatNeverSaysTheSameIsLeft(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, asked.Add(1)))
		if r.Header.Get("Range") != "" {
			w.WriteHeader(416)
			return
		}
		w.Header().Set("Content-Length", "10")
		w.Write([]byte("0123"))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer s.Close()
	_, err := quick().fetchFile(t.Context(), s.URL+"/a", t.TempDir())
	if fault.KindOf(err) != fault.Lost || !strings.Contains(err.Error(), "changes while it is fetched") {
		t.Error(err)
	}
}

func TestARefusalIsSaidAsItIs(t *testing.T) {
	var said faulttest.Sayings
	t.Parallel()
	for _, row := range []struct {
		status []int
		kind   fault.Kind
		text   string
		asked  int
	}{
		{[]int{404}, fault.Missing, "the server answers 404 Not Found", 1},
		{[]int{410}, fault.Missing, "410 Gone", 1},
		{[]int{401}, fault.Denied, "401 Unauthorized", 1},
		{[]int{403}, fault.Denied, "403 Forbidden", 1},
		{[]int{400}, fault.Invalid, "400 Bad Request", 1},
		{[]int{416}, fault.Invalid, "416", 1},
		{[]int{304}, fault.Invalid, "304", 1},
		{[]int{206}, fault.Invalid, "206", 1},
		{[]int{204}, fault.Invalid, "204", 1},
		{[]int{503, 503, 503, 503, 503, 503}, fault.Lost, "503 Service Unavailable", maxTries},
		{[]int{429, 500, 502}, -1, "", 4},
	} {
		o, cache := serve(t, "x", nil), t.TempDir()
		o.status = row.status
		said.Hide(o.URL, "http://server")
		file, err := quick().fetchFile(t.Context(), o.URL+"/a?secret=1", cache)
		if n := len(o.saw()); n != row.asked {
			t.Errorf("%d: asked %d times, want %d", row.status, n, row.asked)
		}
		if row.kind < 0 {
			if err != nil {
				t.Errorf("%d: %v", row.status, err)
			}
			continue
		}
		said.Error(fmt.Sprint(row.status), err)
		if fault.KindOf(err) != row.kind || !strings.Contains(err.Error(), row.text) || fault.Hint(err) == "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %s, %v (%s)", row.status, file, err, fault.Hint(err))
		}
	}
	said.Compare(t, "answers")
}

func TestRedirectsAreFollowedButNotAstray(t *testing.T) {
	var said faulttest.Sayings
	t.Parallel()
	end := serve(t, "end", nil)
	hops := func(n int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			i, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
			if i == 0 {
				http.Redirect(w, r, end.URL+"/other-name", http.StatusFound)
				return
			}
			http.Redirect(w, r, "/"+strconv.Itoa(i-1), http.StatusFound)
		}))
		t.Cleanup(s.Close)
		said.Hide(s.URL, "http://hops")
		return s.URL + "/" + strconv.Itoa(n)
	}
	if file := fetched(t, quick(), hops(maxRedirects-1), t.TempDir(), "end"); filepath.Base(file) != strconv.Itoa(maxRedirects-1) {
		t.Errorf("it is called %s", filepath.Base(file))
	}
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{"/down": end.URL + "/x?secret=1", "/file": "file:///etc/passwd"}[r.URL.Path]
		if to == "" {
			w.Write([]byte("secure"))
			return
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	}))
	defer secure.Close()
	said.Hide(secure.URL, "https://server")
	said.Hide(end.URL, "http://server")
	trusting := func() *fetcher { f := quick(); f.client = *secure.Client(); return f }
	fetched(t, trusting(), secure.URL+"/a", t.TempDir(), "secure")
	for uri, want := range map[string]string{
		hops(maxRedirects):   "redirects it more than 10 times",
		secure.URL + "/down": "from https to http://",
		secure.URL + "/file": "redirects it from https to file:///etc/passwd",
	} {
		_, err := trusting().fetchFile(t.Context(), uri, t.TempDir())
		said.Error(want, err)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", uri, err, want)
		}
	}
	// A server with a certificate of an unknown authority is not believed, and not asked again.
	_, err := quick().fetchFile(t.Context(), secure.URL+"/a", t.TempDir())
	said.Error("an unknown authority", err)
	if fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), "SSL_CERT_FILE") {
		t.Errorf("an unknown authority: %v (%s)", err, fault.Hint(err))
	}
	said.Compare(t, "redirects")
}

func TestASilentServerIsAskedAgain(t *testing.T) {
	t.Parallel()
	asked := make(chan int32, 10)
	var count atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := count.Add(1)
		asked <- n
		if n == 1 {
			w.Header().Set("Content-Length", "5")
			w.Write([]byte("sl"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		w.Write([]byte("slow!"))
	}))
	defer s.Close()
	f := quick()
	f.silence = func(d time.Duration, hush func()) *time.Timer {
		if d != maxSilence {
			t.Errorf("it waits for %s", d)
		}
		go func() {
			if <-asked == 1 { // the server has it, and says no more
				hush()
			}
		}()
		return time.NewTimer(time.Hour)
	}
	var told []string
	f.told = func(line string) { told = append(told, line) }
	fetched(t, f, s.URL+"/a", t.TempDir(), "slow!")
	if !strings.Contains(strings.Join(told, "\n"), "sent nothing for 2m0s") {
		t.Errorf("it told %q", told)
	}
}

// Many commands want one file at once: each gets it whole.
func TestManyFetchOneAddressAtOnce(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789", 100_000)
	o, cache := serve(t, body, map[string]string{"ETag": `"v1"`}), t.TempDir()
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() {
			file, err := quick().fetchFile(t.Context(), o.URL+"/a", cache)
			if text, e := os.ReadFile(file); err == nil && string(text) != body {
				err = fmt.Errorf("%d bytes: %w", len(text), e)
			}
			errs[i] = err
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(cache + "/*/.part-*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestAFullDiskIsSaid(t *testing.T) {
	t.Parallel()
	f := quick()
	f.url = &url.URL{Scheme: "https", Host: "h", Path: "/a"}
	err := f.fetchError(&os.PathError{Op: "write", Path: "/c/part", Err: syscall.ENOSPC})
	if fault.KindOf(err) != fault.Full || mayRetry(&os.PathError{Err: syscall.ENOSPC}) || !strings.Contains(fault.Hint(err), "Free some space") {
		t.Errorf("%v (%s)", err, fault.Hint(err))
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := quick().fetchFile(t.Context(), "https://h/a", filepath.Join(file, "cache")); fault.KindOf(err) != fault.Denied {
		t.Errorf("a cache that is a file: %v", err)
	}
}

func TestFilesFromTheWebHaveHarmlessNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://h/a/b.csv":                    "b.csv",
		"https://h/a/b.csv/":                   "b.csv",
		"https://h":                            "download",
		"https://h/":                           "download",
		"https://h/..":                         "_.",
		"https://h/a%2F..%2F..%2Fetc%2Fpasswd": "passwd",
		"https://h/.bashrc":                    "_bashrc",
		"https://h/.drover-part":               "_drover-part",
		"https://h/a%00b%0Ac%ff":               "a_b_c_",
		"https://h/-rf%20x":                    "-rf x",
		"https://h/%C3%A9":                     "é",
		"https://h/" + strings.Repeat("x", 300) + ".tar": strings.Repeat("x", 196) + ".tar",
		"https://h/x." + strings.Repeat("y", 300):        "x." + strings.Repeat("y", 198),
	} {
		u, err := address(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := fileName(u); got != want {
			t.Errorf("%s is called %q, want %q", text, got, want)
		}
	}
}

// The proxy of the environment is read once in a process, so another one asks.
func TestTheProxyOfTheEnvironmentIsUsed(t *testing.T) {
	if cache := os.Getenv("INPUT_TEST_FETCH"); cache != "" {
		file, err := Fetch(t.Context(), nil, "http://far.example/a", cache, nil)
		text, _ := os.ReadFile(file)
		fmt.Printf("got %s, %v\n", text, err)
		return
	}
	t.Parallel()
	var asked atomic.Value
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.String())
		w.Write([]byte("by proxy"))
	}))
	defer proxy.Close()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestTheProxyOfTheEnvironmentIsUsed$", "-test.v")
	cmd.Env = append(os.Environ(), "INPUT_TEST_FETCH="+t.TempDir(), "HTTP_PROXY="+proxy.URL, "http_proxy="+proxy.URL, "NO_PROXY=", "no_proxy=")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "got by proxy, <nil>") || asked.Load() != "http://far.example/a" {
		t.Errorf("asked for %v, %v: %s", asked.Load(), err, out)
	}
}
