package input

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

func TestARefusedInputSaysWhatToTypeInstead(t *testing.T) {
	t.Parallel()
	dir := home(t)
	put(t, dir, "data/a.csv")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ path, subdir, text, hint string }{
		{"pipe", "", `read input d: "pipe" is neither a file nor a folder`, "Write what it gives into a file, and use that."},
		{"/", "", `read input d: "/" is the root of the file system`, "Name the folder that the program reads."},
		{"data/*", "train", `read input d: "data/*" is a glob, and a glob has no subfolder`, "Write the folder before the star."},
	} {
		_, err := Find(job.Input{Name: "d", Path: row.path, Subdir: row.subdir}, dir)
		if err == nil || err.Error() != row.text || fault.Hint(err) != row.hint || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: kind %v, %v\n%s", row.path, fault.KindOf(err), err, fault.Hint(err))
		}
	}
}

func TestAPathThatCannotBeLookedAtIsNotCalledAbsent(t *testing.T) {
	t.Parallel()
	loop := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	_, _, err := eager("").Bring(t.Context(), loop, t.TempDir(), nil)
	if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("find %q: ", loop)) || fault.KindOf(err) != fault.Denied ||
		fault.Hint(err) != "Check the permissions of the folders above it." {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
}

func TestAnObjectThatDoesNotArriveSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for hint, broken := range map[string]error{
		"Run it again.":                     fmt.Errorf("its checksum is another: %w", store.ErrBusy),
		"Free some space and run it again.": &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC},
	} {
		var opened []string
		b := &theirs{Bucket: mem.New(), objects: map[string]string{"k": "content"}, torn: 99, broken: broken}
		_, _, err := b.bringer(&opened).Bring(t.Context(), "s3://b/k", t.TempDir(), (&roomy{}).ask)
		if err == nil || !strings.HasPrefix(err.Error(), "fetch s3://b/k: ") || fault.Hint(err) != hint || !errors.Is(err, errors.Unwrap(broken)) {
			t.Errorf("%v\n%s\nwant %s", err, fault.Hint(err), hint)
		}
	}
}
