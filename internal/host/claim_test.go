package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
)

// gpus are n that are nowhere, named "GPU-0" and so on.
func gpus(n int) (all []GPU) {
	for i := range n {
		all = append(all, GPU{Index: i, UUID: fmt.Sprint("GPU-", i)})
	}
	return all
}

// takeNow makes a claim that had to be given at once.
func takeNow(t *testing.T, c Claims, from []GPU, n int) ([]int, func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	held, release, err := c.Take(ctx, from, n, t.Name(), func(why string) { cancel(errors.New("it is " + why)) })
	if err != nil {
		t.Fatal(err)
	}
	var indices []int
	for _, g := range held {
		indices = append(indices, g.Index)
	}
	return indices, release
}

// busy says whether there is a wait for n of these GPUs, and gives up at once.
func busy(t *testing.T, c Claims, from []GPU, n int) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, release, err := c.Take(ctx, from, n, "looks", func(string) { cancel() })
	if err == nil {
		release()
		return false
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return true
}

func TestTheLowestGPUsThatStandTogetherAreTaken(t *testing.T) {
	for _, c := range []struct {
		of   int
		held []int // by others
		n    int
		want []int
	}{
		{8, nil, 1, []int{0}},
		{8, nil, 3, []int{0, 1, 2}},
		{8, []int{0}, 1, []int{1}},
		{8, []int{1}, 2, []int{2, 3}},
		{8, []int{1}, 1, []int{0}},
		{8, []int{1, 3}, 4, []int{4, 5, 6, 7}},
		{8, []int{1, 3, 5}, 3, []int{4, 6, 7}},
		{8, []int{2, 5}, 3, []int{0, 1, 3}},
		{4, []int{1}, 3, []int{0, 2, 3}},
		{4, []int{0, 1, 2}, 1, []int{3}},
		{2, nil, 2, []int{0, 1}},
	} {
		all := gpus(c.of)
		claims := Claims{Folder: filepath.Join(t.TempDir(), "made", "when needed")}
		for _, i := range c.held {
			takeNow(t, claims, all[i:i+1], 1)
		}
		slices.Reverse(all) // they come in their own order nevertheless
		if got, _ := takeNow(t, claims, all, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%d of %d, without %v: got %v, want %v", c.n, c.of, c.held, got, c.want)
		}
		takeNow(t, claims, all, c.of-len(c.held)-c.n) // the rest is free
	}
}

func TestAWaiterIsToldOnceAndGetsWhatBecomesFree(t *testing.T) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := Claims{Folder: folder}
		_, first, err := c.Take(t.Context(), gpus(3), 2, "job 7fk2 node 1", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(125 * time.Minute)
		_, second, err := c.Take(t.Context(), gpus(3), 1, "job abcd", nil)
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		got := make(chan []GPU, 1)
		go func() {
			held, release, err := c.Take(t.Context(), gpus(3), 3, "job last", func(s string) { told = append(told, s) })
			if err != nil {
				t.Error(err)
			} else {
				defer release()
			}
			got <- held
		}()
		time.Sleep(time.Minute)
		second()
		time.Sleep(time.Minute)
		// It holds nothing while it waits: somebody else may have that one.
		_, third := takeNow(t, c, gpus(3), 1)
		first()
		time.Sleep(time.Minute)
		if len(got) > 0 {
			t.Error("it got 3 GPUs while one was held")
		}
		third()
		before := time.Now()
		if diff := cmp.Diff(gpus(3), <-got); diff != "" {
			t.Errorf("what it got differs (-want +got):\n%s", diff)
		}
		if waited := time.Since(before); waited > claimPause {
			t.Errorf("it took %v to see that all are free", waited)
		}
		pid := os.Getpid()
		want := []string{fmt.Sprintf("waiting for 3 GPUs: job 7fk2 node 1 has GPUs 0 and 1 (process %d, for 2h05m); job abcd has GPU 2 (process %d, for 0s)", pid, pid)}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("what was told differs (-want +got):\n%s", diff)
		}
	})
}

func TestTheEndOfTheContextEndsTheWait(t *testing.T) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := Claims{Folder: folder}
		_, release := takeNow(t, c, gpus(2), 2)
		why := errors.New("a person pressed Ctrl-C")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, _, err := c.Take(ctx, gpus(2), 1, "", nil)
			ended <- err
		}()
		synctest.Wait()
		cancel(why)
		if err := <-ended; !errors.Is(err, why) || err.Error() != "claim 1 GPU: a person pressed Ctrl-C" {
			t.Errorf("Take() = %v", err)
		}
		release()
		if _, _, err := c.Take(ctx, gpus(2), 1, "", nil); !errors.Is(err, why) {
			t.Errorf("with an ended context, Take() = %v", err)
		}
		if busy(t, c, gpus(2), 2) {
			t.Error("who gave up holds one")
		}
	})
}

func TestMoreGPUsThanThereAreIsAFaultAtOnce(t *testing.T) {
	c := Claims{Folder: t.TempDir()}
	for _, one := range []struct {
		gpus []GPU
		n    int
		want string
	}{
		{gpus(2), 4, "claim 4 GPUs: this machine has 2"},
		{gpus(1), 2, "claim 2 GPUs: this machine has 1"},
		{nil, 1, "claim 1 GPU: this machine has none"},
		{append(gpus(1), gpus(1)...), 2, "claim 2 GPUs: this machine has 1"},
	} {
		held, release, err := c.Take(t.Context(), one.gpus, one.n, "", nil)
		if err == nil || held != nil || release != nil || err.Error() != one.want || fault.KindOf(err) != fault.Full || fault.Hint(err) == "" {
			t.Errorf("Take() = %v, %v; want %s", held, err, one.want)
		}
	}
}

func TestNoGPUsAreTakenAtOnce(t *testing.T) {
	c := Claims{Folder: filepath.Join(t.TempDir(), "never made")}
	held, release, err := c.Take(t.Context(), nil, 0, "", nil)
	if err != nil || held != nil {
		t.Fatalf("Take() = %v, %v", held, err)
	}
	release()
	if _, err := os.Stat(c.Folder); err == nil {
		t.Error("it made a folder")
	}
}

func TestReleasingTwiceTakesNothingFromTheNext(t *testing.T) {
	c := Claims{Folder: t.TempDir()}
	_, release := takeNow(t, c, gpus(2), 2)
	release()
	_, next := takeNow(t, c, gpus(2), 2) // has the same descriptors
	release()
	if !busy(t, c, gpus(2), 1) {
		t.Error("the second release gave away what the next one holds")
	}
	next()
	if busy(t, c, gpus(2), 2) {
		t.Error("they are not free after their release")
	}
}

func TestAClaimNeedsNobodyToKeepItsRelease(t *testing.T) {
	c := Claims{Folder: t.TempDir()}
	if _, _, err := c.Take(t.Context(), gpus(1), 1, "", nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		runtime.GC()
	}
	if !busy(t, c, gpus(1), 1) {
		t.Error("the collector gave the GPU back")
	}
}

func TestWhoIsChoosingIsWaitedForInSilence(t *testing.T) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		gate, err := lock(filepath.Join(folder, "gate.lock"))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, _, err := Claims{Folder: folder}.Take(t.Context(), gpus(1), 1, "", func(s string) { t.Errorf("told %q", s) })
			ended <- err
		}()
		time.Sleep(time.Second)
		if len(ended) > 0 {
			t.Error("two were choosing at once")
		}
		unlock(gate)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestNoNameOfAGPULeavesTheFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "claims")
	all := []GPU{
		{Index: 0, UUID: "MIG-GPU-aa/1/0"}, {Index: 0, UUID: "MIG-GPU-aa/2/0"}, {Index: 1, UUID: "../../above"}, {Index: 2},
		{Index: 3}, {Index: 4, UUID: strings.Repeat("long", 100)}, {Index: 5, UUID: "."}, {Index: 6, UUID: "gpu-2"},
	}
	c := Claims{Folder: folder}
	if held, _, err := c.Take(t.Context(), all, len(all), "", nil); err != nil {
		t.Fatalf("Take() = %v, %v", held, err)
	}
	above, err := os.ReadDir(filepath.Dir(folder))
	if err != nil || len(above) != 1 {
		t.Errorf("there is more beside the folder: %v, %v", above, err)
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != len(all)+len([]string{"gate.lock"}) {
		t.Errorf("the folder has %v, %v", files, err)
	}
}

func TestAFolderThatCannotBeUsedIsAFaultWithAHint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	blocked := t.TempDir()
	if err := os.Mkdir(filepath.Join(blocked, "GPU-1.lock"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{file, filepath.Join(file, "below"), blocked} {
		_, _, err := Claims{Folder: folder}.Take(t.Context(), gpus(2), 1, "", nil)
		if fault.KindOf(err) != fault.Denied || !strings.Contains(fault.Hint(err), folder) || !strings.HasPrefix(err.Error(), "claim 1 GPU: ") {
			t.Errorf("Take() in %s = %v", folder, err)
		}
	}
	if busy(t, Claims{Folder: blocked}, gpus(1), 1) {
		t.Error("the attempt that ended in a fault holds the first GPU")
	}
}

func TestTwoProcessesNeverShareAGPU(t *testing.T) {
	folder := t.TempDir()
	type racer struct {
		lines *bufio.Scanner
		start func() error
		wait  func() error
	}
	var racers []racer
	for range 2 {
		cmd := another(t, "race", folder)
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
		racers = append(racers, racer{bufio.NewScanner(out), func() error { _, err := fmt.Fprintln(in, "go"); return err }, cmd.Wait})
	}
	for _, r := range racers {
		if err := r.start(); err != nil {
			t.Error(err)
		}
	}
	for _, r := range racers {
		if r.lines.Scan(); r.lines.Text() != "fair" {
			t.Errorf("a racer says %q", r.lines.Text())
		}
	}
	for _, r := range racers {
		if err := r.wait(); err != nil {
			t.Error(err)
		}
	}
}

func TestAKilledProcessHoldsNothing(t *testing.T) {
	folder := t.TempDir()
	cmd := another(t, "hold", folder)
	keep, err := cmd.StdinPipe() // its child lives until this is closed
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
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("it says %q: %v", line, err)
	}
	waits, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		_, release, err := Claims{Folder: folder}.Take(t.Context(), two, 2, "the next", func(s string) { waits <- s })
		if err == nil {
			release()
		}
		ended <- err
	}()
	if s := <-waits; !strings.Contains(s, "the one that is killed has GPUs 0 and 1") {
		t.Errorf("told %q", s)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	keep.Close()
	cmd.Wait() // was killed
}
