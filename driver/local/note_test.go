package local

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
)

func TestEveryFateHasItsState(t *testing.T) {
	was := &up{PID: 12}
	for name, c := range map[string]struct {
		held  bool
		note  note
		asked bool
		want  driver.Member
	}{
		"coming up":                 {true, note{}, false, driver.Member{State: driver.Waiting, Code: -1}},
		"asked while coming up":     {true, note{}, true, driver.Member{State: driver.Waiting, Code: -1}},
		"running":                   {true, note{Up: was}, false, driver.Member{State: driver.Running, Code: -1, PID: 12}},
		"about to go":               {true, note{Up: was, End: &end{}}, false, driver.Member{State: driver.Running, Code: -1, PID: 12}},
		"ended well":                {false, note{Up: was, End: &end{Reason: "done"}}, false, driver.Member{State: driver.Ended, Reason: "done"}},
		"ended badly, when asked":   {false, note{Up: was, End: &end{3, "x"}, Fate: "exit status 3"}, true, driver.Member{State: driver.Ended, Code: 3, Reason: "x"}},
		"killed by stop":            {false, note{Up: was, Fate: "signal: killed"}, true, driver.Member{State: driver.Ended, Code: -1, Reason: "stopped: signal: killed"}},
		"killed":                    {false, note{Up: was}, false, driver.Member{State: driver.Lost, Code: -1, Reason: "killed, or gone without a word"}},
		"its starter died":          {false, note{}, false, driver.Member{State: driver.Lost, Code: -1, Reason: "never started"}},
		"it died before it adopted": {false, note{Fate: "exit status 9"}, false, driver.Member{State: driver.Lost, Code: -1, Reason: "never started: exit status 9"}},
	} {
		if diff := cmp.Diff(c.want, judge(c.held, c.note, c.asked)); diff != "" {
			t.Errorf("%s: difference:\n%s", name, diff)
		}
	}
}

func TestATornNoteSaysNothing(t *testing.T) {
	var text strings.Builder
	for _, n := range []note{{Up: &up{PID: 7}}, {End: &end{4, "first"}}, {End: &end{5, "second"}}, {Fate: "exit status 4"}} {
		if err := say(&text, n); err != nil {
			t.Fatal(err)
		}
	}
	want := note{Up: &up{PID: 7}, End: &end{4, "first"}, Fate: "exit status 4"}
	if diff := cmp.Diff(want, heard([]byte(text.String()))); diff != "" {
		t.Errorf("difference:\n%s", diff)
	}
	torn := `{"up":{"pid":7}}` + "\n" + `{"end":{"code":4`
	if diff := cmp.Diff(note{Up: &up{PID: 7}}, heard([]byte(torn))); diff != "" {
		t.Errorf("torn: difference:\n%s", diff)
	}
}

func TestTheTailIsWholeLinesOfAScreen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got := tail(path); got != "" {
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
		if diff := cmp.Diff(c.want, tail(path)); diff != "" {
			t.Errorf("%s: difference:\n%s", name, diff)
		}
	}
}

func TestTheShorterGraceStands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.stop")
	for _, step := range []struct{ give, want time.Duration }{{time.Hour, time.Hour}, {time.Second, time.Second}, {time.Minute, time.Second}, {0, 0}, {time.Hour, 0}} {
		if err := leaveWord(path, step.give); err != nil {
			t.Fatal(err)
		}
		if got, ok := readWord(path); !ok || got != step.want {
			t.Errorf("after %s the grace is %s, %v; want %s", step.give, got, ok, step.want)
		}
	}
}

func TestNeedsThatDoNotFitSayWhatIsThere(t *testing.T) {
	have := hardware{Cores: 2, Memory: 24 << 30}
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
		if got := refusal(have, c.gpus, c.n); got != want {
			t.Errorf("%+v with %d GPUs: %q, want %q", c.n, c.gpus, got, want)
		}
	}
	if got := refusal(hardware{Cores: 2}, 0, driver.Needs{Memory: 1 << 60}); got != "" {
		t.Errorf("where memory is not known: %q", got)
	}
}

func FuzzWhatAnAgentSaidStands(f *testing.F) {
	f.Add([]byte(`{"up":{"pid":7}}` + "\n" + `{"end":{"code":4,"reason":"x"}}` + "\n"))
	f.Add([]byte("{\"fate\":1}\n\n\x00{}"))
	f.Add([]byte(`{"up":{"pid":7}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		n := heard(text)
		late := note{Up: &up{PID: 1}, End: &end{1, "late"}}
		more := bytes.NewBuffer(append(bytes.Clone(text), '\n'))
		if err := say(more, late); err != nil {
			t.Fatal(err)
		}
		want := n
		if n.Up == nil {
			want.Up = late.Up
		}
		if n.End == nil {
			want.End = late.End
		}
		if diff := cmp.Diff(want, heard(more.Bytes())); diff != "" {
			t.Errorf("%q and a late note: difference:\n%s", text, diff)
		}
	})
}

func FuzzAFolderNameIsReadOnlyAsItWasWritten(f *testing.F) {
	for _, name := range []string{"abcd2345-1", "abcd-01", "-1", "a-", "a-b-1", "../a-1", "abcd-99999999999999999999"} {
		f.Add(name)
	}
	d := New("/somewhere")
	f.Fuzz(func(t *testing.T, name string) {
		h, ok := handleOf(name)
		if !ok {
			return
		}
		if path, ok := d.folder(h); !ok || path != "/somewhere/"+name {
			t.Errorf("%q is %s, whose folder is %q", name, h, path)
		}
	})
}
