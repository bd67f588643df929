package transfer

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// reads checks what a user reads of an error: text, of which "…" is any, and the whole hint.
func reads(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	first, last, _ := strings.Cut(text, "…")
	if err == nil || !strings.HasPrefix(err.Error(), first) || !strings.HasSuffix(err.Error(), last) || fault.Hint(err) != hint || fault.KindOf(err) != kind {
		t.Errorf("kind %v: %v\n%s\nwant %v: %s\n%s", fault.KindOf(err), err, fault.Hint(err), kind, text, hint)
	}
}

func TestARefusedURLSaysHowOneIsWritten(t *testing.T) {
	bucket := "Write it as s3://bucket/folder or gs://bucket/folder."
	for url, want := range map[string][2]string{
		"file://":           {`read "file://": a file:// URL has an absolute path and no query`, "Write it as file:///folder/name."},
		"file:///a/b?x=1":   {`read "…": a file:// URL has an absolute path and no query`, "Write it as file:///folder/name."},
		"s3://key:pw@b/a":   {`read "…": a URL holds no keys: they come from the environment or a profile`, bucket},
		"s3:///folder/name": {`read "s3:///folder/name": no bucket is named`, bucket},
		"ftp://host/name":   {`read "ftp://host/name": no bucket is named`, bucket},
	} {
		_, _, err := Split(url)
		reads(t, err, fault.Invalid, want[0], want[1])
	}
}

func TestWhatCannotBeSentOrBroughtSaysWhatToDo(t *testing.T) {
	place := Place{Store: store.New(mem.New(), store.Options{})}
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Put(t.Context(), pipe, place, Options{})
	reads(t, err, fault.Invalid, `put "`+pipe+`": it is neither a file nor a folder`, "Write what it gives into a file, and send that.")
	_, err = openOwn(filepath.Join(file, "below"))
	reads(t, err, fault.Invalid, "make the folder: …not a directory", "Name a folder that can be written.")
	if _, err = Get(t.Context(), Place{place.Store, "none/"}, filepath.Join(dir, "to"), Options{}); err == nil || !strings.HasSuffix(err.Error(), "nothing is there") ||
		fault.Hint(err) != "Check the name; the listing of what is there is the bucket's own: aws s3 ls, gcloud storage ls." || fault.KindOf(err) != fault.Missing {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
	err = gone(store.ErrNotExist, "a/b")
	reads(t, err, fault.Missing, `bring "a/b": …`, "Another program removes objects there: run it again.")
	u := &up{run: run{doing: "put"}, to: place}
	err = u.sendFile(t.Context(), sending{path: filepath.Join(dir, "absent")})
	reads(t, err, fault.Invalid, "read: open …", "Make it readable, or take it away, and run it again.")
}

func TestANameThatNoFileCanHaveSaysWhy(t *testing.T) {
	for name, want := range map[string]string{
		"a/../b":                 "it is not a path below a folder",
		"a\x00b":                 "its name holds a zero byte",
		ours + "part":            "its name is reserved for drover",
		strings.Repeat("x", 256): "a part of its name is longer than 255 bytes",
		"a/b":                    "",
	} {
		if got := badName(name); got != want {
			t.Errorf("%.20q: %q, want %q", name, got, want)
		}
	}
}
