package stream

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/store"
)

// slot is a slot: a program, what connects from there, and what it was given.
type slot struct {
	r      *Runner
	n      int
	socket *net.UnixListener
	path   string
	link   string         // to path, where that is not in Dir; ""
	talks  sync.WaitGroup // connections of the program

	// Guarded by r.mu.
	program  *proc.Process
	conns    []*conn
	open     []*given // let go unanswered by a connection that is closed
	suspects []*given // to be given alone, one after another
	lone     bool     // what is given now is alone
	asked    bool     // the program has asked for an item
	served   int      // items that the program has answered
	retiring bool     // it was told to end
	leaving  bool     // or else is ended
	stray    bool     // it was told so because a connection was closed with items unanswered
	doomed   map[uint64]bool
	late     []*given      // of a connection that has not answered in time: its first, or one behind it
	pace     time.Duration // an item takes here, lately; 0: none was answered
	last     []byte        // of standard error
	mouths   [2]outputReader
}

// newSlot makes the slot and its socket.
func newSlot(r *Runner, n int) (*slot, error) {
	s := &slot{r: r, n: n}
	return s, s.openSocket()
}

// runPrograms starts programs for as long as there may be items.
func (s *slot) runPrograms() {
	defer s.closeSocket()
	r := s.r
	for first := true; ; first = false {
		r.mu.Lock()
		for !r.closed && (r.retiring || !first && len(r.queue)+len(s.suspects) == 0) {
			r.more.Wait()
		}
		closed := r.closed
		r.mu.Unlock()
		if closed {
			return
		}
		if err := s.serveProgram(); err != nil {
			r.mu.Lock()
			r.beginClose(err)
			r.mu.Unlock()
			return
		}
	}
}

// serveProgram runs one program to its end.
func (s *slot) serveProgram() error {
	r := s.r
	c := r.c.Command
	c.Token = fmt.Sprintf("%s-%d", c.Token, s.n)
	c.Env = append(slices.Clone(c.Env), Variable+"="+s.path)
	if r.c.Environ != nil {
		c.Env = append(c.Env, r.c.Environ(s.n)...)
	}
	var pipes [2]*os.File
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for i, w := range []**os.File{&c.Stdout, &c.Stderr} {
		out, theirs, err := os.Pipe()
		if err != nil {
			return fault.Wrap(err, fault.Full, "Close some programs, or raise `ulimit -n`.", "start program")
		}
		pipes[i], *w = out, theirs
		files = append(files, out, theirs)
	}
	p, err := proc.Start(r.life, c)
	if err != nil {
		return err
	}
	c.Stdout.Close()
	c.Stderr.Close()
	r.mu.Lock()
	s.program, s.asked, s.served, s.retiring, s.leaving, s.stray, s.doomed, s.late, s.last = p, false, 0, false, false, false, nil, nil, nil
	for i := range s.mouths {
		s.mouths[i] = outputReader{slot: s, stream: i + 1, pipe: pipes[i], room: make([]byte, 64<<10)}
	}
	if r.closed {
		s.retireForGood()
	} else if r.retiring {
		s.askToRetire()
	}
	r.mu.Unlock()
	var pumps, hands sync.WaitGroup
	for i := range s.mouths {
		pumps.Go(s.mouths[i].readToEnd)
	}
	hands.Go(s.acceptConns)
	hands.Go(func() { s.enforceLimits(p) })
	x := p.Wait()
	for _, f := range pipes {
		_ = f.SetReadDeadline(time.Now()) // what is in it is read; the holder of the other end may be outside the tree
	}
	pumps.Wait()
	_ = s.socket.SetDeadline(time.Now())
	hands.Wait()
	_ = s.socket.SetDeadline(time.Time{})
	s.talks.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.handleProgramEnd(x)
	return nil
}

// acceptConns takes connections until the program has ended: those that were made by then.
func (s *slot) acceptConns() {
	for {
		uc, err := s.acceptOwn()
		if err != nil {
			return
		}
		c := newConn(s, uc)
		s.r.mu.Lock()
		s.conns = append(s.conns, c)
		s.r.mu.Unlock()
		s.talks.Add(2)
		go c.readRequests()
		go c.handOutItems()
	}
}

// How often a slot looks after its program.
const (
	mindEvery  = 100 * time.Millisecond
	weighEvery = 5 // times that, until it is half as large as it may be
)

// enforceLimits ends a program that is over an item's time, and one that has grown too large.
func (s *slot) enforceLimits(p *proc.Process) {
	t := time.NewTicker(mindEvery)
	defer t.Stop()
	large := false
	for n := 1; ; n++ {
		select {
		case <-p.Done():
			return
		case <-t.C:
		}
		if limit := s.r.c.Recycle; limit > 0 && (large || n%weighEvery == 0) {
			u, err := p.Usage()
			large = err == nil && u.Memory >= limit/2
			if err == nil && u.Memory >= limit {
				s.r.mu.Lock()
				s.askToRetire()
				s.r.mu.Unlock()
			}
		}
		s.r.mu.Lock()
		now := store.System.Boot()
		for _, c := range s.conns {
			if len(c.has) > 0 && len(s.late) == 0 && c.has[0].Timeout > 0 && now-c.has[0].since > c.has[0].Timeout {
				s.late = slices.Clone(c.has)
				p.Stop(s.r.c.Grace)
			}
		}
		s.replaceSilent()
		s.r.mu.Unlock()
	}
}

// replaceSilent replaces a program that lives on though a connection was closed with items
// unanswered: no connection will answer these any more.
func (s *slot) replaceSilent() {
	if len(s.open) == 0 || s.stray && s.itemsInFlight() > len(s.open) {
		return
	}
	if s.itemsInFlight() > len(s.open) {
		s.stray = true
		s.askToRetire()
	} else if !s.stray || !s.leaving {
		s.stray = true
		s.retireForGood()
	}
}

// askToRetire asks the program to end once it has answered what it has.
func (s *slot) askToRetire() {
	s.retiring = true
	s.r.more.Broadcast()
}

// retireForGood is retire for good: a program that goes on is ended.
func (s *slot) retireForGood() {
	s.askToRetire()
	s.leaving = true
	if p := s.program; p != nil {
		go func() {
			select {
			case <-p.Done():
			case <-time.After(min(s.r.c.Grace, lastWords)):
				p.Stop(s.r.c.Grace)
			}
		}()
	}
}

// lastWords is the time of a program to end by itself when there is nothing more.
const lastWords = 2 * time.Second

// programHasAny says whether the program was given one of the items.
func (s *slot) programHasAny(ids map[uint64]bool) bool {
	named := func(g *given) bool { return ids[g.ID] }
	return slices.ContainsFunc(s.open, named) || slices.ContainsFunc(s.conns, func(c *conn) bool { return slices.ContainsFunc(c.has, named) })
}

// stopProgram ends the program because of items that are not wanted any more.
func (s *slot) stopProgram(sig syscall.Signal, ids map[uint64]bool) {
	if s.doomed == nil {
		s.doomed = map[uint64]bool{}
	}
	for id := range ids {
		s.doomed[id] = true
	}
	s.askToRetire() // a program that hears of it another way, and ends by itself, is told so too
	if sig == syscall.SIGTERM {
		s.program.Stop(s.r.c.Grace)
	} else {
		s.program.Interrupt(sig)
	}
}

// itemsInFlight is how many items the program has.
func (s *slot) itemsInFlight() (n int) {
	n = len(s.open)
	for _, c := range s.conns {
		n += len(c.has)
	}
	return n
}

// soleItemHeld is the item that the program has; 0 when there are none, or several.
func (s *slot) soleItemHeld() (n int) {
	if s.itemsInFlight() != 1 {
		return 0
	}
	for _, c := range s.conns {
		if len(c.has) == 1 {
			return c.has[0].N
		}
	}
	return s.open[0].N
}

// handleProgramEnd says what the program's end means for what it had: all its connections are
// closed and were read to their end.
func (s *slot) handleProgramEnd(x proc.Exit) {
	r := s.r
	left := s.open
	chance := s.stray && !s.lone // we ended it, and the item has not had a program to itself
	s.open, s.conns, s.program, s.lone = nil, nil, nil, false
	slices.SortFunc(left, func(a, b *given) int { return cmp.Compare(a.ID, b.ID) })
	if s.asked {
		r.useless = 0
	} else if r.useless++; r.useless >= strikes && !r.closed && !r.retiring {
		r.beginClose(&ErrUseless{x, lastLine(s.last)})
	}
	var again, suspects []*given
	for _, g := range left {
		switch {
		case r.closed, s.doomed[g.ID]:
			s.endGivenItem(g, x, false)
		case len(s.late) == 1 && g == s.late[0]:
			x := x
			x.TimedOut = true
			s.endGivenItem(g, x, true)
		case slices.Contains(s.late, g):
			suspects = append(suspects, g)
		case s.doomed != nil, len(s.late) > 0: // it was ended for another's sake
			again = append(again, g)
		case len(left) == 1 && s.served == 0 && !chance:
			s.endGivenItem(g, x, true)
		default:
			suspects = append(suspects, g)
		}
	}
	r.requeueItems(again, nil)
	for _, g := range suspects {
		if r.retiring {
			r.queueEvent(Event{ID: g.ID, Kind: Unstarted})
			continue
		}
		s.suspects = append(s.suspects, g)
		r.queueEvent(Event{ID: g.ID, Kind: Waits})
	}
	r.more.Broadcast()
}

func (s *slot) endGivenItem(g *given, x proc.Exit, failed bool) {
	s.r.queueEvent(Event{ID: g.ID, Kind: Ended, Ended: time.Now().UnixNano(), Took: store.System.Boot() - g.since,
		End: &End{Failed: failed, Exit: &x, Last: lastLine(s.last), Stopped: !failed}})
}

// itemsPerRequest is how many items a program is given at once: about as many as it answers in
// batchTime, and never so many that another slot has none.
func (s *slot) itemsPerRequest(want int) int {
	n := 1
	if s.pace > 0 {
		n = int(min(batchTime/s.pace, mostAtOnce))
	}
	fair := (len(s.r.queue) + len(s.r.slots) - 1) / len(s.r.slots)
	return max(1, min(want, n, fair))
}

const (
	batchTime   = 20 * time.Millisecond
	patientTime = 100 * time.Millisecond // that a batch may take before it is made smaller
	mostAtOnce  = 512
)

// outputReader is one of the program's two streams of output.
type outputReader struct {
	slot   *slot
	stream int
	pipe   *os.File

	mu     sync.Mutex // held while bytes are read and printed
	room   []byte     // to read into
	item   int        // that the program says it prints for
	marks  bool       // it says so
	broken []byte     // the beginning of a mark
}

// A program may say for which item it prints, by a mark in the stream: the escape
// sequence OSC "drover;N" BEL. The module of ours for Python does.
const (
	markBegin = "\x1b]drover;"
	markEnd   = '\a'
	markMost  = len(markBegin) + 20
)

// readToEnd reads the stream to its end, or until the program's tree is gone and nothing
// more is in it.
func (m *outputReader) readToEnd() {
	raw, err := m.pipe.SyscallConn()
	if err != nil {
		return
	}
	for {
		over := false
		err := raw.Read(func(fd uintptr) bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			n, err := readFD(int(fd), m.room)
			if errors.Is(err, errAgain) {
				return false
			}
			over = n <= 0
			if n > 0 {
				m.printPerItem(m.room[:n])
			}
			return true
		})
		if over {
			return
		}
		if err != nil { // the tree is gone
			m.drainPipe()
			return
		}
	}
}

// drainPipe prints what is in the pipe, and waits for nothing: pump may be doing the same.
// There can be no more of it than a pipe holds.
func (m *outputReader) drainPipe() {
	const most = 1 << 20
	raw, err := m.pipe.SyscallConn()
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = raw.Control(func(fd uintptr) {
		for sum := 0; sum < most; {
			n, err := readFD(int(fd), m.room)
			if err != nil || n <= 0 {
				return
			}
			sum += n
			m.printPerItem(m.room[:n])
		}
	})
}

// printPerItem prints bytes, each for its item.
func (m *outputReader) printPerItem(b []byte) {
	if len(m.broken) > 0 {
		b = append(m.broken, b...)
		m.broken = nil
	}
	for len(b) > 0 {
		i := bytes.IndexByte(b, markBegin[0])
		if i < 0 {
			m.printBytes(b)
			return
		}
		m.printBytes(b[:i])
		b = b[i:]
		n := min(len(b), len(markBegin))
		end := bytes.IndexByte(b[:min(len(b), markMost)], markEnd)
		switch {
		case string(b[:n]) != markBegin[:n], end < 0 && len(b) >= markMost:
			m.printBytes(b[:1]) // another item's
			b = b[1:]
		case end < 0:
			m.broken = append([]byte(nil), b...)
			return
		default:
			item, err := strconv.Atoi(string(b[len(markBegin):end]))
			if err == nil && item >= 0 {
				m.item, m.marks = item, true
			}
			b = b[end+1:]
		}
	}
}

func (m *outputReader) printBytes(b []byte) {
	if len(b) == 0 {
		return
	}
	s := m.slot
	item := m.item
	s.r.mu.Lock()
	if !m.marks {
		item = s.soleItemHeld()
	}
	if m.stream == 2 {
		const keep = 1 << 10
		s.last = append(s.last, b[max(0, len(b)-keep):]...)
		s.last = s.last[max(0, len(s.last)-keep):]
	}
	s.r.mu.Unlock()
	s.r.c.Print(s.n, m.stream, item, b)
}

// lastLine is the last line that says anything.
func lastLine(b []byte) string {
	b = bytes.TrimRight(b, " \t\r\n\x00")
	if i := bytes.LastIndexAny(b, "\r\n"); i >= 0 {
		b = b[i+1:]
	}
	return string(b)
}
