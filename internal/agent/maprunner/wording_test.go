package maprunner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/maprunner/source"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/items/template"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/store"
)

// lineOf makes commands, and a try of a map with the command "work".
func lineOf(t *testing.T, args ...string) (*commands, *try) {
	t.Helper()
	command, err := template.Parse(append([]string{"work"}, args...), template.TemplateOptions{Out: []string{"{n}"}})
	if err != nil {
		t.Fatal(err)
	}
	c := &commands{shared: &shared{prepared: &Prepared{Path: "/bin/work"}, mustGo: make(chan struct{}), clock: store.System}}
	return c, &try{Try: mapagent.Try{Name: "3-1"}, chunk: &chunk{source: &source.Source{Command: command, Format: manifest.Lines}}}
}

func TestAnItemThatIsTooLongSaysHowItIsGiven(t *testing.T) {
	t.Parallel()
	c, one := lineOf(t)
	_, err := c.tryCommand(t.Context(), one, manifest.Item{N: 3, Text: strings.Repeat("x", source.MaxVariable+1)})
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
