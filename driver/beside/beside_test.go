package beside

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
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
