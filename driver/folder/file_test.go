package folder

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

func TestTheTailIsWholeLinesOfAScreen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got := Tail(path); got != "" {
		t.Errorf("the tail of no log is %q", got)
	}
	for name, c := range map[string]struct{ log, want string }{
		"short":         {"one\ntwo", "one\ntwo"},
		"empty":         {"", ""},
		"long":          {strings.Repeat("a", maxTail) + "\nlast\n", "last\n"},
		"one long line": {strings.Repeat("a", maxTail+5), strings.Repeat("a", maxTail)},
		"binary":        {"a\xffb", "a\uFFFDb"},
	} {
		if err := os.WriteFile(path, []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, Tail(path)); diff != "" {
			t.Errorf("%s: difference:\n%s", name, diff)
		}
	}
}

func TestTheShorterGraceStands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.stop")
	for _, step := range []struct{ give, want time.Duration }{{time.Hour, time.Hour}, {time.Second, time.Second}, {time.Minute, time.Second}, {0, 0}, {time.Hour, 0}} {
		if err := LeaveWord(path, step.give); err != nil {
			t.Fatal(err)
		}
		if got, ok := ReadWord(path); !ok || got != step.want {
			t.Errorf("after %s the grace is %s, %v; want %s", step.give, got, ok, step.want)
		}
	}
}

func TestTheShorterOfTwoGracesThatComeAtOnceStands(t *testing.T) {
	dir := t.TempDir()
	for i := range 500 {
		path := filepath.Join(dir, strconv.Itoa(i))
		var both sync.WaitGroup
		for _, grace := range []time.Duration{time.Hour, time.Second} {
			both.Go(func() {
				if err := LeaveWord(path, grace); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if got, ok := ReadWord(path); !ok || got != time.Second {
			t.Fatalf("the grace is %s, %v; want a second", got, ok)
		}
	}
}

func TestAWordThatCannotBeReadIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.stop")
	if err := os.WriteFile(path, []byte("soon"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := LeaveWord(path, time.Hour); err != nil {
		t.Fatal(err)
	}
	if got, ok := ReadWord(path); !ok || got != time.Hour {
		t.Errorf("the grace is %s, %v; want an hour", got, ok)
	}
}

func TestNeedsThatDoNotFitSayWhatIsThere(t *testing.T) {
	have := Hardware{Place: "this machine", Cores: 2, Memory: 24 << 30}
	if got, want := have.String(), "this machine, 2 cores, 24 GB"; got != want {
		t.Errorf("the machine is %q, want %q", got, want)
	}
	for want, c := range map[string]struct {
		gpus int
		n    driver.Needs
	}{
		"": {2, driver.Needs{Agents: 2, CPUs: 1, Memory: 12 << 30, GPUs: 1}},
		"this machine has 2 cores, and 2.5 are needed":                       {0, driver.Needs{Agents: 1, CPUs: 2.5}},
		"this machine has 2 cores, and 4 are needed for 4 agents":            {0, driver.Needs{Agents: 4, CPUs: 1}},
		"this machine has 24 GB of memory, and 64 GB is needed":              {0, driver.Needs{Memory: 64 << 30}},
		"this machine has 24 GB of memory, and 26 GB is needed for 2 agents": {0, driver.Needs{Agents: 2, Memory: 13 << 30}},
		"this machine has no GPU that nvidia-smi can see":                    {0, driver.Needs{GPUs: 1}},
		"this machine has 1 GPU, and 2 are needed":                           {1, driver.Needs{GPUs: 2}},
		"this machine has 1 GPU, and 2 are needed for 2 agents":              {1, driver.Needs{Agents: 2, GPUs: 1}},
	} {
		if got := have.Refusal("this machine", c.gpus, c.n); got != want {
			t.Errorf("%+v with %d GPUs: %q, want %q", c.n, c.gpus, got, want)
		}
	}
	if got := (Hardware{Cores: 2}).Refusal("it", 0, driver.Needs{Memory: 1 << 60}); got != "" {
		t.Errorf("where memory is not known: %q", got)
	}
}

func TestADiskThatIsTooSmallIsRefusedAndOneThatIsFullIsSaid(t *testing.T) {
	dir := t.TempDir()
	size, free, ok := diskSize(dir)
	if !ok || free > size {
		t.Fatalf("the disk has %d bytes, of which %d are free: %v", size, free, ok)
	}
	absent := filepath.Join(dir, "not", "there")
	for _, n := range []driver.Needs{{}, {Disk: free / 2}} {
		if why, note := DiskRefusal("this machine", absent, n), DiskNote(absent, n); why != "" || note != "" {
			t.Errorf("%d bytes of %d: %q, %q", n.Disk, free, why, note)
		}
	}
	whole := driver.Needs{Disk: size} // a part of which is never free
	if why, note := DiskRefusal("this machine", absent, whole), DiskNote(absent, whole); why != "" || free < size && !strings.HasSuffix(note, " of disk free") {
		t.Errorf("all of it: %q, %q", why, note)
	}
	more := driver.Needs{Agents: 1, Disk: 1 << 60}
	if why := DiskRefusal("this machine", absent, more); !strings.HasPrefix(why, "this machine has a disk of ") || !strings.HasSuffix(why, ", and 1073741824 GB is needed") {
		t.Errorf("more than there is: %q", why)
	}
}

func FuzzAFolderNameIsReadOnlyAsItWasWritten(f *testing.F) {
	for _, name := range []string{"abcd2345-1", "abcd-01", "-1", "a-", "a-b-1", "../a-1", "abcd-99999999999999999999"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		h, ok := HandleOf("local", name)
		if !ok {
			return
		}
		if path, ok := Folder("/somewhere", "local", h); !ok || path != "/somewhere/"+name {
			t.Errorf("%q is %s, whose folder is %q", name, h, path)
		}
	})
}

func TestAFileIsWholeOrNotThere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, n := range []int{1, 2} {
		if err := WriteJSON(path, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := CreateJSON(path, 3); !errors.Is(err, fs.ErrExist) {
		t.Errorf("to create what is there gives %v, want fs.ErrExist", err)
	}
	var n int
	if err := ReadJSON(path, &n); err != nil || n != 2 {
		t.Errorf("it holds %d, %v; want 2", n, err)
	}
	if err := ReadJSON(filepath.Join(dir, "none"), &n); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("to read what is not there gives %v, want fs.ErrNotExist", err)
	}
	if err := Replace(path, []byte("sesame")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
	if err := ReadJSON(path, &n); fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error(), "sesame") {
		t.Errorf("to read what is not JSON gives %v, want an error that does not quote it", err)
	}
	if err := Replace(dir, nil); err == nil {
		t.Error("a folder was replaced by a file")
	}
	alone(t, dir, "file") // nothing half-made is left
}

func TestAnAgentsEndIsToldApartFromItsChildrens(t *testing.T) {
	for script, want := range map[string]struct {
		status int
		fate   string
	}{
		"sleep 0 & exit 7": {7, "exit status 7"},
		"kill -KILL $$":    {137, "signal: killed"},
	} {
		log := filepath.Join(t.TempDir(), "log")
		sh, err := exec.LookPath("sh")
		if err != nil {
			t.Fatal(err)
		}
		deaths := make(chan os.Signal, 1)
		signal.Notify(deaths, unix.SIGCHLD)
		pid, err := Spawn(sh, []string{"sh", "-c", "echo said; cat; " + script}, os.Environ(), log)
		if err != nil {
			t.Fatal(err)
		}
		for gone := false; !gone; {
			<-deaths
			var status unix.WaitStatus
			if status, gone = Reap(pid); gone && (ShellStatus(status) != want.status || Outcome(status) != want.fate) {
				t.Errorf("%q ended with %d, %s; want %d, %s", script, ShellStatus(status), Outcome(status), want.status, want.fate)
			}
		}
		signal.Stop(deaths)
		if got := Tail(log); got != "said\n" {
			t.Errorf("%q left %q in its log", script, got)
		}
	}
	if _, err := Spawn("/none", []string{"none"}, nil, filepath.Join(t.TempDir(), "log")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program that is not there gives %v, want fs.ErrNotExist", err)
	}
}

func TestWhatIsSealedIsResolvedHere(t *testing.T) {
	t.Setenv("FOLDER_TOKEN", "sesame")
	pass := func(context.Context) ([]byte, error) { return []byte("key"), nil }
	secrets, key, err := Sealed(t.Context(), driver.Boot{Secrets: map[string]string{"TOKEN": "env:FOLDER_TOKEN"}, Pass: pass})
	if err != nil || string(secrets) != `{"TOKEN":"sesame"}` || string(key) != "key" {
		t.Errorf("sealed are %s and %s, %v", secrets, key, err)
	}
	if secrets, key, err := Sealed(t.Context(), driver.Boot{}); secrets != nil || key != nil || err != nil {
		t.Errorf("of nothing %s and %s, %v are sealed", secrets, key, err)
	}
}

// After a lost answer a file server tells a caller that asks again that the name is taken.
func TestWhoCreatesTwiceIsTheOneWhoDid(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := linkOnce(from, to); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(from+"2", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := linkOnce(from+"2", to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("another one's: %v", err)
	}
}
