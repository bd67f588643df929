package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/slurm/records"
)

// The fake is this test program under the names of Slurm's commands: links to it in a
// folder, beside which a file holds all jobs. Tasks are processes of this machine. It
// knows what the driver asks of the real ones, which the same suite is run against.

// fakeTask is one task.
type fakeTask struct {
	Slurm, Task, Job int
	Name, State      string
	Reason, Out      string
	Restarts         int
	PID              int
	Script           string
	Array            bool
	End              int64
}

type fakeState struct {
	Next  int
	Tasks []*fakeTask
}

// fakeSlurm makes a cluster, and gives the folder of its commands.
func fakeSlurm(t *testing.T) (bin string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin = t.TempDir()
	for _, name := range []string{"sbatch", "squeue", "scancel", "scontrol", "sinfo", "sacct"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// playFake is the fake's main; ok is false when this program was not called as one of
// Slurm's commands.
func playFake() (status int, ok bool) {
	name := filepath.Base(os.Args[0])
	dir := filepath.Dir(os.Args[0])
	play := map[string]func(*fakeState, string, []string) error{"sbatch": fakeSbatch, "squeue": fakeSqueue, "scancel": fakeScancel,
		"scontrol": fakeScontrol, "sinfo": fakeSinfo, "sacct": fakeSacct}[name]
	if play == nil {
		return 0, false
	}
	if err := withFake(dir, func(s *fakeState) error { return play(s, dir, os.Args[1:]) }); err != nil {
		fmt.Fprintf(os.Stderr, "%s: error: %v\n", name, err)
		return 1, true
	}
	return 0, true
}

// withFake is at the jobs alone.
func withFake(dir string, do func(*fakeState) error) error {
	f, err := os.OpenFile(filepath.Join(dir, "jobs"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	s := &fakeState{Next: 1}
	_ = json.NewDecoder(f).Decode(s) // the first finds it empty
	for _, task := range s.Tasks {
		if task.State == "RUNNING" && gone(task.PID) {
			task.State, task.Reason, task.End = "COMPLETED", "None", time.Now().Unix()
			if text, err := os.ReadFile(task.Out + ".status"); err == nil && string(text) != "0\n" {
				task.State, task.Reason = "FAILED", "NonZeroExitCode"
			}
		}
	}
	err = do(s)
	text, _ := json.Marshal(s)
	_ = f.Truncate(0)
	_, werr := f.WriteAt(text, 0)
	return errors.Join(err, werr)
}

func gone(pid int) bool {
	if pid == 0 || unix.Kill(pid, 0) != nil {
		return true
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}

func fakeSbatch(s *fakeState, dir string, args []string) error {
	script, size := args[len(args)-1], 1
	array := option(args, "--array")
	if _, last, ok := strings.Cut(array, "-"); ok {
		n, err := strconv.Atoi(last)
		if err != nil {
			return err
		}
		size = n + 1
	}
	id := s.Next
	s.Next += size
	for i := range size {
		task := &fakeTask{Slurm: id, Task: i, Job: id + i, Name: option(args, "--job-name"), Script: script, Array: array != "", Reason: "None"}
		task.Out = strings.NewReplacer("%A", records.Itoa(id), "%a", records.Itoa(i), "%j", records.Itoa(id)).Replace(option(args, "--output"))
		if err := task.run(); err != nil {
			return err
		}
		s.Tasks = append(s.Tasks, task)
	}
	fmt.Println(id)
	return nil
}

// run starts a task as slurmd does, by a shell that lives on when we have ended and
// notes the status.
func (task *fakeTask) run() error {
	out, err := os.OpenFile(task.Out, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	c := exec.Command("/bin/sh", task.Script)
	c.Env = append(os.Environ(), "SLURM_JOB_ID="+records.Itoa(task.Job), "SLURMD_NODENAME=fake1", "SLURM_CPUS_ON_NODE=1")
	if task.Array {
		c.Env = append(c.Env, "SLURM_ARRAY_JOB_ID="+records.Itoa(task.Slurm), "SLURM_ARRAY_TASK_ID="+records.Itoa(task.Task))
	}
	if task.Restarts > 0 {
		c.Env = append(c.Env, "SLURM_RESTART_COUNT="+records.Itoa(task.Restarts))
	}
	c.Stdout, c.Stderr, c.Dir = out, out, "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	task.PID, task.State = c.Process.Pid, "RUNNING"
	return nil
}

func fakeSqueue(s *fakeState, _ string, args []string) error {
	ids, names := ","+option(args, "--jobs")+",", ","+option(args, "--name")+","
	if strings.Contains(strings.Join(args, " "), "%L") {
		fmt.Println("UNLIMITED")
		return nil
	}
	for _, task := range s.Tasks {
		if !strings.Contains(ids, ","+records.Itoa(task.Slurm)+",") && !strings.Contains(names, ","+task.Name+",") {
			continue
		}
		number := "N/A"
		if task.Array {
			number = records.Itoa(task.Task)
		}
		fmt.Printf("%d|%s|%d|%s|%d|%s|%s|%d|%s|\n", task.Slurm, number, task.Job, task.State, task.Restarts, task.Reason, "fake1", task.End, task.Name)
	}
	return nil
}

func fakeScancel(s *fakeState, _ string, args []string) error {
	signal := option(args, "--signal")
	for _, a := range args {
		id, task, array := strings.Cut(a, "_")
		for _, one := range s.Tasks {
			if records.Itoa(one.Slurm) != id || array && records.Itoa(one.Task) != task {
				continue
			}
			switch {
			case option(args, "--state") == "PENDING":
				if one.State == "PENDING" {
					one.State, one.End = "CANCELLED", time.Now().Unix()
				}
			case one.State == "RUNNING" && signal == "TERM":
				_ = unix.Kill(one.PID, unix.SIGTERM)
			}
		}
	}
	return nil
}

func fakeScontrol(s *fakeState, _ string, args []string) error {
	if strings.Join(args, " ") == "show config" {
		fmt.Println("MaxArraySize            = 1001")
		return nil
	}
	return fmt.Errorf("the fake knows no %q", args)
}

func fakeSinfo(_ *fakeState, _ string, args []string) error {
	if option(args, "--format") == nodeFields {
		fmt.Println("main*|up|infinite|1|idle|4|4096|0/4/0/4|(null)|fake1|ssd|20480")
		fmt.Println("main*|up|infinite|1|idle|4|4096|0/4/0/4|(null)|fake2|(null)|20480")
		return nil
	}
	fmt.Println("main*|up|infinite|2|idle|4|4096|0/8/0/8|(null)")
	return nil
}

func fakeSacct(*fakeState, string, []string) error {
	return fmt.Errorf("Slurm accounting storage is disabled")
}

func TestASlurmOfPlainProcessesIsADriver(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("the fake looks into /proc")
	}
	drivertest.Run(t, drivertest.Place{
		Open: func(t *testing.T) func() driver.Driver {
			dir, bin := t.TempDir(), fakeSlurm(t)
			return func() driver.Driver {
				d := New(dir)
				d.path = bin
				return d
			}
		},
		Kill: killAgent,
		Take: takeFake,
	})
}

func TestAnOfferLooksAtTheDisksOfNodes(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("the fake looks into /proc")
	}
	d := New(t.TempDir())
	d.path = fakeSlurm(t)
	for disk, want := range map[int64]string{0: "", 10 << 30: "", 100 << 30: "partition main of Slurm: its nodes have 20 GB of temporary disk, and 100 GB is needed"} {
		if o, err := d.Offer(t.Context(), driver.Needs{Agents: 1, Disk: disk}); err != nil || o.Reason != want || o.Fits != (want == "") {
			t.Errorf("%d bytes: %+v, %v; want %q", disk, o, err, want)
		}
	}
}

// takeFake is a node that fails: all on it is gone, and Slurm says so.
func takeFake(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
	dir, _ := d.(*Driver).placementFolder(h)
	err := withFake(d.(*Driver).path, func(s *fakeState) error {
		for _, task := range s.Tasks {
			if task.Name == nameOf(h, 0) && task.Task == m.Index {
				_ = unix.Kill(task.PID, unix.SIGKILL)
				_ = unix.Kill(records.Heard(dir, m.Index).Up.PID, unix.SIGKILL)
				task.State, task.End = "NODE_FAIL", time.Now().Unix()
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
