package items

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/items/fields"
	"github.com/drover-run/drover/internal/items/itemstest"
	"github.com/drover-run/drover/internal/items/manifest"
)

func TestLinesAreTakenAsTheyAre(t *testing.T) {
	for name, c := range map[string]struct {
		format, text string
		want         []string
		notes        []string
	}{
		"plain":               {manifest.Lines, "a\nb\n", []string{"a", "b"}, nil},
		"no newline at end":   {manifest.Lines, "a\nb", []string{"a", "b"}, nil},
		"spaces":              {manifest.Lines, " a \n\tb\n \n", []string{" a ", "\tb", " "}, nil},
		"quotes and dashes":   {manifest.Lines, "-rf\n'a\" b'\n../x\n", []string{"-rf", "'a\" b'", "../x"}, nil},
		"CR LF":               {manifest.Lines, "a\r\nb\r\n", []string{"a", "b"}, []string{"2 lines end in CR LF; the CR was left out"}},
		"CR LF and no LF":     {manifest.Lines, "a\nb\r", []string{"a", "b"}, []string{"1 line ends in CR LF; the CR was left out"}},
		"mark":                {manifest.Lines, "\xef\xbb\xbfa\n", []string{"a"}, []string{"the byte order mark at the beginning was left out"}},
		"mark within":         {manifest.Lines, "a\n\xef\xbb\xbfb\n", []string{"a", "\xef\xbb\xbfb"}, nil},
		"empty lines":         {manifest.Lines, "\n\na\n\nb\n\r\n", []string{"a", "b"}, []string{"1 line ends in CR LF; the CR was left out", "4 empty lines were skipped"}},
		"CR within":           {manifest.Lines, "a\nb\rc\n", []string{"a", "b\rc"}, []string{"line 2 holds a carriage return, which was kept"}},
		"not UTF-8":           {manifest.Lines, "a\n\xe4\n\xf6\n", []string{"a", "\xe4", "\xf6"}, []string{"2 lines are not UTF-8, the first is line 2; they were kept as they are"}},
		"CSV":                 {manifest.CSV, "\xef\xbb\xbfa, b ,\n1,2,3\r\n\n\"x\ny\",\"say \"\"hi\"\"\",\n", []string{"1,2,3", "\"x\ny\",\"say \"\"hi\"\"\","}, []string{"the byte order mark at the beginning was left out", "1 line ends in CR LF; the CR was left out", "1 empty line was skipped"}},
		"CSV, empty within":   {manifest.CSV, "a\n\"x\r\n\r\n\ny\"\n", []string{"\"x\n\n\ny\""}, []string{"2 lines end in CR LF; the CR was left out"}},
		"CSV of semicolons":   {manifest.CSV, "a;b\n1;2\n", []string{"1;2"}, []string{"the header has no comma but semicolons; fields end at commas, so it is one field"}},
		"JSON":                {manifest.JSONL, " {\"a\": 1.10}\n\n[1]\r\n\"x\"\n", []string{`{"a": 1.10}`, "[1]", `"x"`}, []string{"1 line ends in CR LF; the CR was left out", "1 empty line was skipped"}},
		"JSON, one array":     {manifest.JSONL, "[1,2]\n", []string{"[1,2]"}, []string{"the one line is an array, and so one item; for its elements: jq -c '.[]' FILE"}},
		"JSON, two of arrays": {manifest.JSONL, "[1,2]\n[3]", []string{"[1,2]", "[3]"}, nil},
	} {
		l := collected(t, c.format, c.text)
		if diff := cmp.Diff(c.want, itemstest.ReadTexts(t, l.Reader())); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(c.notes, l.Notes(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: notes: %s", name, diff)
		}
	}
}

func TestWhatCannotBeAnItemIsRefusedByItsLine(t *testing.T) {
	var said faulttest.Sayings
	long := strings.Repeat("x", manifest.MaxLine+1)
	for name, c := range map[string]struct{ format, text, why, hint string }{
		"NUL":                 {manifest.Lines, "a\n\nb\x00\n", "line 3: it holds a NUL byte", "od -c"},
		"too long":            {manifest.Lines, "a\n" + long + "\nb", "line 2: it is longer than 16 MiB", "files"},
		"too long, no end":    {manifest.Lines, strings.Repeat("x", manifest.MaxLine+1<<20), "line 1: it is longer than 16 MiB", "files"},
		"UTF-16":              {manifest.Lines, "\xff\xfea\x00\n\x00", "it is UTF-16 text", "iconv -f UTF-16 -t UTF-8 FILE"},
		"UTF-16, other way":   {manifest.CSV, "\xfe\xff\x00a", "it is UTF-16 text", "iconv"},
		"UTF-32":              {manifest.Lines, "\xff\xfe\x00\x00a\x00\x00\x00", "it is UTF-32 text", "iconv -f UTF-32"},
		"empty":               {manifest.Lines, "", "it is empty", "pipe"},
		"empty with mark":     {manifest.Lines, "\xef\xbb\xbf", "it is empty", "pipe"},
		"empty lines only":    {manifest.Lines, "\n\r\n\n", "all its lines are empty", "pipe"},
		"CSV not UTF-8":       {manifest.CSV, "a,b\n1,\xe4\n", "line 2: it is not UTF-8", "iconv"},
		"CSV not UTF-8 later": {manifest.CSV, "a,b\n1,\"\n\xe4\"\n", "line 3: it is not UTF-8", "iconv"},
		"CSV header only":     {manifest.CSV, "a,b\n", "it has a header and no items", "below the header"},
		"CSV empty":           {manifest.CSV, "", "it is empty", "pipe"},
		"CSV ragged":          {manifest.CSV, "a,b\n1,2\n\n3\n", "line 4: it has 1 field, the header has 2", "commas"},
		"CSV too many":        {manifest.CSV, "a,b\n1,2,3\n", "line 2: it has 3 fields, the header has 2", "commas"},
		"CSV bare quote":      {manifest.CSV, "a,b\n1,5\" pipe\n2,\"x\"\n", "line 2: a field that does not begin with a quote", `""hi""`},
		"CSV after a quote":   {manifest.CSV, "a,b\n1,\"x\"y\n", "line 2: something follows a closing quote", `""hi""`},
		"CSV open quote":      {manifest.CSV, "a,b\n1,\"x\n2,y\n", "line 2: a quote is not closed", "Close the quote"},
		"CSV later lines":     {manifest.CSV, "a,b\n\"x\ny\",1\n\"x\ny\"z,1\n", "line 4: something follows", "double"},
		"CSV long record":     {manifest.CSV, "a\n\"" + strings.Repeat(strings.Repeat("x", 1<<20)+"\n", 17), "line 2: its record is longer", "Close"},
		"CSV twice a name":    {manifest.CSV, "a,b,a\n1,2,3\n", `line 1: two columns are named "a"`, "name of its own"},
		"CSV very wide":       {manifest.CSV, strings.Repeat(",", fields.MaxNames) + "\n", "line 1: its header has 1001 columns", "cut -d,"},
		"JSON":                {manifest.JSONL, "{\"a\":1}\n{\"a\":}\n", "line 2: it is not JSON: at byte 6", "jq -c . FILE"},
		"JSON document":       {manifest.JSONL, "[\n1,\n2]\n", "line 1: it is not JSON", "jq -c '.[]' FILE"},
		"JSON twice a key":    {manifest.JSONL, "{\"a\":1}\n{\"a\":1,\"\\u0061\":2}\n", `line 2: two values are named "a"`, "Mend"},
		"JSON half a sign":    {manifest.JSONL, `{"a":"\ud83d"}`, `line 1: \ud83d is half of a surrogate pair`, "Mend"},
		"JSON half a key":     {manifest.JSONL, `{"\ude00":1}`, `line 1: \ude00 is half of a surrogate pair`, "Mend"},
		"JSON not UTF-8":      {manifest.JSONL, "\"\xe4\"", "line 1: it is not UTF-8", "iconv"},
		"JSON two values":     {manifest.JSONL, "1 2", "line 1: it is not JSON", "one JSON value"},
		"JSON single quotes":  {manifest.JSONL, "{'a': 1}", "line 1: it is not JSON", "jq"},
		"not gzip":            {manifest.Lines, "\x1f\x8bxxxx", "gzip", "Check"},
	} {
		_, err := Collect(t.Context(), Source{From: "-", Format: c.format, Stdin: strings.NewReader(c.text)}, t.TempDir())
		said.Error(name, err)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.why) || !strings.Contains(fault.Hint(err), c.hint) {
			t.Errorf("%s: %.300v; %s", name, err, fault.Hint(err))
		} else if !strings.HasPrefix(err.Error(), `read items from "standard input": `) {
			t.Errorf("%s: %v", name, err)
		}
	}
	said.Compare(t, "lines")
}

func TestAFileIsReadByItsEnding(t *testing.T) {
	dir := t.TempDir()
	var gz, zst bytes.Buffer
	z := gzip.NewWriter(&gz)
	io.WriteString(z, "a,b\n1,2\n")
	z.Close()
	w, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, "{\"k\":1}\n")
	w.Close()
	for name, c := range map[string]struct {
		text, format string
		fields       []string
	}{
		"x.txt":       {"a,b\n", manifest.Lines, nil},
		"x":           {"{}\n", manifest.Lines, nil},
		"x.csv":       {"a,b\n1,2\n", manifest.CSV, []string{"a", "b"}},
		"X.CSV":       {"a,b\n1,2\n", manifest.CSV, []string{"a", "b"}},
		"x.jsonl":     {"{\"k\":1}\n", manifest.JSONL, []string{"k"}},
		"x.ndjson":    {"{\"k\":1}\n", manifest.JSONL, []string{"k"}},
		"x.json":      {"{\"k\":1}\n", manifest.JSONL, []string{"k"}},
		"x.csv.gz":    {gz.String(), manifest.CSV, []string{"a", "b"}},
		"y.jsonl.zst": {zst.String(), manifest.JSONL, []string{"k"}},
		"z.jsonl":     {zst.String(), manifest.JSONL, []string{"k"}}, // told by how it begins
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Collect(t.Context(), Source{From: name, Dir: dir}, t.TempDir())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.fields, l.Fields(), cmpopts.EquateEmpty()); diff != "" || l.Format() != c.format || l.Count() != 1 {
			t.Errorf("%s is %s with %d items: %s", name, l.Format(), l.Count(), diff)
		}
		l.Close()
	}
	if _, err := Collect(t.Context(), Source{From: "x.csv", Dir: dir, Format: "yaml"}, t.TempDir()); fault.KindOf(err) != fault.Invalid {
		t.Errorf("yaml: %v", err)
	}
}

func TestAnArchiveCutShortIsRefused(t *testing.T) {
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	io.WriteString(z, strings.Repeat("line\n", 1000))
	z.Close()
	half := gz.String()[:gz.Len()-10]
	_, err := Collect(t.Context(), Source{From: "-", Stdin: strings.NewReader(half)}, t.TempDir())
	if fault.KindOf(err) != fault.Invalid || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

func TestWhatIsNotThereIsSaid(t *testing.T) {
	var said faulttest.Sayings
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "items.txt"), []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, c := range map[string]struct {
		kind fault.Kind
		hint string
	}{
		"itmes.txt":     {fault.Missing, "Did you mean items.txt?"},
		"./item.txt":    {fault.Missing, "Did you mean items.txt?"},
		"other":         {fault.Missing, "Check the path"},
		"items.txt/x":   {fault.Missing, "Check the path"},
		"~/items.txt":   {fault.Missing, "$HOME"},
		"":              {fault.Invalid, "--from items.txt"},
		"a\x00b":        {fault.Invalid, "Check the path"},
		"*.csv":         {fault.Invalid, "ls -a."},
		"none/*.txt":    {fault.Invalid, "ls none"},
		"-":             {fault.Invalid, "--from items.txt"},
		"items.txt/*":   {fault.Invalid, "ls items.txt"},
		"../[a":         {fault.Invalid, "bracket"},
		"*/../*":        {fault.Invalid, "before the star"},
		"none/../*.txt": {fault.Invalid, "ls"},
	} {
		_, err := Collect(t.Context(), Source{From: from, Dir: dir}, t.TempDir())
		said.Error(strconv.Quote(from), err)
		if fault.KindOf(err) != c.kind || !strings.Contains(fault.Hint(err), c.hint) {
			t.Errorf("%q: %v (%v); %s", from, err, fault.KindOf(err), fault.Hint(err))
		}
	}
	said.Compare(t, "absent")
}

// forever is a pipe with a writer that never ends, or, without a text, never writes.
type forever struct {
	text string
	read chan struct{} // closed at the first read
	stop chan struct{}
}

func (f *forever) Read(b []byte) (int, error) {
	select {
	case <-f.read:
	default:
		close(f.read)
	}
	if f.text == "" {
		<-f.stop
		return 0, io.EOF
	}
	return copy(b, strings.Repeat(f.text, len(b)/len(f.text))), nil
}

// left has Collect read a pipe that never ends, and asks it to stop once begun
// returns.
func left(t *testing.T, text string, begun func(*forever)) {
	pipe := &forever{text: text, read: make(chan struct{}), stop: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("asked to stop")
	got := make(chan error)
	dir := t.TempDir()
	go func() {
		_, err := Collect(ctx, Source{From: "-", Stdin: pipe}, dir)
		got <- err
	}()
	begun(pipe)
	cancel(why)
	if err := <-got; !errors.Is(err, why) {
		t.Errorf("%q: %v", text, err)
	}
	close(pipe.stop)
	if there, _ := os.ReadDir(dir); len(there) != 0 {
		t.Errorf("%q left %v", text, there)
	}
}

func TestAPipeThatNeverEndsIsLeft(t *testing.T) {
	left(t, "y\n", func(pipe *forever) { <-pipe.read })
}

func TestAPipeOnWhichNobodyWritesIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left(t, "", func(*forever) { synctest.Wait() }) // until all wait for each other
	})
}

func TestANamedPipeIsReadAndLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error)
	go func() { wrote <- os.WriteFile(path, []byte("a\nb\n"), 0) }()
	l, err := Collect(t.Context(), Source{From: path}, t.TempDir())
	if err != nil || l.Count() != 2 {
		t.Fatalf("%v", err)
	}
	l.Close()
	if err := <-wrote; err != nil {
		t.Error(err)
	}

	// No process opens the other end: not even opening it may hold Collect up.
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error)
	go func() {
		_, err := Collect(ctx, Source{From: path}, t.TempDir())
		got <- err
	}()
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if w, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		w.Close() // lets the goroutine go, if it has come so far
	}
}

// breaks gives an error in the middle.
type breaks struct{ left []byte }

var errPulled = errors.New("cable pulled")

func (b *breaks) Read(to []byte) (int, error) {
	if len(b.left) == 0 {
		return 0, errPulled
	}
	n := copy(to, b.left)
	b.left = b.left[n:]
	return n, nil
}

func TestASourceThatBreaksIsNotTakenForItsEnd(t *testing.T) {
	for _, format := range []string{manifest.Lines, manifest.CSV, manifest.JSONL} {
		_, err := Collect(t.Context(), Source{From: "-", Format: format, Stdin: &breaks{left: []byte("1\n2\n")}}, t.TempDir())
		if !errors.Is(err, errPulled) || !strings.Contains(err.Error(), "after line 2") {
			t.Errorf("%s: %v", format, err)
		}
	}
}
