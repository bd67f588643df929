package launcher

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/programs"
)

// MPIOptions are what mpiexec is to be told.
type MPIOptions struct {
	Tool      programs.MPI
	Hosts     []string // names of the nodes by rank; this is the first. They resolve here
	Addresses []string // of the nodes, by rank
	Procs     int      // processes on each
	Interface string   // that reaches the others; "": MPI's own choice
	Named     bool     // each node's programs see its name as their machine's
	Argv      []string // the program
}

// MPI is the command line for node 0. What cannot work is refused: fault.Invalid.
// self is drover.
func MPI(self string, o MPIOptions) ([]string, error) {
	head := []string{self, "launch", "mpi", "--family", string(o.Tool.Family), "--hosts", strings.Join(o.Hosts, ","), "--"}
	program := one(self, o.Argv)
	if len(o.Hosts) == 1 {
		return append(append(head, o.localMpiexec()...), program...), nil
	}
	if o.Tool.Family == programs.OpenMPI && o.sameAddress() && !o.Named {
		return nil, fault.New(fault.Invalid, "Leave `--no-mounts` out, or put mpich into requirements.txt: it can.",
			"start mpiexec: Open MPI takes nodes of one machine for one node, where they have no names of their own")
	}
	return append(append(head, o.remoteMpiexec()...), program...), nil
}

func (o MPIOptions) sameAddress() bool {
	seen := map[string]bool{}
	for _, a := range o.Addresses {
		if seen[a] {
			return true
		}
		seen[a] = true
	}
	return false
}

func (o MPIOptions) processesPerHost() int { return max(1, o.Procs) }

func (o MPIOptions) totalProcesses() string { return strconv.Itoa(len(o.Hosts) * o.processesPerHost()) }

// localMpiexec is mpiexec for one node. Open MPI wants a remote shell for that too, and
// gives up on a machine without ssh.
func (o MPIOptions) localMpiexec() []string {
	line := []string{o.Tool.Path, "-n", o.totalProcesses()}
	switch {
	case o.Tool.Family != programs.OpenMPI:
		return line
	case o.Tool.Major() >= 5:
		return append(append(line, o.openMPIFlags()...), "--prtemca", "plm_ssh_agent", rshFile)
	}
	return append(append(line, o.openMPIFlags()...), "--mca", "plm_rsh_agent", rshFile)
}

// openMPIFlags are Open MPI's own refusals lifted: root, and more processes than cores; and it
// is not to ask a scheduler (it may find its variables) for hosts and daemons.
func (o MPIOptions) openMPIFlags() []string {
	line := []string{"--allow-run-as-root", "--leave-session-attached", "--bind-to", "none"}
	if o.Tool.Major() >= 5 {
		return append(line, "--map-by", ":OVERSUBSCRIBE", "--prtemca", "plm", "ssh", "--prtemca", "ras", "^slurm")
	}
	return append(line, "--oversubscribe", "--mca", "plm", "rsh", "--mca", "ras", "^slurm")
}

// remoteMpiexec is mpiexec over several nodes. All processes start in a folder that each
// node has; rank goes on to its own.
func (o MPIOptions) remoteMpiexec() []string {
	hosts := make([]string, len(o.Hosts))
	for i, h := range o.Hosts {
		hosts[i] = fmt.Sprintf("%s:%d", h, o.processesPerHost())
	}
	list := strings.Join(hosts, ",") // Intel's takes the same
	switch o.Tool.Family {
	case programs.MPICH:
		return o.hydraMpiexec(list, "-launcher", "manual")
	case programs.IntelMPI: // knows no manual launcher
		return o.hydraMpiexec(list, "-bootstrap", "ssh", "-bootstrap-exec", rshFile)
	}
	line := append([]string{o.Tool.Path, "--host", list, "-n", o.totalProcesses(), "--wdir", "/"}, o.openMPIFlags()...)
	set := func(framework, name, value string) { line = append(line, framework, name, value) }
	if o.Tool.Major() >= 5 {
		set("--prtemca", "plm_ssh_agent", rshFile)
		set("--prtemca", "plm_ssh_no_tree_spawn", "1")
		set("--prtemca", "prte_do_not_resolve", "1") // or what has our own address is us
		if o.Interface != "" && !o.sameAddress() {   // it talks to itself by no loopback
			set("--prtemca", "prte_if_include", o.Interface)
			set("--mca", "btl_tcp_if_include", o.Interface)
		}
		return line
	}
	set("--mca", "plm_rsh_agent", rshFile)
	set("--mca", "plm_rsh_no_tree_spawn", "1")
	set("--mca", "orte_abort_on_non_zero_status", "1")
	set("--mca", "if_base_do_not_resolve", "1") // or what has our own address is us
	if o.Interface != "" {
		set("--mca", "oob_tcp_if_include", o.Interface)
		set("--mca", "btl_tcp_if_include", o.Interface)
	}
	return line
}

// hydraMpiexec is the mpiexec of MPICH and Intel MPI over several nodes.
func (o MPIOptions) hydraMpiexec(list string, how ...string) []string {
	line := append([]string{o.Tool.Path}, how...)
	// Without -genvnone every process would get node 0's environment.
	line = append(line, "-genvnone", "-hosts", list, "-n", o.totalProcesses(), "-wdir", "/")
	set := func(pairs ...string) {
		for i := 0; i < len(pairs); i += 2 {
			line = append(line, "-genv", pairs[i], pairs[i+1])
		}
	}
	switch {
	case o.Tool.Family == programs.IntelMPI:
		if o.Interface != "" { // or it tells a name, which other nodes may not know
			line = append(line, "-iface", o.Interface)
		}
		if o.sameAddress() {
			set("I_MPI_PIN", "0") // or the nodes would all sit on the same cores
		}
	case o.sameAddress():
		line = append(line, "-localhost", o.Addresses[0])
		// UCX finds no way between nodes on a machine that has only loopback.
		set("MPIR_CVAR_CH4_NETMOD", "ofi", "FI_PROVIDER", "tcp", "FI_TCP_IFACE", o.Interface)
	default:
		line = append(line, "-localhost", o.Addresses[0])
	}
	if n := len(o.Hosts); o.Tool.Family == programs.IntelMPI && n > 16 {
		line = append(line, "-branch-count", strconv.Itoa(n)) // or nodes start others, and ask their own desks
	}
	// UCX takes nodes of one machine for one node, and shared memory between their
	// PID namespaces breaks in half of the runs. Inside a node MPICH has its own.
	set("UCX_TLS", "^sm")
	return line
}

// rshFile stands for the remote shell in a command line: a file of the node.
const rshFile = "@rsh"

// plainPath is what Open MPI takes for one program: blanks, colons and equals
// signs would end it.
var plainPath = regexp.MustCompile(`^[\w/.+-]+$`)

// writeRsh makes drover rsh a program without arguments, in that folder if an MPI
// can name it. remove it in the end.
func writeRsh(dir string) (file string, remove func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	remove = func() {} // the giver of the folder removes it
	if !plainPath.MatchString(dir) {
		if dir, err = os.MkdirTemp("/tmp", "drover-mpi"); err != nil {
			return "", nil, err
		}
		remove = func() { _ = os.RemoveAll(dir) }
	}
	file = filepath.Join(dir, "rsh")
	quoted := "'" + strings.ReplaceAll(self, "'", `'\''`) + "'"
	return file, remove, os.WriteFile(file, []byte("#!/bin/sh\nexec "+quoted+" rsh "+rshAs+" \"$0\" \"$@\"\n"), 0o700)
}

// usersOwn takes out what hydra is told to set (-genv) where the environment says
// otherwise: every node has the user's, and the user's wins.
func usersOwn(argv []string) []string {
	var line []string
	for i := 0; i < len(argv); i++ {
		if argv[i] == "--" || argv[i] == "launch" { // the program begins
			return append(line, argv[i:]...)
		}
		if argv[i] == "-genv" && i+2 < len(argv) {
			if _, set := os.LookupEnv(argv[i+1]); set {
				i += 2
				continue
			}
		}
		line = append(line, argv[i])
	}
	return line
}

// mpi runs mpiexec and gives its status. Open MPI asks for what it wants elsewhere
// by "drover rsh"; hydra prints it, and it is asked for here.
func mpi(_ context.Context, args []string) (int, error) {
	pairs, argv, err := options(args)
	if err != nil {
		return 0, err
	}
	if len(argv) == 0 {
		return 0, fault.New(fault.Bug, "", "launch mpi: no program")
	}
	// A stop of the tree signals mpiexec too, which ends what it has started.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	family := programs.Family(pairs["family"])
	temp, err := settle()
	defer os.RemoveAll(temp)
	if err != nil {
		return 0, err
	}
	argv = usersOwn(argv)
	if i := slices.Index(argv, rshFile); i >= 0 {
		file, remove, err := writeRsh(temp)
		if err != nil {
			return 0, fmt.Errorf("write remote shell: %w", err)
		}
		defer remove()
		argv[i] = file
	}
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	hosts := strings.Split(pairs["hosts"], ",")
	if family != programs.MPICH || len(hosts) == 1 { // one needs no carrier
		return statusOf(c.Run()), nil
	}
	h := &hydra{hosts: hosts, mpiexec: c, gone: make(chan struct{})}
	f := &filter{out: os.Stdout, start: h.startProxy}
	c.Stdout = f
	status := statusOf(c.Run())
	close(h.gone)
	h.started.Wait()
	if err := f.flushHeldBack(); err != nil {
		return 0, fmt.Errorf("pass on output: %w", err)
	}
	if status == 0 && h.failed != nil { // then it is not to be believed
		return 0, h.failed
	}
	return status, nil
}

// hydra starts what hydra asks for: on this node as a child, on others by a call.
type hydra struct {
	hosts   []string
	mpiexec *exec.Cmd
	started sync.WaitGroup
	gone    chan struct{} // closed when mpiexec has ended
	asked   int           // commands so far; start is called by one goroutine

	once   sync.Once
	failed error // why a node could not be reached
}

func (h *hydra) startProxy(line string) {
	n, ok := proxy(line)
	if !ok {
		n = h.asked // in the order of the hosts
	}
	h.asked++
	h.started.Go(func() {
		if n >= len(h.hosts) {
			h.failMpiexec(fmt.Errorf("start on node %d: there is no such node", n))
			return
		}
		status, err := 0, error(nil)
		if n == 0 {
			status = shell(context.Background(), line)
		} else {
			status, err = call(h.hosts[n], line)
		}
		if err == nil && status != 0 {
			err = fmt.Errorf("hydra's proxy on %s ended with %d", h.hosts[n], status)
		}
		if err != nil {
			h.failMpiexec(err)
		}
	})
}

// How long mpiexec has to end by itself when something that it wanted is gone,
// and then after SIGTERM: it may wait for that for ever.
const (
	fallTime = 5 * time.Second
	termTime = 10 * time.Second
)

// failMpiexec sees that mpiexec ends. Its own status stands, if it has one.
func (h *hydra) failMpiexec(err error) {
	h.once.Do(func() {
		h.failed = err
		for _, step := range []struct {
			wait time.Duration
			sig  syscall.Signal
		}{{fallTime, syscall.SIGTERM}, {termTime, syscall.SIGKILL}} {
			select {
			case <-h.gone:
				return
			case <-time.After(step.wait):
				_ = h.mpiexec.Process.Signal(step.sig) // it may have ended, and then it is known
			}
		}
	})
}
