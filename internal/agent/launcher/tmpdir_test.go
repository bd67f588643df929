package launcher

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAnMPIsDaemonsHaveAFolderOfTheirOwn starts an mpiexec that says where its
// files would lie, and a process of the program below it.
func TestAnMPIsDaemonsHaveAFolderOfTheirOwn(t *testing.T) {
	t.Parallel()
	_, desk := openDesk(t)
	for was, want := range map[string]string{"": "none", "/users": "/users"} {
		script := `echo "$TMPDIR" && [ -d "$TMPDIR" ] && "$@" && "$DROVER" rsh x true; :`
		argv := append([]string{self(t), "launch", "mpi", "--family", "Open MPI", "--hosts", "a,b", "--", "sh", "-c", script, "sh"}, one(self(t), []string{"sh", "-c", `echo ${TMPDIR-none}; env | grep -c DROVER_LAUNCH`})...)
		_, out, errs := run(t, []string{desk, "TMPDIR=" + was, "DROVER=false"}, argv...)
		lines := strings.Split(out, "\n")
		if len(lines) != 4 || filepath.Dir(lines[0]) != filepath.Dir(strings.TrimPrefix(desk, CallsVariable+"=")) || lines[1] != want || lines[2] != "0" {
			t.Errorf("TMPDIR=%q: %q %s", was, lines, errs)
			continue
		}
		if _, err := os.Stat(lines[0]); !os.IsNotExist(err) {
			t.Errorf("it is left: %v", err)
		}
	}
}

func TestARemoteShellIsAFileThatAnMPICanName(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{filepath.Join(t.TempDir(), "plain"), filepath.Join(t.TempDir(), "with blank"), filepath.Join(t.TempDir(), "a=b:c")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		file, remove, err := writeRsh(dir)
		if err != nil {
			t.Fatal(err)
		}
		if !plainPath.MatchString(file) {
			t.Errorf("in %q it is %q", dir, file)
		}
		if out, err := exec.Command(file, "-x", "algo-2").CombinedOutput(); statusOf(err) != 255 || !strings.Contains(string(out), "want a host and a command") {
			t.Errorf("it says %v, %s", err, out)
		}
		remove()
		if _, err := os.Stat(file); strings.HasPrefix(file, dir) == os.IsNotExist(err) {
			t.Errorf("%s afterwards: %v", file, err)
		}
	}
}

func TestTheUsersOwnVariablesWin(t *testing.T) {
	t.Setenv("UCX_TLS", "tcp")
	got := usersOwn([]string{"mpiexec", "-genvnone", "-genv", "UCX_TLS", "^sm", "-genv", "DROVER_NOT_SET", "1", "drover", "launch", "rank", "--", "=-genv", "-genv", "UCX_TLS", "x"})
	want := []string{"mpiexec", "-genvnone", "-genv", "DROVER_NOT_SET", "1", "drover", "launch", "rank", "--", "=-genv", "-genv", "UCX_TLS", "x"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
