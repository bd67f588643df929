package proc

import (
	"encoding/binary"
	"syscall"
	"time"
)

// What goes between an agent and its spawner, once the order was given and
// answered, are frames: four bytes that count the rest, one that says what it is,
// then numbers of fixed size and texts, little-endian. JSON would cost more than
// the errand.

// Frames down. Their end means what Close does.
const (
	frameErrand = iota + 1
	frameUntil
	frameDrop
	frameKill // a signal, and which errands it is for
)

// Frames up.
const (
	frameBegan = iota + 1
	frameOutput
	frameEnded
	frameUnfit // the program could not be run
	frameUnstarted
	frameGone // the last: nothing is left
)

// frameHead is the size of a frame's first two fields.
const frameHead = 5

var little = binary.LittleEndian

// openFrame begins a frame at the end of b; closeFrame, given its place, counts it.
func openFrame(b []byte, kind byte) (frame []byte, at int) {
	return append(b, 0, 0, 0, 0, kind), len(b)
}

func closeFrame(b []byte, at int) []byte {
	little.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// nextFrame cuts the first frame from b. ok is false while it is not whole.
func nextFrame(b []byte) (kind byte, body cut, rest []byte, ok bool) {
	if len(b) < frameHead {
		return 0, cut{}, b, false
	}
	n := int(little.Uint32(b))
	if n < 1 || len(b) < 4+n {
		return 0, cut{}, b, false
	}
	return b[4], cut{b: b[frameHead : 4+n]}, b[4+n:], true
}

// cut takes fields from a frame. After the first that is not there all are empty.
type cut struct {
	b   []byte
	bad bool
}

func (c *cut) nextBytes(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.bad, c.b = true, nil
		return nil
	}
	field := c.b[:n:n]
	c.b = c.b[n:]
	return field
}

func (c *cut) u8() byte {
	if f := c.nextBytes(1); f != nil {
		return f[0]
	}
	return 0
}

func (c *cut) u32() uint32 {
	if f := c.nextBytes(4); f != nil {
		return little.Uint32(f)
	}
	return 0
}

func (c *cut) u64() uint64 {
	if f := c.nextBytes(8); f != nil {
		return little.Uint64(f)
	}
	return 0
}

func (c *cut) nextText() []byte { return c.nextBytes(int(c.u32())) }

func (c *cut) nextTexts() [][]byte {
	n := int(c.u32())
	if n > len(c.b)/4 { // each has four bytes at least
		c.bad = true
		return nil
	}
	if n == 0 {
		return nil
	}
	list := make([][]byte, n)
	for i := range list {
		list[i] = c.nextText()
	}
	return list
}

// frameCommand is a command on its way down.
type frameCommand struct {
	ID      uint64
	Timeout time.Duration
	Path    string
	Args    []string
	Env     []string
	Stdin   []byte
}

// appendErrand is an errand as a frame. Its texts end in a zero byte, as the
// kernel wants them, so that they can stay where they are.
func appendErrand(b []byte, e *frameCommand) []byte {
	b, at := openFrame(b, frameErrand)
	b = little.AppendUint64(b, e.ID)
	b = little.AppendUint64(b, uint64(e.Timeout))
	b = appendZero(b, e.Path)
	args := e.Args
	if len(args) == 0 {
		args = []string{e.Path}
	}
	for _, list := range [][]string{args, e.Env} {
		b = little.AppendUint32(b, uint32(len(list)))
		for _, text := range list {
			b = appendZero(b, text)
		}
	}
	if e.Stdin != nil {
		b = append(b, 1)
		b = append(b, e.Stdin...)
	}
	return closeFrame(b, at)
}

func appendZero(b []byte, text string) []byte {
	b = little.AppendUint32(b, uint32(len(text)+1))
	return append(append(b, text...), 0)
}

// job is an errand as the spawner has it.
type job struct {
	id        uint64
	timeout   time.Duration
	path      []byte // texts end in a zero byte
	args, env [][]byte
	stdin     []byte // nil: none
	tries     int    // at starting it while its program was still being written
}

// newJob reads an errand from a frame, which is kept.
func newJob(c cut) (j *job, ok bool) {
	j = &job{id: c.u64(), timeout: time.Duration(c.u64()), path: c.nextText(), args: c.nextTexts(), env: c.nextTexts()}
	if len(c.b) > 0 && c.u8() == 1 {
		j.stdin = c.b
	}
	return j, !c.bad && len(j.args) > 0
}

func appendID(b []byte, kind byte, id uint64) []byte {
	b, at := openFrame(b, kind)
	return closeFrame(little.AppendUint64(b, id), at)
}

func appendKill(b []byte, sig syscall.Signal, ids []uint64) []byte {
	b, at := openFrame(b, frameKill)
	b = little.AppendUint32(b, uint32(sig))
	for _, id := range ids {
		b = little.AppendUint64(b, id)
	}
	return closeFrame(b, at)
}

func appendBegan(b []byte, id uint64, pid int, began time.Time) []byte {
	b, at := openFrame(b, frameBegan)
	b = little.AppendUint64(b, id)
	b = little.AppendUint64(b, uint64(began.UnixNano()))
	return closeFrame(little.AppendUint32(b, uint32(pid)), at)
}

// outputHead is what comes before the bytes in an output frame.
const outputHead = frameHead + 8 + 1

// errandEnd is how an errand ended.
type errandEnd struct {
	id           uint64
	status       syscall.WaitStatus
	timedOut     bool
	stopped      bool
	left         int
	user, system time.Duration
	maxRSS       int64
	began, ended time.Time
	output       [2]int64
}

// Why an errand ended that did not by itself.
const (
	endTimedOut = 1 << iota
	endStopped
)

func (e *errandEnd) appendTo(b []byte) []byte {
	b, at := openFrame(b, frameEnded)
	why := byte(0)
	if e.timedOut {
		why |= endTimedOut
	}
	if e.stopped {
		why |= endStopped
	}
	b = little.AppendUint64(b, e.id)
	b = little.AppendUint32(b, uint32(e.status))
	b = append(b, why)
	b = little.AppendUint32(b, uint32(e.left))
	for _, n := range [...]int64{
		int64(e.user), int64(e.system), e.maxRSS, e.began.UnixNano(), e.ended.UnixNano(), e.output[0], e.output[1],
	} {
		b = little.AppendUint64(b, uint64(n))
	}
	return closeFrame(b, at)
}

func (c *cut) nextErrandEnd(id uint64) errandEnd {
	e := errandEnd{id: id, status: syscall.WaitStatus(c.u32())}
	why := c.u8()
	e.timedOut, e.stopped, e.left = why&endTimedOut != 0, why&endStopped != 0, int(c.u32())
	e.user, e.system, e.maxRSS = time.Duration(c.u64()), time.Duration(c.u64()), int64(c.u64())
	e.began, e.ended = c.nextTime(), c.nextTime()
	e.output = [2]int64{int64(c.u64()), int64(c.u64())}
	return e
}

func (c *cut) nextTime() time.Time { return time.Unix(0, int64(c.u64())) }

// appendUnfit says that a program could not be run. The path comes back with it,
// as only the agent can explain, and need not remember.
func appendUnfit(b []byte, j *job, errno syscall.Errno, now time.Time) []byte {
	b, at := openFrame(b, frameUnfit)
	b = little.AppendUint64(b, j.id)
	b = little.AppendUint32(b, uint32(errno))
	b = little.AppendUint64(b, uint64(now.UnixNano()))
	return closeFrame(append(b, j.path[:len(j.path)-1]...), at)
}
