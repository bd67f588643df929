package bundle

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// reads checks what a user reads of an error: the whole text, and the whole hint.
func reads(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || err.Error() != text || fault.Hint(err) != hint || fault.KindOf(err) != kind {
		t.Errorf("kind %v: %v\n%s\nwant %v: %s\n%s", fault.KindOf(err), err, fault.Hint(err), kind, text, hint)
	}
}

func TestCodeThatCannotBeShippedSaysWhy(t *testing.T) {
	t.Parallel()
	at, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, other := filepath.Join(at, "code"), filepath.Join(at, "other")
	put(t, dir, map[string]string{"main.py": "x", "sub/x": "x"})
	put(t, other, map[string]string{"clash/main.py": "y", "main.py/x": "y", "out.py": "y"})
	pipe := filepath.Join(other, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	main, clash, inner, out := filepath.Join(dir, "main.py"), filepath.Join(other, "clash/main.py"), filepath.Join(other, "main.py/x"), filepath.Join(other, "out.py")
	for _, row := range []struct {
		source     Source
		kind       fault.Kind
		text, hint string
	}{
		{Source{Dir: at + "/no"}, fault.Missing, `scan code: "` + at + `/no": no such folder`, ""},
		{Source{Dir: main}, fault.Invalid, `scan code: "` + main + `": not a folder`, ""},
		{Source{Dir: dir, Script: "no.py"}, fault.Missing, `scan code: "no.py": no such file in ` + dir, ""},
		{Source{Dir: dir, Script: "sub"}, fault.Invalid, `scan code: "sub": not a file`, ""},
		{Source{Dir: dir, Script: out}, fault.Invalid, `scan code: "` + out + `": the script is outside ` + dir, "Choose a folder that holds the script with `-s DIR`."},
		{Source{Dir: dir, Extra: []string{pipe}}, fault.Invalid, `scan code: "` + pipe + `": neither a file nor a folder`, ""},
		{Source{Dir: dir, Extra: []string{clash}}, fault.Invalid, `scan code: "main.py": both ` + main + ` and ` + clash + ` would get this name`, "Rename one of them."},
		{Source{Dir: dir, Extra: []string{filepath.Dir(inner)}}, fault.Invalid, `scan code: "main.py": ` + main + ` would be a file and ` + inner + ` needs a folder there`, "Rename one of them."},
	} {
		_, err := Scan(t.Context(), row.source)
		reads(t, err, row.kind, row.text, row.hint)
	}
}

func TestAFileThatGrewSaysHowToLeaveItOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string]string{"a": "x"})
	l := scan(t, Source{Dir: dir, Caps: Caps{Bytes: 10}})
	put(t, dir, map[string]string{"a": "much more than was there"})
	_, err := Pack(t.Context(), l, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "read 24 B, grown since it was scanned: ") || fault.Hint(err) != "Leave it out with a line in .droverignore." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
}

func TestAFolderOfABucketThatCannotBeUsedSaysWhy(t *testing.T) {
	t.Parallel()
	long := "h/" + strings.Repeat("n", 256)
	for _, row := range []struct {
		key        string
		more       []store.Object
		kind       fault.Kind
		text, hint string
	}{
		{"no/", nil, fault.Missing, `list "no/": nothing is there`, "Check the name: a folder's end is a whole part of it, and * means nothing in a bucket."},
		{"h", []store.Object{{Key: long, Size: 1}}, fault.Invalid, `list "` + long[:100] + `": a part of its name is longer than 255 bytes`, "Give the object another name."},
		{"in", nil, fault.Invalid, "list in: there are more than 2 objects", "Name a folder below it, or pack the files into fewer ones."},
	} {
		b, s := bucketOf(t, map[string]string{"in/a": "1", "in/b": "2", "in/c": "3"})
		b.more = row.more
		_, err := list(t.Context(), s, "s3://b", row.key, 2)
		reads(t, err, row.kind, row.text, row.hint)
	}
}

func TestAnObjectThatChangedSaysToSubmitAgain(t *testing.T) {
	t.Parallel()
	b, s := bucketOf(t, map[string]string{"in/b": "two"})
	tree, err := ListAway(t.Context(), s, "s3://b", "in")
	if err != nil {
		t.Fatal(err)
	}
	b.put(t, "in/b", "longer")
	err = RestoreAway(t.Context(), s, tree, t.TempDir())
	if want := `read "in/b" of s3://b: it has changed since the job was submitted: it had 3 B then, and has 6 B now`; err == nil || !strings.HasSuffix(err.Error(), want) ||
		fault.Hint(err) != "Submit it again, to use what is there now." || fault.KindOf(err) != fault.Invalid {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
	dir := filepath.Join(t.TempDir(), "d")
	reads(t, RestoreAway(t.Context(), s, Tree{}, dir), fault.Bug, "restore "+dir+": its files are in no bucket", "")
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is there all the same")
	}
	_, _, err = (&objects{tree: tree}).PutBlob(t.Context(), strings.NewReader("x"))
	reads(t, err, fault.Bug, "write to s3://b: it is read-only", "")
}
