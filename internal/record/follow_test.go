package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/proc/private"
	"github.com/drover-run/drover/internal/record/recordtest"
	"github.com/drover-run/drover/store/mem"
)

var errCut = errors.New("cut off")

// cable is a connection that is cut after so many bytes were read.
type cable struct {
	net.Conn
	left int
}

func (c *cable) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.Conn.Close()
		return 0, errCut
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// exchange connects followers with writers by name, in memory.
type exchange struct {
	mu      sync.Mutex
	writers map[string]*Writer
	cut     func() int // how many bytes the next connection lives; negative: it is refused
	dialled int
}

func (x *exchange) add(addr string, w *Writer) {
	w.mu.Lock()
	w.live.ring.on = true
	w.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.writers == nil {
		x.writers = map[string]*Writer{}
	}
	x.writers[addr] = w
}

func (x *exchange) live(context.Context) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []string
	for addr := range x.writers {
		all = append(all, addr)
	}
	return all
}

func (x *exchange) dial(_ context.Context, addr string) (net.Conn, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dialled++
	w, left := x.writers[addr], 1<<62
	if x.cut != nil {
		left = x.cut()
	}
	if w == nil || left < 0 {
		return nil, errCut
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return nil, errCut // its listener is closed
	}
	ours, theirs := net.Pipe()
	w.live.serving.Go(func() { w.serveFollower(theirs) })
	return &cable{ours, left}, nil
}

// exactlyOnce checks frames against what was said, and that none is missing,
// twice or out of order.
func exactlyOnce(t *testing.T, said map[string][]byte, frames []Frame) {
	t.Helper()
	heard := map[string][]byte{}
	last := map[string]uint64{}
	for _, f := range frames {
		if f.Seq != last[f.Writer]+1 {
			t.Fatalf("writer %s: seq %d follows %d", f.Writer, f.Seq, last[f.Writer])
		}
		last[f.Writer] = f.Seq
		heard[f.Writer] = append(heard[f.Writer], f.Data...)
	}
	for id, b := range said {
		if !bytes.Equal(b, heard[id]) {
			t.Errorf("writer %s: of %d bytes, %d others came", id, len(b), len(heard[id]))
		}
	}
}

// talk says random things through w, now and then a burst larger than the ring.
func talk(t *testing.T, r *rand.Rand, w *Writer, pause time.Duration) []byte {
	var said []byte
	for range 20 {
		n := r.IntN(2000)
		if r.IntN(12) == 0 {
			n = r.IntN(6 << 20)
		}
		b := bytes.Repeat([]byte{byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())}, n/3)
		recordtest.WriteAll(t, w, Stdout, 0, b)
		said = append(said, b...)
		time.Sleep(time.Duration(r.Int64N(int64(pause))))
		if r.IntN(6) == 0 {
			if err := w.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	return said
}

func TestAFollowerMissesAndRepeatsNothing(t *testing.T) {
	dials := 0
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 3))
			d := recordtest.NewStore(mem.New())
			x := &exchange{cut: func() int {
				switch r.IntN(5) {
				case 0:
					return -1
				case 1:
					return 1 << 62
				}
				return r.IntN(1 << (4 + r.IntN(19)))
			}}
			ended := make(chan struct{})
			said := map[string][]byte{}
			var mu sync.Mutex
			var talking sync.WaitGroup
			for rank := range 2 {
				own := rand.New(rand.NewPCG(seed, uint64(10+rank)))
				talking.Go(func() {
					for attempt := 1; attempt <= 2; attempt++ {
						id := fmt.Sprintf("a%dr%d", attempt, rank)
						w := newWriter(t, d, attempt, rank, id)
						if own.IntN(4) > 0 {
							x.add(id, w)
						}
						b := talk(t, own, w, 3*time.Second)
						mu.Lock()
						said[id] = b
						mu.Unlock()
						recordtest.CloseWriter(t, w)
					}
				})
			}
			go func() { talking.Wait(); close(ended) }()
			var got []Frame
			slow := rand.New(rand.NewPCG(seed, 4))
			for f, err := range Follow(t.Context(), FollowOptions{
				Store: d, Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock, Live: x.live, Ended: ended, dial: x.dial,
			}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, f)
				if slow.IntN(20) == 0 {
					time.Sleep(time.Duration(slow.IntN(2000)) * time.Millisecond)
				}
			}
			exactlyOnce(t, said, got)
			dials += x.dialled
		})
	}
	if dials < 50 {
		t.Errorf("only %d connections were tried: nothing was proved", dials)
	}
}

func TestWithoutASocketTheStoreIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		ended := make(chan struct{})
		w := newWriter(t, d, 1, 0, "a")
		w.Hurry(true)
		said := map[string][]byte{}
		go func() {
			said["a"] = talk(t, rand.New(rand.NewPCG(1, 1)), w, 20*time.Second)
			recordtest.CloseWriter(t, w)
			close(ended)
		}()
		var got []Frame
		var worst time.Duration
		for f, err := range Follow(t.Context(), FollowOptions{Store: d, Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock, Ended: ended}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, f)
			worst = max(worst, time.Since(f.Time))
		}
		exactlyOnce(t, said, got)
		if most := flushHurried + tick + poll; worst > most { // in the bubble's time, which is exact
			t.Errorf("a frame came after %s, want at most %s", worst, most)
		}
	})
}

func TestAPartOfALineReachesAFollowerAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, x := recordtest.NewStore(mem.New()), &exchange{}
		w := newWriter(t, d, 1, 0, "a")
		x.add("a", w)
		ended := make(chan struct{})
		go func() {
			time.Sleep(time.Hour)
			recordtest.WriteAll(t, w, Stdout, 0, []byte("Password: "))
			time.Sleep(time.Hour)
			recordtest.CloseWriter(t, w)
			close(ended)
		}()
		o := FollowOptions{Store: d, Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock, Live: x.live, Ended: ended, dial: x.dial}
		for f, err := range Follow(t.Context(), o) {
			if late := time.Since(f.Time); err != nil || late >= time.Microsecond {
				t.Errorf("%q came after %s, %v", f.Data, late, err)
			}
		}
	})
}

// TestTheLastWordsAfterSettlingAreHeard: an agent says the job has settled
// before it has closed its log.
func TestTheLastWordsAfterSettlingAreHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, x := recordtest.NewStore(mem.New()), &exchange{}
		w := newWriter(t, d, 1, 0, "a")
		x.add("a", w)
		ended := make(chan struct{})
		go func() {
			recordtest.WriteAll(t, w, Stdout, 0, []byte("one "))
			time.Sleep(time.Minute)
			close(ended)
			time.Sleep(grace / 2)
			recordtest.WriteAll(t, w, Stdout, 0, []byte("two"))
			recordtest.CloseWriter(t, w)
		}()
		o := FollowOptions{Store: d, Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock, Live: x.live, Ended: ended, dial: x.dial}
		exactlyOnce(t, map[string][]byte{"a": []byte("one two")}, recordtest.AllFrames(t, Follow(t.Context(), o)))
	})
}

func TestASettledJobWithAWriterThatNeverEndsIsLeftAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, x := recordtest.NewStore(mem.New()), &exchange{}
		w := newWriter(t, d, 1, 0, "a")
		defer recordtest.CloseWriter(t, w)
		x.add("a", w)
		recordtest.WriteAll(t, w, Stdout, 0, []byte("one"))
		ended := make(chan struct{})
		go func() { time.Sleep(time.Minute); close(ended) }()
		o := FollowOptions{Store: d, Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock, Live: x.live, Ended: ended, dial: x.dial}
		exactlyOnce(t, map[string][]byte{"a": []byte("one")}, recordtest.AllFrames(t, Follow(t.Context(), o)))
		if took := time.Since(recordtest.BubbleStart); took > time.Minute+grace+poll {
			t.Errorf("left after %s", took)
		}
	})
}

func TestAtTheEndWhatListingsHideIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		hidden := map[string]bool{}
		d.HideFromList = func(key string) bool {
			late := key > Origin{1, 0, "a"}.Key(recordtest.Prefix, 1)
			if late {
				hidden[key] = true
			}
			return late
		}
		w := newWriter(t, d, 1, 0, "a")
		var text []byte
		for n := range 5 {
			b := bytes.Repeat([]byte{byte('a' + n)}, 1+n*1000)
			recordtest.WriteAll(t, w, Stdout, 0, b)
			text = append(text, b...)
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		recordtest.CloseWriter(t, w)
		ended := make(chan struct{})
		close(ended)
		o := FollowOptions{Store: d, Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock, Ended: ended}
		exactlyOnce(t, map[string][]byte{"a": text}, recordtest.AllFrames(t, Follow(t.Context(), o)))
		if len(hidden) != 3 {
			t.Errorf("%d objects were hidden, want 3: nothing was proved", len(hidden))
		}
	})
}

// TestAStoreThatFailsAtTheEndIsAskedAgain: the last look is not over until it
// was a whole one.
func TestAStoreThatFailsAtTheEndIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		w := newWriter(t, d, 1, 0, "a")
		recordtest.WriteAll(t, w, Stdout, 0, []byte("late"))
		recordtest.CloseWriter(t, w)
		no := errors.New("no")
		d.ListErrors = []error{no, no, no, no, no}
		ended := make(chan struct{})
		close(ended)
		var got []Frame
		errs := 0
		for f, err := range Follow(t.Context(), FollowOptions{Store: d, Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock, Ended: ended}) {
			switch {
			case errors.Is(err, no):
				errs++
			case err != nil:
				t.Fatal(err)
			default:
				got = append(got, f)
			}
		}
		exactlyOnce(t, map[string][]byte{"a": []byte("late")}, got)
		if errs != 5 {
			t.Errorf("%d errors were passed on of 5", errs)
		}
	})
}

// TestASocketThatRepeatsOrLeavesOutIsNotBelieved, nor does it do harm: the
// store has what it left out.
func TestASocketThatRepeatsOrLeavesOutIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		w := newWriter(t, d, 1, 0, "a")
		ended := make(chan struct{})
		served := 0
		var serving sync.WaitGroup
		liar := func(context.Context, string) (net.Conn, error) {
			if served++; served > 1 {
				return nil, errCut
			}
			ours, theirs := net.Pipe()
			serving.Go(func() {
				defer theirs.Close()
				theirs.Write(append([]byte(Greeting), 1, 0, 1, 'a'))
				io.ReadFull(theirs, make([]byte, 8))
				for _, seq := range []uint64{1, 2, 1, 2, 2, 5} {
					text := fmt.Appendf(nil, "%d", seq)
					theirs.Write(appendFrame(nil, &Frame{Stream: Stdout, Seq: seq, Time: recordtest.BubbleStart, Data: text}))
				}
				io.Copy(io.Discard, theirs) // and stays, until it is hung up on
			})
			return ours, nil
		}
		go func() {
			time.Sleep(time.Minute)
			for seq := range 6 {
				recordtest.WriteAll(t, w, Stdout, 0, fmt.Append(nil, seq+1))
			}
			recordtest.CloseWriter(t, w)
			time.Sleep(time.Hour)
			close(ended)
		}()
		o := FollowOptions{Store: d, Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock, Ended: ended, dial: liar,
			Live: func(context.Context) []string { return []string{"liar"} }}
		var got []Frame
		for f, err := range Follow(t.Context(), o) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, f); time.Since(recordtest.BubbleStart) > 2*time.Minute {
				t.Errorf("frame %d came after %s: the follower stayed with the liar", f.Seq, time.Since(recordtest.BubbleStart))
			}
		}
		exactlyOnce(t, map[string][]byte{"a": []byte("123456")}, got)
		serving.Wait()
	})
}

func TestAWriterThatSaidItsEndIsNotCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, x := recordtest.NewStore(mem.New()), &exchange{}
		w := newWriter(t, d, 1, 0, "a")
		x.add("a", w)
		ended := make(chan struct{})
		go func() {
			recordtest.WriteAll(t, w, Stdout, 0, []byte("x"))
			time.Sleep(time.Minute)
			recordtest.CloseWriter(t, w)
			time.Sleep(time.Hour) // the job goes on with another attempt
			close(ended)
		}()
		o := FollowOptions{Store: d, Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock, Live: x.live, Ended: ended, dial: x.dial}
		exactlyOnce(t, map[string][]byte{"a": []byte("x")}, recordtest.AllFrames(t, Follow(t.Context(), o)))
		if x.dialled != 1 {
			t.Errorf("called %d times", x.dialled)
		}
	})
}

func TestASlowFollowerHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, x := recordtest.NewStore(mem.New()), &exchange{}
		w := newWriter(t, d, 1, 0, "a")
		x.add("a", w)
		asleep, err := x.dial(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := readGreeting(byByte{asleep}); err != nil {
			t.Fatal(err)
		}
		asleep.Write([]byte{0, 0, 0, 0, 0, 0, 0, 1})
		said := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
		ended := make(chan struct{})
		go func() {
			recordtest.WriteAll(t, w, Stdout, 0, said)
			recordtest.CloseWriter(t, w) // also gives up on the sleeper
			close(ended)
		}()
		o := FollowOptions{Store: d, Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock, Live: x.live, Ended: ended, dial: x.dial}
		exactlyOnce(t, map[string][]byte{"a": said}, recordtest.AllFrames(t, Follow(t.Context(), o)))
	})
}

type byByte struct{ io.Reader }

func (b byByte) ReadByte() (byte, error) {
	var one [1]byte
	_, err := io.ReadFull(b, one[:])
	return one[0], err
}

func TestAGapIsSaidOnceTheStoreHoldsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, x := recordtest.NewStore(mem.New()), &exchange{}
		w := newWriter(t, d, 1, 0, "a")
		defer recordtest.CloseWriter(t, w)
		x.add("a", w)
		recordtest.WriteAll(t, w, Stdout, 0, make([]byte, 2*chunks*chunkSize))
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		recordtest.WriteAll(t, w, Stdout, 0, []byte("not due for a minute"))
		w.mu.Lock()
		last := w.seq
		w.mu.Unlock()
		conn, err := x.dial(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		at, err := readGreeting(byByte{conn})
		if err != nil || at != w.at {
			t.Fatalf("greeted by %v, %v", at, err)
		}
		conn.Write([]byte{0, 0, 0, 0, 0, 0, 0, 1})
		if b, err := (byByte{conn}).ReadByte(); err != nil || b != saidGap {
			t.Fatalf("got %#x, %v, want a gap", b, err)
		}
		if got := recordtest.AllFrames(t, Read(t.Context(), d, recordtest.Prefix, Filter{})); len(got) == 0 || got[len(got)-1].Seq != last {
			t.Errorf("told of a gap before frame %d was stored", last)
		}
	})
}

func TestFollowersAreServedOnARealSocket(t *testing.T) {
	for _, long := range []bool{false, true} {
		folder := t.TempDir()
		if long {
			folder = filepath.Join(folder, strings.Repeat("long/", 30))
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		d := recordtest.NewStore(mem.New())
		w := newWriter(t, d, 2, 1, "a")
		addr, err := w.Listen(folder)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(addr)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want mode 0600", addr, info.Mode(), err)
		}
		if _, err := w.Listen(folder); err == nil {
			t.Error("listening twice was not refused")
		}
		said := bytes.Repeat([]byte("real "), 1<<20)
		ended := make(chan struct{})
		first := make(chan struct{})
		var talking sync.WaitGroup
		talking.Go(func() {
			recordtest.WriteAll(t, w, Stdout, 0, said[:5])
			<-first // came by the socket: nothing is stored yet
			recordtest.WriteAll(t, w, Stdout, 0, said[5:])
			recordtest.CloseWriter(t, w)
			close(ended)
		})
		var got []Frame
		o := FollowOptions{Store: d, Prefix: recordtest.Prefix, Live: func(context.Context) []string { return []string{addr} }, Ended: ended}
		for f, err := range Follow(t.Context(), o) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, f); len(got) == 1 {
				close(first)
			}
		}
		talking.Wait()
		exactlyOnce(t, map[string][]byte{"a": said}, got)
		if _, err := os.Lstat(addr); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left behind: %v", err)
		}
	}
}

func TestAnotherUserIsRefused(t *testing.T) {
	w := newWriter(t, recordtest.NewStore(mem.New()), 1, 0, "a")
	defer recordtest.CloseWriter(t, w)
	l, addr, remove, err := private.Listen(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() { w.acceptFollowers(l, os.Geteuid()+1) }) // serves another user
	conn, err := private.Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readGreeting(byByte{conn}); !errors.Is(err, io.EOF) && !errors.Is(err, errReset(err)) {
		t.Errorf("got %v, want a closed door", err)
	}
	conn.Close()
	w.mu.Lock()
	w.closing = true // as Close does before it closes the listener
	w.mu.Unlock()
	l.Close()
	accepting.Wait()
	remove()
}

// errReset is err when it is any network error: how a closed peer looks is the system's.
func errReset(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return err
	}
	return io.EOF
}

func TestWhoStopsRangingLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails when a goroutine is left
		d, x := recordtest.NewStore(mem.New()), &exchange{}
		w := newWriter(t, d, 1, 0, "a")
		x.add("a", w)
		recordtest.WriteAll(t, w, Stdout, 0, []byte("x"))
		o := FollowOptions{Store: d, Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock, Live: x.live, dial: x.dial}
		for range Follow(t.Context(), o) {
			break
		}
		recordtest.CloseWriter(t, w)
	})
}

func TestACancelledFollowEndsWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("that is enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { time.Sleep(time.Minute); cancel(why) }()
		var last error
		for _, err := range Follow(ctx, FollowOptions{Store: recordtest.NewStore(mem.New()), Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock}) {
			last = err
		}
		if !errors.Is(last, why) {
			t.Errorf("got %v", last)
		}
	})
}

func TestAFilteredFollowGivesOnlyWhatWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, x := recordtest.NewStore(mem.New()), &exchange{}
		ended := make(chan struct{})
		var talking sync.WaitGroup
		for rank := range 3 {
			w := newWriter(t, d, 1, rank, fmt.Sprint("w", rank))
			x.add(fmt.Sprint("w", rank), w)
			talking.Go(func() {
				for n := range 10 {
					recordtest.WriteAll(t, w, Stdout, 0, []byte("out"))
					recordtest.WriteAll(t, w, Stderr, 0, fmt.Append(nil, n))
					time.Sleep(time.Second)
				}
				recordtest.CloseWriter(t, w)
			})
		}
		go func() { talking.Wait(); close(ended) }()
		o := FollowOptions{Store: d, Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock, Live: x.live, Ended: ended, dial: x.dial,
			Filter: Filter{Ranks: []int{1}, Streams: Stderr, FromSeq: 10}}
		var text []byte
		for _, f := range recordtest.AllFrames(t, Follow(t.Context(), o)) {
			if f.Rank != 1 || f.Stream != Stderr || f.Seq < 10 {
				t.Errorf("got %+v", f)
			}
			text = append(text, f.Data...)
		}
		if string(text) != "456789" {
			t.Errorf("got %q", text)
		}
	})
}

func TestFollowGoesOnWhereTailEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := recordtest.NewStore(mem.New())
		w := newWriter(t, d, 1, 0, "a")
		say := func(n int) {
			recordtest.WriteAll(t, w, Stdout, 0, fmt.Appendf(nil, "line %d\n", n))
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 100 {
			say(n)
		}
		var got []string
		after := map[Origin]uint64{}
		for f, err := range ReadTail(t.Context(), d, recordtest.Prefix, Filter{}, 2) {
			if err != nil {
				t.Fatal(err)
			}
			after[Origin{f.Attempt, f.Rank, f.Writer}] = f.Seq
			got = append(got, strings.Split(strings.TrimSpace(string(f.Data)), "\n")...)
		}
		say(100)
		say(101)
		recordtest.CloseWriter(t, w)
		ended := make(chan struct{})
		close(ended)
		for f, err := range Follow(t.Context(), FollowOptions{Store: d, Prefix: recordtest.Prefix, Clock: recordtest.BubbleClock, After: after, Ended: ended}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.TrimSpace(string(f.Data)))
		}
		if diff := cmp.Diff([]string{"line 98", "line 99", "line 100", "line 101"}, got[max(0, len(got)-4):]); diff != "" || len(got) > 6 {
			t.Errorf("%d lines (-want +got):\n%s", len(got), diff)
		}
	})
}
