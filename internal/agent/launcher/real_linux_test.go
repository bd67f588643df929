package launcher

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/env/programs"
)

// realMPIs are Debian's, and those that DROVER_TEST_MPI names: paths of mpiexec,
// with colons between.
func realMPIs(t *testing.T) (tools []programs.MPI) {
	t.Helper()
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it, as root: it needs mpiexec.mpich and mpiexec.openmpi")
	}
	for _, name := range append([]string{"mpiexec.mpich", "mpiexec.openmpi"}, filepath.SplitList(os.Getenv("DROVER_TEST_MPI"))...) {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		bin := t.TempDir() // FindMPI knows mpiexec by its plain name
		if err := os.WriteFile(filepath.Join(bin, "mpiexec"), []byte("#!/bin/sh\nexec "+path+" \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		tool, err := programs.FindMPI(t.Context(), append(os.Environ(), "PATH="+bin), "")
		if err != nil {
			t.Fatal(err)
		}
		tool.Path = path
		tools = append(tools, tool)
	}
	return tools
}

// machine is two nodes in namespaces: with a network stack each, or with one.
type machine struct {
	t     *testing.T
	apart bool
	nets  []string
	dirs  []string // of the nodes' code, in the run that goes on
	MPIOptions
}

func newMachine(t *testing.T, tool programs.MPI, apart bool) *machine {
	t.Helper()
	m := &machine{t: t, apart: apart}
	m.MPIOptions = MPIOptions{Tool: tool, Hosts: []string{"algo-1", "algo-2"}, Addresses: []string{"127.0.0.1", "127.0.0.1"}, Procs: 2, Interface: "lo", Named: true}
	if !apart {
		return m
	}
	m.Addresses, m.Interface = []string{"10.78.0.1", "10.78.0.2"}, "eth0"
	for i := range m.Hosts {
		net := fmt.Sprintf("drover-test-%d-%d", os.Getpid(), i)
		m.nets = append(m.nets, net)
		m.do("ip", "netns", "add", net)
		t.Cleanup(func() { m.do("ip", "netns", "del", net) })
		m.do("ip", "-n", net, "link", "set", "lo", "up")
	}
	m.do("ip", "-n", m.nets[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", m.nets[1])
	for i, net := range m.nets {
		m.do("ip", "-n", net, "addr", "add", m.Addresses[i]+"/24", "dev", "eth0")
		m.do("ip", "-n", net, "link", "set", "eth0", "up")
	}
	return m
}

func (m *machine) do(argv ...string) {
	m.t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		m.t.Fatalf("%s: %v: %s", argv, err, out)
	}
}

// on is a command line in the namespaces of a node, where a shell is the first
// process. What kills it kills all.
func (m *machine) on(node int, argv []string) []string {
	hide := ":"
	if node > 0 { // another machine has no such folder
		hide = "mount -t tmpfs none '" + filepath.Dir(m.dirs[0]) + "'"
	}
	line := []string{"timeout", "-s", "KILL", "240", "unshare", "-m", "-u", "-p", "-f", "--kill-child", "--mount-proc", "sh", "-c", hide + `; hostname "$0"; cd "$DROVER_CODE_DIR"; "$@"; exit $?`, m.Hosts[node]}
	if m.apart {
		line = append([]string{"ip", "netns", "exec", m.nets[node]}, line...)
	}
	return append(line, argv...)
}

// run runs a program on all nodes, a folder each. It gives the lines that it
// printed, sorted.
func (m *machine) run(status int, argv ...string) []string {
	m.t.Helper()
	b := newBoard()
	m.dirs = nil
	for range m.Hosts {
		dir := filepath.Join(m.t.TempDir(), "code")
		if err := os.Mkdir(dir, 0o755); err != nil {
			m.t.Fatal(err)
		}
		m.dirs = append(m.dirs, dir)
	}
	m.Argv = argv
	line, err := MPI(self(m.t), m.MPIOptions)
	if err != nil {
		m.t.Fatal(err)
	}
	var all []*started
	for node, host := range m.Hosts {
		desk, _ := b.open(m.t, host)
		what := Serve(self(m.t))
		if node == 0 {
			what = line
		}
		s := start(m.t, m.on(node, what), CallsVariable+"="+desk, fmt.Sprint("NODE=", node), "TMPDIR=/tmp", contract.CodeVariable+"="+m.dirs[node])
		if node > 0 {
			s.Stdout, s.Stderr = os.Stdout, os.Stderr
		}
		all = append(all, s.begin())
	}
	began := time.Now()
	err = all[0].Wait()
	if got := statusOf(err); got != status && (status >= 0 || got == 0) || time.Since(began) > 200*time.Second {
		m.t.Errorf("%q ended with %d after %.0f s, want %d\n%.1500s%.1500s", argv[2], got, time.Since(began).Seconds(), status, all[0].out.String(), all[0].err.String())
	}
	for _, s := range all[1:] {
		_ = s.Process.Kill()
		_ = s.Wait() // it was killed
	}
	lines := strings.Split(strings.TrimSpace(all[0].out.String()), "\n")
	slices.Sort(lines)
	return lines
}

const realRank = `r=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}; `

func TestRealMPIEndsAsItsRanksDo(t *testing.T) {
	for _, tool := range realMPIs(t) {
		for _, apart := range []bool{false, true} {
			t.Run(fmt.Sprint(tool.Family, " ", tool.Version, " apart=", apart), func(t *testing.T) {
				m := newMachine(t, tool, apart)
				lines := m.run(0, "sh", "-c", realRank+`echo "$r node $NODE $(hostname) $PWD|$*."`, "sh", ":", "a  b", `\:`, "")
				folders := map[string]bool{}
				for i, line := range lines {
					folder, args, _ := strings.Cut(line, "|")
					head, folder, _ := strings.Cut(folder, "/")
					if want := fmt.Sprintf("%d node %d algo-%d ", i, i/2, i/2+1); head != want || args != `: a  b \: .` {
						t.Errorf("rank %d says %q, want %q", i, line, want)
					}
					folders[folder] = true
				}
				if len(lines) != 4 || len(folders) != 2 {
					t.Errorf("four ranks in two folders print %q", lines)
				}
				// All others wait for ever.
				want := 3
				if tool.Family == programs.IntelMPI {
					want = -1 // its mpiexec dies of SIGPIPE now and then
				}
				m.run(want, "sh", "-c", realRank+`[ $r = 3 ] || exec sleep 1000; exit 3`)
				m.run(want, "sh", "-c", realRank+`[ $r = 0 ] || exec sleep 1000; exit 3`)
				m.run(-1, "sh", "-c", realRank+`[ $r = 3 ] || exec sleep 1000; kill -KILL $$`)
				if tool.Family == programs.MPICH || tool.Family == programs.OpenMPI && tool.Major() == 4 {
					// The proxy is above the rank's own launcher. Intel's mpiexec waits on
					// and Open MPI 5's says 0: there the agent hears of it.
					m.run(-1, "sh", "-c", realRank+`[ $r = 3 ] || exec sleep 1000; kill -KILL $(ps -o ppid= -p $PPID); exec sleep 1000`)
				}
			})
		}
	}
}

func TestRealMPIThreeNodesOfOneMachine(t *testing.T) {
	for _, tool := range realMPIs(t) {
		t.Run(fmt.Sprint(tool.Family, " ", tool.Version), func(t *testing.T) {
			m := newMachine(t, tool, false)
			m.Hosts = append(m.Hosts, "algo-3")
			m.Addresses = append(m.Addresses, "127.0.0.1")
			for range 3 {
				if lines := m.run(0, "sh", "-c", realRank+`echo "$r node $NODE"`); len(lines) != 6 || lines[5] != "5 node 2" {
					t.Errorf("got %q", lines)
				}
			}
		})
	}
}
