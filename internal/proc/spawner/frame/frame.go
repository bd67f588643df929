// Package frame encodes what goes between an agent and its spawner: commands down, what becomes
// of them up.
//
// It refuses to know what either side does with a frame. It is proved by spawner_wire_test.go
// of package proc, with frames cut at every byte and fuzz.
package frame

import (
	"encoding/binary"
	"syscall"
	"time"
)

// What goes between an agent and its spawner, once the order was given and
// answered, are frames: four bytes that count the rest, one that says what it is,
// then numbers of fixed size and texts, little-endian. JSON would cost more than
// the command.

// Frames down. Their end means what Close does.
const (
	FrameStart = iota + 1
	FrameUntil
	FrameDrop
	FrameKill // a signal, and which commands it is for
)

// Frames up.
const (
	FrameBegan = iota + 1
	FrameOutput
	FrameEnded
	FrameUnfit // the program could not be run
	FrameUnstarted
	FrameGone // the last: nothing is left
)

// FrameHead is the size of a frame's first two fields.
const FrameHead = 5

var Little = binary.LittleEndian

// OpenFrame begins a frame at the end of b; CloseFrame, given its place, counts it.
func OpenFrame(b []byte, kind byte) (frame []byte, at int) {
	return append(b, 0, 0, 0, 0, kind), len(b)
}

func CloseFrame(b []byte, at int) []byte {
	Little.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// NextFrame cuts the first frame from b. ok is false while it is not whole.
func NextFrame(b []byte) (kind byte, body Cut, rest []byte, ok bool) {
	if len(b) < FrameHead {
		return 0, Cut{}, b, false
	}
	n := int(Little.Uint32(b))
	if n < 1 || len(b) < 4+n {
		return 0, Cut{}, b, false
	}
	return b[4], Cut{B: b[FrameHead : 4+n]}, b[4+n:], true
}

// Cut takes fields from a frame. After the first that is not there all are empty.
type Cut struct {
	B   []byte
	Bad bool
}

func (c *Cut) NextBytes(n int) []byte {
	if n < 0 || n > len(c.B) {
		c.Bad, c.B = true, nil
		return nil
	}
	field := c.B[:n:n]
	c.B = c.B[n:]
	return field
}

func (c *Cut) U8() byte {
	if f := c.NextBytes(1); f != nil {
		return f[0]
	}
	return 0
}

func (c *Cut) U32() uint32 {
	if f := c.NextBytes(4); f != nil {
		return Little.Uint32(f)
	}
	return 0
}

func (c *Cut) U64() uint64 {
	if f := c.NextBytes(8); f != nil {
		return Little.Uint64(f)
	}
	return 0
}

func (c *Cut) nextText() []byte { return c.NextBytes(int(c.U32())) }

func (c *Cut) nextTexts() [][]byte {
	n := int(c.U32())
	if n > len(c.B)/4 { // each has four bytes at least
		c.Bad = true
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

// FrameCommand is a command on its way down.
type FrameCommand struct {
	ID      uint64
	Timeout time.Duration
	Path    string
	Args    []string
	Env     []string
	Stdin   []byte
}

// AppendCommand is a command as a frame. Its texts end in a zero byte, as the
// kernel wants them, so that they can stay where they are.
func AppendCommand(b []byte, e *FrameCommand) []byte {
	b, at := OpenFrame(b, FrameStart)
	b = Little.AppendUint64(b, e.ID)
	b = Little.AppendUint64(b, uint64(e.Timeout))
	b = appendZero(b, e.Path)
	args := e.Args
	if len(args) == 0 {
		args = []string{e.Path}
	}
	for _, list := range [][]string{args, e.Env} {
		b = Little.AppendUint32(b, uint32(len(list)))
		for _, text := range list {
			b = appendZero(b, text)
		}
	}
	if e.Stdin != nil {
		b = append(b, 1)
		b = append(b, e.Stdin...)
	}
	return CloseFrame(b, at)
}

func appendZero(b []byte, text string) []byte {
	b = Little.AppendUint32(b, uint32(len(text)+1))
	return append(append(b, text...), 0)
}

// Job is a command as the spawner has it.
type Job struct {
	ID        uint64
	Timeout   time.Duration
	Path      []byte // texts end in a zero byte
	Args, Env [][]byte
	Stdin     []byte // nil: none
	Tries     int    // at starting it while its program was still being written
}

// NewJob reads a command from a frame, which is kept.
func NewJob(c Cut) (j *Job, ok bool) {
	j = &Job{ID: c.U64(), Timeout: time.Duration(c.U64()), Path: c.nextText(), Args: c.nextTexts(), Env: c.nextTexts()}
	if len(c.B) > 0 && c.U8() == 1 {
		j.Stdin = c.B
	}
	return j, !c.Bad && len(j.Args) > 0
}

func AppendID(b []byte, kind byte, id uint64) []byte {
	b, at := OpenFrame(b, kind)
	return CloseFrame(Little.AppendUint64(b, id), at)
}

func AppendKill(b []byte, sig syscall.Signal, ids []uint64) []byte {
	b, at := OpenFrame(b, FrameKill)
	b = Little.AppendUint32(b, uint32(sig))
	for _, id := range ids {
		b = Little.AppendUint64(b, id)
	}
	return CloseFrame(b, at)
}

func AppendBegan(b []byte, id uint64, pid int, began time.Time) []byte {
	b, at := OpenFrame(b, FrameBegan)
	b = Little.AppendUint64(b, id)
	b = Little.AppendUint64(b, uint64(began.UnixNano()))
	return CloseFrame(Little.AppendUint32(b, uint32(pid)), at)
}

// OutputHead is what comes before the bytes in an output frame.
const OutputHead = FrameHead + 8 + 1

// CommandEnd is how a command ended.
type CommandEnd struct {
	ID           uint64
	Status       syscall.WaitStatus
	TimedOut     bool
	Stopped      bool
	Left         int
	User, System time.Duration
	MaxRSS       int64
	Began, Ended time.Time
	Output       [2]int64
}

// Why a command ended that did not by itself.
const (
	endTimedOut = 1 << iota
	endStopped
)

func (e *CommandEnd) AppendTo(b []byte) []byte {
	b, at := OpenFrame(b, FrameEnded)
	why := byte(0)
	if e.TimedOut {
		why |= endTimedOut
	}
	if e.Stopped {
		why |= endStopped
	}
	b = Little.AppendUint64(b, e.ID)
	b = Little.AppendUint32(b, uint32(e.Status))
	b = append(b, why)
	b = Little.AppendUint32(b, uint32(e.Left))
	for _, n := range [...]int64{
		int64(e.User), int64(e.System), e.MaxRSS, e.Began.UnixNano(), e.Ended.UnixNano(), e.Output[0], e.Output[1],
	} {
		b = Little.AppendUint64(b, uint64(n))
	}
	return CloseFrame(b, at)
}

func (c *Cut) NextCommandEnd(id uint64) CommandEnd {
	e := CommandEnd{ID: id, Status: syscall.WaitStatus(c.U32())}
	why := c.U8()
	e.TimedOut, e.Stopped, e.Left = why&endTimedOut != 0, why&endStopped != 0, int(c.U32())
	e.User, e.System, e.MaxRSS = time.Duration(c.U64()), time.Duration(c.U64()), int64(c.U64())
	e.Began, e.Ended = c.NextTime(), c.NextTime()
	e.Output = [2]int64{int64(c.U64()), int64(c.U64())}
	return e
}

func (c *Cut) NextTime() time.Time { return time.Unix(0, int64(c.U64())) }

// AppendUnfit says that a program could not be run. The path comes back with it,
// as only the agent can explain, and need not remember.
func AppendUnfit(b []byte, j *Job, errno syscall.Errno, now time.Time) []byte {
	b, at := OpenFrame(b, FrameUnfit)
	b = Little.AppendUint64(b, j.ID)
	b = Little.AppendUint32(b, uint32(errno))
	b = Little.AppendUint64(b, uint64(now.UnixNano()))
	return CloseFrame(append(b, j.Path[:len(j.Path)-1]...), at)
}
