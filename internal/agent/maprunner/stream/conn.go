package stream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/drover-run/drover/store"
)

// conn is a connection: of a program, or of one of its threads or processes.
type conn struct {
	s  *slot
	uc *net.UnixConn

	// Guarded by s.r.mu.
	has    []*given // in the order in which they were given
	want   int      // that it asked for; 0: nothing
	gone   bool
	told   bool          // that there is nothing more
	handed time.Duration // when it was given something last

	asks request // the line that hear is at
}

func newConn(s *slot, uc *net.UnixConn) *conn { return &conn{s: s, uc: uc} }

const (
	// maxLine bounds a line of a program.
	maxLine = 16 << 20
	// MaxResult bounds an answer: it is kept with the item's record.
	MaxResult = 64 << 10
)

// readRequests reads requests until the other end is closed.
func (c *conn) readRequests() {
	defer c.s.talks.Done()
	r := bufio.NewReaderSize(c.uc, 64<<10)
	var err error
	for err == nil {
		var line []byte
		if line, err = readLine(r); err == nil && len(bytes.TrimSpace(line)) > 0 {
			err = c.handleLine(line)
		}
		if err != nil && err != io.EOF {
			c.reportBadRequest(err)
		}
	}
	mu := &c.s.r.mu
	mu.Lock()
	c.gone = true
	c.s.open = append(c.s.open, c.has...)
	c.has = nil
	c.s.conns = slices.DeleteFunc(c.s.conns, func(o *conn) bool { return o == c })
	mu.Unlock()
	c.s.r.more.Broadcast()
	c.uc.Close()
}

func readLine(r *bufio.Reader) (line []byte, err error) {
	line, err = r.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, ended(line, err)
	}
	whole := append([]byte(nil), line...)
	for err == bufio.ErrBufferFull {
		line, err = r.ReadSlice('\n')
		if whole = append(whole, line...); len(whole) > maxLine {
			return nil, fmt.Errorf("a line is longer than %d MiB", maxLine>>20)
		}
	}
	return whole, ended(whole, err)
}

// ended makes every failure of a connection its end.
func ended(line []byte, err error) error {
	if err != nil {
		return io.EOF
	}
	return nil
}

// reportBadRequest tells the program, and the log, what is wrong with what it said.
func (c *conn) reportBadRequest(err error) {
	text, _ := json.Marshal(map[string]string{"error": err.Error()})
	_ = c.uc.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.uc.Write(append(text, '\n'))
	c.s.r.c.Print(c.s.n, 2, 0, []byte("drover: a line on "+Variable+" was refused: "+err.Error()+"\n"))
}

// handleLine takes answers, and notes what is wanted.
func (c *conn) handleLine(line []byte) error {
	q := &c.asks
	if err := q.parseLine(line); err != nil {
		return err
	}
	n := len(q.Done) + len(q.Fail)
	if n+q.Want > 0 { // what it printed while it loaded was for no item
		c.s.recordPrinted()
	}
	r := c.s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	c.s.asked = c.s.asked || q.Want > 0
	now := moment{time.Now(), store.System.Boot()}
	if n > 0 {
		if err := c.endAnswered(q, now); err != nil {
			return err
		}
	}
	for _, n := range q.Back {
		g, err := c.releaseItem(n, now.boot)
		if err != nil {
			return err
		}
		r.requeueItems([]*given{g}, c.s.doomed)
	}
	if q.Bye {
		c.told = true
		r.requeueItems(c.has, c.s.doomed)
		c.has, c.want, q.Want = nil, 0, 0
		r.more.Broadcast()
	}
	if n > 0 && c.handed > 0 {
		c.s.notePerItemTime(now.boot-c.handed, n)
		c.handed = now.boot
	}
	c.want = max(c.want, q.Want)
	if n+len(q.Back)+q.Want > 0 {
		r.more.Broadcast()
	}
	return nil
}

// moment is one, by both clocks.
type moment struct {
	wall time.Time
	boot time.Duration
}

// endAnswered ends items. Of several answers in one line it is not known when each was
// found: they share the time since the first of them began.
func (c *conn) endAnswered(q *request, now moment) error {
	n := len(q.Done) + len(q.Fail)
	each, left := time.Duration(0), 0
	if len(c.has) > 0 {
		each, left = (now.boot-c.has[0].since)/time.Duration(n), n
	}
	step := func(e *Event) {
		left--
		e.Took, e.Ended = each, now.wall.UnixNano()-int64(each)*int64(max(0, left))
	}
	for i := range q.Done {
		d := &q.Done[i]
		e := Event{Kind: Ended}
		step(&e)
		if d.Result != "null" {
			e.Value = string(d.Result)
		}
		if len(d.Result) > MaxResult {
			e.Value = ""
			e.End = &End{Failed: true, Final: true, Why: fmt.Sprintf("its result of %d bytes is longer than %d KiB: write it to a file, with --out", len(d.Result), MaxResult>>10)}
		}
		if err := c.endItem(d.N, e, now.boot); err != nil {
			return err
		}
	}
	for _, f := range q.Fail {
		e := Event{Kind: Ended, End: &End{Failed: true, Why: f.Error, Final: f.Retry != nil && !*f.Retry}}
		step(&e)
		e.End.Stopped = c.isDoomedItem(f.N)
		if err := c.endItem(f.N, e, now.boot); err != nil {
			return err
		}
	}
	return nil
}

// isDoomedItem says whether item n is one that the program is being ended for: that it fails
// may be no more than that.
func (c *conn) isDoomedItem(n int) bool {
	return slices.ContainsFunc(c.has, func(g *given) bool { return g.N == n && c.s.doomed[g.ID] })
}

// notePerItemTime learns how long an item takes, of n that were answered in some time. On a busy
// machine most of that time is waiting for a core, whatever n is; a slot that gave fewer items
// for it would have the program wait more often. So a batch that takes a little longer than it
// should is thought to be right.
func (s *slot) notePerItemTime(took time.Duration, n int) {
	took = min(took, max(batchTime, took-patientTime+batchTime))
	each := max(took/time.Duration(n), time.Microsecond)
	if s.pace == 0 {
		s.pace = each
		return
	}
	s.pace += (each - s.pace) / 4
}

// endItem ends an item.
func (c *conn) endItem(n int, e Event, boot time.Duration) error {
	g, err := c.releaseItem(n, boot)
	if err != nil {
		return err
	}
	e.ID = g.ID
	c.s.served++
	c.s.r.queueEvent(e)
	return nil
}

// releaseItem takes an item from the connection. The next one begins then.
func (c *conn) releaseItem(n int, boot time.Duration) (*given, error) {
	i := slices.IndexFunc(c.has, func(g *given) bool { return g.N == n })
	if i < 0 {
		return nil, fmt.Errorf("item %d was not given to this connection, or was answered before", n)
	}
	g := c.has[i]
	if i == 0 {
		c.has[0] = nil
		c.has = c.has[1:]
	} else {
		c.has = slices.Delete(c.has, i, i+1)
	}
	if i == 0 && len(c.has) > 0 {
		c.has[0].since = boot
	}
	return g, nil
}

// recordPrinted records what the program has printed, before the item is over that it was
// printed for: only where nothing else tells of which item it is.
func (s *slot) recordPrinted() {
	for i := range s.mouths {
		if m := &s.mouths[i]; !m.markerWasSeen() {
			m.drainPipe()
		}
	}
}

func (m *outputReader) markerWasSeen() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks
}

// handOutItems hands out items for as long as the connection is there.
func (c *conn) handOutItems() {
	defer c.s.talks.Done()
	var b []byte
	for {
		items, until, end, ok := c.nextItems()
		if !ok {
			return
		}
		b = append(b[:0], `{"items":[`...)
		for i, g := range items {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, g.Line...)
		}
		b = append(b, ']')
		if end {
			b = append(b, `,"end":true`...)
		} else {
			b = append(b, `,"until":`...)
			b = strconv.AppendFloat(b, until.Seconds(), 'f', 3, 64)
		}
		b = append(b, "}\n"...)
		if _, err := c.uc.Write(b); err != nil {
			return // hear finds out
		}
	}
}

// nextItems waits until there is something for the connection, and notes that it has it.
func (c *conn) nextItems() (items []*given, until time.Duration, end, ok bool) {
	s, r := c.s, c.s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		switch {
		case c.gone:
			return nil, 0, false, false
		case c.want > 0 && s.retiring && !c.told:
			c.told, c.want = true, 0
			return nil, 0, true, true
		case c.want > 0 && !s.retiring && s.doomed == nil && len(s.late) == 0:
			items = s.pickItems(c.want)
		}
		if len(items) > 0 {
			break
		}
		r.more.Wait()
	}
	boot := store.System.Boot()
	c.want = 0
	if len(c.has) == 0 {
		c.handed = boot
	}
	c.has = append(c.has, items...)
	for _, g := range items {
		g.since = boot
		r.queueEvent(Event{ID: g.ID, Kind: Began})
	}
	return items, r.until, false, true
}

// pickItems takes what the slot's program may be given now.
func (s *slot) pickItems(want int) (items []*given) {
	r := s.r
	busy := s.itemsInFlight() > 0
	if store.System.Boot() >= r.until || busy && s.lone {
		return nil
	}
	s.lone = false
	if len(s.suspects) > 0 {
		if busy {
			return nil
		}
		items, s.suspects, s.lone = s.suspects[:1:1], s.suspects[1:], true
		return items
	}
	n := s.itemsPerRequest(want)
	if !slices.ContainsFunc(r.queue[:min(n, len(r.queue))], func(g *given) bool { return g.Alone }) { // as ever
		n = min(n, len(r.queue))
		items = slices.Clone(r.queue[:n])
		clear(r.queue[:n])
		r.queue = r.queue[n:]
		return items
	}
	for i := 0; i < len(r.queue) && len(items) < n; {
		switch g := r.queue[i]; {
		case !g.Alone:
			items = append(items, g)
			r.queue = slices.Delete(r.queue, i, i+1)
		case !busy && len(items) == 0:
			r.queue = slices.Delete(r.queue, i, i+1)
			s.lone = true
			return []*given{g}
		default:
			i++
		}
	}
	return items
}
