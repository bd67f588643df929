package folder

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

func TestARequestThatCannotBeBegunSaysWhy(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "notes.txt")
	damaged := filepath.Join(dir, "request")
	for _, path := range []string{plain, damaged} {
		if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(dir, job string, agents int) error {
		_, _, err := Begin(t.Context(), dir, "local", driver.Request{Job: job, Placement: 1, Agents: agents})
		return err
	}
	for _, c := range []struct {
		err        error
		kind       fault.Kind
		text, hint string
	}{
		{begin(dir, "../x", 1), fault.Invalid, `start agents: job "../x", placement 1 is not a valid name for them`, ""},
		{begin(dir, "abcd2345", 0), fault.Invalid, "0 is not a number of agents", ""},
		{begin("state", "abcd2345", 1), fault.Bug, `start agents: folder "state" is not absolute`, ""},
		{Runnable("drover"), fault.Invalid, `start agents: program "drover" is not an absolute path`, ""},
		{Runnable(plain), fault.Invalid, "start agents: " + plain + " is not a program", "Run chmod +x " + plain + "."},
		{Runnable(dir), fault.Invalid, "start agents: " + dir + " is not a program", "Run chmod +x " + dir + "."},
		{ReadJSON(damaged, new(int)), fault.Invalid, "read record of agents: " + damaged + " is damaged", "Remove its folder once nothing of it runs."},
	} {
		if fault.KindOf(c.err) != c.kind || c.err == nil || !strings.Contains(c.err.Error(), c.text) || fault.Hint(c.err) != c.hint {
			t.Errorf("got %v, %s, %q; want %s, %s, %q", c.err, fault.KindOf(c.err), fault.Hint(c.err), c.text, c.kind, c.hint)
		}
	}
}

func TestWhatTheFileSystemRefusesHasItsKind(t *testing.T) {
	const free = "Free space there, or name a folder on a local disk with XDG_STATE_HOME."
	for err, want := range map[error]struct {
		kind fault.Kind
		hint string
	}{
		fs.ErrPermission: {fault.Denied, "Get write permission there, or name another folder with XDG_STATE_HOME."},
		unix.EROFS:       {fault.Denied, "Get write permission there, or name another folder with XDG_STATE_HOME."},
		unix.ENOSPC:      {fault.Full, free},
		unix.EDQUOT:      {fault.Full, free},
		ErrNoLocks:       {fault.Invalid, free},
		unix.EIO:         {fault.Lost, free},
	} {
		got := Refused("/state", "start agents", fmt.Errorf("write /state/x: %w", err))
		if fault.KindOf(got) != want.kind || fault.Hint(got) != want.hint || !strings.HasPrefix(got.Error(), "start agents: ") {
			t.Errorf("%v is %v, %s, %q; want %+v", err, got, fault.KindOf(got), fault.Hint(got), want)
		}
	}
}
