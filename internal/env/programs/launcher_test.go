package programs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
)

// stub is an mpiexec that says what a real one says, and can do nothing else.
func stub(t *testing.T, folder, name, says string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	script := "#!/bin/sh\n# A stub of mpiexec: it has a version and nothing more.\n[ \"$1\" = --version ] || exit 1\n/bin/cat <<'END'\n" + says + "\nEND\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnMPIIsKnownByWhatItSays(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		says string
		want MPI
	}{
		"mpich":      {"HYDRA build details:\n    Version:                                 4.0.2\n    Release Date:                            Thu Apr  7 12:34:45 CDT 2022", MPI{Family: MPICH, Version: "4.0.2"}},
		"intel":      {"Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626 (id: b44796a)\nCopyright 2003-2026, Intel Corporation.", MPI{Family: IntelMPI, Version: "2021.18.1"}},
		"open mpi 4": {"mpiexec.openmpi (OpenRTE) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/", MPI{Family: OpenMPI, Version: "4.1.4"}},
		"open mpi 5": {"mpiexec (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/", MPI{Family: OpenMPI, Version: "5.0.11"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			row.want.Path = stub(t, folder, "mpiexec", row.says)
			got, err := FindMPI(t.Context(), []string{"PATH=" + folder + ":" + os.Getenv("PATH")}, "")
			if diff := cmp.Diff(row.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestTheEnvironmentsOwnMPIComesFirst(t *testing.T) {
	t.Parallel()
	ours, machine := t.TempDir(), t.TempDir()
	stub(t, machine, "mpiexec", "HYDRA build details:\n    Version: 4.0.2")
	environ := []string{"PATH=" + machine + ":/usr/bin:/bin"}
	interpreter := filepath.Join(ours, "python")
	if m, err := FindMPI(t.Context(), environ, interpreter); err != nil || m.Path != filepath.Join(machine, "mpiexec") {
		t.Errorf("without one of its own: %+v, %v", m, err)
	}
	stub(t, ours, "mpirun", "mpirun (Open MPI) 5.0.11\nopen-mpi.org")
	if m, err := FindMPI(t.Context(), environ, interpreter); err != nil || m.Family != OpenMPI || m.Major() != 5 {
		t.Errorf("with one: %+v, %v", m, err)
	}
}

func TestNoMPIIsSaid(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	environ := []string{"PATH=" + folder}
	_, err := FindMPI(t.Context(), environ, "")
	if fault.KindOf(err) != fault.Missing || !strings.Contains(fault.Hint(err), "mpich") || err.Error() != "find mpiexec: none is on PATH or beside the interpreter" {
		t.Errorf("none: %v (%s)", err, fault.Hint(err))
	}
	path := stub(t, folder, "mpiexec", "slurm 22.05")
	if _, err = FindMPI(t.Context(), environ, ""); err == nil || !strings.Contains(err.Error(), path+` says "slurm 22.05"`) {
		t.Errorf("another one: %v", err)
	}
}

func TestTorchrunNeedsTorch(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	python := filepath.Join(folder, "python")
	for status, has := range map[string]bool{"0": true, "1": false} {
		// A stub of an interpreter: it knows whether it has a module.
		if err := os.WriteFile(python, []byte("#!/bin/sh\n[ \"$3\" = torch ] && exit "+status+"\nexit 7\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		err := FindTorchrun(t.Context(), os.Environ(), python)
		if (err == nil) != has || err != nil && (fault.KindOf(err) != fault.Missing || fault.Hint(err) == "") {
			t.Errorf("with torch %v: %v", has, err)
		}
	}
	if err := FindTorchrun(t.Context(), os.Environ(), ""); err == nil {
		t.Error("no interpreter has torch")
	}
}
