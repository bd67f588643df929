package input

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
)

// eager waits for nothing between two requests.
func eager(dir string) Bringer {
	return Bringer{Dir: dir, Pause: func(context.Context, time.Duration) error { return nil }}
}

// roomy keeps what is asked for.
type roomy struct {
	asked []int64
	err   error
}

func (r *roomy) ask(_ context.Context, n int64) error {
	r.asked = append(r.asked, n)
	return r.err
}

func TestAFileIsBroughtIntoItsFolder(t *testing.T) {
	t.Parallel()
	o := serve(t, "body", map[string]string{"ETag": `"v1"`})
	into, room := filepath.Join(t.TempDir(), "in", "1"), &roomy{}
	file, ours, err := eager("").Bring(t.Context(), o.URL+"/a/b.png?x=1", into, room.ask)
	if err != nil || !ours || file != filepath.Join(into, "b.png") {
		t.Fatalf("it brought %q, %t, %v", file, ours, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "body" {
		t.Errorf("it holds %q (%v)", text, err)
	}
	if left, err := os.ReadDir(into); err != nil || len(left) != 1 {
		t.Errorf("beside it: %v (%v)", left, err)
	}
	if diff := cmp.Diff([]int64{4}, room.asked); diff != "" {
		t.Errorf("room (-want +got):\n%s", diff)
	}
}

func TestABroughtFileGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789", 1000)
	o := serve(t, body, map[string]string{"ETag": `"v1"`})
	o.cut, o.status = []int{4000, 3000}, []int{503}
	file, _, err := eager("").Bring(t.Context(), o.URL+"/a", t.TempDir(), (&roomy{}).ask)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != body {
		t.Errorf("it holds %d bytes (%v): %q", len(text), err, o.requests)
	}
	if len(o.requests) != 4 {
		t.Errorf("it asked %q", o.requests)
	}
}

func TestRoomIsAskedForBeforeItIsTaken(t *testing.T) {
	t.Parallel()
	const size = 3*rationStep + 5
	into := t.TempDir()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 1<<20)
		for left := size; left > 0; left -= len(part) {
			w.Write(part[:min(left, len(part))])
			w.(http.Flusher).Flush() // so that it is not said how long it is
		}
	}))
	defer s.Close()
	var asked []int64
	_, _, err := eager("").Bring(t.Context(), s.URL+"/a", into, func(_ context.Context, n int64) error {
		if info, err := os.Stat(filepath.Join(into, "a")); err != nil || info.Size() > n-rationStep {
			t.Errorf("at %d bytes it asked for %d", info.Size(), n)
		}
		asked = append(asked, n)
		return nil
	})
	if diff := cmp.Diff([]int64{rationStep, 2 * rationStep, 3 * rationStep, 4 * rationStep}, asked); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	// Refused, it is not asked for again.
	no := errors.New("no room")
	room := &roomy{err: no}
	if _, _, err := eager("").Bring(t.Context(), s.URL+"/a", t.TempDir(), room.ask); !errors.Is(err, no) || len(room.asked) != 1 {
		t.Errorf("%v, asked %v", err, room.asked)
	}
}

func TestWhatIsHereIsUsedInPlace(t *testing.T) {
	t.Parallel()
	dir, into := t.TempDir(), filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(filepath.Join(dir, "a b"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"a b": "a b", "./a b": "./a b", dir: dir, dir + "/a b": dir + "/a b", "file://" + dir + "/a%20b": dir + "/a b", "FILE://localhost" + dir: dir,
	} {
		if file, ours, err := eager(dir).Bring(t.Context(), text, into, nil); file != want || ours || err != nil {
			t.Errorf("%s: %q, %t, %v", text, file, ours, err)
		}
	}
	if _, err := os.Stat(into); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it made a folder: %v", err)
	}
}

func TestWhatCannotBeBrought(t *testing.T) {
	t.Parallel()
	o := serve(t, "", nil)
	for text, want := range map[string]struct {
		kind fault.Kind
		why  string
	}{
		"":                      {fault.Missing, `find "": it is not there`},
		"task:x":                {fault.Missing, `find "task:x": it is not there`},
		"file:///no/such":       {fault.Missing, "it is not there"},
		"s3://bucket/key":       {fault.Invalid, "this agent opens no buckets"},
		"s3://bucket":           {fault.Invalid, "it is not one object"},
		"gs://bucket/folder/":   {fault.Invalid, "it is not one object"},
		"s3://":                 {fault.Invalid, "the bucket's name is missing"},
		"ftp://host/x":          {fault.Invalid, "drover does not know ftp://"},
		"s3://b/k?profile=root": {fault.Invalid, "an item chooses no server and no profile"},
		"s3://b/k?anonymous=true&endpoint=http://169.254.169.254": {fault.Invalid, "an item chooses no server and no profile"},
		"https://u:p@host/file":                                   {fault.Invalid, "it holds a user's name or password"},
		"file://other/x":                                          {fault.Invalid, `it names the machine "other"`},
		o.URL + "/404":                                            {fault.Missing, "the server answers 404 Not Found"},
		o.URL + "/403":                                            {fault.Denied, "the server answers 403 Forbidden"},
	} {
		if status := strings.TrimPrefix(text, o.URL+"/"); status != text {
			o.status = []int{map[string]int{"404": 404, "403": 403}[status]}
		}
		_, _, err := eager("").Bring(t.Context(), text, filepath.Join(t.TempDir(), "in"), nil)
		if fault.KindOf(err) != want.kind || !strings.HasSuffix(err.Error(), want.why) || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v (%v), want %s", text, err, fault.KindOf(err), want.why)
		}
	}
}

func TestAnAddressIsToldFromOtherText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"https://h/a": true, "http://h": true, "file:///a": true, "s3://b/k": true, "": false, "cat": false, "/a/b": false, "c:/x": false, "12:30": false, "task:x": false,
		"see https://h": false,
	} {
		if got := IsAddress(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
