package items

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/items/fields"
	"github.com/drover-run/drover/internal/items/itemstest"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/items/template"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

func TestARefusedItemSaysWhatToTypeInstead(t *testing.T) {
	for _, row := range []struct {
		arg, out   string
		it         manifest.Item
		text, hint string
	}{
		{"{}", "{n}", manifest.Item{N: 7, Text: "a\x00b"}, "fill command: item 7: a value holds a NUL byte, and an argument cannot", ""},
		{"{}", "{n}", manifest.Item{N: 7, Text: strings.Repeat("x", 128<<10)}, "fill command: item 7: an argument would be 128 KiB, and 128 is the most a system takes",
			"Give it to the program on its input, with --stdin, or put it into a file."},
		{"x", "{}", manifest.Item{N: 7, Text: "../up"}, `name outputs: item 7: "../up" goes up with ..`,
			"Name outputs after parts of the item, such as {.stem}, or after its number, {n}."},
		{"x", "second-{}", manifest.Item{N: 7, Text: "7"}, `name outputs: item 7: "second-7" and "second-7" would be the same, or lie in each other`,
			"Give each --out a name of its own."},
	} {
		tmpl, err := template.Parse([]string{row.arg}, template.TemplateOptions{Out: []string{row.out, "second-{n}"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = tmpl.Fill(row.it, nil); row.arg == "x" {
			_, err = tmpl.Outputs(row.it)
		}
		itemstest.CheckError(t, err, fault.Invalid, row.text, row.hint)
	}
	tmpl, err := template.Parse([]string{"{out}"}, template.TemplateOptions{Out: []string{"{n}"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = tmpl.Fill(manifest.Item{N: 7}, nil); err == nil || !strings.HasSuffix(err.Error(), "item 7: there is no --out for {out}") {
		t.Error(err)
	}
}

func TestARefusedCommandLineSaysWhatToTypeInstead(t *testing.T) {
	for text, want := range map[string][2]string{
		"echo `cat {}`": {"read command: {} is inside or after `...`, where it cannot be quoted safely", `Write "$DROVER_ITEM", or set a variable first: x={}; echo "$x".`},
		"echo 'it":      {`read command: "echo 'it": it opens a single quote and does not close it`, "Close it."},
	} {
		_, err := template.Parse([]string{text}, template.TemplateOptions{Shell: true})
		itemstest.CheckError(t, err, fault.Invalid, want[0], want[1])
	}
}

func TestItemsOfAnotherFormSayWhatTheyWere(t *testing.T) {
	hint := "Keep the form of the items, or begin anew with --force."
	csv, other, lines := collected(t, manifest.CSV, "a,b\n1,2\n"), collected(t, manifest.CSV, "a,c\n1,2\n"), collected(t, manifest.Lines, "1\n")
	_, _, err := manifest.New(t.Context(), csv, []*manifest.Reader{lines.Reader()}, t.TempDir())
	itemstest.CheckError(t, err, fault.Invalid, "compare items: they were lines and are csv now", hint)
	_, _, err = manifest.New(t.Context(), csv, []*manifest.Reader{other.Reader()}, t.TempDir())
	itemstest.CheckError(t, err, fault.Invalid, `compare items: their header was ["a" "c"] and is ["a" "b"] now`, hint)
}

func TestASampleOfNothingSaysToChooseOne(t *testing.T) {
	_, err := manifest.Sample(t.Context(), itemstest.ListOf(t, "a", "b"), nil, t.TempDir())
	itemstest.CheckError(t, err, fault.Invalid, "choose items: none of 2 was chosen", "Choose at least 1.")
}

func TestNumbersBeyondTheListAreNamed(t *testing.T) {
	for _, err := range itemstest.ListOf(t, "a", "b").Reader().Range(t.Context(), 2, 3) {
		itemstest.CheckError(t, err, fault.Bug, "read item 2: items 2 to 3 are not among 1 to 2", "")
	}
}

func TestAListWithoutRoomSaysWhere(t *testing.T) {
	err := manifest.DiskError(&os.PathError{Op: "write", Path: "/tmp/x", Err: syscall.ENOSPC}, "/tmp")
	itemstest.CheckError(t, err, fault.Full, "store the items in /tmp: write /tmp/x: no space left on device", "Free some space there and run it again.")
}

// torn is a bucket with objects that break off while they are read.
type torn struct{ *mem.Bucket }

func (b torn) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, err := b.Bucket.Get(ctx, key, off, n)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(io.MultiReader(io.LimitReader(r, 3), iotest.ErrReader(errors.New("torn")))), nil
}

func TestAListThatCannotBeReadBackSaysWhatToDo(t *testing.T) {
	for name, row := range map[string]struct {
		b          store.Bucket
		text, hint string
	}{
		"damaged": {&itemstest.FaultyBucket{Bucket: mem.New(), Suffix: ".zst", Times: 1, Harm: itemstest.Harms["flipped"]}, " is damaged", "Remove that object, and run it again."},
		"torn":    {torn{mem.New()}, ": torn", "Run it again."},
	} {
		_, err := itemstest.ListOf(t, "a", "b").Put(t.Context(), store.New(row.b, store.Options{}), "items")
		if fault.KindOf(err) != fault.Lost || !strings.HasPrefix(err.Error(), "store items: ") || !strings.HasSuffix(err.Error(), row.text) || fault.Hint(err) != row.hint {
			t.Errorf("%s: kind %v, %v\n%s", name, fault.KindOf(err), err, fault.Hint(err))
		}
	}
}

func TestStoredListsThatDoNotFitAreLost(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	put := func(lines ...string) manifest.Manifest {
		m, err := itemstest.ListOf(t, lines...).Put(t.Context(), s, "items")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m, one, nonsense := put("a", "b"), put("x"), put("no files", "nor here")
	m.Files = &one
	_, err := manifest.OpenStored(t.Context(), s, m, 1)
	itemstest.CheckError(t, err, fault.Lost, "open items "+m.Key+": the list of their files belongs to other items", "")
	m.Files = &nonsense
	r, err := manifest.OpenStored(t.Context(), s, m, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = r.One(t.Context(), 1); fault.KindOf(err) != fault.Lost || !strings.Contains(err.Error(), "read which files are stored: ") {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
	_, err = manifest.Open(t.Context(), s, manifest.Manifest{Count: 9, From: 1, To: 8, Step: 1}, 1)
	itemstest.CheckError(t, err, fault.Invalid, "open items: 1-8:1 is not a range of the 9 items", "")
	m.Count++
	m.Files = nil
	if _, err = manifest.Open(t.Context(), s, m, 1); fault.KindOf(err) != fault.Lost || !strings.HasPrefix(err.Error(), "open items: "+m.Key+" in ") {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
}

// notesOf are those of a list that is read from a text.
func notesOf(t *testing.T, format, text string) string {
	l := collected(t, format, text)
	return strings.Join(l.Notes(), "\n")
}

func TestWhatIsOddInAListIsNoted(t *testing.T) {
	var said faulttest.Sayings
	for what, text := range map[string]string{
		"one line within which a line returns": "a\rb\nc\n", "two lines within which a line returns": "a\rb\nc\rd\n",
		"one line that is not UTF-8": "\xe4\n", "two lines that are not UTF-8": "a\n\xe4\n\xe4\n", "an empty line": "a\n\nb\n", "two empty lines": "\na\n\n",
		"one line of Windows": "a\r\nb\n", "two lines of Windows": "a\r\nb\r\n", "a byte order mark": "\xef\xbb\xbfa\n",
	} {
		said.Add(what, notesOf(t, manifest.Lines, text))
	}
	said.Add("semicolons in CSV", notesOf(t, manifest.CSV, "a;b\n1;2\n"))
	said.Add("an array in JSON", notesOf(t, manifest.JSONL, "[1, 2]\n"))
	var wide strings.Builder
	for i := range fields.MaxNames + 1 {
		fmt.Fprintf(&wide, `{"k%d":1}`+"\n", i)
	}
	said.Add("many keys in JSON", notesOf(t, manifest.JSONL, wide.String()))
	dir := t.TempDir()
	for _, name := range []string{"1-3", "one/a", "two/b", ".hidden"} {
		if os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700) != nil || os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600) != nil {
			t.Fatal("no file " + name)
		}
	}
	for i, name := range []string{"one", "two", "none"} {
		if i > 0 && syscall.Mkfifo(filepath.Join(dir, "pipe"+name), 0o600) != nil || os.Symlink(name, filepath.Join(dir, "link"+name)) != nil {
			t.Fatal("no link to " + name)
		}
	}
	for _, from := range []string{"1-3", "*", "pipet*", "linkn*", "**"} {
		l, err := Collect(t.Context(), Source{From: from, Dir: dir}, t.TempDir())
		if err != nil {
			said.Error(from, err)
			continue
		}
		said.Add(from, strings.Join(l.Notes(), "\n"))
		l.Close()
	}
	said.Compare(t, "notes")
}

func TestALongPatternIsRefused(t *testing.T) {
	open := theirs(t, nil)
	for from, hint := range map[string]string{
		"*" + strings.Repeat("/x", maxParts):        "Use **, or begin further down.",
		"s3://b/*" + strings.Repeat("/x", maxParts): "Use **, or name fewer folders.",
		"s3://b/[a": "Write a bracket that is one as [[].",
	} {
		_, err := Collect(t.Context(), Source{From: from, Dir: t.TempDir(), Open: open}, t.TempDir())
		if fault.KindOf(err) != fault.Invalid || fault.Hint(err) != hint {
			t.Errorf("%.20s: %v\n%s", from, err, fault.Hint(err))
		}
	}
	_, err := Collect(t.Context(), Source{From: "x", Format: "yaml", Dir: t.TempDir()}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), `there is no format "yaml"`) {
		t.Error(err)
	}
}

func TestALineThatNamesNoFileSaysSo(t *testing.T) {
	d := string(itemstest.DigestOf(5))
	for line, want := range map[string]string{
		"x":                            `"x" names no stored file`,
		":" + d + ":9::" + d + ":-1":   "names no file in a pack",
		":" + d + "::9:" + d + ":9000": "names no stored file",
	} {
		if _, err := manifest.ParseFiles(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}
