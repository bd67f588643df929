package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/agent/workspace"
	"github.com/drover-run/drover/job"
)

func TestNothingToAttachToSaysWhereToLook(t *testing.T) {
	t.Parallel()
	_, err := workspace.Enter(workspace.Roots(t.TempDir(), "work", "job", 1, 0), nil)
	if err == nil || err.Error() != "attach: nothing runs there now" || fault.Hint(err) != "Try again in a moment, or see drover worker ls." || fault.KindOf(err) != fault.Missing {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
}

func TestWithoutRoomForTheModuleTheAgentSaysWhatToFree(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAgent(node.Config{})
	a.Own = file
	_, err := a.withModule(nil, "")
	if err == nil || !strings.HasPrefix(err.Error(), "prepare program: ") || fault.Hint(err) != "Free some space, or set XDG_STATE_HOME to a folder with room." || fault.KindOf(err) != fault.Full {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
}

func TestAnAgentWithoutAFolderSaysWhatToFree(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(file, "agent")
	w := p.start(p.submit(job.Spec{Verb: job.Shell, Program: "echo ran"}, nil), func(c *node.Config) { c.Machine.Root = below })
	<-w.ended
	if w.err == nil || !strings.Contains(w.err.Error(), "start agent: make "+below+": ") || fault.KindOf(w.err) != fault.Full ||
		fault.Hint(w.err) != "Free some space, or set TMPDIR to a folder with room." {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(w.err), w.err, fault.Hint(w.err))
	}
}

func TestACallOfNoNodeNamesThem(t *testing.T) {
	t.Parallel()
	d := &calls{hosts: []string{"algo-1", "algo-2"}}
	_, err := d.Call(t.Context(), "algo-3", "hostname")
	if err == nil || err.Error() != "call algo-3: it is not another node of this job" || fault.Hint(err) != "Use one of [algo-1 algo-2]." || fault.KindOf(err) != fault.Invalid {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
}
