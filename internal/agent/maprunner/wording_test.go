package maprunner

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/items/template"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// lineOf is a map runner with a try of a map with the command "work".
func lineOf(t *testing.T, args ...string) (*mapRunner, *try) {
	t.Helper()
	command, err := template.Parse(append([]string{"work"}, args...), template.TemplateOptions{Out: []string{"{n}"}})
	if err != nil {
		t.Fatal(err)
	}
	c := &mapRunner{prepared: &Prepared{Path: "/bin/work"}, mustGo: make(chan struct{}), clock: store.System}
	return c, &try{Try: mapagent.Try{Name: "3-1"}, chunk: &chunk{source: &itemSource{command: command, format: manifest.Lines}}}
}

func TestAnItemThatIsTooLongSaysHowItIsGiven(t *testing.T) {
	t.Parallel()
	c, one := lineOf(t)
	_, err := c.tryCommand(t.Context(), one, manifest.Item{N: 3, Text: strings.Repeat("x", maxVariable+1)})
	if err == nil || err.Error() != "run item 3: it is too long for a variable: use --stdin" || fault.KindOf(err) != fault.Invalid {
		t.Errorf("kind %v, %.200v", fault.KindOf(err), err)
	}
	c.Job.Spec.Stdin = true
	_, err = c.tryCommand(t.Context(), one, manifest.Item{N: 3, Text: strings.Repeat("x", proc.MaxStdin)})
	if err == nil || !strings.HasPrefix(err.Error(), "run item 3: its ") || !strings.HasSuffix(err.Error(), " bytes are too long for standard input") || fault.KindOf(err) != fault.Invalid {
		t.Errorf("kind %v, %.200v", fault.KindOf(err), err)
	}
}

func TestOutputsWithoutRoomSayWhatToFree(t *testing.T) {
	t.Parallel()
	c, one := lineOf(t)
	c.Root = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(c.Root, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.leaving.Store(true) // it does not wait for room
	_, err := c.stageOutputs(t.Context(), one)
	if err == nil || !strings.HasPrefix(err.Error(), "make folder for outputs: ") || fault.KindOf(err) != fault.Full ||
		fault.Hint(err) != "Free some space, or set XDG_STATE_HOME to a folder with room." {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
}

func TestAStoredFileThatIsAnotherIsSaid(t *testing.T) {
	t.Parallel()
	s := store.New(mem.New(), store.Options{})
	d, n, err := s.PutBlob(t.Context(), strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	c := &mapRunner{files: manifest.NewStored(s)}
	free := func(context.Context, int64) error { return nil }
	_, err = c.restoreStored(t.Context(), storedName(manifest.File{Blob: d, Size: n + 1}, "/a/b"), t.TempDir(), free)
	if err == nil || !strings.HasSuffix(err.Error(), "it has 7 bytes and not 8") || fault.KindOf(err) != fault.Lost {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
	for _, name := range []string{storedMark + "x", storedName(manifest.File{Blob: d}, "..")} {
		if _, err = c.restoreStored(t.Context(), name, t.TempDir(), free); err == nil || !strings.HasPrefix(err.Error(), "fetch file: ") || !strings.HasSuffix(err.Error(), " is not the name of one") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// fullDisk is a bucket without room for its objects.
type fullDisk struct{ *mem.Bucket }

func (fullDisk) Get(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return io.NopCloser(iotest.ErrReader(syscall.ENOSPC)), nil
}

func TestAStoredFileWithoutRoomSaysWhatToFree(t *testing.T) {
	t.Parallel()
	b := fullDisk{mem.New()}
	s := store.New(b, store.Options{})
	d, n, err := store.New(b.Bucket, store.Options{}).PutBlob(t.Context(), strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	c := &mapRunner{files: manifest.NewStored(s)}
	free := func(context.Context, int64) error { return nil }
	_, err = c.restoreStored(t.Context(), storedName(manifest.File{Blob: d, Size: n}, "/a/b.txt"), t.TempDir(), free)
	if err == nil || !strings.HasPrefix(err.Error(), "bring b.txt: ") || fault.KindOf(err) != fault.Full ||
		fault.Hint(err) != "Free some space, or set XDG_STATE_HOME to a folder with room." {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
}

func TestFilesOfAnItemThatIsNoObjectAreRefused(t *testing.T) {
	t.Parallel()
	s := &itemSource{format: manifest.JSONL, fields: []string{"file"}}
	_, err := s.itemWithStored(manifest.Item{N: 3, Text: "[1]", Fields: []string{"x"}}, []provision{{0, "/a"}})
	if err == nil || !strings.HasPrefix(err.Error(), "put files into item 3: ") || fault.KindOf(err) != fault.Invalid {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
}
