package host

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// peer is another process of this machine.
type peer struct {
	*testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startPeer(t *testing.T, role string, args ...string) *peer {
	t.Helper()
	cmd := another(t, role, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &peer{t, cmd, in, bufio.NewScanner(out)}
	t.Cleanup(func() { // also when the test has ended early
		cmd.Process.Kill()
		in.Close()
		cmd.Wait()
	})
	return p
}

// says waits for its next line.
func (p *peer) says(want string) {
	p.Helper()
	if p.out.Scan(); p.out.Text() != want {
		p.Fatalf("it says %q: %v, want %q", p.out.Text(), p.out.Err(), want)
	}
}

func raceRoom(folder string) Room {
	return Room{Folder: folder, Cores: firstCores(2), wait: func(ctx context.Context, _ time.Duration) error { return pause(ctx, 100*time.Microsecond) }}
}

// playRoomHold takes a core of two for one of two nodes, with a child that
// outlives it, and waits for more than there is left.
func playRoomHold(folder string) {
	r := raceRoom(folder)
	_, err := r.Take(context.Background(), Wish{Label: "the killed", Group: "k", Members: 2, Each: Amount{CPUs: 1}}, nil, nil)
	must(err)
	go r.Take(context.Background(), Wish{Label: "the killed too", Priority: 9, Each: Amount{CPUs: 2}}, nil, func(string) { fmt.Println("held") })
	self, err := os.Executable()
	must(err)
	child := exec.Command(self)
	child.Env = append(os.Environ(), "HOST_TEST_ROLE=idle")
	child.Stdin = os.Stdin
	must(child.Start())
	io.Copy(io.Discard, os.Stdin)
}

// playRoomRace takes this and that, over and over. A file that must not be there
// yet stands for the use of each core and GPU.
func playRoomRace(folder, name string) {
	bufio.NewReader(os.Stdin).ReadString('\n')
	r := raceRoom(folder)
	wishes := []Wish{cpus(name, 1), cpus(name, 2), {Label: name, Each: Amount{CPUs: 1, GPUs: 1}}, {Label: name, Each: Amount{GPUs: 2}, Priority: 1},
		{Label: name, Group: name, Members: 2, Each: Amount{1, 0, 1}}}
	fmt.Println("begins")
	for round := range raceRounds {
		w := wishes[round%len(wishes)]
		h, err := r.Take(context.Background(), w, two, nil)
		must(err)
		if len(h.Cores) != int(w.Each.CPUs) || len(h.GPUs) != w.Each.GPUs {
			must(fmt.Errorf("round %d gave cores %v and GPUs %v", round, h.Cores, h.GPUs))
		}
		var used []string
		for _, c := range h.Cores {
			used = append(used, filepath.Join(folder, fmt.Sprint("used-core-", c)))
		}
		for _, g := range h.GPUs {
			used = append(used, filepath.Join(folder, "used-"+g.UUID))
		}
		for _, path := range used {
			f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600)
			must(err)
			f.Close()
		}
		for _, path := range used {
			must(os.Remove(path))
		}
		h.Release()
		h.Release()
	}
	fmt.Println("fair")
}

func TestProcessesNeverShareACore(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "room")
	var peers []*peer
	for i := range 3 {
		peers = append(peers, startPeer(t, "room-race", folder, fmt.Sprint("racer ", i)))
	}
	for _, p := range peers {
		fmt.Fprintln(p.in, "go")
	}
	for _, p := range peers {
		p.says("begins")
		p.says("fair")
	}
	if left, err := (Room{Folder: folder}).Look(); len(left) > 0 || err != nil {
		t.Errorf("at the end there are %v, %v", left, err)
	}
}

func TestKilledProcessesNeitherHoldNorWait(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "room")
	p := startPeer(t, "room-hold", folder)
	p.says("held")
	r := Room{Folder: folder, Cores: firstCores(2)}
	waits, ended := make(chan string, 10), make(chan error, 1)
	go func() {
		h, err := r.Take(t.Context(), cpus("the next", 2), nil, func(s string) { waits <- s })
		if err == nil {
			h.Release()
		}
		ended <- err
	}()
	if diff := cmp.Diff("waits for 2 cores: the killed holds 2 of 2; 2nd in the queue, after the killed too", <-waits); diff != "" {
		t.Errorf("what was told differs (-want +got):\n%s", diff)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(folder, claimPrefix+"*")); err != nil || len(left) > 0 {
		t.Errorf("the killed have left %v, %v", left, err)
	}
}

// A process that dies at any moment, behind the gate or before it, stops no other.
func TestKillsAtAnyMomentStopNobody(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "room")
	r := raceRoom(folder)
	for i := range 12 {
		p := startPeer(t, "room-race", folder, "the killed")
		fmt.Fprintln(p.in, "go")
		p.says("begins")
		for range i { // each is killed a little later in its life
			h, err := r.Take(t.Context(), cpus("the living", 0.1), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			h.Release()
		}
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		p.cmd.Wait()
		h, err := r.Take(t.Context(), cpus("the next", 2), two, nil)
		if err != nil {
			t.Fatal(err)
		}
		h.Release()
		used, err := filepath.Glob(filepath.Join(folder, "used-*"))
		for _, path := range used {
			os.Remove(path) // the mark of the one that was killed
		}
		left, err2 := os.ReadDir(folder)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for _, f := range left {
			if strings.HasPrefix(f.Name(), claimPrefix) {
				t.Errorf("kill %d has left %s", i, f.Name())
			}
		}
	}
}
