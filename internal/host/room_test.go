package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
)

// roomOf is a machine with so many cores and 4 GB, in a folder of the test's.
func roomOf(t *testing.T, cores int) Room {
	return Room{Folder: filepath.Join(t.TempDir(), "room"), Cores: firstCores(cores), Memory: 4 * gb}
}

// gpus are n that are nowhere, named "GPU-0" and so on.
func gpus(n int) (all []GPU) {
	for i := range n {
		all = append(all, GPU{Index: i, UUID: fmt.Sprint("GPU-", i)})
	}
	return all
}

// grant makes a claim that had to be given at once.
func grant(t *testing.T, r Room, w Wish, from ...GPU) Held {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	h, err := r.Take(ctx, w, from, func(why string) { cancel(errors.New("it " + why)) })
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// line is which claims hold and which wait, in words.
func lookAt(t *testing.T, r Room) (all []string) {
	t.Helper()
	claims, err := r.Look()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		s := fmt.Sprintf("%s waits %d", c.Label, c.Place)
		if c.Holds {
			s = fmt.Sprint(c.Label, " holds ", c.Cores)
		}
		all = append(all, s)
	}
	return all
}

// waiter is a Take that goes on beside the test, in a bubble of synctest. held
// and err are set once it has ended.
type waiter struct {
	held   Held
	err    error
	cancel context.CancelCauseFunc
	done   atomic.Bool
	mu     sync.Mutex
	said   []string
}

func (w *waiter) ended() bool { return w.done.Load() }

func (w *waiter) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}

func takeBeside(t *testing.T, r Room, w Wish, from ...GPU) *waiter {
	ctx, cancel := context.WithCancelCause(t.Context())
	one := &waiter{cancel: cancel}
	go func() {
		one.held, one.err = r.Take(ctx, w, from, func(why string) {
			one.mu.Lock()
			defer one.mu.Unlock()
			one.said = append(one.said, why)
		})
		one.done.Store(true)
	}()
	synctest.Wait()
	return one
}

// soon is long enough for every waiter to see what has changed.
func soon() {
	time.Sleep(3 * lookPause)
	synctest.Wait()
}

func TestThreeJobsOnAMachineForOne(t *testing.T) {
	r := roomOf(t, 2)
	synctest.Test(t, func(t *testing.T) {
		first := grant(t, r, cpus("job a", 2))
		if diff := cmp.Diff([]int{0, 1}, first.Cores); diff != "" {
			t.Errorf("its cores differ (-want +got):\n%s", diff)
		}
		b := takeBeside(t, r, cpus("job b", 2))
		c := takeBeside(t, r, cpus("job c", 2))
		urgent := cpus("job u", 2)
		urgent.Priority = 1
		u := takeBeside(t, r, urgent)
		soon()
		if diff := cmp.Diff([]string{"job a holds [0 1]", "job u waits 1", "job b waits 2", "job c waits 3"}, lookAt(t, r)); diff != "" {
			t.Errorf("the line differs (-want +got):\n%s", diff)
		}
		for _, next := range []*waiter{u, b, c} {
			first.Release()
			began := time.Now()
			for !next.ended() && time.Since(began) < time.Minute {
				time.Sleep(time.Millisecond)
			}
			if waited := time.Since(began); !next.ended() || next.err != nil || waited > lookPause+lookPause/2 {
				t.Fatalf("after a release the next one waits for %v", waited)
			}
			soon()
			first = next.held
		}
		first.Release()
		want := []string{"waits for 2 cores: job a holds 2 of 2", "waits for 2 cores: job a holds 2 of 2; 2nd in the queue, after job u",
			"waits for 2 cores: job u holds 2 of 2"}
		told := b.told()
		if len(told) == 4 && told[2] == "waits for 2 cores: 2nd in the queue, after job u" {
			told = append(told[:2:2], told[3]) // it looked when job a had released and job u had not looked yet
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("what was told differs (-want +got):\n%s", diff)
		}
		if left := lookAt(t, r); left != nil {
			t.Errorf("at the end there are %v", left)
		}
	})
}

func TestTwoJobsOfHalvesDoNotWaitForEachOther(t *testing.T) {
	r := roomOf(t, 4)
	synctest.Test(t, func(t *testing.T) {
		pair := func(label string) Wish {
			return Wish{Label: label, Group: label, Members: 2, Each: Amount{CPUs: 2, GPUs: 1}}
		}
		// Each job's first node comes before any job's second.
		a0 := takeBeside(t, r, pair("job a"), gpus(2)...)
		b0 := takeBeside(t, r, pair("job b"), gpus(2)...)
		b1 := takeBeside(t, r, pair("job b"), gpus(2)...)
		soon()
		if !a0.ended() || b0.ended() || b1.ended() {
			t.Fatalf("job a: %v, job b: %v %v", a0.ended(), b0.ended(), b1.ended())
		}
		a1 := takeBeside(t, r, pair("job a"), gpus(2)...)
		if !a1.ended() || a1.err != nil {
			t.Fatal("the second node of job a does not find its part")
		}
		got := [][]int{a0.held.Cores, a1.held.Cores, {a0.held.GPUs[0].Index}, {a1.held.GPUs[0].Index}}
		if diff := cmp.Diff([][]int{{0, 1}, {2, 3}, {0}, {1}}, got); diff != "" {
			t.Errorf("what job a got differs (-want +got):\n%s", diff)
		}
		a0.held.Release()
		soon()
		if b0.ended() || b1.ended() {
			t.Error("a node of job b goes where one of job a may come again")
		}
		again := takeBeside(t, r, pair("job a"), gpus(2)...)
		if diff := cmp.Diff([]int{0, 1}, again.held.Cores); diff != "" {
			t.Errorf("the node that comes again gets other cores (-want +got):\n%s", diff)
		}
		again.held.Release()
		a1.held.Release()
		soon()
		if !b0.ended() || !b1.ended() || b0.err != nil || b1.err != nil {
			t.Error("job b does not get what job a gave back")
		}
	})
}

func TestAPausedQueueWaitsAlone(t *testing.T) {
	r := roomOf(t, 2)
	synctest.Test(t, func(t *testing.T) {
		if err := errors.Join(r.Pause("night"), r.Pause("night"), r.Pause("../up")); err != nil {
			t.Fatal(err)
		}
		night := func(label string) Wish { return Wish{Label: label, Queue: "night", Priority: 9, Each: Amount{CPUs: 2}} }
		n := takeBeside(t, r, night("job n"))
		grant(t, r, cpus("job d", 2)).Release()
		now := night("job now")
		now.Now = true
		grant(t, r, now).Release()
		soon() // it has looked again, and has nothing new to say
		if diff := cmp.Diff([]string{"waits: queue night is paused"}, n.told()); diff != "" {
			t.Errorf("what was told differs (-want +got):\n%s", diff)
		}
		queues, err := r.Paused()
		if diff := cmp.Diff([]string{"../up", "night"}, queues); diff != "" || err != nil {
			t.Errorf("the paused queues differ (-want +got):\n%s%v", diff, err)
		}
		if err := errors.Join(r.Resume("night"), r.Resume("night")); err != nil {
			t.Fatal(err)
		}
		soon()
		if !n.ended() || n.err != nil {
			t.Errorf("it is not granted after resume: %v", n.err)
		}
		n.held.Release()
	})
	if above, err := os.ReadDir(filepath.Dir(r.Folder)); err != nil || len(above) != 1 {
		t.Errorf("there is more beside the folder: %v, %v", above, err)
	}
}

func TestAShareHoldsUpItsOwnQueueAlone(t *testing.T) {
	r := roomOf(t, 4)
	synctest.Test(t, func(t *testing.T) {
		small := func(label string) Wish {
			return Wish{Label: label, Queue: "a", Priority: 5, Each: Amount{CPUs: 1}, Share: Amount{CPUs: 1}}
		}
		first := grant(t, r, small("job a"))
		next := takeBeside(t, r, small("job b"))
		grant(t, r, cpus("job x", 3)).Release()
		if diff := cmp.Diff([]string{"waits for 1 core: queue a may use 1 core; job a holds 1"}, next.told()); diff != "" {
			t.Errorf("what was told differs (-want +got):\n%s", diff)
		}
		first.Release()
		soon()
		if !next.ended() || next.err != nil {
			t.Errorf("the share is not given on: %v", next.err)
		}
		next.held.Release()
	})
}

func TestTheEndOfTheContextLeavesNothing(t *testing.T) {
	r := roomOf(t, 2)
	synctest.Test(t, func(t *testing.T) {
		first := grant(t, r, cpus("job a", 2))
		big, small := takeBeside(t, r, cpus("job b", 2)), takeBeside(t, r, cpus("job c", 1))
		began := time.Now()
		big.cancel(errors.New("a person said cancel"))
		synctest.Wait()
		if !big.ended() || big.err == nil || big.err.Error() != "reserve 2 cores: a person said cancel" || time.Since(began) != 0 {
			t.Errorf("ended %v after %v: %v", big.ended(), time.Since(began), big.err)
		}
		if diff := cmp.Diff([]string{"job a holds [0 1]", "job c waits 1"}, lookAt(t, r)); diff != "" {
			t.Errorf("the line differs (-want +got):\n%s", diff)
		}
		first.Release()
		soon()
		if !small.ended() {
			t.Error("who gave up holds it")
		}
		small.held.Release()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Take(ctx, cpus("", 1), nil, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("with an ended context, Take() = %v", err)
		}
	})
}

// A kill is seen as soon as a release: by the first of those that wait that a
// holder has died, and by each that the one before it has.
func TestADeathIsSeenAtOnce(t *testing.T) {
	r := roomOf(t, 1)
	synctest.Test(t, func(t *testing.T) {
		holder := takenSeat(t, r, "job a")
		before, err := r.joinQueue(t.Context(), record{Wish: cpus("job b", 1).withDefaults(), View: r.viewWith(nil), Part: noPart})
		if err != nil {
			t.Fatal(err)
		}
		next := takeBeside(t, r, cpus("job c", 1))
		unlock(before.fd) // as the kernel does
		soon()
		if diff := cmp.Diff("waits for 1 core: job a holds 1 of 1", next.told()[len(next.told())-1]); diff != "" {
			t.Errorf("what was told last differs (-want +got):\n%s", diff)
		}
		unlock(holder.fd)
		soon()
		if !next.ended() || next.err != nil {
			t.Fatalf("it waits for the dead: %q", next.told())
		}
		next.held.Release()
	})
}

// takenSeat is a claim of one core that was granted.
func takenSeat(t *testing.T, r Room, label string) *slot {
	t.Helper()
	s, err := r.joinQueue(t.Context(), record{Wish: cpus(label, 1).withDefaults(), View: r.viewWith(nil), Part: noPart})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := s.tryToClaim(t.Context()); err != nil || !v.isGranted() {
		t.Fatal(v, err)
	}
	return s
}

func TestTwoWhoAskAtOnceTakeNobodyForAlive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead")
	fd, err := lock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock(fd)
	if lives, err := locked(path); !lives || err != nil {
		t.Errorf("a holder is dead: %v", err)
	}
	if err := unix.Flock(fd, unix.LOCK_SH); err != nil { // as another process that asks
		t.Fatal(err)
	}
	if lives, err := locked(path); lives || err != nil {
		t.Errorf("another one who asks is a holder: %v", err)
	}
}

// What the chain of those that watch each other misses is found all the same.
func TestADeathThatNobodyWatchesIsFound(t *testing.T) {
	r := roomOf(t, 1)
	synctest.Test(t, func(t *testing.T) {
		s := takenSeat(t, r, "job a")
		stopped, err := r.joinQueue(t.Context(), record{Wish: cpus("job stopped", 0.5).withDefaults(), View: r.viewWith(nil), Part: noPart})
		if err != nil {
			t.Fatal(err)
		}
		next := takeBeside(t, r, cpus("job b", 0.5))
		unlock(s.fd) // as the kernel does
		time.Sleep((lookAnyway + 2) * lookPause)
		synctest.Wait()
		if !next.ended() || next.err != nil {
			t.Fatalf("it waits for the dead: %q, %v", next.told(), next.err)
		}
		next.held.Release()
		stopped.releaseSlot()
	})
}

// A claim for a core goes past one that waits for a GPU, as soon as there is one.
func TestWhatNobodyAheadLacksIsGivenAtOnce(t *testing.T) {
	r := roomOf(t, 2)
	synctest.Test(t, func(t *testing.T) {
		all := gpus(2)
		ofGPU := grant(t, r, Wish{Label: "job g", Each: Amount{GPUs: 1}}, all...)
		ofCores := grant(t, r, cpus("job c", 2))
		big := takeBeside(t, r, Wish{Label: "job big", Each: Amount{CPUs: 1, GPUs: 2}}, all...)
		one := takeBeside(t, r, cpus("job one", 1))
		another := takeBeside(t, r, cpus("job another", 1))
		soon()
		ofCores.Release()
		soon()
		if big.ended() || !one.ended() || another.ended() {
			t.Errorf("ended: big %v, one %v, another %v", big.ended(), one.ended(), another.ended())
		}
		want := "waits for 1 core: job one holds 1 of 2; 2nd in the queue, after job big"
		if told := another.told(); told[len(told)-1] != want {
			t.Errorf("told %q, want %q", told, want)
		}
		ofGPU.Release()
		soon()
		if !big.ended() || big.err != nil {
			t.Error("the one ahead has had to wait for the one that went past it")
		}
		big.held.Release()
		one.held.Release()
		soon()
		another.held.Release()
	})
}

func TestWhoDoesNotWaitIsCounted(t *testing.T) {
	r := roomOf(t, 2)
	synctest.Test(t, func(t *testing.T) {
		first := grant(t, r, cpus("job a", 2))
		now := cpus("job now", 1)
		now.Now = true
		second := grant(t, r, now)
		if second.Cores != nil {
			t.Errorf("it got cores %v, and all are taken", second.Cores)
		}
		next := takeBeside(t, r, cpus("job b", 2))
		first.Release()
		soon()
		if next.ended() {
			t.Error("who was granted at once is not counted")
		}
		second.Release()
		soon()
		if !next.ended() || next.err != nil {
			t.Errorf("it is not granted: %v", next.err)
		}
		next.held.Release()
	})
}

func TestReleasingTwiceGivesAwayNothingElse(t *testing.T) {
	r := roomOf(t, 1)
	first := grant(t, r, cpus("job a", 1))
	first.Release()
	second := grant(t, r, cpus("job b", 1)) // has the same descriptor
	first.Release()
	if diff := cmp.Diff([]string{"job b holds [0]"}, lookAt(t, r)); diff != "" {
		t.Errorf("the line differs (-want +got):\n%s", diff)
	}
	second.Release()
}

func TestNobodyHasToKeepRelease(t *testing.T) {
	r := roomOf(t, 1)
	grant(t, r, cpus("job a", 1))
	for range 3 {
		runtime.GC()
	}
	if diff := cmp.Diff([]string{"job a holds [0]"}, lookAt(t, r)); diff != "" {
		t.Errorf("the line differs (-want +got):\n%s", diff)
	}
}

func TestWhatALookSays(t *testing.T) {
	r := roomOf(t, 2)
	if claims, err := r.Look(); claims != nil || err != nil {
		t.Errorf("a folder that is not there has %v, %v", claims, err)
	}
	if queues, err := r.Paused(); queues != nil || err != nil {
		t.Errorf("a folder that is not there has %v paused, %v", queues, err)
	}
	if _, err := os.Stat(r.Folder); err == nil {
		t.Error("looking has made the folder")
	}
	before := time.Now().Truncate(time.Second)
	w := Wish{Label: "job a", Group: "abc", Members: 2, Each: Amount{1, gb, 1}, Priority: 3, Share: Amount{CPUs: 2}}
	grant(t, r, w, GPU{Index: 0, UUID: "MIG-ab"}, GPU{Index: 1, UUID: "GPU-cd"})
	claims, err := r.Look()
	if err != nil || len(claims) != 1 || claims[0].Since.Before(before) || claims[0].Since.After(time.Now()) {
		t.Fatalf("Look() = %v, %v", claims, err)
	}
	w.Queue = DefaultQueue
	want := Claim{Wish: w, PID: os.Getpid(), Since: claims[0].Since, Holds: true, Cores: []int{0}, GPUs: []string{"MIG-ab"}}
	if diff := cmp.Diff(want, claims[0]); diff != "" {
		t.Errorf("the claim differs (-want +got):\n%s", diff)
	}
}

func TestAClaimThatSomebodyRemovedIsAFault(t *testing.T) {
	r := roomOf(t, 1)
	synctest.Test(t, func(t *testing.T) {
		first := grant(t, r, cpus("job a", 1))
		next := takeBeside(t, r, cpus("job b", 1))
		if err := os.Remove(filepath.Join(r.Folder, claimName(3))); err != nil {
			t.Fatal(err)
		}
		first.Release()
		soon()
		if !next.ended() || next.err == nil || fault.Hint(next.err) == "" {
			t.Errorf("ended %v: %v", next.ended(), next.err)
		}
	})
}

func TestAStoppedProcessAtTheGateIsWaitedFor(t *testing.T) {
	r := roomOf(t, 1)
	synctest.Test(t, func(t *testing.T) {
		if err := r.makeFolder(); err != nil {
			t.Fatal(err)
		}
		gate, err := r.lockFile(gateFile)
		if err != nil {
			t.Fatal(err)
		}
		next := takeBeside(t, r, cpus("job a", 1))
		if _, err := r.Look(); err == nil || fault.KindOf(err) != fault.Full || fault.Hint(err) == "" {
			t.Errorf("Look() = %v", err)
		}
		if next.ended() {
			t.Error("two are behind the gate")
		}
		unlock(gate)
		soon()
		if !next.ended() || next.err != nil {
			t.Error(next.err)
		}
		if gate, err = r.lockFile(gateFile); err != nil {
			t.Fatal(err)
		}
		next.held.Release()
		unlock(gate)
		grant(t, r, cpus("job b", 1)).Release()
	})
}
