package launcher

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/programs"
)

func TestCommandsOfDroversOwnSayWhatIsMeantForUsers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"launch", "fly"}, fault.ExitUsage, "drover: launch: this command is for drover itself\n  Use drover run --launcher.\n"},
		{[]string{"rsh", "-x", "algo-2"}, 255, "drover: rsh: want a host and a command\n  Write it as drover rsh algo-2 hostname.\n"},
		{[]string{"rsh", "algo-2", "hostname"}, 255, "drover: reach the agent: " + CallsVariable + " is not set\n  It works inside a job of several nodes with --launcher mpi.\n"},
	} {
		status, _, errs := run(t, []string{CallsVariable + "="}, append([]string{self(t)}, row.args...)...)
		if status != row.status || errs != row.says {
			t.Errorf("%q: status %d, %q, want %d, %q", row.args, status, errs, row.status, row.says)
		}
	}
}

func TestALaunchWithoutAProgramIsAMistakeOfOurs(t *testing.T) {
	t.Parallel()
	for mode, start := range map[string]func() (int, error){
		"ranks": func() (int, error) { return ranks(t.Context(), []string{"--node", "0", "--procs", "1", "--"}) },
		"mpi":   func() (int, error) { return mpi(t.Context(), []string{"--"}) },
		"rank":  func() (int, error) { return rank(t.Context(), []string{"--"}) },
	} {
		want := map[string]string{"ranks": "launch ranks: no program", "mpi": "launch mpi: no program", "rank": "launch rank: no program"}[mode]
		if _, err := start(); err == nil || err.Error() != want || fault.KindOf(err) != fault.Bug {
			t.Errorf("kind %v, %v", fault.KindOf(err), err)
		}
	}
}

func TestOpenMPIOnNodesOfOneMachineSaysWhatCanBeDone(t *testing.T) {
	t.Parallel()
	_, err := MPI("drover", MPIOptions{Tool: programs.MPI{Family: programs.OpenMPI}, Hosts: []string{"algo-1", "algo-2"}, Addresses: []string{"127.0.0.1", "127.0.0.1"}, Argv: []string{"x"}})
	if err == nil || err.Error() != "start mpiexec: Open MPI takes nodes of one machine for one node, where they have no names of their own" ||
		fault.Hint(err) != "Leave --no-mounts out, or put mpich into requirements.txt: it can." || fault.KindOf(err) != fault.Invalid {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
}

func TestWithoutRoomForItsFilesALaunchSaysWhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(file, "desk")
	t.Setenv(CallsVariable, below)
	_, err := settle()
	if err == nil || !strings.HasPrefix(err.Error(), "start mpiexec: ") || fault.Hint(err) != "Free some space, or set TMPDIR to a folder with room." || fault.KindOf(err) != fault.Full {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
	if _, _, err = Listen(below, nil); err == nil || !strings.HasPrefix(err.Error(), "open folder of calls "+below+": ") || fault.KindOf(err) != fault.Full {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
}

func TestALaunchWithAnotherOptionIsAMistakeOfOurs(t *testing.T) {
	t.Parallel()
	if _, err := ranks(t.Context(), []string{"node", "0"}); err == nil || err.Error() != `launch: "node" is not an option` || fault.KindOf(err) != fault.Bug {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
	if _, err := ranks(t.Context(), []string{"--node", "x", "--procs", "1"}); err == nil || err.Error() != `launch: --node "x" is not a number` || fault.KindOf(err) != fault.Bug {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
}
