package stdin

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/drover-run/drover/fault"
)

func pipeOf(t *testing.T, text string) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	if _, err := w.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return r, w
}

func fileOf(t *testing.T, text string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func readSome(t *testing.T, f *os.File, n int) string {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(f, b); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestWhatAStandardInputIs(t *testing.T) {
	open := func(path string) *os.File {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	full, _ := pipeOf(t, "a")
	idle, _ := pipeOf(t, "")
	ended, w := pipeOf(t, "")
	w.Close()
	ptmx, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ptmx.Close()
	defer tty.Close()
	read := fileOf(t, "abc")
	readSome(t, read, 3)
	for _, c := range []struct {
		name  string
		f     *os.File
		kind  Kind
		holds bool
	}{
		{"nothing", nil, None, false}, {"/dev/null", open(os.DevNull), None, false}, {"a folder", open(t.TempDir()), None, false},
		{"/dev/zero", open("/dev/zero"), Device, false}, {"a terminal", tty, Terminal, false},
		{"a file", fileOf(t, "abc"), File, true}, {"an empty file", fileOf(t, ""), File, false}, {"a file that was read", read, File, false},
		{"a pipe", full, Pipe, true}, {"a pipe that is empty and open", idle, Pipe, false}, {"a pipe that has ended", ended, Pipe, false},
	} {
		s := Inspect(c.f)
		id, err := s.ID()
		if s.Kind != c.kind || s.Holds() != c.holds || s.Held() != c.holds || err != nil || (id != "") != c.holds {
			t.Errorf("%s is kind %d, holds something: %v, named %q: %v", c.name, s.Kind, s.Holds(), id, err)
		}
	}
}

func TestAStandardInputIsKnownByWhatItHolds(t *testing.T) {
	name := func(f *os.File) string {
		id, err := Inspect(f).ID()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	a, b, c := fileOf(t, "1\n"), fileOf(t, "1\n"), fileOf(t, "2\n")
	if name(a) != name(b) || name(a) == name(c) {
		t.Errorf("files are %s, %s and %s", name(a), name(b), name(c))
	}
	rest := fileOf(t, "x1\n")
	readSome(t, rest, 1)
	if name(rest) != name(a) {
		t.Error("the rest of a file is not known by what it holds")
	}
	if got := readSome(t, rest, 2); got != "1\n" {
		t.Errorf("naming a file has read of it: %q is left", got)
	}
	p, _ := pipeOf(t, "1\n")
	q, _ := pipeOf(t, "1\n")
	s := Inspect(p)
	one, _ := s.ID()
	two, _ := s.ID()
	if one != two || one == name(q) || !strings.HasPrefix(one, "pipe:") {
		t.Errorf("pipes are %s, %s and %s", one, two, name(q))
	}
}

func TestALargeFileIsKnownByItsPlace(t *testing.T) {
	f := fileOf(t, "a")
	if err := os.Truncate(f.Name(), largestDigest+2); err != nil {
		t.Fatal(err)
	}
	one, err := Inspect(f).ID()
	if err != nil {
		t.Fatal(err)
	}
	again, err := os.Open(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if two, err := Inspect(again).ID(); err != nil || two != one {
		t.Errorf("opened twice it is %s and %s: %v", one, two, err)
	}
}

func TestAFurtherProgramReadsAFileFromTheBeginning(t *testing.T) {
	f := fileOf(t, "xabc")
	readSome(t, f, 1)
	s := Inspect(f)
	readSome(t, f, 3)
	if err := s.Again(); err != nil {
		t.Fatal(err)
	}
	if got := readSome(t, f, 3); got != "abc" {
		t.Errorf("it reads %q", got)
	}
}

func TestAFurtherProgramHasAPipeThatWasNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		held    string
		ends    bool // before the first program
		read    int
		then    string // what comes while it runs
		refused bool
	}{
		"unread":                   {held: "abc", ends: true},
		"read":                     {held: "abc", ends: true, read: 3, refused: true},
		"read in part":             {held: "abc", ends: true, read: 1, refused: true},
		"perhaps read, still open": {held: "abc", refused: true},
		"silent":                   {},
		"ended at once":            {ends: true},
		"something came":           {then: "abc", refused: true},
	} {
		r, w := pipeOf(t, c.held)
		if c.ends {
			w.Close()
		}
		s := Inspect(r)
		readSome(t, r, c.read)
		_, _ = w.WriteString(c.then) // closed: there is nothing to write
		err := s.Again()
		if (err != nil) != c.refused || err != nil && (fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatAPipeHeldMeanwhileIsRemembered(t *testing.T) {
	r, w := pipeOf(t, "")
	s := Inspect(r)
	seen := make(chan struct{})
	go func() { s.Watch(); close(seen) }()
	if _, err := w.WriteString("abc"); err != nil {
		t.Fatal(err)
	}
	<-seen
	readSome(t, r, 3)
	if err := s.Again(); err == nil {
		t.Error("another program is given a pipe that was read")
	}
	quiet, w := pipeOf(t, "")
	w.Close()
	s = Inspect(quiet)
	s.Watch()
	if err := s.Again(); err != nil {
		t.Error(err)
	}
}
