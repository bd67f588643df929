package remote

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// over opens one store in memory.
func over(s *store.Store) func(context.Context, string) (*store.Store, error) {
	return func(context.Context, string) (*store.Store, error) { return s, nil }
}

func TestAProcessWithoutAPlacementStartsNothing(t *testing.T) {
	s := store.New(mem.New(), store.Options{})
	args := driver.AgentArgs{Job: "p/t/" + handle.Job, Placement: 1}
	m := Machine{Claimant: Claimant{ID: "s-1", Attempt: 1}}
	if code, err := supervise(t.Context(), handle.Target, driver.AgentProcess{Args: args, Open: over(s)}, m); code != 0 || err == nil || err.Error() != ErrLeave.Error() {
		t.Errorf("a placement that was removed gives %d, %v", code, err)
	}
	if _, err := supervise(t.Context(), handle.Target, driver.AgentProcess{Args: driver.AgentArgs{Job: "p"}, Open: over(s)}, m); err == nil || err.Error() != `supervise agent: "p" is not the path of a job` {
		t.Errorf("no path gives %v", err)
	}
	r := NewRecords(s, handle.Target)
	created(t, r, 1)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "absent"))
	if _, err := supervise(t.Context(), handle.Target, driver.AgentProcess{Args: args, Open: over(s)}, m); err == nil || !strings.HasPrefix(err.Error(), "supervise agent: make a folder: ") {
		t.Errorf("a disk without room gives %v", err)
	}
	if code := superviseProcess(handle.Target, driver.AgentProcess{Args: args, Open: over(s)}, m); code != fault.ExitDrover {
		t.Errorf("its exit status is %d", code)
	}
}

// What a SIGTERM of the engine means is the target's to say.
func TestASignalOfTheEngineIsANotice(t *testing.T) {
	for want, m := range map[string]Machine{
		"its engine has asked it to stop": {},
		"spot capacity is taken back":     {Signal: func() driver.Notice { return driver.Notice{Why: "spot capacity is taken back"} }},
		"maintenance": {Notices: func(context.Context) <-chan driver.Notice {
			c := make(chan driver.Notice, 1)
			c <- driver.Notice{Why: "maintenance"}
			return c
		}},
	} {
		notices := m.notices(t.Context())
		if m.Notices == nil {
			unix.Kill(os.Getpid(), unix.SIGTERM)
		}
		if n := <-notices; n.Why != want || n.Asked {
			t.Errorf("it is told %+v, want that %s", n, want)
		}
	}
}

func TestAnAgentReadsWhyItMustStop(t *testing.T) {
	dir := t.TempDir()
	a := Machine{Given: driver.Allocation{Name: "a-machine"}}.allocation(dir)
	if n := a.Notice(); a.Name != "a-machine" || n.Asked || n.Why != "its engine has sent SIGTERM" {
		t.Errorf("%s is told %+v", a.Name, n)
	}
	want := driver.Notice{Asked: true, Why: driver.AskedToStop, Left: 5}
	if err := writeFile(noticeFile(dir), want); err != nil {
		t.Fatal(err)
	}
	if n := a.Notice(); n != want {
		t.Errorf("it is told %+v, want %+v", n, want)
	}
	a.End(3, "no such file")
	if text, err := os.ReadFile(wordFile(dir)); err != nil || string(text) != `{"code":3,"reason":"no such file"}` {
		t.Errorf("it has left %s, %v", text, err)
	}
}

func TestTheEndOfALogIsKept(t *testing.T) {
	var l tail
	for range 1000 {
		if _, err := l.Write([]byte("a line of ten\n")); err != nil {
			t.Fatal(err)
		}
	}
	if text := l.text(); len(text) != mostTail || !strings.HasSuffix(text, "ten\na line of ten\n") {
		t.Errorf("%d bytes are kept: %q", len(text), text[:20])
	}
}

func TestARequestWithoutProgramsCannotBeFetched(t *testing.T) {
	if _, err := (Submission{}).FetchScript(t.Context(), "", "/drover"); err == nil || err.Error() != "fetch program: the request says of none" {
		t.Errorf("got %v", err)
	}
}
