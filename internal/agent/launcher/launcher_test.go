package launcher

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/programs"
)

// This program is drover too, as far as these tests start it.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "launch":
			os.Exit(Main(os.Args[2:]))
		case "rsh":
			os.Exit(Rsh(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs one of our command lines.
func run(t *testing.T, environ []string, argv ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	c.Env, c.Stdout, c.Stderr = append(os.Environ(), environ...), &out, &errs
	c.WaitDelay = time.Minute // what it started may hold its output open
	return statusOf(c.Run()), out.String(), errs.String()
}

func TestRanksAreToldApart(t *testing.T) {
	t.Parallel()
	status, out, errs := run(t, nil, Ranks(self(t), 2, 3, []string{"sh", "-c", `echo "$RANK $LOCAL_RANK $1"`, "x", "a  b"})...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	if diff := cmp.Diff([]string{"6 0 a  b", "7 1 a  b", "8 2 a  b"}, lines); status != 0 || diff != "" {
		t.Errorf("%d, %s (-want +got):\n%s", status, errs, diff)
	}
}

func TestTheFirstRankThatFailsEndsTheOthers(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		`[ $LOCAL_RANK = 1 ] && exit 7; exec sleep 1000`:                 7,
		`[ $LOCAL_RANK = 2 ] && kill -9 $$; exec sleep 1000`:             137,
		`[ $LOCAL_RANK = 0 ] && exit 5; exec sleep 1000 >/dev/null 2>&1`: 5,
	} {
		if status, _, errs := run(t, nil, Ranks(self(t), 0, 3, []string{"sh", "-c", line})...); status != want {
			t.Errorf("%s gave %d, want %d: %s", line, status, want, errs)
		}
	}
	status, _, errs := run(t, nil, Ranks(self(t), 0, 2, []string{"/no/such/program"})...)
	if status == 0 || !strings.Contains(errs, "/no/such/program") {
		t.Errorf("a program that is not there: %d, %q", status, errs)
	}
}

func TestWhoDoesNotEndIsKilled(t *testing.T) {
	t.Parallel()
	c := exec.Command("sh", "-c", "trap '' TERM; echo deaf; read line") // no child of its own would outlive it
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan int, 2)
	ended <- 3 // another one, that has failed
	var status int
	done := make(chan struct{})
	go func() { // the test waits below
		defer close(done)
		status = first([]*exec.Cmd{c, c}, ended, nil, time.Millisecond)
	}()
	ended <- statusOf(c.Wait())
	if <-done; status != 3 {
		t.Errorf("status %d", status)
	}
}

// ends is a desk with a server as its other node, that is run beside it.
type ends struct {
	mu     sync.Mutex
	run    func(context.Context, string) int
	ready  chan struct{}
	alarms chan int
}

func (e *ends) Call(ctx context.Context, host, line string) (int, error) {
	switch host {
	case "algo-1":
		return 0, ErrHere
	case "algo-2":
		<-e.ready
		e.mu.Lock()
		run := e.run
		e.mu.Unlock()
		return run(ctx, line), nil
	}
	return 0, fault.New(fault.Invalid, "", "call %s: there is none", host)
}

func (e *ends) Serve(ctx context.Context, run func(context.Context, string) int) error {
	e.mu.Lock()
	e.run = run
	e.mu.Unlock()
	close(e.ready)
	<-ctx.Done()
	return nil
}

func (e *ends) Alarm(status int) { e.alarms <- status }

// openDesk opens a desk in a folder with a long name.
func openDesk(t *testing.T) (*ends, string) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	e := &ends{ready: make(chan struct{}), alarms: make(chan int, 10)}
	desk, addr, err := Listen(filepath.Join(folder, "desk"), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { desk.Close() })
	return e, CallsVariable + "=" + addr
}

func TestARemoteShellRunsOnTheOtherNode(t *testing.T) {
	t.Parallel()
	_, desk := openDesk(t)
	argv := Serve(self(t))
	server := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	server.Env = append(os.Environ(), desk, "NODE=other")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for host, where := range map[string]string{"algo-2": "other", "algo-1": "this"} {
		status, here, errs := run(t, []string{desk, "NODE=this"}, self(t), "rsh", "-x", "-q", host, `echo "from $NODE"; echo "$NODE" >&2; exit`, "9")
		if status != 9 {
			t.Errorf("%s: status %d: %s", host, status, errs)
		}
		if where == "this" && here != "from this\n" {
			t.Errorf("%s printed %q", host, here)
		}
	}
	said := make([]byte, len("from other\n"))
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "from other\n" {
		t.Errorf("the other node printed %q, %v", said, err)
	}
	if status, _, errs := run(t, []string{desk}, self(t), "rsh", "algo-9", "true"); status != 255 || !strings.Contains(errs, "algo-9") {
		t.Errorf("a node that is not: %d, %q", status, errs)
	}
	if status, _, errs := run(t, []string{CallsVariable + "="}, self(t), "rsh", "algo-2", "true"); status != 255 || !strings.Contains(errs, CallsVariable) {
		t.Errorf("no desk: %d, %q", status, errs)
	}
	_ = server.Process.Signal(os.Interrupt)
	if err := server.Wait(); err == nil {
		t.Error("a server that was stopped ends with 0")
	}
}

func TestNobodyWaitsForAServerThatWasKilled(t *testing.T) {
	t.Parallel()
	_, desk := openDesk(t)
	argv := Serve(self(t))
	server := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	server.Env = append(os.Environ(), desk)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := run(t, []string{desk}, self(t), "rsh", "algo-2", "kill -KILL $PPID"); status == 0 {
		t.Errorf("the call ended well: %s", errs)
	}
	if err := server.Wait(); statusOf(err) != 137 {
		t.Errorf("the server: %v", err)
	}
}

func TestABadEndIsTold(t *testing.T) {
	t.Parallel()
	e, desk := openDesk(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	argv := one(self(t), []string{"sh", "-c", `[ "$1" = : ] && pwd && exit 6`, "x", ":"})
	c := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	folder := t.TempDir()
	c.Env = append(os.Environ(), desk, "PMI_FD=3", "DROVER_CODE_DIR="+folder)
	c.ExtraFiles = []*os.File{w}
	out, err := c.Output()
	w.Close()
	if status := statusOf(err); status != 6 || string(out) != folder+"\n" {
		t.Errorf("status %d in %q", status, out)
	}
	if word, err := io.ReadAll(r); err != nil || string(word) != "cmd=abort exitcode=6\n" {
		t.Errorf("hydra is told %q, %v", word, err)
	}
	if status := <-e.alarms; status != 6 {
		t.Errorf("the agent is told %d", status)
	}
	if status, _, errs := run(t, []string{desk, "PMI_FD="}, one(self(t), []string{"true"})...); status != 0 || len(e.alarms) > 0 {
		t.Errorf("a good end: %d, %s, %d alarms", status, errs, len(e.alarms))
	}
}

func TestMPIIsToldInItsOwnWay(t *testing.T) {
	t.Parallel()
	two := MPIOptions{Hosts: []string{"algo-1", "algo-2"}, Addresses: []string{"10.0.0.1", "10.0.0.2"}, Procs: 2, Interface: "eth0", Named: true, Argv: []string{"prog", ":"}}
	together := two
	together.Addresses, together.Interface = []string{"127.0.0.1", "127.0.0.1"}, "lo"
	alone := MPIOptions{Hosts: []string{"algo-1"}, Addresses: []string{"127.0.0.1"}, Procs: 4, Argv: []string{"prog"}}
	const rank2, rank1 = " drover launch rank -- =prog =:", " drover launch rank -- =prog"
	open4 := " --allow-run-as-root --leave-session-attached --bind-to none --oversubscribe --mca plm rsh --mca ras ^slurm"
	for name, row := range map[string]struct {
		o    MPIOptions
		tool programs.MPI
		want string
	}{
		"mpich alone":      {alone, programs.MPI{Path: "mpiexec", Family: programs.MPICH}, "drover launch mpi --family MPICH --hosts algo-1 -- mpiexec -n 4" + rank1},
		"open mpi 4 alone": {alone, programs.MPI{Path: "mpiexec", Family: programs.OpenMPI, Version: "4.1.4"}, "drover launch mpi --family Open MPI --hosts algo-1 -- mpiexec -n 4" + open4 + " --mca plm_rsh_agent @rsh" + rank1},
		"mpich": {two, programs.MPI{Path: "mpiexec", Family: programs.MPICH},
			"drover launch mpi --family MPICH --hosts algo-1,algo-2 -- mpiexec -launcher manual -genvnone -hosts algo-1:2,algo-2:2 -n 4 -wdir / -localhost 10.0.0.1 -genv UCX_TLS ^sm" + rank2},
		"mpich on one machine": {together, programs.MPI{Path: "mpiexec", Family: programs.MPICH},
			"drover launch mpi --family MPICH --hosts algo-1,algo-2 -- mpiexec -launcher manual -genvnone -hosts algo-1:2,algo-2:2 -n 4 -wdir / -localhost 127.0.0.1" +
				" -genv MPIR_CVAR_CH4_NETMOD ofi -genv FI_PROVIDER tcp -genv FI_TCP_IFACE lo -genv UCX_TLS ^sm" + rank2},
		"intel on one machine": {together, programs.MPI{Path: "mpiexec", Family: programs.IntelMPI},
			"drover launch mpi --family Intel MPI --hosts algo-1,algo-2 -- mpiexec -bootstrap ssh -bootstrap-exec @rsh -genvnone -hosts algo-1:2,algo-2:2 -n 4 -wdir / -iface lo -genv I_MPI_PIN 0 -genv UCX_TLS ^sm" + rank2},
		"intel": {two, programs.MPI{Path: "mpiexec", Family: programs.IntelMPI},
			"drover launch mpi --family Intel MPI --hosts algo-1,algo-2 -- mpiexec -bootstrap ssh -bootstrap-exec @rsh -genvnone -hosts algo-1:2,algo-2:2 -n 4 -wdir / -iface eth0 -genv UCX_TLS ^sm" + rank2},
		"open mpi 4": {two, programs.MPI{Path: "mpiexec", Family: programs.OpenMPI, Version: "4.1.4"},
			"drover launch mpi --family Open MPI --hosts algo-1,algo-2 -- mpiexec --host algo-1:2,algo-2:2 -n 4 --wdir /" + open4 + " --mca plm_rsh_agent @rsh --mca plm_rsh_no_tree_spawn 1" +
				" --mca orte_abort_on_non_zero_status 1 --mca if_base_do_not_resolve 1 --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0" + rank2},
	} {
		row.o.Tool = row.tool
		line, err := MPI("drover", row.o)
		if diff := cmp.Diff(row.want, strings.Join(line, " ")); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	together.Named, together.Tool = false, programs.MPI{Family: programs.OpenMPI, Version: "4.1.4"}
	if _, err := MPI("drover", together); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("nodes that Open MPI would take for one: %v", err)
	}
}

func TestHydrasLinesAreTakenOut(t *testing.T) {
	t.Parallel()
	text := "HYDRA_LAUNCH: proxy --proxy-id 0\nHYDRA_LAUNCHED is a word\nmine HYDRA_LAUNCH: x\nHYDRA_LAUNCH: other --proxy-id 1 \nHYDRA_LAUNCH_END\nHYDRA_LAUNCH: no more\nlast"
	want := "HYDRA_LAUNCHED is a word\nmine HYDRA_LAUNCH: x\nHYDRA_LAUNCH: no more\nlast"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		var asked []string
		f := &filter{out: &out, start: func(line string) { asked = append(asked, line) }}
		for chunk := range slices.Chunk([]byte(text), size) {
			if n, err := f.Write(chunk); n != len(chunk) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := f.flushHeldBack(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" || !slices.Equal(asked, []string{"proxy --proxy-id 0", "other --proxy-id 1 "}) {
			t.Fatalf("in pieces of %d: asked %q (-want +got):\n%s", size, asked, diff)
		}
	}
	for line, want := range map[string]int{"x --proxy-id 12 --y": 12, "--proxy-id 3": 3, "x --proxy-id": -1, "x --proxy-id 1a": -1, "x--proxy-id 1": -1, "x --proxy-id 99999999999999999999": -1} {
		if n, ok := proxy(line); ok != (want >= 0) || ok && n != want {
			t.Errorf("%q is for %d, %v", line, n, ok)
		}
	}
}

// FuzzFilter: whatever is printed, in whatever pieces, everything that is no
// line of hydra's comes out as it went in.
func FuzzFilter(f *testing.F) {
	f.Add([]byte("HYDRA_LAUNCH: a\nb\nHYDRA_LAUNCH_END\nc"), 3)
	f.Add([]byte("HYDRA_LAUNCH"), 1)
	f.Add([]byte("\n\nHYDRA_LAUNCH_END"), 2)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		if size < 1 || size > 1000 {
			size = 7
		}
		var out bytes.Buffer
		asked := 0
		fl := &filter{out: &out, start: func(string) { asked++ }}
		for chunk := range slices.Chunk(text, size) {
			if _, err := fl.Write(chunk); err != nil {
				t.Fatal(err)
			}
		}
		if err := fl.flushHeldBack(); err != nil {
			t.Fatal(err)
		}
		var want []byte
		calls, over := 0, false
		for line := range bytes.Lines(text) {
			whole := strings.TrimSuffix(string(line), "\n")
			switch ended := bytes.HasSuffix(line, []byte("\n")); {
			case over || !ended:
				want = append(want, line...)
			case whole == hydraEnd:
				over = true
			case strings.HasPrefix(whole, hydraLine):
				calls++
			default:
				want = append(want, line...)
			}
		}
		if !bytes.Equal(want, out.Bytes()) || calls != asked {
			t.Errorf("%q came out as %q with %d calls, want %q with %d", text, out.Bytes(), asked, want, calls)
		}
	})
}

func TestWhatNobodyTypesIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"fly"}, {"ranks"}, {"ranks", "--node", "x", "--procs", "1", "--", "true"}, {"ranks", "--node", "0", "--procs", "1"}, {"mpi", "--"}, {"rank", "--"}, {"ranks", "node"}} {
		if status, _, errs := run(t, nil, append([]string{self(t), "launch"}, append(args, "")...)[:2+max(1, len(args))]...); status == 0 || errs == "" {
			t.Errorf("%q gave %d, %q", args, status, fmt.Sprint(errs))
		}
	}
}
